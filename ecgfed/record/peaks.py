"""R-peak detection: one function, the detector by name."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import OptionError, RecordError
from ecgfed.record.filters import fill_gaps

#: A detector needs some beats to learn from (xqrs learns on eight); below this there is nothing to find.
MIN_DURATION_S = 3.0


def _xqrs(signal_mv: NDArray[np.float64], fs_hz: float) -> NDArray[np.int64]:
    """wfdb's xqrs: on the 48 MIT-BIH records F1 99.55%, median offset 0 ms (shared ecg-facts, EC57 matching)."""
    from wfdb import processing

    return np.asarray(processing.xqrs_detect(sig=signal_mv, fs=fs_hz, verbose=False), dtype=np.int64)


DETECTORS: dict[str, Callable[[NDArray[np.float64], float], NDArray[np.int64]]] = {"xqrs": _xqrs}


def detect_r_peaks(
    signal_mv: NDArray[np.floating], fs_hz: float, *, detector: str = "xqrs", name: str = "signal"
) -> NDArray[np.int64]:
    """Find the R peaks of one lead.

    Args:
        signal_mv: (samples,) millivolt, NaN allowed (bridged before detection).
        fs_hz: sampling frequency in Hz.
        detector: a name from ``DETECTORS``.
        name: what to call the signal in an error.

    Returns:
        (peaks,) int64 sample numbers in increasing order.

    Raises:
        OptionError: unknown detector.
        RecordError: a signal that is too short or flat, or in which no beat was found.
    """
    if detector not in DETECTORS:
        raise OptionError("--detector", f"{detector!r}", f"one of {', '.join(DETECTORS)}")
    duration_s = len(signal_mv) / fs_hz
    if duration_s < MIN_DURATION_S:
        raise RecordError(name, f"lasts {duration_s:.1f} s", f"at least {MIN_DURATION_S:g} s to find beats in")
    signal, gap = fill_gaps(signal_mv)
    if np.ptp(signal[~gap] if not gap.all() else signal) < 1e-3:
        raise RecordError(name, "is flat (no change above 1 microvolt)", "an ECG", "check the electrode or the lead")
    try:
        peaks = np.unique(DETECTORS[detector](signal, fs_hz))
    except (IndexError, ValueError) as problem:  # what xqrs raises when it finds nothing to learn from
        raise RecordError(name, f"no beats found by {detector} ({problem})", "an ECG", "check the lead") from problem
    if not len(peaks):
        raise RecordError(name, f"no beats found by {detector}", "an ECG", "check the lead")
    return peaks
