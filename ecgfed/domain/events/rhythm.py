"""Heart rate, pauses and variability from R peaks, by stated rules."""

from dataclasses import dataclass, replace

import numpy as np

from ecgfed.domain.events.beats import Beats, Floats, Ints, Mask
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rules import EventRules

MINUTE_S = 60.0
#: A rate that hardly any heart reaches is not confirmed by any analysis of the signal (beats a minute).
FAST_PER_MIN = 220.0
#: A lowest or highest rate is confirmed where no unconfirmed interval could change it by more than this share.
RATE_APART = 0.1


@dataclass(frozen=True)
class At:
    """A value and where it is.

    Attributes:
        value: it.
        start_s: where it begins, in seconds from the start of the recording.
        stop_s: where it ends.
        confirmed: nothing that a second analysis of the signal left open could make another value of it; True where
            none was made.
    """

    value: float
    start_s: float
    stop_s: float
    confirmed: bool = True


@dataclass(frozen=True)
class RhythmEpisodes:
    """A rhythm and when it was there.

    Attributes:
        rhythm: its name: ``paced``, ``AF``, ...
        episodes: (start, stop) of each episode in seconds from the start of the recording.
        source: ``signal`` where it was detected in the samples, ``labels`` where a file of labels marks it.
    """

    rhythm: str
    episodes: tuple[tuple[float, float], ...]
    source: str = "signal"

    @property
    def seconds(self) -> float:
        """How long the episodes last together."""
        return sum(stop - start for start, stop in self.episodes)

    def to_dict(self) -> dict[str, object]:
        """Return it JSON-ready."""
        episodes = [[round(start, 3), round(stop, 3)] for start, stop in self.episodes]
        return {"rhythm": self.rhythm, "seconds": round(self.seconds, 3), "episodes": episodes, "source": self.source}


@dataclass(frozen=True)
class LeadSegment:
    """A part of a recording, and the leads that had a say there in what is a beat.

    Attributes:
        start_s: where it begins, in seconds.
        stop_s: where it ends.
        leads: those whose waves were clear-cut; none where no lead's were.
    """

    start_s: float
    stop_s: float
    leads: tuple[str, ...]


@dataclass(frozen=True)
class Rates:
    """Heart rates in beats a minute.

    Attributes:
        mean: 60 times the usable intervals over the seconds they last; None where there is none.
        lowest: the lowest mean over ``rate_intervals`` in a row, and where; None where there are not so many in a row.
            It is of confirmed intervals; where unconfirmed ones would make it much lower, it is not confirmed itself.
        highest: the highest; likewise, and never confirmed above ``FAST_PER_MIN``.
        slowest_minute: the minute from the start of the recording on with the lowest rate; None where none is usable.
        fastest_minute: with the highest.
        intervals: how many intervals were usable.
    """

    mean: float | None
    lowest: At | None
    highest: At | None
    slowest_minute: At | None
    fastest_minute: At | None
    intervals: int


def heart_rates(beats: Beats, rules: EventRules) -> Rates:
    """Return the heart rates of a recording; every measured interval counts, ectopic or not."""
    known = beats.rr_s[beats.measured]
    mean = 60 * len(known) / float(known.sum()) if len(known) else None
    lowest, highest = _confirmed_extremes(beats, rules.rate_intervals)
    slowest, fastest = _minutes(beats, rules.minute_usable_s)
    if fastest is not None and beats.confirmed is not None:
        fastest = replace(fastest, confirmed=fastest.value <= FAST_PER_MIN)
    return Rates(mean, lowest, highest, slowest, fastest, len(known))


def _confirmed_extremes(beats: Beats, many: int) -> tuple[At | None, At | None]:
    """Return the lowest and the highest rate of confirmed intervals, and whether others could change them."""
    lowest, highest = _extremes(beats, beats.measured, many)
    if beats.confirmed is None or lowest is None or highest is None:
        return lowest, highest
    fewer = without_doubted(beats)
    possible = [one for of in (beats, fewer) for one in _extremes(of, of.known, many) if one is not None]
    least, most = min(one.value for one in possible), max(one.value for one in possible)
    fast = highest.value > FAST_PER_MIN
    return (
        replace(lowest, confirmed=least >= (1 - RATE_APART) * lowest.value),
        replace(highest, confirmed=most <= (1 + RATE_APART) * highest.value and not fast),
    )


def without_doubted(beats: Beats) -> Beats:
    """Return the beats without those that a second analysis takes for none; intervals over these are unconfirmed."""
    if beats.doubted is None or beats.confirmed is None or not beats.doubted.any():
        return beats
    kept = np.flatnonzero(~beats.doubted)
    confirmed = beats.confirmed[kept[:-1]] & (np.diff(kept) == 1)
    return Beats(
        beats.sample[kept],
        beats.label[kept],
        beats.classes,
        beats.kinds,
        beats.fs_hz,
        beats.samples,
        beats.unusable,
        confirmed=confirmed,
    )


def _extremes(beats: Beats, usable: Mask, many: int) -> tuple[At | None, At | None]:
    """Return the lowest and the highest mean rate over so many usable intervals (beats - 1,) in a row."""
    time = beats.time_s
    if len(time) <= many:
        return None, None
    unknown = np.concatenate([[0], np.cumsum(~usable)])
    whole = np.flatnonzero(unknown[many:] == unknown[:-many])
    if not len(whole):
        return None, None
    rate = 60 * many / (time[whole + many] - time[whole])
    return tuple(  # type: ignore[return-value]  # two of them
        At(float(rate[at]), float(time[whole[at]]), float(time[whole[at] + many]))
        for at in (int(rate.argmin()), int(rate.argmax()))
    )


def rates_by(beats: Beats, width_s: float) -> tuple[Ints, Floats]:
    """Return of consecutive stretches the usable intervals that end in them, and the seconds these last.

    Args:
        beats: all of them.
        width_s: length of a stretch in seconds.

    Returns:
        (stretches,) int64 and (stretches,) float64, the last stretch maybe shorter.
    """
    many = max(1, int(np.ceil(beats.duration_s / width_s)))
    where = np.minimum((beats.time_s[1:] // width_s).astype(np.int64), many - 1)[beats.measured]
    count = np.bincount(where, minlength=many)
    seconds = np.bincount(where, weights=beats.rr_s[beats.measured], minlength=many)
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


@dataclass(frozen=True)
class Pauses:
    """Pauses, in seconds.

    Attributes:
        found: every pause in order of time.
        longest: the longest usable interval, a pause or not; None where there is none. It is not confirmed where a
            longer one is among ``not_confirmed``.
        not_assessed: intervals as long as a pause that touch an unusable stretch: beats may have been missed there.
        ends: stretches as long as a pause and usable for so long, at the start or the end of the recording, in which no
            beat is: no interval between two beats, and no pause by the rule.
        not_confirmed: intervals that a second analysis of the signal did not confirm, or that it would see in place of
            two, in order of time: those as long as a pause, and the longest of the others where it is longer than
            ``longest``. None is in ``found``.
    """

    found: tuple[At, ...]
    longest: At | None
    not_assessed: int
    ends: tuple[At, ...] = ()
    not_confirmed: tuple[At, ...] = ()


def pauses(beats: Beats, rules: EventRules) -> Pauses:
    """Return the pauses: intervals of ``pause_s`` and more that touch no unusable stretch and are not unconfirmed."""
    rr, time = beats.rr_s, beats.time_s
    long = rr >= rules.pause_s
    found = tuple(_interval(rr, time, at) for at in np.flatnonzero(long & beats.measured).tolist())
    measured = np.flatnonzero(beats.measured)
    longest = _interval(rr, time, int(measured[rr[measured].argmax()])) if len(measured) else None
    not_confirmed = _not_confirmed(without_doubted(beats), rules, longest)
    if longest is not None and any(one.value > longest.value for one in not_confirmed):
        longest = replace(longest, confirmed=False)
    return Pauses(found, longest, int((long & ~beats.known).sum()), _ends(beats, rules.pause_s), not_confirmed)


def _not_confirmed(beats: Beats, rules: EventRules, longest: At | None) -> tuple[At, ...]:
    """Return the unconfirmed intervals that would be pauses, and the longest one where it exceeds ``longest``."""
    rr = beats.rr_s
    doubted = np.flatnonzero(beats.known & ~beats.measured)
    if not len(doubted):
        return ()
    listed = rr[doubted] >= rules.pause_s
    most = int(rr[doubted].argmax())
    listed[most] |= longest is None or rr[doubted[most]] > longest.value
    return tuple(replace(_interval(rr, beats.time_s, at), confirmed=False) for at in doubted[listed].tolist())


def _ends(beats: Beats, least_s: float) -> tuple[At, ...]:
    """Return what stands before the first and after the last beat, where it is long and usable."""
    if not len(beats):  # nothing was found: that is said by itself, and is no end
        return ()
    edges = [(0.0, float(beats.time_s[0])), (float(beats.time_s[-1]), beats.duration_s)]
    return tuple(At(stop - start, start, stop) for start, stop in edges if beats.usable_s(start, stop) >= least_s)


def _interval(rr: Floats, time: Floats, at: int) -> At:
    return At(float(rr[at]), float(time[at]), float(time[at + 1]))


@dataclass(frozen=True)
class Variability:
    """Heart rate variability over normal-to-normal (NN) intervals (Task Force, Circulation 93:1043-1065, 1996).

    Attributes:
        intervals: how many NN intervals there are.
        seconds: how long they last together.
        mean_nn_ms: their mean; None, as the rest, where there are fewer than ``hrv_intervals``.
        sdnn_ms: their sample standard deviation.
        rmssd_ms: root of the mean squared difference of NN intervals that follow one another; None without any.
    """

    intervals: int
    seconds: float
    mean_nn_ms: float | None
    sdnn_ms: float | None
    rmssd_ms: float | None


def normal_intervals(beats: Beats, rules: EventRules) -> Mask:
    """Say which intervals (beats - 1,) are normal-to-normal.

    Both beats are of a normal class, no unusable stretch is touched, the length is one of ``nn_least_s`` to
    ``nn_most_s``.
    """
    normal = beats.kind == Kind.NORMAL
    within = (beats.rr_s >= rules.nn_least_s) & (beats.rr_s <= rules.nn_most_s)
    return np.asarray(beats.measured & normal[:-1] & normal[1:] & within)


def variability(beats: Beats, rules: EventRules) -> Variability:
    """Return the variability of a recording's normal-to-normal intervals."""
    normal = normal_intervals(beats, rules)
    nn = 1000 * beats.rr_s[normal]
    total = float(nn.sum()) / 1000
    if len(nn) < rules.hrv_intervals:
        return Variability(len(nn), total, None, None, None)
    both = normal[:-1] & normal[1:]
    steps = 1000 * np.diff(beats.rr_s)[both]
    rmssd = float(np.sqrt(np.mean(steps**2))) if len(steps) else None
    return Variability(len(nn), total, float(nn.mean()), float(nn.std(ddof=1)), rmssd)
