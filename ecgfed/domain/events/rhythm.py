"""Heart rate, pauses and variability from R peaks, by stated rules."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ecgfed.base.deprecation import renamed_fields
from ecgfed.domain.events.beats import Beats, Floats, Ints, Mask
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules

MINUTE_S = 60.0
#: Rates above this, which hardly any heart reaches, are never confirmed (beats a minute).
FAST_PER_MIN = 220.0
#: A lowest or highest rate is confirmed where no unconfirmed interval could change it by more than this share.
RATE_APART = 0.1
#: Where a larger share of a recording is unusable, its extreme rates and its longest interval are never confirmed.
UNUSABLE_SHARE = 0.1


@dataclass(frozen=True)
class At:
    """A value and where it is.

    Attributes:
        value: the value.
        start_s: where it begins, in seconds from the start of the recording.
        stop_s: where it ends.
        confirmed: no interval or beat that a second analysis of the signal rejects could change it; True where none was
            made. Of an extreme it is False where more than ``UNUSABLE_SHARE`` of the recording is unusable.
    """

    value: float
    start_s: float
    stop_s: float
    confirmed: bool = True


@dataclass(frozen=True)
class LeadSegment:
    """A part of a recording, and the leads that the beat detection used there.

    Attributes:
        start_s: where it begins, in seconds.
        stop_s: where it ends.
        leads: those with clear waves; empty where no lead has them.
    """

    start_s: float
    stop_s: float
    leads: tuple[str, ...]


@dataclass(frozen=True)
class Rates:
    """Heart rates in beats a minute.

    Attributes:
        mean: 60 times the usable intervals over the seconds they last; None without usable intervals.
        lowest: the lowest mean over ``rate_intervals`` consecutive confirmed intervals, none of them a standstill of
            twice a pause or more, and where; None with fewer. It is not confirmed where unconfirmed intervals would
            make it much lower.
        highest: the highest; likewise, and never confirmed above ``FAST_PER_MIN``.
        lowest_possible: where ``lowest`` is not confirmed: the lowest rate with the unconfirmed intervals; else None.
        highest_possible: where ``highest`` is not confirmed: the highest rate with the unconfirmed intervals; else
            None.
        slowest_minute: the minute with the lowest rate, minutes counted from the start; None where none is usable.
        fastest_minute: the minute with the highest.
        intervals: number of usable intervals.
    """

    mean: float | None
    lowest: At | None
    highest: At | None
    slowest_minute: At | None
    fastest_minute: At | None
    intervals: int
    lowest_possible: At | None = None
    highest_possible: At | None = None


def heart_rates(beats: Beats, rules: EventRules) -> Rates:
    """Return the heart rates of a recording; every measured interval counts, ectopic or not."""
    known = beats.rr_s[beats.measured]
    mean = 60 * len(known) / float(known.sum()) if len(known) else None
    lowest, highest = _extremes(beats, beats.measured, rules)
    slowest_possible, fastest_possible = _possible_extremes(beats, rules)
    if slowest_possible is not None and lowest is not None and slowest_possible.value < (1 - RATE_APART) * lowest.value:
        lowest = replace(lowest, confirmed=False)
    if fastest_possible is not None and highest is not None:
        apart = fastest_possible.value > (1 + RATE_APART) * highest.value
        highest = replace(highest, confirmed=not apart and highest.value <= FAST_PER_MIN)
    slowest, fastest = _minutes(beats, rules.minute_usable_s)
    if fastest is not None and beats.confirmed is not None:
        fastest = replace(fastest, confirmed=fastest.value <= FAST_PER_MIN)
    rates = Rates(
        mean,
        lowest,
        highest,
        slowest,
        fastest,
        len(known),
        slowest_possible if lowest is None or not lowest.confirmed else None,
        fastest_possible if highest is None or not highest.confirmed else None,
    )
    if beats.unusable_share <= UNUSABLE_SHARE:
        return rates
    extremes = ("lowest", "highest", "slowest_minute", "fastest_minute")
    values = {name: value for name in extremes if (value := getattr(rates, name)) is not None}
    return replace(rates, **{name: replace(value, confirmed=False) for name, value in values.items()})


def _possible_extremes(beats: Beats, rules: EventRules) -> tuple[At | None, At | None]:
    """Return the lowest and the highest rate if unconfirmed intervals counted, with or without the doubted beats."""
    if beats.confirmed is None:
        return None, None
    lowest, highest = zip(*(_extremes(of, of.plausible, rules) for of in (beats, without_doubted(beats))), strict=True)
    slowest = min((rate for rate in lowest if rate is not None), key=lambda rate: rate.value, default=None)
    fastest = max((rate for rate in highest if rate is not None), key=lambda rate: rate.value, default=None)
    return (
        None if slowest is None else replace(slowest, confirmed=False),
        None if fastest is None else replace(fastest, confirmed=False),
    )


def without_doubted(beats: Beats) -> Beats:
    """Return the beats without those that a second analysis rejects; intervals across these are unconfirmed."""
    if beats.doubted is None or beats.confirmed is None or not beats.doubted.any():
        return beats
    remaining = np.flatnonzero(~beats.doubted)
    consecutive = np.diff(remaining) == 1
    confirmed = beats.confirmed[remaining[:-1]] & consecutive
    return Beats(
        beats.sample[remaining],
        beats.label[remaining],
        beats.classes,
        beats.kinds,
        beats.fs_hz,
        beats.samples,
        beats.unusable,
        confirmed=confirmed,
        rejected=None if beats.rejected is None else beats.rejected[remaining[:-1]] & consecutive,
    )


def rated(beats: Beats, usable: Mask, rules: EventRules) -> Ints:
    """Return where ``rate_intervals`` consecutive intervals begin of which a rate is taken, numbers of beats.

    They are usable (beats - 1,), and none of them lasts for twice a pause and more: a heart that stands still has no
    rate.
    """
    unknown = np.concatenate([[0], np.cumsum(~usable | (beats.rr_s >= 2 * rules.pause_s))])
    return np.flatnonzero(unknown[rules.rate_intervals :] == unknown[: -rules.rate_intervals])


def _extremes(beats: Beats, usable: Mask, rules: EventRules) -> tuple[At | None, At | None]:
    """Return the lowest and the highest mean rate over ``rate_intervals`` of the intervals that are ``rated``."""
    time, intervals, starts = beats.time_s, rules.rate_intervals, rated(beats, usable, rules)
    if not len(starts):
        return None, None
    rate = 60 * intervals / (time[starts + intervals] - time[starts])
    return tuple(  # type: ignore[return-value]  # two of them
        At(float(rate[at]), float(time[starts[at]]), float(time[starts[at] + intervals]))
        for at in (int(rate.argmin()), int(rate.argmax()))
    )


def rates_by(beats: Beats, width_s: float) -> tuple[Ints, Floats]:
    """Return the number of usable intervals that end in each consecutive stretch, and their total length in seconds.

    Args:
        beats: all beats.
        width_s: length of a stretch in seconds.

    Returns:
        (stretches,) int64 and (stretches,) float64, the last stretch maybe shorter.
    """
    stretches = max(1, int(np.ceil(beats.duration_s / width_s)))
    where = np.minimum((beats.time_s[1:] // width_s).astype(np.int64), stretches - 1)[beats.measured]
    count = np.bincount(where, minlength=stretches)
    seconds = np.bincount(where, weights=beats.rr_s[beats.measured], minlength=stretches)
    return count.astype(np.int64), seconds.astype(np.float64)


def _minutes(beats: Beats, usable_s: float) -> tuple[At | None, At | None]:
    count, seconds = rates_by(beats, MINUTE_S)
    usable = np.flatnonzero((seconds >= usable_s) & (count > 0))
    if not len(usable):
        return None, None
    rate = 60 * count[usable] / seconds[usable]
    return tuple(  # type: ignore[return-value]  # two of them
        At(float(rate[at]), MINUTE_S * int(usable[at]), min(MINUTE_S * (int(usable[at]) + 1), beats.duration_s))
        for at in (int(rate.argmin()), int(rate.argmax()))
    )


@renamed_fields("0.3", "0.5", found="intervals")
@dataclass(frozen=True)
class Pauses:
    """Pauses, in seconds.

    Attributes:
        intervals: every pause, in order of time.
        longest: the longest usable interval, a pause or not; None without any. It is not confirmed where a longer one
            is among ``not_confirmed``, or above ``UNUSABLE_SHARE``.
        not_assessed: number of intervals as long as a pause that touch an unusable stretch: beats may be missing there.
        ends: stretches without a beat at the start or the end of the recording, usable for as long as a pause. They are
            not between two beats, so no pauses by the rule.
        not_confirmed: intervals that a second analysis of the signal did not confirm, or that it would join from two,
            in order of time: those as long as a pause, and the longest of the others where it is longer than
            ``longest``. ``intervals`` holds none of them.
    """

    intervals: tuple[At, ...]
    longest: At | None
    not_assessed: int
    ends: tuple[At, ...] = ()
    not_confirmed: tuple[At, ...] = ()


def pauses(beats: Beats, rules: EventRules) -> Pauses:
    """Return the pauses: intervals of ``pause_s`` and more that touch no unusable stretch and are not unconfirmed."""
    rr, time = beats.rr_s, beats.time_s
    long = rr >= rules.pause_s
    intervals = tuple(_interval(rr, time, at) for at in np.flatnonzero(long & beats.measured).tolist())
    measured = np.flatnonzero(beats.measured)
    longest = _interval(rr, time, int(measured[rr[measured].argmax()])) if len(measured) else None
    not_confirmed = _not_confirmed(without_doubted(beats), rules, longest)
    longer = longest is not None and any(interval.value > longest.value for interval in not_confirmed)
    if longest is not None and (longer or beats.unusable_share > UNUSABLE_SHARE):
        longest = replace(longest, confirmed=False)
    return Pauses(intervals, longest, int((long & ~beats.known).sum()), _ends(beats, rules.pause_s), not_confirmed)


def _not_confirmed(beats: Beats, rules: EventRules, longest: At | None) -> tuple[At, ...]:
    """Return the unconfirmed intervals that would be pauses, and the longest one where it exceeds ``longest``."""
    rr = beats.rr_s
    unconfirmed = np.flatnonzero(beats.plausible & ~beats.measured)
    if not len(unconfirmed):
        return ()
    listed = rr[unconfirmed] >= rules.pause_s
    longest_at = int(rr[unconfirmed].argmax())
    listed[longest_at] |= longest is None or rr[unconfirmed[longest_at]] > longest.value
    return tuple(replace(_interval(rr, beats.time_s, at), confirmed=False) for at in unconfirmed[listed].tolist())


def _ends(beats: Beats, min_s: float) -> tuple[At, ...]:
    """Return the stretches before the first and after the last beat that are long and usable."""
    if not len(beats):  # reported by a warning of its own
        return ()
    edges = [(0.0, float(beats.time_s[0])), (float(beats.time_s[-1]), beats.duration_s)]
    return tuple(At(stop - start, start, stop) for start, stop in edges if beats.usable_s(start, stop) >= min_s)


def _interval(rr: Floats, time: Floats, at: int) -> At:
    return At(float(rr[at]), float(time[at]), float(time[at + 1]))


#: Rhythms whose beats come from the sinus node, ectopic ones between them apart.
SINUS_RHYTHMS = frozenset(
    ("sinus rhythm", "sinus bradycardia", "atrial bigeminy", "ventricular bigeminy", "ventricular trigeminy",
     "pre-excitation", "no rhythm assessed")
)  # fmt: skip


#: Share of low confidence among the beats of NN intervals above which no variability is measured: whether they are
#: normal is not known well enough.
LOW_SHARE = 0.5


@dataclass(frozen=True)
class Variability:
    """Heart rate variability over normal-to-normal (NN) intervals (Task Force, Circulation 93:1043-1065, 1996).

    Attributes:
        intervals: number of NN intervals.
        seconds: their total length.
        mean_nn_ms: their mean; None, as the rest, with fewer than ``hrv_intervals``, or of low confidence.
        sdnn_ms: their sample standard deviation.
        rmssd_ms: root mean square of differences of successive NN intervals; None without any.
        other_rhythm: number of intervals that would be among them, but for a rhythm that is not the sinus node's.
        low_confidence: whether more than ``LOW_SHARE`` of their beats are of low confidence.
    """

    intervals: int
    seconds: float
    mean_nn_ms: float | None
    sdnn_ms: float | None
    rmssd_ms: float | None
    other_rhythm: int = 0
    low_confidence: bool = False


def normal_intervals(beats: Beats, rules: EventRules) -> Mask:
    """Return which intervals (beats - 1,) are normal-to-normal.

    Both beats are of a normal class, the interval touches no unusable stretch and lasts ``nn_min_s`` to ``nn_max_s``.
    """
    normal = beats.kind == Kind.NORMAL
    within = (beats.rr_s >= rules.nn_min_s) & (beats.rr_s <= rules.nn_max_s)
    return np.asarray(beats.measured & normal[:-1] & normal[1:] & within)


def variability(beats: Beats, rules: EventRules, rhythms: Iterable[RhythmEpisodes] = ()) -> Variability:
    """Return the variability of a recording's normal-to-normal intervals outside rhythms that are not sinus rhythm."""
    normal = normal_intervals(beats, rules)
    sinus = np.ones(len(beats), np.bool_)
    for rhythm in rhythms:
        if rhythm.rhythm not in SINUS_RHYTHMS:
            sinus &= ~rhythm.inside(beats.time_s)
    other = int((normal & ~(sinus[:-1] & sinus[1:])).sum())
    normal &= sinus[:-1] & sinus[1:]
    nn = 1000 * beats.rr_s[normal]
    total = float(nn.sum()) / 1000
    ends = np.zeros(len(beats), np.bool_)
    ends[:-1] |= normal
    ends[1:] |= normal
    low = beats.uncertain is not None and int(beats.uncertain[ends].sum()) > LOW_SHARE * int(ends.sum())
    if low or len(nn) < rules.hrv_intervals:
        return Variability(len(nn), total, None, None, None, other, low)
    both = normal[:-1] & normal[1:]
    steps = 1000 * np.diff(beats.rr_s)[both]
    rmssd = float(np.sqrt(np.mean(steps**2))) if len(steps) else None
    return Variability(len(nn), total, float(nn.mean()), float(nn.std(ddof=1)), rmssd, other)
