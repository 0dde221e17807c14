"""RR features, version 2: what a beat is among the patient's own beats of the last minutes.

A premature atrial beat has the shape of the patient's other beats, and where most beats are premature even their usual
interval. So its interval is compared with the patient's sinus interval: the 90th percentile, over the last minutes, of
the intervals between two beats of the patient's own shape. Atrial beats do not move it until they are nine in ten, and
pauses after ventricular beats are no part of it. Its shape is compared with the mean of the beats that follow so long
an interval (a sinus reference for each patient, as Teijeiro et al. 2018 take one), QRS and P region apart. How alike
the reference's own P regions are says whether a P wave can be missed at all, and how much the rhythm changes from beat
to beat whether a beat can be premature: in atrial fibrillation neither can. Rules made of these come in as features of
their own beside what they are made of, since few patients have what would teach a net the rule.

What a net sees is centred, clipped and masked here and nowhere else. What is void is 0, and a mask of its own says
so. A beat's features depend on the ``HISTORY`` beats before it and the ``LOOK_AHEAD`` beats after it, no more, and are
the same bits however a recording is cut into pieces (``ContextStream``).
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: References are made anew every so many beats, from so many such blocks before the beat's own, and after.
BLOCK, BACK, AHEAD = 8, 31, 3
#: Beats before and after a beat that decide its features: references stand on one another four times over (intervals,
#: draft of the shape, intervals between beats of that shape, shapes after long intervals).
HISTORY, LOOK_AHEAD = (4 * BACK + 1) * BLOCK, (4 * AHEAD + 1) * BLOCK
#: Quantiles of the intervals of the last minutes: typical, and long as a sinus beat's.
TYPICAL, SINUS = 0.50, 0.90
#: Fewer intervals or beats than this make no reference.
FEWEST = 3
#: Logarithms of ratios are divided by this: an interval a fifth shorter is about -1.
LOG_UNIT = 0.2
#: No value a net sees is beyond.
LIMIT = 5.0
#: An interval is premature from so much on, as a logarithm.
PREMATURE = 0.05
#: Irregularity: the median of the last 60 changes of the interval, against the one before or the one before that,
#: whichever is less (logarithms), so that a beat that comes early every second time leaves a rhythm regular. The rhythm
#: counts as regular below 0.05, in between by degrees.
CHANGES, CHANGE_SHARE, IRREGULAR, IRREGULAR_WIDTH = 60, 0.50, 0.050, 0.0125
#: No change of the interval counts as less, so that its logarithm ends.
LEAST_CHANGE = 0.005
#: Parts of a window of 256 samples at 360 Hz, R at sample 100: P region -250 to -78 ms, QRS -70 to 100 ms.
P_REGION, QRS = slice(10, 72), slice(75, 136)
#: The duration of a QRS: from the first to the last steep slope between -139 and 194 ms, steep being so much of the
#: steepest; slopes are means over 14 ms.
QRS_AT_MOST, STEEP, SLOPE_SAMPLES = slice(50, 170), 0.15, 5
#: Least root mean square of a QRS in mV that has a shape.
LEAST_MV = 0.02
#: A beat has the patient's own shape that correlates with its draft by so much; a QRS is like the reference's from 0.88
#: (not at all) to 0.96 (fully).
MIN_CORRELATION, LIKE_FROM, LIKE_WIDTH = 0.7, 0.88, 0.08
#: A product of two powers is at least this below a correlation; an interval that equals a quantile but for rounding
#: is as long as it.
LEAST_POWER, AT_LEAST = 1e-12, 1 - 1e-9

#: Names of the features in order; those of ratios are logarithms over ``LOG_UNIT``.
FEATURES = (
    "previous_over_typical",  # interval before the beat over the median between beats of the patient's own shape
    "next_over_sinus",  # interval after it over the sinus interval
    "next_over_previous",
    "irregular",  # see CHANGES; a logarithm, 0 at IRREGULAR
    "qrs_unlike",  # 2 (1 - correlation) with the reference
    "qrs_apart",  # root mean square of the difference to it, over the QRS's own
    "size",  # root mean square of the QRS over the reference's, a logarithm over 0.4
    "width",  # duration of the QRS over the reference's, likewise
    "p_lost",  # share of the P region common to the reference's beats, times (1 - correlation with it)
    "premature",  # how much before the sinus interval, where the rhythm is regular and the QRS like the reference's
    "premature_without_p",  # ... times p_lost
    "premature_unlike",  # how much before the sinus interval, where the QRS is unlike the reference's
    "void_previous",  # masks: 1 where there is no such interval, no reference for intervals, none for shapes
    "void_next",
    "void_reference",
    "void_shape",
)
#: Beats that are put through at once, in blocks.
_CHUNK = 1024


class _Beats(NamedTuple):
    """Beats in order: interval before each (s, NaN void), windows (mV), and whether a window may make a reference."""

    before_s: Floats
    window_mv: NDArray[np.float32]
    usable: NDArray[np.bool_]

    def part(self, start: int, stop: int | None = None) -> "_Beats":
        return _Beats(self.before_s[start:stop], self.window_mv[start:stop], self.usable[start:stop])

    def then(self, following: "_Beats") -> "_Beats":
        return _Beats(
            np.concatenate([self.before_s, following.before_s]),
            np.concatenate([self.window_mv, following.window_mv]),
            np.concatenate([self.usable, following.usable]),
        )


class ContextStream:
    """Features of a recording that comes in pieces: the same bits as of the whole, ``LOOK_AHEAD`` beats late."""

    def __init__(self) -> None:
        self._held = _Beats(np.empty(0), np.empty((0, 256), np.float32), np.empty(0, bool))
        self._first, self._given = 0, 0  # numbers of the first beat held, and of the next whose features are due

    def push(self, before_s: Floats, window_mv: NDArray[np.float32], usable: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Take the next beats; return the features of those that are decided now.

        Args:
            before_s: (beats,) seconds before each beat, NaN where the interval is void (``intervals_s``).
            window_mv: (beats, 1, 256) millivolt, filtered, not normalised.
            usable: (beats,) bool, false where a window is padded or shows no signal, and makes no reference.

        Returns:
            (decided, features) float32 of the beats that follow those given before.
        """
        self._held = self._held.then(_Beats(np.asarray(before_s, np.float64), window_mv[:, 0], usable))
        ready = self._first + len(self._held.before_s) - LOOK_AHEAD
        return self._give(ready // BLOCK * BLOCK)

    def finish(self) -> NDArray[np.float32]:
        """Return the features of the beats that are left; nothing follows the last."""
        return self._give(self._first + len(self._held.before_s))

    def _give(self, until: int) -> NDArray[np.float32]:
        parts = [np.empty((0, len(FEATURES)), np.float32)]
        while self._given < until:
            stop = min(until, self._given + _CHUNK * BLOCK)
            start = max(0, self._given - HISTORY)
            beats = self._held.part(start - self._first, stop + LOOK_AHEAD - self._first)
            parts.append(_features(beats)[self._given - start : stop - start])
            self._given = stop
        drop = max(0, self._given - HISTORY) - self._first
        if drop > 0:
            self._held, self._first = self._held.part(drop), self._first + drop
        return np.concatenate(parts)


def context_features(
    interval_s: Floats, window_mv: NDArray[np.float32], usable: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return the features of all beats of a recording.

    Args:
        interval_s: (beats + 1,) seconds before each beat and after the last, NaN where void (``intervals_s``).
        window_mv: (beats, 1, 256) millivolt, filtered, not normalised.
        usable: (beats,) bool, false where a window is padded or shows no signal.

    Returns:
        (beats, features) float32, finite, within ``LIMIT``; in order of ``FEATURES``.
    """
    stream = ContextStream()
    first = stream.push(interval_s[:-1], window_mv, usable)
    return np.concatenate([first, stream.finish()])


def provisional_features(
    before_s: Floats, window_mv: NDArray[np.float32], usable: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return the features of the last beats of a stream as if nothing followed them but one more R peak.

    A reference that stands on fewer beats than ``HISTORY`` is made of those that are there.

    Args:
        before_s: (beats + 1,) seconds before each beat and before the R peak that follows, NaN where void or unknown.
        window_mv: (beats, 1, 256) millivolt, filtered, not normalised.
        usable: (beats,) bool, false where a window is padded or shows no signal.

    Returns:
        (beats, features) float32.
    """
    if not len(window_mv):
        return np.empty((0, len(FEATURES)), np.float32)
    following = np.zeros((1, window_mv.shape[2]), np.float32)
    beats = _Beats(
        np.asarray(before_s, np.float64), np.concatenate([window_mv[:, 0], following]), np.append(usable, False)
    )
    return _features(beats)[:-1]


def _features(beats: _Beats) -> NDArray[np.float32]:
    """Features of beats in a row; those within ``HISTORY`` and ``LOOK_AHEAD`` of a cut are not to be used."""
    before = beats.before_s
    typical_beat = _TypicalBeat(beats)
    values = {**_rhythm(before, typical_beat.typical, typical_beat.sinus), **typical_beat.against_reference()}
    regular = 1 / (1 + np.exp((values.pop("change") - IRREGULAR) / IRREGULAR_WIDTH))
    like = _like(values["qrs_unlike"])
    early = np.minimum(_log(before, typical_beat.sinus) + PREMATURE / LOG_UNIT, 0)
    values["premature"] = early * regular * like
    values["premature_without_p"] = early * regular * like * values["p_lost"]
    values["premature_unlike"] = early * (1 - like)
    features = np.stack([values[name] for name in FEATURES], axis=1)
    return np.clip(np.where(np.isfinite(features), features, 0.0), -LIMIT, LIMIT).astype(np.float32)


def _like(unlike: Floats) -> Floats:
    """Return how like the reference's a QRS is, from 0 to 1."""
    return np.clip((1 - unlike / 2 - LIKE_FROM) / LIKE_WIDTH, 0, 1)


def _rhythm(before: Floats, typical: Floats, sinus: Floats) -> dict[str, Floats]:
    """Intervals against the references, NaN where void; ``change`` is the irregularity itself."""
    after = np.append(before[1:], np.nan)
    logs = np.log(before)
    change_1, change_2 = (np.abs(logs - np.concatenate([np.full(by, np.nan), logs])[: len(logs)]) for by in (1, 2))
    change = _running_quantile(np.fmin(change_1, change_2), CHANGES, CHANGE_SHARE)
    change = np.where(np.isfinite(change), change, 0.0)  # no rhythm yet is none to be irregular
    return {
        "previous_over_typical": _log(before, typical),
        "next_over_sinus": _log(after, sinus),
        "next_over_previous": _log(after, before),
        "irregular": np.log(np.maximum(change, LEAST_CHANGE) / IRREGULAR),
        "change": change,
        "void_previous": np.isnan(before).astype(np.float64),
        "void_next": np.isnan(after).astype(np.float64),
        "void_reference": np.isnan(typical).astype(np.float64),
    }


class _TypicalBeat:
    """The patient's own shape, and the intervals between its beats.

    Attributes:
        typical: (beats,) seconds, the median of the intervals between two beats of the own shape; of all where there
            are too few.
        sinus: (beats,) seconds, their long quantile, likewise.
    """

    def __init__(self, beats: _Beats) -> None:
        self.before = before = beats.before_s
        window = beats.window_mv.astype(np.float64)
        window -= _middle(beats.window_mv)[:, None]
        size = np.sqrt((window[:, QRS] ** 2).mean(axis=1))
        usable, self.size = beats.usable & (size > LEAST_MV), np.maximum(size, LEAST_MV)
        self.width = _duration(window[:, QRS_AT_MOST])
        window /= self.size[:, None]  # no beat weighs more in a mean because it is large
        self.qrs, self.p_region = window[:, QRS], _centred(window[:, P_REGION])
        (every,) = _quantiles(before, (TYPICAL,))
        draft = _mean(self.qrs, usable & (before >= every * AT_LEAST))
        is_similar = usable & (_correlation(self.qrs, draft) > MIN_CORRELATION)
        self.between = is_similar & np.concatenate([[False], is_similar])[: len(is_similar)]
        typical, sinus = _quantiles(np.where(self.between, before, np.nan), (TYPICAL, SINUS))
        self.typical = np.where(np.isfinite(typical), typical, every)
        self.sinus = np.where(np.isfinite(sinus), sinus, self.typical)

    def against_reference(self) -> dict[str, Floats]:
        """Shapes against the mean of the beats that follow a sinus interval; NaN where there is none."""
        chosen = self.between & (self.before >= self.sinus * AT_LEAST)
        reference, p_reference = _mean(self.qrs, chosen), _mean(self.p_region, chosen)
        power = _mean((self.p_region**2).sum(axis=1, keepdims=True), chosen)[:, 0]
        common = np.clip((p_reference**2).sum(axis=1) / power, 0, 1)
        features = {
            "qrs_unlike": 2 * (1 - _correlation(self.qrs, reference)),
            "qrs_apart": np.sqrt(((self.qrs - reference) ** 2).mean(axis=1)),
            "p_lost": common * (1 - _correlation(self.p_region, p_reference)),
            "void_shape": np.isnan(reference[:, 0]).astype(np.float64),
        }
        for kind, value in (("size", np.log(self.size)), ("width", np.log(self.width))):
            features[kind] = (value - _mean(value[:, None], chosen)[:, 0]) / (2 * LOG_UNIT)
        return features


def _middle(window_mv: NDArray[np.float32]) -> Floats:
    """Medians of windows, (beats,): what ``np.median`` gives of them as float64, which has to move twice the bytes."""
    half = window_mv.shape[1] // 2
    middle = np.partition(window_mv, (half - 1, half), axis=1)[:, half - 1 : half + 1].astype(np.float64)
    return np.asarray((middle[:, 0] + middle[:, 1]) / 2)


def _duration(window: Floats) -> Floats:
    """Duration of the QRS, (beats,) in samples, one at least."""
    slope = np.abs(np.diff(window, axis=1))
    starts = slope.shape[1] - SLOPE_SAMPLES + 1
    slope = sum((slope[:, i : i + starts] for i in range(1, SLOPE_SAMPLES)), slope[:, :starts])
    steep = slope > STEEP * slope.max(axis=1, keepdims=True)
    first, last = steep.argmax(axis=1), steep.shape[1] - 1 - steep[:, ::-1].argmax(axis=1)
    return np.asarray(np.maximum(last - first, 1), dtype=np.float64)


def _log(value: Floats, reference: Floats) -> Floats:
    """The logarithm of a ratio in units of ``LOG_UNIT``."""
    return np.asarray(np.log(value / reference) / LOG_UNIT)


def _centred(values: Floats) -> Floats:
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def _correlation(values: Floats, reference: Floats) -> Floats:
    """Correlation of rows, (beats,); NaN where the others are."""
    centred, centred_reference = _centred(values), _centred(reference)
    power = (centred**2).sum(axis=1) * (centred_reference**2).sum(axis=1)
    return np.asarray((centred * centred_reference).sum(axis=1) / np.sqrt(np.maximum(power, LEAST_POWER)))


def _quantile(ordered: Floats, share: float) -> Floats:
    """Quantile of each row, sorted, its NaN last and not counted; NaN where there are fewer than ``FEWEST``."""
    count = np.isfinite(ordered).sum(axis=1)
    last = np.maximum(count - 1, 0)
    at = share * last
    low = np.floor(at).astype(np.int64)
    row, part = np.arange(len(ordered)), at - low
    quantile = ordered[row, low] * (1 - part) + ordered[row, np.minimum(low + 1, last)] * part
    return np.where(count >= FEWEST, quantile, np.nan)


def _running_quantile(values: Floats, count: int, share: float) -> Floats:
    """Quantile of the last ``count`` values, each beat's own included, NaN not counted."""
    padded = np.concatenate([np.full(count - 1, np.nan), values])
    return _quantile(np.sort(sliding_window_view(padded, count), axis=1), share)


def _in_blocks(values: Floats, fill: float) -> Floats:
    """(beats, ...) -> (blocks, BLOCK, ...), the last one filled up."""
    blocks = -(-len(values) // BLOCK)
    padded = np.full((blocks * BLOCK, *values.shape[1:]), fill)
    padded[: len(values)] = values
    return padded.reshape(blocks, BLOCK, *values.shape[1:])


def _quantiles(values: Floats, shares: tuple[float, ...]) -> list[Floats]:
    """Running quantiles over the last minutes, (beats,) each, made anew every block."""
    blocks = _in_blocks(values, np.nan)
    around = np.pad(blocks, ((BACK, AHEAD), (0, 0)), constant_values=np.nan)
    width = BACK + 1 + AHEAD
    ordered = np.sort(sliding_window_view(around, width, axis=0).reshape(len(blocks), width * BLOCK), axis=1)
    return [np.repeat(_quantile(ordered, share), BLOCK)[: len(values)] for share in shares]


def _mean(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Running mean over the last minutes of the chosen rows, made anew every block; NaN where they are too few.

    Blocks are added in one order, so that the bits do not depend on where a recording was cut.
    """
    rows = np.concatenate([np.where(chosen[:, None], values, 0.0), chosen[:, None].astype(np.float64)], axis=1)
    sums = _in_blocks(rows, 0.0).sum(axis=1)
    around = np.pad(sums, ((BACK, AHEAD), (0, 0)))
    total = np.zeros_like(sums)
    for i in range(BACK + 1 + AHEAD):
        total += around[i : i + len(sums)]
    count = total[:, -1:]
    mean = np.where(count >= FEWEST, total[:, :-1] / np.maximum(count, 1), np.nan)
    return np.asarray(np.repeat(mean, BLOCK, axis=0)[: len(values)])
