"""All counts of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.ectopy import Ectopy, ectopy
from ecgfed.domain.events.hours import TimeBin, time_bins
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import Pauses, Rates, Variability, heart_rates, pauses, variability
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.events.series import Series, confirmed_by_runs


@dataclass(frozen=True)
class Events:
    """The counts of a recording.

    Attributes:
        rules: the rules of counting.
        total: number of beats.
        counted: beats outside unusable stretches; the rest is in no count.
        by_class: counted beats of each class.
        rates: heart rates.
        pauses: pauses.
        variability: of normal-to-normal intervals.
        ventricular: ventricular ectopy; None where no class is ventricular or no beat counts (not assessed), and where
            it is withheld.
        supra: supraventricular ectopy; likewise.
        hours: each hour from the start of the recording.
        withheld: kind -> why its counts are withheld, in one sentence.
        to_review: kind -> counts of a kind withheld because too many of its beats are of low confidence.
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
    hours: tuple[TimeBin, ...]
    withheld: Mapping[Kind, str] = field(default_factory=dict)
    to_review: Mapping[Kind, Ectopy] = field(default_factory=dict)

    @property
    def ectopic(self) -> dict[Kind, Ectopy | None]:
        """Ventricular and supraventricular ectopy."""
        return {Kind.VENTRICULAR: self.ventricular, Kind.SUPRA: self.supra}


def find_events(beats: Beats, rules: EventRules | None = None, *, withheld: Mapping[Kind, str] | None = None) -> Events:
    """Count all events by ``EventRules``.

    Args:
        beats: all beats.
        rules: the rules of counting.
        withheld: ``Kind.VENTRICULAR`` or ``Kind.SUPRA`` -> why its counts would mislead, in one sentence.
    """
    rules = EventRules() if rules is None else rules
    beats = confirmed_by_runs(beats, rules)
    reasons, to_review = dict(withheld or {}), {}
    ectopic = {kind: ectopy(beats, kind, rules) for kind in (Kind.VENTRICULAR, Kind.SUPRA) if kind not in reasons}
    for kind, ectopy_of_kind in ectopic.items():
        if ectopy_of_kind is not None and rules.withholds(ectopy_of_kind.uncertain or 0, ectopy_of_kind.total):
            reasons[kind], to_review[kind] = _low_confidence(ectopy_of_kind, rules), _all_to_review(ectopy_of_kind)
    count = np.bincount(beats.label[beats.assessed], minlength=len(beats.classes)).tolist()
    reported = {kind: ectopy_of_kind for kind, ectopy_of_kind in ectopic.items() if kind not in reasons}
    return Events(
        rules,
        len(beats),
        int(beats.assessed.sum()),
        dict(zip(beats.classes, count, strict=True)),
        heart_rates(beats, rules),
        pauses(beats, rules),
        variability(beats, rules),
        reported.get(Kind.VENTRICULAR),
        reported.get(Kind.SUPRA),
        time_bins(beats),
        reasons,
        to_review,
    )


def _all_to_review(ectopy: Ectopy) -> Ectopy:
    """Return the counts of a withheld kind, all of its series to be reviewed."""

    def doubtful(series: tuple[Series, ...]) -> tuple[Series, ...]:
        return tuple(replace(item, review=True) for item in series)

    return replace(
        ectopy,
        couplets=doubtful(ectopy.couplets),
        short=doubtful(ectopy.short),
        runs=doubtful(ectopy.runs),
        bigeminy=doubtful(ectopy.bigeminy),
        trigeminy=doubtful(ectopy.trigeminy),
    )


def _low_confidence(ectopy: Ectopy, rules: EventRules) -> str:
    """Return why a count is withheld."""
    low = ectopy.uncertain or 0
    share = f"{rules.withheld_percent:g}%"
    return f"About {ectopy.total:,}, {low:,} of them of low confidence (more than {share}): to be reviewed, no finding."
