"""The band-pass every window has gone through, on the training side and on a device alike.

A linear-phase FIR of 4 s, 0.5 to 40 Hz, its delay of 2 s compensated: it depends on nothing but the samples
within 2 s, so a stream gives the same values as a whole record. 0.5 Hz keeps the ST segment and removes
baseline wander, 40 Hz removes mains hum at 50 and 60 Hz (monitoring bandwidth, IEC 60601-2-27).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ecgfed.signal import fir

BAND_HZ = (0.5, 40.0)
LENGTH_S = 4.0
#: For manifests and cohort files.
DESCRIPTION = "FIR band-pass 0.5-40 Hz, Hamming, 4 s, linear phase, delay compensated"


@lru_cache(maxsize=16)
def band_pass_taps(fs_hz: float) -> NDArray[np.float64]:
    """Return the filter's taps, an odd number, symmetric, for a signal at ``fs_hz``."""
    taps = fir.band_pass(int(LENGTH_S * fs_hz) // 2 * 2 + 1, *BAND_HZ, fs_hz)
    taps.setflags(write=False)
    return taps


def band_pass(signal_mv: NDArray[np.floating], fs_hz: float) -> NDArray[np.float64]:
    """Filter a whole signal, delay compensated.

    Before its start and after its end the signal is taken to hold its first and last value.

    Args:
        signal_mv: (samples,) finite, millivolt.
        fs_hz: sampling frequency in Hz.

    Returns:
        (samples,) float64 millivolt, aligned with the input.
    """
    return convolved(np.asarray(signal_mv, dtype=np.float64), band_pass_taps(fs_hz))


def convolved(signal: NDArray[np.float64], taps: NDArray[np.float64], first: int | None = None) -> NDArray[np.float64]:
    """Convolve a signal (samples,) with an odd number of symmetric taps, its first and last value held at the ends.

    A convolution by Fourier transforms of blocks rounds by where the blocks begin. Of a part that begins at sample
    ``first`` of a long signal the blocks are laid where they lie in the whole, so that the part's inner values, those
    further than ``reach_of(taps)`` from an end of it that is no end of the signal, are the whole's to the last bit.
    Without ``first`` it is the whole.
    """
    half = len(taps) // 2
    if first is None:
        return fir.convolved(np.pad(signal, half, mode="edge"), taps)[2 * half :][: len(signal)]
    step = fir.block_step(len(taps))
    lead_in = first % step  # zeros from a block's beginning on
    many = len(signal) + 2 * half
    laid = np.zeros(max(many + lead_in, 4 * (step + len(taps))))  # a short one would be one block
    laid[lead_in : lead_in + half] = signal[0]
    laid[lead_in + half : lead_in + half + len(signal)] = signal
    laid[lead_in + half + len(signal) : lead_in + many] = signal[-1]
    return fir.convolved(laid, taps)[lead_in + 2 * half :][: len(signal)]


def reach_of(taps: NDArray[np.float64]) -> int:
    """Return how far from an end of a part ``convolved`` may differ from the whole signal's, in samples."""
    return 2 * fir.block_step(len(taps)) + len(taps)


def fill_gaps(signal_mv: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Bridge invalid samples with straight lines, so that a gap does not spread through the filter.

    Returns:
        The signal (samples,) float64 without NaN, and (samples,) bool, true where it was bridged. A signal with no
        valid sample becomes zeros.
    """
    signal = np.array(signal_mv, dtype=np.float64)
    gap = ~np.isfinite(signal)
    if gap.all():
        return np.zeros_like(signal), gap
    if gap.any():
        at = np.arange(len(signal))
        signal[gap] = np.interp(at[gap], at[~gap], signal[~gap])
    return signal, gap
