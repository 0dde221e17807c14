"""The patient's own beat: what a beat is compared with, made of the beats of the last minutes.

A patient's sinus interval is the 90th percentile, over the last minutes, of the intervals between two beats of the
patient's own shape. Atrial beats do not move it until they are nine in ten, and pauses after ventricular beats are no
part of it. The reference for shapes is the mean of the beats that follow so long an interval (a sinus reference for
each patient, as Teijeiro et al. 2018 take one). References are made anew every ``BLOCK`` beats, from blocks added in
one order, so that a beat's features are the same bits however a recording is cut into pieces.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: References are made anew every so many beats, from so many such blocks before the beat's own, and after.
BLOCK, BACK, AHEAD = 8, 31, 3
#: Quantiles of the intervals of the last minutes: typical, and long as a sinus beat's.
TYPICAL, SINUS = 0.50, 0.90
#: Fewer intervals or beats than this make no reference.
FEWEST = 3
#: Logarithms of ratios are divided by this: an interval a fifth shorter is about -1.
LOG_UNIT = 0.2
#: Parts of a window of 256 samples at 360 Hz, R at sample 100: P region -250 to -78 ms, QRS -70 to 100 ms.
P_REGION, QRS = slice(10, 72), slice(75, 136)
#: The duration of a QRS: from the first to the last steep slope between -139 and 194 ms, steep being so much of the
#: steepest; slopes are means over 14 ms.
QRS_AT_MOST, STEEP, SLOPE_SAMPLES = slice(50, 170), 0.15, 5
#: ... and where they stand in what a reference is a mean of (``Shapes.rows``).
QRS_COLUMNS = slice(0, QRS.stop - QRS.start)
_P_COLUMNS = slice(QRS_COLUMNS.stop, QRS_COLUMNS.stop + P_REGION.stop - P_REGION.start)
COLUMNS = _P_COLUMNS.stop + 3
#: Least root mean square of a QRS in mV that has a shape.
LEAST_MV = 0.02
#: A beat has the patient's own shape that correlates with its draft by so much.
MIN_CORRELATION = 0.7
#: A product of two powers is at least this below a correlation; an interval that equals a quantile but for rounding
#: is as long as it.
LEAST_POWER, AT_LEAST = 1e-12, 1 - 1e-9


class Beats(NamedTuple):
    """Beats in order: interval before each (s, NaN void), windows (mV), and whether a window may make a reference.

    ``beside_mv`` is (beats, 80), or (beats, 0) where no strip is wanted (``windows.cut_beside``).
    """

    before_s: Floats
    window_mv: NDArray[np.float32]
    usable: NDArray[np.bool_]
    beside_mv: NDArray[np.float32]

    def part(self, start: int, stop: int | None = None) -> "Beats":
        """Return the beats from ``start`` to ``stop``."""
        part = slice(start, stop)
        return Beats(self.before_s[part], self.window_mv[part], self.usable[part], self.beside_mv[part])

    def then(self, following: "Beats") -> "Beats":
        """Return these beats and those that follow."""
        return Beats(
            np.concatenate([self.before_s, following.before_s]),
            np.concatenate([self.window_mv, following.window_mv]),
            np.concatenate([self.usable, following.usable]),
            np.concatenate([self.beside_mv, following.beside_mv]),
        )


class Shapes:
    """Windows as shapes: each less its median, over the size of its QRS.

    Attributes:
        measured_mv: (beats,) root mean square of the QRS in mV.
        size: (beats,) the same, ``LEAST_MV`` at least.
        width: (beats,) samples, the duration of the QRS.
        window: (beats, 256); no beat weighs more in a mean because it is large.
        qrs: (beats, 61) the part of it that is the QRS.
        p_region: (beats, 62) the P region, less its mean.
    """

    def __init__(self, window_mv: NDArray[np.float32]) -> None:
        window = window_mv.astype(np.float64)
        window -= _middle(window_mv)[:, None]
        self.measured_mv = np.sqrt((window[:, QRS] ** 2).mean(axis=1))
        self.size = np.maximum(self.measured_mv, LEAST_MV)
        self.width = _duration(window[:, QRS_AT_MOST])
        window /= self.size[:, None]
        self.window = window
        self.qrs, self.p_region = window[:, QRS], centred(window[:, P_REGION])
        self.p_power = (self.p_region**2).sum(axis=1)

    def rows(self) -> Floats:
        """What a reference is the mean of, (beats, columns): QRS, P region, its power, logarithms of size and width."""
        logs = np.log(np.stack([self.size, self.width], axis=1))
        return np.concatenate([self.qrs, self.p_region, self.p_power[:, None], logs], axis=1)

    def against(self, reference: Floats) -> dict[str, Floats]:
        """Compare the shapes with a reference for each, a mean of ``rows``; NaN where there is none."""
        qrs, p_region = reference[:, QRS_COLUMNS], reference[:, _P_COLUMNS]
        p_power, size, width = reference[:, -3:].T
        common = np.clip((p_region**2).sum(axis=1) / p_power, 0, 1)  # the share of the P regions' power in common
        return {
            "qrs_unlike": 2 * (1 - correlation(self.qrs, qrs)),
            "qrs_apart": np.sqrt(((self.qrs - qrs) ** 2).mean(axis=1)),
            "p_lost": common * (1 - correlation(self.p_region, p_region)),
            "size": (np.log(self.size) - size) / (2 * LOG_UNIT),
            "width": (np.log(self.width) - width) / (2 * LOG_UNIT),
            "void_shape": np.isnan(size).astype(np.float64),
        }


class TypicalBeat:
    """The patient's own shape, and the intervals between its beats.

    Attributes:
        before: (beats,) seconds before each beat.
        window: (beats, 256) windows less their median, over the size of their QRS.
        size: (beats,) mV, the root mean square of the QRS.
        between: (beats,) bool, intervals between two beats of the own shape.
        after_sinus: (beats,) bool, those of them that are as long as the sinus interval.
        typical: (beats,) seconds, the median of the intervals between two beats of the own shape; of all where there
            are too few.
        sinus: (beats,) seconds, their long quantile, likewise.
    """

    def __init__(self, beats: Beats) -> None:
        self.before = before = beats.before_s
        self._shapes = shapes = Shapes(beats.window_mv)
        self.size, self.window, self.qrs = shapes.size, shapes.window, shapes.qrs
        usable = beats.usable & (shapes.measured_mv > LEAST_MV)
        (every,) = running_quantiles(before, (TYPICAL,))
        draft = running_mean(self.qrs, usable & (before >= every * AT_LEAST))
        is_similar = usable & (correlation(self.qrs, draft) > MIN_CORRELATION)
        self.between = is_similar & np.concatenate([[False], is_similar])[: len(is_similar)]
        typical, sinus = running_quantiles(np.where(self.between, before, np.nan), (TYPICAL, SINUS))
        self.typical = np.where(np.isfinite(typical), typical, every)
        self.sinus = np.where(np.isfinite(sinus), sinus, self.typical)
        self.after_sinus = self.between & (self.before >= self.sinus * AT_LEAST)

    def against_reference(self) -> dict[str, Floats]:
        """Shapes against the mean of the beats that follow a sinus interval; NaN where there is none."""
        return self._shapes.against(running_mean(self._shapes.rows(), self.after_sinus))


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


def log_ratio(value: Floats, reference: Floats) -> Floats:
    """The logarithm of a ratio in units of ``LOG_UNIT``."""
    return np.asarray(np.log(value / reference) / LOG_UNIT)


def centred(values: Floats) -> Floats:
    """Rows (beats, samples) less their means."""
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def correlation(values: Floats, reference: Floats) -> Floats:
    """Correlation of rows, (beats,); NaN where the others are."""
    rows, references = centred(values), centred(reference)
    power = (rows**2).sum(axis=1) * (references**2).sum(axis=1)
    return np.asarray((rows * references).sum(axis=1) / np.sqrt(np.maximum(power, LEAST_POWER)))


def quantile(ordered: Floats, share: float) -> Floats:
    """Quantile of each row, sorted, its NaN last and not counted; NaN where there are fewer than ``FEWEST``."""
    count = np.isfinite(ordered).sum(axis=1)
    last = np.maximum(count - 1, 0)
    at = share * last
    low = np.floor(at).astype(np.int64)
    row, part = np.arange(len(ordered)), at - low
    quantile = ordered[row, low] * (1 - part) + ordered[row, np.minimum(low + 1, last)] * part
    return np.where(count >= FEWEST, quantile, np.nan)


def running_quantile(values: Floats, count: int, share: float) -> Floats:
    """Quantile of the last ``count`` values, each beat's own included, NaN not counted."""
    padded = np.concatenate([np.full(count - 1, np.nan), values])
    return quantile(np.sort(sliding_window_view(padded, count), axis=1), share)


def in_blocks(values: Floats, fill: float) -> Floats:
    """(beats, ...) -> (blocks, BLOCK, ...), the last one filled up."""
    blocks = -(-len(values) // BLOCK)
    padded = np.full((blocks * BLOCK, *values.shape[1:]), fill)
    padded[: len(values)] = values
    return padded.reshape(blocks, BLOCK, *values.shape[1:])


def running_quantiles(values: Floats, shares: tuple[float, ...]) -> list[Floats]:
    """Running quantiles over the last minutes, (beats,) each, made anew every block."""
    blocks = in_blocks(values, np.nan)
    around = np.pad(blocks, ((BACK, AHEAD), (0, 0)), constant_values=np.nan)
    width = BACK + 1 + AHEAD
    ordered = np.sort(sliding_window_view(around, width, axis=0).reshape(len(blocks), width * BLOCK), axis=1)
    return [np.repeat(quantile(ordered, share), BLOCK)[: len(values)] for share in shares]


def running_mean(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Running mean over the last minutes of the chosen rows, made anew every block; NaN where they are too few.

    Blocks are added in one order, so that the bits do not depend on where a recording was cut.
    """
    rows = np.concatenate([np.where(chosen[:, None], values, 0.0), chosen[:, None].astype(np.float64)], axis=1)
    sums = in_blocks(rows, 0.0).sum(axis=1)
    around = np.pad(sums, ((BACK, AHEAD), (0, 0)))
    total = np.zeros_like(sums)
    for i in range(BACK + 1 + AHEAD):
        total += around[i : i + len(sums)]
    count = total[:, -1:]
    mean = np.where(count >= FEWEST, total[:, :-1] / np.maximum(count, 1), np.nan)
    return np.asarray(np.repeat(mean, BLOCK, axis=0)[: len(values)])
