"""Features of the samples around an R peak that tell a pacing spike from a QRS, at any sampling frequency.

A pacing spike lasts 0.3 to 2 ms and a recorder's low-pass smears it to 5 to 30 ms; it precedes a wide, slow QRS or runs
into it. Every feature is a ratio, so that neither the gain nor the units of a recording matter.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.products import product

Floats = NDArray[np.float64]

#: Windows are resampled to this frequency; they begin and end so far from the R peak.
GRID_HZ, BEFORE_S, AFTER_S = 250.0, 0.160, 0.080
#: Samples of the grid in a window.
GRID_SAMPLES = round((BEFORE_S + AFTER_S) * GRID_HZ) + 1
#: Reach of the resampling filter on either side, and its Kaiser window's shape.
REACH_S, _KAISER_BETA = 0.06, 6.0
#: What lies above this is the spike's energy; taps on either side, and Kaiser window's shape, of the high-pass.
_HIGH_HZ, _HIGH_TAPS, _HIGH_BETA = 45.0, 12, 5.0
#: A lead that changes less in a window, in mV, shows no beat.
LEAST_MV = 0.05
#: Samples of the grid around the transient that are its own (12 ms), and from which on the rest begins (24 ms).
_OWN, _REST = 3, 6
#: Samples before which nothing of the transient is left (20 ms).
_CLEAR = 5
#: The edges of a window, where the high-pass has too few samples, hold no transient.
_EDGE = 5
#: A QRS is as wide as it deviates by this share of its highest deviation from the level before it.
_WIDTH_SHARE, _LEVEL_SAMPLES = 0.3, 12
#: A captured QRS begins so many samples of the grid behind the spike (20 ms), reaches this share of the window's height
#: and so many times the mean deviation before the spike, and deviates by 30% of its height in so many samples (32 ms)
#: and until 60 ms behind the spike or the window's end.
_QRS_FROM, _QRS_SHARE, _QRS_BY_BEFORE, _QRS_SAMPLES, _QRS_UNTIL = 5, 0.15, 6.0, 8, 15
#: Added to ratios of waves (the window's height is 1) so that they stay finite.
_LEAST = 1e-3

NAMES = (
    "high_share",  # log energy above 45 Hz by that of the slope
    "high_peak",  # log highest value above 45 Hz by the window's height
    "concentration",  # share of the energy above 45 Hz that lies within 12 ms
    "width",  # share of the window in which the signal deviates by 30% of its highest deviation
    "quiet_before",  # log slope before the transient by the steepest
    "steepness",  # log steepest slope by the window's height
    "noise_before",  # log value above 45 Hz before the transient by the highest
    "level_step",  # change of the level across the transient by the window's height
    "sharpness",  # log curvature of the transient by the sharpest curvature elsewhere
)


def margins(fs_hz: float) -> tuple[int, int]:
    """Return how many samples before and after an R peak a window needs."""
    return int(np.ceil((BEFORE_S + REACH_S) * fs_hz)), int(np.ceil((AFTER_S + REACH_S) * fs_hz))


@lru_cache(maxsize=8)
def resampling_matrix(fs_hz: float, limit_hz: float) -> Floats:
    """Return (samples, grid) weights that low-pass at ``limit_hz`` and resample to the grid; R peaks are on samples.

    Args:
        fs_hz: sampling frequency of the recording in Hz.
        limit_hz: where the low-pass has half its gain, at most 45% of ``fs_hz``, in Hz.
    """
    before, after = margins(fs_hz)
    recorded = np.arange(-before, after + 1) / fs_hz
    grid = np.arange(GRID_SAMPLES) / GRID_HZ - BEFORE_S
    weights = low_pass_kernel(grid - recorded[:, None], limit_hz)
    return np.asarray(weights / weights.sum(0))


def low_pass_kernel(distance_s: Floats, limit_hz: float) -> Floats:
    """Return the weight of a sample at a distance in s, of any shape; ``limit_hz`` as in ``resampling_matrix``."""
    kaiser = np.i0(_KAISER_BETA * np.sqrt(np.clip(1 - (distance_s / REACH_S) ** 2, 0, 1))) / np.i0(_KAISER_BETA)
    return np.asarray(np.sinc(2 * limit_hz * distance_s) * np.where(np.abs(distance_s) < REACH_S, kaiser, 0))


def high_pass_taps() -> Floats:
    """Return the taps of the linear-phase high-pass on the grid."""
    tap = np.arange(-_HIGH_TAPS, _HIGH_TAPS + 1)
    taps = -np.sinc(2 * _HIGH_HZ / GRID_HZ * tap) * np.kaiser(len(tap), _HIGH_BETA)
    taps[_HIGH_TAPS] -= taps.sum()  # nothing of a constant passes
    taps *= 2 * _HIGH_HZ / GRID_HZ
    return np.asarray(taps)


@lru_cache(maxsize=1)
def _high_pass() -> Floats:
    """Return (grid, grid) weights of the high-pass; the edges are repeated beyond a window's ends."""
    tap, taps = np.arange(-_HIGH_TAPS, _HIGH_TAPS + 1), high_pass_taps()
    out = np.zeros((GRID_SAMPLES, GRID_SAMPLES))
    for at in range(GRID_SAMPLES):
        np.add.at(out[:, at], np.clip(at + tap, 0, GRID_SAMPLES - 1), taps)
    return out


def window_features(window_mv: Floats) -> Floats:
    """Return the features of windows on the grid.

    Args:
        window_mv: (windows, ``GRID_SAMPLES``) float64 millivolt, as ``resampling_matrix`` makes them; NaN where no
            sample was recorded.

    Returns:
        (windows, ``len(NAMES)``) float64; NaN for windows that lack a sample or change by less than ``LEAST_MV``.
    """
    height = np.ptp(window_mv, axis=1)
    usable = height >= LEAST_MV  # not of NaN
    features = np.full((len(window_mv), len(NAMES)), np.nan)
    if usable.any():
        features[usable] = _features(window_mv[usable] / height[usable, None])
    return features


def captured(window_mv: Floats) -> NDArray[np.bool_]:
    """Return which windows show a wave behind their transient that lasts as a QRS captured by a pacing spike does.

    A narrow R wave, as of a child, or a piece of QRS between two clipped stretches is as sharp as a spike; behind it is
    little, or it has ended soon.

    Args:
        window_mv: (windows, ``GRID_SAMPLES``) float64 millivolt, as of ``window_features``.
    """
    wave = window_mv / np.maximum(np.ptp(window_mv, axis=1, keepdims=True), LEAST_MV)
    at = _transient((product(wave, _high_pass())) ** 2)
    behind = np.arange(GRID_SAMPLES) - at[:, None]
    deviation = _deviation(wave)
    height = np.max(deviation, axis=1, where=behind >= _QRS_FROM, initial=0.0)
    inside = (behind >= _QRS_FROM) & (deviation > _WIDTH_SHARE * height[:, None])
    last = np.max(behind, axis=1, where=inside, initial=0)
    high = height >= np.maximum(_QRS_SHARE, _QRS_BY_BEFORE * np.mean(deviation, axis=1, where=behind < -_CLEAR))
    until = np.minimum(_QRS_UNTIL, behind[:, -1] - 1)
    return np.asarray(high & (last >= until) & (inside.sum(1) >= _QRS_SAMPLES))


def _deviation(wave: Floats) -> Floats:
    """Return by how much (windows, ``GRID_SAMPLES``) waves deviate from their level at the start."""
    level = np.sort(wave[:, :_LEVEL_SAMPLES], axis=1)[:, _LEVEL_SAMPLES // 2 - 1 :]  # faster than np.median
    return np.asarray(np.abs(wave - (level[:, :1] + level[:, 1:2]) / 2))


def _features(wave: Floats) -> Floats:
    """Return the features of (windows, ``GRID_SAMPLES``) waves of height 1."""
    slope, curvature = np.abs(np.diff(wave, axis=1)), np.abs(np.diff(wave, 2, axis=1))
    high = np.abs(product(wave, _high_pass()))
    energy = high**2
    at = _transient(energy)
    own, rest, before = (mask[at] for mask in _masks())
    deviation = _deviation(wave)
    # curvature belongs to the sample in the middle
    sharp, elsewhere = _highest(curvature, own[:, 1:-1]), _highest(curvature, rest[:, 1:-1])
    total, highest, steepest = energy.sum(1), _highest(high, own), slope.max(1)
    level = np.take_along_axis(wave, np.clip(at[:, None] + [-_CLEAR, _CLEAR], 0, GRID_SAMPLES - 1), 1)
    return np.stack(
        [
            np.log(total / (slope**2).sum(1) + _LEAST**2),
            np.log(highest + _LEAST),
            (energy * own).sum(1) / (total + _LEAST**2),
            (deviation > _WIDTH_SHARE * deviation.max(1, keepdims=True)).mean(1),
            np.log(_root_mean(slope**2, before[:, 1:]) / steepest + _LEAST),
            np.log(steepest),
            np.log(_root_mean(energy, before) / (highest + _LEAST) + _LEAST),
            np.abs(level[:, 1] - level[:, 0]),
            np.log((sharp + _LEAST) / (elsewhere + _LEAST)),
        ],
        axis=1,
    )


def _transient(energy: Floats) -> NDArray[np.int64]:
    """Return the sample around which the energy above 45 Hz is highest over 12 ms."""
    summed = energy[:, :-2] + energy[:, 1:-1] + energy[:, 2:]
    return np.asarray(summed[:, _EDGE:-_EDGE].argmax(1) + _EDGE + 1)


@lru_cache(maxsize=1)
def _masks() -> tuple[NDArray[np.bool_], ...]:
    """Return (grid, grid) masks by the transient's sample: what is its own, the rest, and what lies before it."""
    after = np.arange(GRID_SAMPLES) - np.arange(GRID_SAMPLES)[:, None]
    return np.abs(after) <= _OWN, np.abs(after) > _REST, after < -_CLEAR


def _highest(values: Floats, where: NDArray[np.bool_]) -> Floats:
    return np.asarray((values * where).max(axis=1))  # none is negative, and ``np.max`` is slow where it has a mask


def _root_mean(values: Floats, where: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.sqrt((values * where).sum(1) / np.maximum(where.sum(1), 1)))
