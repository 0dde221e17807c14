"""R peaks of a recording by any detector: what all of them are spared, and what all of them have to keep."""

import math

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import EcgfedError, OptionError, RecordError
from ecgfed.domain.signal.detectors.base import DEFAULT_MAINS_HZ, OURS, Detector, Peaks, Signal, check_mains
from ecgfed.domain.signal.detectors.registry import OPTION, detector_by_name
from ecgfed.domain.signal.filters import fill_gaps
from ecgfed.domain.signal.qrs import MIN_FS_HZ

#: A detector needs some beats to learn from (xqrs learns on eight); below this there is nothing to find.
MIN_DURATION_S = 3.0


def detect_r_peaks(
    signals_mv: NDArray[np.floating],
    fs_hz: float,
    *,
    lead: int = 0,
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    name: str = "signal",
) -> Peaks:
    """Find the R peaks of a recording.

    Args:
        signals_mv: (samples,) or (leads, samples) millivolt, NaN where there is no sample. Ours finds the beats beside
            a gap and none in it; for the others gaps are bridged by straight lines.
        fs_hz: sampling frequency in Hz.
        lead: the lead in use. Ours looks at every lead and puts the peaks on this one; the others see no other.
        detector: a registered name, or a ``Detector``.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for the detectors that filter it out; default
            60.
        name: what to call the signal in an error.

    Returns:
        (peaks,) int64 sample numbers in increasing order.

    Raises:
        OptionError: unknown detector, one that is not installed, is not made for this sampling frequency, or breaks its
            contract; other mains.
        RecordError: a signal that is too short or flat, a sampling frequency below 100 Hz, or no beat found.
    """
    chosen = detector_by_name(detector)
    mains_hz = check_mains(mains_hz)
    signals = np.atleast_2d(np.asarray(signals_mv, dtype=np.float64))
    inputs = signals if chosen.every_lead else signals[lead : lead + 1]
    check_input(chosen, signals.shape[1], fs_hz, name)
    if not any(_changes(lead_mv) for lead_mv in inputs):
        raise _flat(name)
    if not chosen.copes_with_gaps:
        inputs = np.stack([fill_gaps(lead_mv)[0] for lead_mv in inputs])
    peaks = _run(chosen, inputs, fs_hz, lead if chosen.every_lead else 0, mains_hz or DEFAULT_MAINS_HZ, name)
    return check_peaks(chosen, peaks, signals.shape[1], name)


def check_input(detector: Detector, samples: int, fs_hz: float, name: str) -> None:
    """Refuse what a detector cannot be asked for, before any sample is looked at.

    Args:
        detector: who is asked.
        samples: length of the recording.
        fs_hz: its sampling frequency in Hz.
        name: what to call it in an error.

    Raises:
        RecordError: too short, or a sampling frequency below 100 Hz.
        OptionError: the detector is not made for this sampling frequency.
    """
    duration_s = samples / fs_hz
    if duration_s < MIN_DURATION_S:
        raise RecordError(name, f"lasts {duration_s:.1f} s", f"at least {MIN_DURATION_S:g} s to find beats in")
    if fs_hz < MIN_FS_HZ:
        raise RecordError(name, f"sampling frequency {fs_hz:g} Hz", f"at least {MIN_FS_HZ:g} Hz")
    low_hz, high_hz = detector.rates_hz
    if not low_hz <= fs_hz <= high_hz:
        supported = f"{low_hz:g} to {high_hz:g} Hz" if high_hz < math.inf else f"{low_hz:g} Hz or more"
        problem = f"{detector.name} is made for {supported}, {name} has {fs_hz:g} Hz"
        raise OptionError(OPTION, problem, action="name another detector")


def check_peaks(detector: Detector, peaks: Peaks, samples: int, name: str, *, changes: bool = True) -> Peaks:
    """Return a detector's answer.

    Args:
        detector: who answered.
        peaks: (peaks,) sample numbers.
        samples: length of the recording.
        name: what to call it in an error.
        changes: whether any lead changes by a microvolt.

    Raises:
        RecordError: no beat, or nothing that changes.
        OptionError: the answer breaks the detector's contract.
    """
    if not changes:
        raise _flat(name)
    if problem := peaks_problem(peaks, samples):
        expected = "increasing int64 sample numbers in the signal"
        raise OptionError(OPTION, f"{detector.name} returned {problem}", expected)
    if not len(peaks):
        raise RecordError(name, f"no beats found by {detector.name}", "an ECG", "check the lead", code="no-beats")
    return peaks


def _flat(name: str) -> RecordError:
    return RecordError(name, "is flat (no change above 1 microvolt)", "an ECG", "check the electrode or the lead")


def _run(detector: Detector, signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float, name: str) -> Peaks:
    """Ask the detector; an error of its own is as good as no beat."""
    try:
        return np.asarray(detector.find(signals_mv, fs_hz, lead, mains_hz))
    except EcgfedError:
        raise
    except Exception as problem:  # packages raise all kinds of errors where they find nothing
        if detector.name == OURS:
            raise
        why = f"{type(problem).__name__}: {problem}"
        raise RecordError(
            name, f"no beats found by {detector.name} ({why})", "an ECG", "check the lead", code="no-beats"
        ) from problem


def peaks_problem(peaks: NDArray[np.integer | np.floating], samples: int) -> str:
    """Say in a few words how a detector's answer breaks the contract, "" where it keeps it."""
    if peaks.dtype != np.int64 or peaks.ndim != 1:
        return f"{peaks.dtype} of shape {peaks.shape}"
    if (np.diff(peaks) <= 0).any():
        return "sample numbers that do not increase"
    outside = peaks[(peaks < 0) | (peaks >= samples)]
    return f"sample {outside[0]} of a signal of {samples}" if len(outside) else ""


def _changes(signal_mv: Signal) -> bool:
    """Whether a lead has valid samples that differ by a microvolt or more."""
    valid = signal_mv[np.isfinite(signal_mv)]
    return bool(len(valid) and np.ptp(valid) >= 1e-3)
