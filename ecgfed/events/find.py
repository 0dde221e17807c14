"""Everything that a report counts, found at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ecgfed.events.beats import Beats
from ecgfed.events.ectopy import Ectopy, ectopy
from ecgfed.events.hours import Stretch, stretches
from ecgfed.events.kinds import Kind
from ecgfed.events.rhythm import Pauses, Rates, Variability, heart_rates, pauses, variability
from ecgfed.events.rules import EventRules
from ecgfed.events.series import Series


@dataclass(frozen=True)
class Events:
    """What a recording's beats add up to.

    Attributes:
        rules: by which it was counted.
        total: all beats.
        counted: those in no unusable stretch; the rest is in no count.
        by_class: counted beats of each class.
        rates: heart rates.
        pauses: pauses.
        variability: of normal-to-normal intervals.
        ventricular: ventricular ectopy; None where no class is ventricular or no beat counts (not assessed), and where
            it is withheld.
        supra: supraventricular ectopy; likewise.
        hours: hour by hour from the start of the recording.
        withheld: kind -> why its counts are withheld, in one sentence.
        to_review: kind -> what was counted of a kind that is withheld for the low confidence of its beats.
    """

    rules: EventRules
    total: int
    counted: int
    by_class: dict[str, int]
    rates: Rates
    pauses: Pauses
    variability: Variability
    ventricular: Ectopy | None
    supra: Ectopy | None
    hours: tuple[Stretch, ...]
    withheld: Mapping[Kind, str] = field(default_factory=dict)
    to_review: Mapping[Kind, Ectopy] = field(default_factory=dict)

    @property
    def ectopic(self) -> dict[Kind, Ectopy | None]:
        """Ventricular and supraventricular ectopy."""
        return {Kind.VENTRICULAR: self.ventricular, Kind.SUPRA: self.supra}


def find_events(beats: Beats, rules: EventRules | None = None, *, withheld: Mapping[Kind, str] | None = None) -> Events:
    """Count everything; see ``EventRules`` for how.

    Args:
        beats: all beats.
        rules: how they are counted.
        withheld: ``Kind.VENTRICULAR`` or ``Kind.SUPRA`` -> why its counts would mislead, in one sentence.
    """
    rules = EventRules() if rules is None else rules
    reasons, to_review = dict(withheld or {}), {}
    ectopic = {kind: ectopy(beats, kind, rules) for kind in (Kind.VENTRICULAR, Kind.SUPRA) if kind not in reasons}
    for kind, found in ectopic.items():
        if found is not None and rules.withholds(found.uncertain or 0, found.total):
            reasons[kind], to_review[kind] = _low_confidence(found, rules), _all_to_review(found)
    count = np.bincount(beats.label[beats.assessed], minlength=len(beats.classes)).tolist()
    shown = {kind: found for kind, found in ectopic.items() if kind not in reasons}
    return Events(
        rules,
        len(beats),
        int(beats.assessed.sum()),
        dict(zip(beats.classes, count, strict=True)),
        heart_rates(beats, rules),
        pauses(beats, rules),
        variability(beats, rules),
        shown.get(Kind.VENTRICULAR),
        shown.get(Kind.SUPRA),
        stretches(beats),
        reasons,
        to_review,
    )


def _all_to_review(found: Ectopy) -> Ectopy:
    """Return ectopic beats of which no series counts as a finding, because their kind is withheld."""

    def doubtful(series: tuple[Series, ...]) -> tuple[Series, ...]:
        return tuple(replace(one, review=True) for one in series)

    return replace(
        found,
        couplets=doubtful(found.couplets),
        short=doubtful(found.short),
        runs=doubtful(found.runs),
        bigeminy=doubtful(found.bigeminy),
        trigeminy=doubtful(found.trigeminy),
    )


def _low_confidence(found: Ectopy, rules: EventRules) -> str:
    """Say why a count is withheld."""
    low = found.uncertain or 0
    share = f"{rules.withheld_percent:g}%"
    return f"About {found.total:,}, {low:,} of them of low confidence (more than {share}): to be reviewed, no finding."
