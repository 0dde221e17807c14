"""Windows around R peaks, and the RR intervals beside them."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal import fir
from ecgfed.domain.signal.filters import Stretches

#: The window of the contract: 256 samples at 360 Hz (0.71 s), the R peak at sample 100 (278 ms after its start).
FS_HZ = 360.0
WINDOW_SAMPLES = 256
R_INDEX = 100
#: Samples of a window that one number of a strip is the mean of (90 Hz: the lead is filtered to 40 Hz), and how many
#: numbers a strip has before and after the window.
STRIP_STEP, BESIDE = 4, (47, 33)
#: Where the window lies in what a strip is made of, 576 samples.
IN_STRIP = slice(STRIP_STEP * BESIDE[0], STRIP_STEP * BESIDE[0] + WINDOW_SAMPLES)
STRIP_SAMPLES = IN_STRIP.stop + STRIP_STEP * BESIDE[1]
#: RR features of a beat, seconds but the last.
RR_FEATURES = ("previous_s", "next_s", "median_of_last_10_s", "previous_over_median")
RR_HISTORY = 10
#: Sampling frequencies are taken for the nearest share of 360 Hz of so large a denominator.
LARGEST_DENOMINATOR = 5000
#: Medians that are taken at once: a fortnight has more than a million.
_AT_ONCE = 1 << 16


def resampling(fs_hz: float, to_hz: float = FS_HZ) -> Fraction:
    """Return samples of a resampled signal for each one of a signal at ``fs_hz``."""
    return Fraction(to_hz / fs_hz).limit_denominator(LARGEST_DENOMINATOR)


def resample(signal_mv: NDArray[np.float64], fs_hz: float, to_hz: float = FS_HZ) -> NDArray[np.float64]:
    """Resample a band-passed signal with a linear-phase polyphase filter.

    Args:
        signal_mv: (samples,) finite, of any unit.
        fs_hz: its sampling frequency in Hz.
        to_hz: the one that is wanted in Hz.

    Returns:
        (ceil(samples * ratio),) float64 in the same unit, its first sample at the time of the signal's; the signal
        itself where the frequencies agree.
    """
    if fs_hz == to_hz:
        return signal_mv
    ratio = resampling(fs_hz, to_hz)
    return fir.resampled(np.asarray(signal_mv, np.float64), ratio.numerator, ratio.denominator)


def resampling_reach(fs_hz: float) -> float:
    """Return on how many samples on each side a sample at ``FS_HZ`` depends, of a signal at ``fs_hz``."""
    up, down = resampling(fs_hz).as_integer_ratio()
    return fir.REACH * max(up, down) / up + 2


def windows_of(
    filtered: Stretches, fs_hz: float, r_samples: NDArray[np.int64], *, strip: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32]]:
    """Cut the windows of neighbouring beats at ``FS_HZ`` from what of a lead they depend on; see ``cut_windows``.

    Args:
        filtered: the lead through the band-pass, millivolt.
        fs_hz: its sampling frequency in Hz.
        r_samples: (beats,) int64 increasing positions in it, one or more.
        strip: cut what lies beside the windows too.

    Returns:
        Windows and which are padded, as of ``cut_windows``; beside the windows (beats, 80) float32 mV, as of
        ``cut_beside``, (beats, 0) without ``strip``.
    """
    up, down = resampling(fs_hz).as_integer_ratio()
    resampled_samples = -(-len(filtered) * up // down)
    at = np.clip(np.rint(r_samples * (FS_HZ / fs_hz)).astype(np.int64), 0, resampled_samples - 1)
    reach = resampling_reach(fs_hz)
    before, after = (IN_STRIP.start, STRIP_SAMPLES - IN_STRIP.stop) if strip else (0, 0)
    low = math.floor((int(at[0]) - R_INDEX - before) * down / up - reach)
    high = math.ceil((int(at[-1]) + WINDOW_SAMPLES - R_INDEX + after) * down / up + reach)
    low = max(low // down * down, 0)  # where a resampled sample is one of the recorder's
    signal_mv, at = resample(filtered[low:high], fs_hz), at - low // down * up
    beside_mv = cut_beside(signal_mv, at) if strip else np.empty((len(at), 0), np.float32)
    return *cut_windows(signal_mv, at), beside_mv


def cut_windows(
    signal_mv: NDArray[np.floating],
    r_samples: NDArray[np.int64],
    *,
    before: int = R_INDEX,
    length: int = WINDOW_SAMPLES,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Cut a window around each R peak; beats at the edges are padded with 0 mV and flagged, not lost.

    Args:
        signal_mv: (samples,) filtered, millivolt, at the windows' sampling frequency.
        r_samples: (beats,) int64 positions in that signal.
        before: samples before the R peak.
        length: samples in a window.

    Returns:
        Windows (beats, 1, length) float32 mV, and (beats,) bool, true where a window was padded.
    """
    padded_signal = np.zeros(before + len(signal_mv) + length, np.float32)
    padded_signal[before : before + len(signal_mv)] = signal_mv
    view = np.lib.stride_tricks.sliding_window_view(padded_signal, length)
    windows = view[r_samples][:, None, :].copy()
    padded = (r_samples < before) | (r_samples - before + length > len(signal_mv))
    return windows, padded


def cut_beside(signal_mv: NDArray[np.floating], r_samples: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return what lies beside the window of each R peak at 90 Hz, 0 mV beyond the signal's ends; see ``cut_windows``.

    Returns:
        (beats, 80) float32 mV, means of ``STRIP_STEP`` samples: 47 before the window, 33 after it.
    """
    around_mv, _ = cut_windows(signal_mv, r_samples, before=R_INDEX + IN_STRIP.start, length=STRIP_SAMPLES)
    return beside_of(around_mv[:, 0])


def beside_of(around_mv: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (beats, 80) float32 mV of strips (beats, 576) at 360 Hz: what lies beside the window, at 90 Hz."""
    pooled = around_mv.reshape(len(around_mv), STRIP_SAMPLES // STRIP_STEP, STRIP_STEP).mean(axis=2)
    return np.concatenate([pooled[:, : BESIDE[0]], pooled[:, -BESIDE[1] :]], axis=1)


def rr_features(r_seconds: NDArray[np.float64]) -> NDArray[np.float32]:
    """RR features of every beat of a recording, from the times of *all* its beats.

    The first beat has no previous interval and takes its next one; the last takes its previous one; the median runs
    over the last ten intervals that end at or before the beat. A lone beat has zeros and the ratio 1.

    Args:
        r_seconds: (beats,) increasing times of the R peaks, seconds.

    Returns:
        (beats, 4) float32: previous RR, next RR, median of the last ten (s), previous / median.
    """
    count = len(r_seconds)
    if count < 2:
        return np.tile(np.array([0, 0, 0, 1], np.float32), (count, 1))
    interval = np.diff(r_seconds)
    previous = np.concatenate([interval[:1], interval])
    following = np.concatenate([interval, interval[-1:]])
    history = np.concatenate([np.full(RR_HISTORY - 1, np.nan), interval])
    recent = np.lib.stride_tricks.sliding_window_view(history, RR_HISTORY)
    parts = (recent[start : start + _AT_ONCE] for start in range(0, len(recent), _AT_ONCE))
    median = np.concatenate([interval[:1], *(np.nanmedian(part, axis=1) for part in parts)])
    ratio = np.divide(previous, median, out=np.ones_like(previous), where=median > 0)
    return np.stack([previous, following, median, ratio], axis=1).astype(np.float32)
