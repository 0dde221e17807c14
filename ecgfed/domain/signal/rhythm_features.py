"""Features of windows of one lead that tell atrial fibrillation and flutter from other rhythms.

They measure how irregular the intervals between beats of the prevailing shape are (and between all beats at up to four
intervals' distance: a bigeminy is regular at two), how regular they stay without premature beats and the pauses after
these, and whether a P wave of constant shape precedes the QRS complexes. A feature depends on nothing outside its
window, and not on the gain. Sources: the coefficient of sample entropy (Lake and
Moorman, Am J Physiol Heart Circ Physiol 300:H319-H325, 2011) and the distribution of differences (Sarkar et al., IEEE
Trans Biomed Eng 55:1219-1224, 2008). benchmarks/rhythm measures what they are worth.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal import fir
from ecgfed.domain.signal.filters import convolved

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Leads are averaged to this frequency; their high-pass, its length, and a smoothing without ringing in front of a QRS.
GRID_HZ, HIGH_PASS_HZ, FILTER_S = 100.0, 0.7, 2.0
_SMOOTHING = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9
#: Seconds from the R peak: the QRS complex, and where the P wave is.
QRS_S, P_S = (-0.10, 0.12), (-0.32, -0.07)
#: How far from an R peak its waves depend on the signal.
REACH_S = 0.32 + FILTER_S / 2 + 0.1
#: QRS complexes that correlate at least so much are alike. A beat that is like fewer than ``PREVAILING`` times as many
#: others as the beat that is like most of them is left out as ectopic. Where a smaller share of the beats is left, they
#: are noise, or of many shapes: nothing is told from them.
ALIKE, PREVAILING, LEAST_PREVAILING = 0.85, 0.5, 0.6
#: Longer intervals are not used; a window needs so many beats, and so many pairs of adjacent intervals.
LONGEST_S, MIN_BEATS, MIN_PAIRS = 3.0, 6, 4
#: Intervals match within so many seconds in the sample entropy, within so much of the mean interval in the modes.
MATCH_S, NEAR_INTERVAL, NEAR_DIFFERENCE = 0.03, 0.06, 0.03
#: A shorter interval, by the median one, ends with a premature beat; a beat after a longer one is free of the T wave
#: before it. Of fewer than so many such intervals nothing is measured: all of them are in their place.
PREMATURE, LATE, MIN_INTERVALS = 0.85, 0.97, 4
#: Width, by the mean interval, and number of the bins of differences.
BIN, BINS = 0.04, 21
#: P waves are alike from this correlation with one another on.
P_ALIKE = 0.8
#: Added to values whose logarithm is taken.
_SMALL, _SMALLER = 5e-3, 1e-3
#: Times that are equal but for rounding count as equal, wherever the signal that was read begins.
_ROUNDING_S = 1e-6

NAMES = (
    "difference_75",  # log quantiles of the absolute differences of adjacent intervals, by the mean interval
    "difference_90",
    "lags",  # log of the lowest median difference at one to four intervals' distance, all beats
    "mode_difference",  # largest share of differences near one of them
    "entropy",  # of the histogram of differences, by its highest possible value
    "sample_entropy",  # coefficient of sample entropy
    "rate",  # log mean interval
    "premature",  # share of intervals that end with a premature beat
    "steady_mode",  # largest share of intervals near one of them, without premature beats and what follows them
    "prevailing",  # share of beats of the prevailing shape
    "height_spread",  # log interquartile range of QRS heights by their median
    "qrs_unlike",  # log of 1 less the 30% quantile of the QRS complexes' correlation with their mean
    "p_height",  # log height of the mean P wave by the QRS's
    "p_mode",  # largest share of P waves that correlate with one of them
    "rest",  # log root mean square deviation of the median beat from the mean P wave, by the QRS's height
    "rest_late",  # the same of beats whose interval is no shorter than most
)


def on_grid(signal_mv: Floats, fs_hz: float) -> Floats:
    """Return a lead averaged to ``GRID_HZ`` and filtered, (grid,) mV.

    Args:
        signal_mv: (samples,) finite, millivolt, its first sample at time 0 of the grid.
        fs_hz: its sampling frequency in Hz.
    """
    grid = int(len(signal_mv) * GRID_HZ / fs_hz)
    sums = np.concatenate([[0.0], np.cumsum(signal_mv - signal_mv[:1])])
    edges = np.arange(grid + 1) * (fs_hz / GRID_HZ)
    averaged = np.diff(np.interp(edges, np.arange(len(sums)), sums)) * (GRID_HZ / fs_hz)
    return convolved(averaged, _taps())


@lru_cache(maxsize=1)
def _taps() -> Floats:
    return np.convolve(fir.band_pass(int(FILTER_S * GRID_HZ) + 1, HIGH_PASS_HZ, 0.45 * GRID_HZ, GRID_HZ), _SMOOTHING)


def beat_waves(grid_mv: Floats, r_s: Floats) -> tuple[Floats, Floats]:
    """Return the QRS complexes (beats, samples) and what lies where P waves are (beats, samples).

    Args:
        grid_mv: (grid,) as of ``on_grid``.
        r_s: (beats,) R peaks in seconds from the start of the grid.
    """
    waves = []
    for start, stop in (QRS_S, P_S):
        offset = np.arange(round((stop - start) * GRID_HZ) + 1) + start * GRID_HZ
        at = r_s[:, None] * GRID_HZ - 0.5 + offset  # an average stands for the middle of its span
        first = np.clip(np.floor(at).astype(np.int64), 0, len(grid_mv) - 2)
        share = np.clip(at - first, 0, 1)
        waves.append(grid_mv[first] * (1 - share) + grid_mv[first + 1] * share)
    return waves[0], waves[1]


def window_features(r_s: Floats, qrs_mv: Floats, p_mv: Floats, windows_s: Floats) -> Floats:
    """Return the features of windows of one lead, (windows, features); NaN where too few beats are alike.

    Args:
        r_s: (beats,) increasing R peaks in seconds.
        qrs_mv: (beats, samples) of ``beat_waves``.
        p_mv: (beats, samples) likewise.
        windows_s: (windows, 2) start and stop of each window in seconds.
    """
    first, stop = np.searchsorted(r_s, windows_s.T - _ROUNDING_S)
    features = np.full((len(windows_s), len(NAMES)), np.nan)
    some = np.flatnonzero(stop - first >= MIN_BEATS)
    if not len(some):
        return features
    number = first[some, None] + np.arange(int((stop - first)[some].max()))
    inside = number < stop[some, None]
    number = np.minimum(number, len(r_s) - 1)
    unit = _unit(qrs_mv)[number] * inside[:, :, None]
    alike = ((unit @ unit.transpose(0, 2, 1)) > ALIKE).sum(axis=2)
    usual = inside & (alike >= PREVAILING * alike.max(axis=1, keepdims=True))
    of_rhythm, late, known = _irregularity(r_s[number], inside, usual)
    height = np.ptp(qrs_mv, axis=1)[number]
    median = np.maximum(_quantile(height, usual, 0.5), 1e-9)
    spread = _quantile(height, usual, 0.75) - _quantile(height, usual, 0.25)
    mean = _unit((unit * usual[:, :, None]).sum(axis=1))
    correlation = (unit * mean[:, None]).sum(axis=2)
    prevailing = usual.sum(axis=1) / inside.sum(axis=1)
    of_qrs = [
        prevailing,
        np.log(spread / median + 2 * _SMALL),
        np.log(1 + 2 * _SMALL - _quantile(correlation, usual, 0.3)),
    ]
    of_p = [*_p_waves(p_mv[number], usual, median), _rest(_deviation(p_mv[number], late)[2], late, median)]
    columns = np.stack([*of_rhythm, *of_qrs, *of_p], axis=1)
    features[some] = np.where((known & (prevailing >= LEAST_PREVAILING))[:, None], columns, np.nan)
    return features


def _irregularity(time_s: Floats, inside: Mask, usual: Mask) -> tuple[list[Floats], Mask, Mask]:
    """Return the features of intervals, (windows,) each; the late beats (windows, beats); which windows are assessed.

    Where too few adjacent intervals are between beats of the prevailing shape, as in a bigeminy, those across the
    beats left out count as well.
    """
    all_rr, all_known = np.diff(time_s, axis=1), inside[:, 1:] & (np.diff(time_s, axis=1) < LONGEST_S)
    order = np.argsort(~usual, axis=1, kind="stable")  # the prevailing beats first
    rr = np.diff(np.take_along_axis(time_s, order, 1), axis=1)
    across = np.take_along_axis(usual, order, 1)[:, 1:] & (rr < LONGEST_S)
    normal = across & (np.diff(order, axis=1) == 1)
    few = (normal[:, 1:] & normal[:, :-1]).sum(axis=1) < MIN_PAIRS
    normal = np.where(few[:, None], across, normal)
    pair = normal[:, 1:] & normal[:, :-1]
    count = np.maximum(normal.sum(axis=1), 1)
    mean = np.maximum((rr * normal).sum(axis=1) / count, 0.1)[:, None]
    change = np.diff(rr, axis=1) / mean
    lags = []
    for lag in range(1, 5):
        both = all_known[:, lag:] & all_known[:, :-lag]
        median = _quantile(np.abs(all_rr[:, lag:] - all_rr[:, :-lag]) / mean, both, 0.5)
        lags.append(np.where(both.sum(axis=1) >= MIN_PAIRS, median, 1.0))
    median = _quantile(rr, normal, 0.5)[:, None]
    premature = normal & (rr < PREMATURE * median - _ROUNDING_S)
    steady = normal & ~premature & ~np.pad(premature[:, :-1], ((0, 0), (1, 0)))
    steady = np.where((steady.sum(axis=1) < MIN_INTERVALS)[:, None], normal, steady)
    late = np.zeros_like(usual)
    np.put_along_axis(late, order[:, 1:], normal & (rr >= LATE * median), axis=1)
    late = np.where((late.sum(axis=1) < MIN_INTERVALS)[:, None], usual, late)
    features = [
        *(np.log(_quantile(np.abs(change), pair, share) + _SMALL) for share in (0.75, 0.9)),
        np.log(np.min(lags, axis=0) + _SMALL),
        _mode(change, pair, NEAR_DIFFERENCE),
        _entropy(change, pair),
        _sample_entropy(rr, normal, mean[:, 0]),
        np.log(mean[:, 0]),
        premature.sum(axis=1) / count,
        _mode(rr / mean, steady, NEAR_INTERVAL),
    ]
    return features, late, pair.sum(axis=1) >= MIN_PAIRS


def _p_waves(p_mv: Floats, usual: Mask, height_mv: Floats) -> list[Floats]:
    """Return the features of P waves (windows, beats, samples) before beats of the prevailing shape."""
    waves, mean, rest = _deviation(p_mv, usual)
    unit = waves / np.maximum(np.linalg.norm(waves, axis=2, keepdims=True), 1e-12)
    each = ((unit @ unit.transpose(0, 2, 1)) > P_ALIKE).sum(axis=2).max(axis=1)
    return [
        np.log(np.ptp(mean, axis=1) / height_mv + _SMALLER),
        (each - 1) / np.maximum(usual.sum(axis=1) - 1, 1),
        _rest(rest, usual, height_mv),
    ]


def _deviation(p_mv: Floats, some: Mask) -> tuple[Floats, Floats, Floats]:
    """Return some beats' P waves less their means, their mean wave, and each one's mean square deviation from it."""
    waves = (p_mv - p_mv.mean(axis=2, keepdims=True)) * some[:, :, None]
    mean = waves.sum(axis=1) / np.maximum(some.sum(axis=1), 1)[:, None]
    return waves, mean, (((waves - mean[:, None]) * some[:, :, None]) ** 2).mean(axis=2)


def _rest(rest: Floats, some: Mask, height_mv: Floats) -> Floats:
    return np.asarray(np.log(np.sqrt(_quantile(rest, some, 0.5)) / height_mv + _SMALLER))


def _unit(waves: Floats) -> Floats:
    """Return waves (..., samples) less their mean, of norm 1."""
    wave = waves - waves.mean(axis=-1, keepdims=True)
    return np.asarray(wave / np.maximum(np.linalg.norm(wave, axis=-1, keepdims=True), 1e-12))


def _quantile(values: Floats, where: Mask, share: float) -> Floats:
    """Return a quantile of each row's values where a mask is true, linear between two of them; 1 without any."""
    ordered = np.sort(np.where(where, values, np.inf), axis=1)
    at = share * np.maximum(where.sum(axis=1) - 1, 0)
    row, low = np.arange(len(values)), np.floor(at).astype(np.int64)
    below, above = ordered[row, low], ordered[row, np.ceil(at).astype(np.int64)]
    below, above = (np.where(where.any(axis=1), value, 1.0) for value in (below, above))
    return np.asarray(below + (at - low) * (above - below))


def _mode(values: Floats, where: Mask, near: float) -> Floats:
    """Return the largest share of each row's values that are near one of them."""
    apart = np.abs(values[:, :, None] - values[:, None]) < near
    count = (apart & where[:, :, None] & where[:, None]).sum(axis=2).max(axis=1)
    return np.asarray((count - 1) / np.maximum(where.sum(axis=1) - 1, 1))


def _entropy(change: Floats, pair: Mask) -> Floats:
    """Return the entropy of the histogram of differences by its highest possible value."""
    place = np.clip(np.round(change / BIN) + BINS // 2, 0, BINS - 1).astype(np.int64)
    place += BINS * np.arange(len(change))[:, None]
    count = np.bincount(place[pair], minlength=len(change) * BINS).reshape(-1, BINS)
    total = np.maximum(count.sum(axis=1), 1)
    share = count / total[:, None]
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1)
    return np.asarray(entropy / np.log(np.maximum(np.minimum(total, BINS), 2)))


def _sample_entropy(rr: Floats, normal: Mask, mean: Floats) -> Floats:
    """Return the coefficient of sample entropy of intervals, of templates of one interval."""
    match = np.abs(rr[:, :, None] - rr[:, None]) < MATCH_S - _ROUNDING_S
    both = normal[:, 1:] & normal[:, :-1]
    one = match[:, :-1, :-1] & both[:, :, None] & both[:, None]
    two = one & match[:, 1:, 1:]
    itself = both.sum(axis=1)
    matches, longer = one.sum(axis=(1, 2)) - itself, two.sum(axis=(1, 2)) - itself
    return np.asarray(np.log((matches + 1) / (longer + 1)) + np.log(2 * MATCH_S / mean))
