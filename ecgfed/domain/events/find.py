"""All counts of a report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ecgfed.base.language import message
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.ectopy import Ectopy, ectopy
from ecgfed.domain.events.hours import TimeBin, time_bins
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import Pauses, Rates, Variability, heart_rates, pauses, variability
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
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
        to_review: kind -> counts of a withheld kind, all to be reviewed; none of a paced rhythm, whose wide beats
            would be most of them.
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

    @property
    def usable_percent(self) -> float:
        """Share of the recording outside unusable stretches, in which beats are counted, in percent."""
        return 100 * sum(hour.usable_s for hour in self.hours) / self.hours[-1].stop_s


def find_events(
    beats: Beats,
    rules: EventRules | None = None,
    *,
    withheld: Mapping[Kind, str] | None = None,
    rhythms: Iterable[RhythmEpisodes] = (),
) -> Events:
    """Count all events by ``EventRules``.

    Args:
        beats: all beats.
        rules: the rules of counting.
        withheld: ``Kind.VENTRICULAR`` or ``Kind.SUPRA`` -> why its counts would mislead, in one sentence.
        rhythms: episodes of rhythms; outside sinus rhythm no variability is measured.
    """
    rules = EventRules() if rules is None else rules
    beats = confirmed_by_runs(beats, rules)
    reasons, to_review = dict(withheld or {}), {}
    ectopic = {kind: ectopy(beats, kind, rules) for kind in (Kind.VENTRICULAR, Kind.SUPRA)}
    low = 0 if beats.uncertain is None else int((beats.uncertain & beats.assessed).sum())
    paced = bool((beats.kind == Kind.PACED).any())
    for kind, counts in ectopic.items():
        if counts is None:
            continue
        if kind not in reasons and (reason := _low_confidence(counts, low, rules)):
            reasons[kind] = reason
        if kind in reasons and counts.total and not (paced and kind in (withheld or {})):
            to_review[kind] = _all_to_review(counts)
    count = np.bincount(beats.label[beats.assessed], minlength=len(beats.classes)).tolist()
    reported = {kind: ectopy_of_kind for kind, ectopy_of_kind in ectopic.items() if kind not in reasons}
    return Events(
        rules,
        len(beats),
        int(beats.assessed.sum()),
        dict(zip(beats.classes, count, strict=True)),
        heart_rates(beats, rules),
        pauses(beats, rules),
        variability(beats, rules, rhythms),
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


def _low_confidence(ectopy: Ectopy, low_of_all: int, rules: EventRules) -> str:
    """Return why a count is withheld, ``""`` where it is not.

    Too many of its beats are of low confidence; or so many of all beats are that a low count, or none among however few
    beats, rules nothing out.
    """
    low = ectopy.uncertain or 0
    if rules.withholds(low, ectopy.total):
        return message(
            "About {total}, {low} of them of low confidence (more than {percent:g}%): to be reviewed, no finding.",
            total=ectopy.total,
            low=low,
            percent=rules.withheld_percent,
        )
    doubtful = rules.withholds if ectopy.total else rules.mostly_low
    if ectopy.total - low >= rules.withheld_beats or not doubtful(low_of_all, ectopy.counted):
        return ""
    values = {"low": low_of_all, "counted": ectopy.counted, "percent": rules.withheld_percent}
    if not ectopy.total:
        return message(
            "None detected, but {low} of all {counted} beats are of low confidence (more than {percent:g}%): not "
            "assessed.",
            **values,
        )
    return message(
        "{n} detected, but {low} of all {counted} beats are of low confidence (more than {percent:g}%): not assessed.",
        n=ectopy.total,
        **values,
    )
