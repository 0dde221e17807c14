"""Where the P wave, the QRS complex and the T wave of each beat begin, peak and end: one lead, all beats at once.

The QRS complex is where the smoothed slope exceeds a share of its steepest, or of the slope before it. A straight line
takes its place, so that its slopes do not reach into the P and T waves when these are smoothed. Both are looked for by
their curvature, which neither a moving baseline nor an elevated ST segment changes, in the mean of the neighbouring
beats of the same shape and rate. A boundary is where the area between the wave's steepest tangent point and the line
through a point of rest is largest, which needs no threshold (Zhang et al., Computers in Cardiology 2005, doi
10.1109/CIC.2005.1588203; Vazquez-Seisdedos et al., BioMed Eng OnLine 10:77, 2011). Constants: ``WaveSettings``;
measured in ``benchmarks/delineation``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from ecgfed.domain.waves.points import SETTINGS, Floats, Ints, Mask, WavePoints, WaveSettings

#: A window of a beat: from so long before the R peak to so long behind it.
BEFORE_S, AFTER_S = 0.6, 0.9
#: Of a QRS complex: where its steepest slope is, its shape, and where the slope before it is noise (s from the R peak).
_STEEP_S, _SHAPE_S, _REST_S = 0.08, 0.10, (-0.30, -0.10)
#: Peaks are located again beside the peak of the curvature; nearest P wave, and the least that is looked through (s).
_P_NEAR_S, _T_NEAR_S, _P_GAP_S, _P_LEAST_S = 0.03, 0.05, 0.02, 0.05
#: A P wave counts in full so long before the QRS complex (s).
_P_FULL_S = 0.1
#: A T wave ends so long before the next R peak (s).
_T_BEFORE_R_S = 0.15
#: Waves that are lower, in mV and as a share of the QRS complex, are not located.
LEAST_MV, P_LEAST_SHARE, T_LEAST_SHARE = 0.015, 0.01, 0.02
#: Lower QRS complexes are none.
QRS_LEAST_MV = 0.05
#: A P wave has to repeat in so many alike beats, the wave and so much around it (s).
P_MIN_BEATS, _P_AROUND_S = 3, 0.02
#: A Gaussian ends at so many standard deviations.
_TRUNCATE = 4.0
#: A single premature beat does not shorten the T wave as a fast rate does.
T_LEAST_RR_S = 0.6


@dataclass(frozen=True, eq=False)
class BeatWindows:
    """Windows of one lead around R peaks.

    Attributes:
        window_mv: (beats, samples) float64 mV, finite; unfiltered, or with a linear phase.
        r: the column of the R peak.
        rr_before_s: (beats,) seconds from the R peak before.
        rr_after_s: (beats,) seconds to the next one.
        fs_hz: sampling frequency in Hz.
    """

    window_mv: Floats
    r: int
    rr_before_s: Floats
    rr_after_s: Floats
    fs_hz: float

    def samples(self, seconds: float) -> int:
        """Return a duration in whole samples."""
        return round(seconds * self.fs_hz)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Beats averaged over those of the same shape and rate around each.

    Attributes:
        mean_mv: (beats, samples) their mean, QRS complexes replaced.
        slope_power: (beats, samples before the QRS complex) the mean square of their smoothed slopes.
        count: (beats,) how many they are.
    """

    mean_mv: Floats
    slope_power: Floats
    count: Ints


def delineate_windows(
    beats: BeatWindows, usable: Mask | None = None, *, settings: WaveSettings = SETTINGS
) -> WavePoints:
    """Locate the waves of consecutive beats.

    Args:
        beats: windows of consecutive beats, from ``BEFORE_S`` before the R peak to ``AFTER_S`` behind it.
        usable: (beats,) bool, false where a window shows noise or no signal: no other beat is averaged with it, and its
            points are NaN.
        settings: the delineator's constants.

    Returns:
        The points in samples from the R peak.
    """
    if usable is None:
        usable = np.ones(len(beats.window_mv), np.bool_)
    onset, end = qrs_bounds(beats, settings)
    rest = without_qrs(beats, onset, end)
    alike = _alike(beats, rest, usable, settings)
    share = settings.averaged_share
    points = _located(beats, (onset, end), share * alike.mean_mv + (1 - share) * rest, alike, settings)
    points[~usable] = np.nan
    return WavePoints.from_array(points)


def delineate_mean(
    beats: BeatWindows, slope_power: Floats, count: Ints, *, settings: WaveSettings = SETTINGS
) -> WavePoints:
    """Locate the waves of average beats, each of them made of many.

    Args:
        beats: the average beats, and the means of their intervals.
        slope_power: (averages, samples) mean square of the slopes (``wave_slope``) of the beats that each is made of.
        count: (averages,) how many these are.
        settings: the delineator's constants.

    Returns:
        The points in samples from the R peak.
    """
    onset, end = qrs_bounds(beats, settings)
    rest = without_qrs(beats, onset, end)
    alike = _Alike(rest, slope_power[:, _before_qrs(beats)], count)
    points = _located(beats, (onset, end), rest, alike, settings, single=True)
    return WavePoints.from_array(points)


def wave_slope(window_mv: Floats, fs_hz: float, settings: WaveSettings = SETTINGS) -> Floats:
    """Return the slope of windows as P and T waves are smoothed, (beats, samples) mV/s."""
    return _smoothed(window_mv, settings.wave_sigma_s, fs_hz, 1)


def qrs_bounds(beats: BeatWindows, settings: WaveSettings = SETTINGS) -> tuple[Ints, Ints]:
    """Return the columns in which the QRS complexes begin and end, (beats,) each."""
    r = beats.r
    slope = np.abs(_smoothed(beats.window_mv, settings.qrs_sigma_s, beats.fs_hz, 1))
    reach = beats.samples(_STEEP_S)
    steepest = slope[:, max(r - reach, 0) : r + reach + 1].max(axis=1)
    noise = np.median(slope[:, r + beats.samples(_REST_S[0]) : r + beats.samples(_REST_S[1])], axis=1)
    quiet = max(1, beats.samples(settings.qrs_quiet_s))

    def low(share: float) -> Mask:
        limit = np.clip(settings.noise_times * noise, share * steepest, settings.noise_share * steepest)
        return np.asarray(slope <= limit[:, None])

    before = _until_quiet(low(settings.onset_share)[:, r::-1], quiet, beats.samples(settings.onset_reach_s))
    behind = _until_quiet(low(settings.end_share)[:, r:], quiet, beats.samples(settings.end_reach_s))
    return r - before, r + behind


def _until_quiet(low: Mask, quiet: int, at_most: int) -> Ints:
    """Return in which column of ``low`` (beats, samples), behind the first steep one, ``quiet`` low ones begin."""
    count = np.cumsum(np.pad(low.astype(np.int64), ((0, 0), (1, quiet))), axis=1)
    begins = (count[:, quiet:] - count[:, :-quiet])[:, : low.shape[1]] == quiet
    begins &= np.arange(low.shape[1]) >= low.argmin(axis=1)[:, None]  # at the R peak itself the slope is low
    return np.where(begins.any(axis=1), np.minimum(begins.argmax(axis=1), at_most), at_most)


def without_qrs(beats: BeatWindows, onset: Ints, end: Ints) -> Floats:
    """Return the windows with a straight line in place of the QRS complex, less their mean, (beats, samples) mV."""
    rest, row = beats.window_mv.copy(), np.arange(len(beats.window_mv))
    columns = slice(int(onset.min(initial=beats.r)), int(end.max(initial=beats.r)) + 1)
    part = (np.arange(columns.start, columns.stop) - onset[:, None]) / np.maximum(end - onset, 1)[:, None]
    line = rest[row, onset][:, None] * (1 - part) + rest[row, end][:, None] * part
    np.copyto(rest[:, columns], line, where=(part > 0) & (part < 1))
    rest -= rest.mean(axis=1, keepdims=True)
    return rest


def _alike(beats: BeatWindows, rest: Floats, usable: Mask, settings: WaveSettings) -> _Alike:
    shape = beats.window_mv[:, beats.r - beats.samples(_SHAPE_S) : beats.r + beats.samples(_SHAPE_S)]
    shape = shape - shape.mean(axis=1, keepdims=True)
    shape /= np.maximum(np.sqrt((shape**2).sum(axis=1, keepdims=True)), 1e-9)
    power = _smoothed(rest, settings.wave_sigma_s, beats.fs_hz, 1, _before_qrs(beats)) ** 2
    mean, mean_power, count = rest.copy(), power.copy(), np.ones(len(rest), np.int64)
    for apart in range(1, min(settings.neighbours, len(rest) - 1) + 1):
        first, second = slice(None, -apart), slice(apart, None)
        both = usable[first] & usable[second] & ((shape[first] * shape[second]).sum(axis=1) >= settings.alike)
        for rr_s in (beats.rr_before_s, beats.rr_after_s):
            apart_s = np.abs(rr_s[first] - rr_s[second])
            both &= apart_s <= settings.alike_rr * np.maximum(rr_s[first], rr_s[second])
        for to, of in ((first, second), (second, first)):
            np.add(mean[to], rest[of], out=mean[to], where=both[:, None])
            np.add(mean_power[to], power[of], out=mean_power[to], where=both[:, None])
            count[to] += both
    return _Alike(mean / count[:, None], mean_power / count[:, None], count)


def _located(
    beats: BeatWindows,
    qrs: tuple[Ints, Ints],
    wave_mv: Floats,
    alike: _Alike,
    settings: WaveSettings,
    *,
    single: bool = False,
) -> Floats:
    """Return the points (beats, 7) in samples from the R peak.

    Args:
        beats: the windows.
        qrs: columns in which their QRS complexes begin and end.
        wave_mv: (beats, samples) what P and T waves are located in, QRS complexes replaced.
        alike: what they are looked for in.
        settings: the delineator's constants.
        single: each row is a beat of its own, not the one after the row before it.
    """
    onset, end = qrs
    wave = _smoothed(wave_mv, settings.wave_sigma_s, beats.fs_hz)
    slope = wave_slope(wave_mv, beats.fs_hz, settings)
    t_peak, t_end, t_height = _t_wave(beats, end, wave, slope, alike, settings)
    interval = np.round(beats.rr_before_s * beats.fs_hz).astype(np.int64)
    t_before = (t_end if single else np.concatenate([[0], t_end[:-1]])) - interval
    p, p_height = _p_wave(beats, onset, t_before, wave, slope, alike, settings)
    repeats = _repeats(alike, p - beats.samples(_P_AROUND_S), p + beats.samples(_P_AROUND_S), settings, beats.fs_hz)
    around = slice(beats.r - beats.samples(_SHAPE_S), beats.r + beats.samples(_SHAPE_S))
    height = np.ptp(beats.window_mv[:, around], axis=1)
    offsets = np.array(
        [
            settings.p_onset_offset_s, 0.0, settings.p_end_offset_s, settings.qrs_onset_offset_s,
            settings.qrs_end_offset_s, 0.0, settings.t_end_offset_s,
        ]
    )  # fmt: skip
    points = np.column_stack([p, onset, end, t_peak, t_end]) - beats.r + offsets * beats.fs_hz
    points[~(repeats & (p_height >= np.maximum(LEAST_MV, P_LEAST_SHARE * height))), :3] = np.nan
    points[t_height < np.maximum(LEAST_MV, T_LEAST_SHARE * height), 5:] = np.nan
    points[height < QRS_LEAST_MV] = np.nan
    return np.asarray(points, np.float64)


def _t_wave(
    beats: BeatWindows, qrs_end: Ints, wave: Floats, slope: Floats, alike: _Alike, settings: WaveSettings
) -> tuple[Ints, Ints, Floats]:
    """Return the columns of peak and end of the T waves, and their heights above their ends in mV."""
    r, row = beats.r, np.arange(len(wave))
    wave, slope, last = wave[:, r:], slope[:, r:], wave.shape[1] - 1 - r  # a T wave is behind the R peak
    by_rate_s = settings.t_root * np.sqrt(np.maximum(beats.rr_before_s, T_LEAST_RR_S))
    reach_s = np.minimum(np.minimum(settings.t_reach_s, by_rate_s), settings.t_rr_share * beats.rr_after_s)
    low = qrs_end - r + beats.samples(settings.t_first_s)
    high = np.clip(np.round(reach_s * beats.fs_hz).astype(np.int64), low + 2, last)
    columns = slice(r, r + int(high.max(initial=0)) + 1)
    curvature = -_smoothed(alike.mean_mv, settings.t_sigma_s, beats.fs_hz, 2, columns)
    peak = _highest(np.abs(curvature), low, high)
    sign = np.where(curvature[row, peak] < 0, -1.0, 1.0)[:, None]
    near = beats.samples(_T_NEAR_S)
    peak = _highest(sign * wave, np.maximum(peak - near, low), np.minimum(peak + near, last))
    steepest = _highest(-sign * slope, peak, peak + beats.samples(settings.t_slope_s))
    next_r = np.round((beats.rr_after_s - _T_BEFORE_R_S) * beats.fs_hz).astype(np.int64)
    rest = np.clip(np.minimum(steepest + beats.samples(settings.t_end_s), next_r), steepest + 1, last)
    end = _corner(sign * wave, steepest, rest)
    return peak + r, end + r, np.abs(wave[row, peak] - wave[row, end])


def _p_wave(
    beats: BeatWindows,
    qrs_onset: Ints,
    t_before: Ints,
    wave: Floats,
    slope: Floats,
    alike: _Alike,
    settings: WaveSettings,
) -> tuple[Ints, Floats]:
    """Return the columns of onset, peak and end of the P waves, (beats, 3), and their heights in mV."""
    before = _before_qrs(beats)
    wave, slope = wave[:, before], slope[:, before]
    row, column = np.arange(len(wave)), np.arange(wave.shape[1])
    reach_s = np.minimum(settings.p_reach_s, settings.p_rr_share * beats.rr_before_s)
    high = qrs_onset - beats.samples(_P_GAP_S)
    low = np.maximum(
        beats.r - np.round(reach_s * beats.fs_hz).astype(np.int64), t_before + beats.samples(settings.p_after_t_s)
    )
    low = np.clip(low, 1, high - beats.samples(_P_LEAST_S))
    curvature = -_smoothed(alike.mean_mv, settings.p_sigma_s, beats.fs_hz, 2, before)
    far = np.maximum((qrs_onset[:, None] - column) / beats.fs_hz - _P_FULL_S, 0.0)
    weight = np.where(curvature > 0, 1.0, -settings.p_negative) * (1 - settings.p_far * far)
    peak = _highest(weight * curvature, low, high)
    sign = np.where(curvature[row, peak] < 0, -1.0, 1.0)[:, None]
    near, reach = beats.samples(_P_NEAR_S), beats.samples(settings.p_slope_s)
    peak = _highest(sign * wave, peak - near, np.minimum(peak + near, high))
    rising = _highest(sign * slope, peak - reach, peak)
    onset = _corner(sign * wave, rising, np.maximum(rising - beats.samples(settings.p_onset_s), 0))
    falling = _highest(-sign * slope, peak, np.minimum(peak + reach, qrs_onset))
    rest = np.maximum(np.minimum(falling + beats.samples(settings.p_end_s), qrs_onset), falling + 1)
    end = _corner(sign * wave, falling, rest)
    height = np.abs(wave[row, peak] - (wave[row, onset] + wave[row, end]) / 2)
    return np.column_stack([onset, peak, end]), height


def _repeats(alike: _Alike, low: Ints, high: Ints, settings: WaveSettings, fs_hz: float) -> Mask:
    """Return whether the P waves, whose onset and end stand in the first and last column, are common to alike beats."""
    column = np.arange(alike.slope_power.shape[1])
    inside = (column >= low[:, :1]) & (column <= high[:, -1:])
    slope = _smoothed(alike.mean_mv, settings.wave_sigma_s, fs_hz, 1, slice(0, len(column)))
    of_mean = (slope**2 * inside).sum(axis=1)
    share = of_mean / np.maximum((alike.slope_power * inside).sum(axis=1), 1e-12)
    # without what chance leaves of the power of unlike waves in their mean
    common = (alike.count * share - 1) / np.maximum(alike.count - 1, 1)
    return np.asarray((alike.count >= P_MIN_BEATS) & (common >= settings.p_common))


def _before_qrs(beats: BeatWindows) -> slice:
    """Return the columns that a P wave and what is around it may lie in."""
    return slice(0, beats.r + beats.samples(_P_AROUND_S) + 2)


def _smoothed(
    window_mv: Floats, sigma_s: float, fs_hz: float, derivative: int = 0, columns: slice | None = None
) -> Floats:
    """Return windows, or some columns of them, smoothed by a Gaussian, or a derivative of that by seconds."""
    sigma = sigma_s * fs_hz
    start, stop = (0, window_mv.shape[1]) if columns is None else (columns.start, columns.stop)
    reach = int(_TRUNCATE * sigma + 0.5)
    low = max(start - reach, 0)
    part = window_mv[:, low : stop + reach]
    result = gaussian_filter1d(part, sigma, axis=1, order=derivative, mode="nearest", truncate=_TRUNCATE)
    return np.asarray(result[:, start - low : stop - low] * fs_hz**derivative, np.float64)


def _highest(values: Floats, low: Ints, high: Ints) -> Ints:
    """Return the column of each row's highest value from column ``low`` to ``high``, both included."""
    first = max(int(low.min(initial=values.shape[1] - 1)), 0)
    values = values[:, first : int(high.max(initial=first)) + 1]
    column = np.arange(first, first + values.shape[1])
    inside = (column >= low[:, None]) & (column <= high[:, None])
    highest = np.where(inside, values, -np.inf).argmax(axis=1) + first
    return np.asarray(np.where(low <= high, highest, 0), np.int64)


def _corner(upright: Floats, steepest: Ints, rest: Ints) -> Ints:
    """Return where waves come to rest, between their steepest points and points at rest on either side of these.

    It is where the trapezium between the wave's height at the steepest point and at a column, and between these two
    and the point at rest, is largest.
    """
    low, high = np.minimum(steepest, rest), np.maximum(steepest, rest)
    first = int(low.min(initial=upright.shape[1] - 1))
    column = np.arange(first, int(high.max(initial=first)) + 1)
    fall = upright[np.arange(len(upright)), steepest][:, None] - upright[:, column[0] : column[-1] + 1]
    area = fall * np.abs(2 * rest[:, None] - column - steepest[:, None])
    return _highest(area, low - first, high - first) + first


def beat_windows(signal_mv: NDArray[np.floating], fs_hz: float, r_samples: Ints, rr_s: Floats) -> BeatWindows:
    """Cut the windows of beats; the signal holds its first and last value beyond its ends.

    Args:
        signal_mv: (samples,) finite, mV.
        fs_hz: sampling frequency in Hz.
        r_samples: (beats,) int64 R peaks.
        rr_s: (beats + 1,) seconds before each R peak and behind the last.
    """
    before, after = round(BEFORE_S * fs_hz), round(AFTER_S * fs_hz)
    columns = np.clip(r_samples[:, None] + np.arange(-before, after), 0, len(signal_mv) - 1)
    return BeatWindows(np.asarray(signal_mv, np.float64)[columns], before, rr_s[:-1], rr_s[1:], fs_hz)
