"""R-peak detection: one function, the detector by name; ours by default."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import OptionError, RecordError
from ecgfed.signal.filters import fill_gaps
from ecgfed.signal.qrs import MIN_FS_HZ, detect_qrs

#: A detector needs some beats to learn from (xqrs learns on eight); below this there is nothing to find.
MIN_DURATION_S = 3.0
#: Our detector, and the default.
OURS = "ecgfed"

Signal = NDArray[np.float64]
Peaks = NDArray[np.int64]


@dataclass(frozen=True)
class Detector:
    """A detector under its name.

    Attributes:
        find: takes (leads, samples) millivolt, fs in Hz, the lead in use and the mains frequency in Hz; returns peaks.
        every_lead: it looks at all leads, not only at the one in use.
        module: the package it needs that does not come with ecgfed, where there is one; its extra has its own name.
        source: who wrote it.
    """

    find: Callable[[Signal, float, int, float], Peaks]
    source: str
    every_lead: bool = False
    module: str = ""


def _ours(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    del mains_hz  # its smoothing takes out 50 and 60 Hz alike
    return detect_qrs(signals_mv, fs_hz, lead=lead)


def _xqrs(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    from wfdb import processing

    del mains_hz
    return np.asarray(processing.xqrs_detect(sig=_bridged(signals_mv, lead), fs=fs_hz, verbose=False))


def _gqrs(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    from wfdb import processing

    del mains_hz
    counts = np.rint(_bridged(signals_mv, lead) * 200)  # it works on a recorder's whole numbers
    return np.asarray(processing.gqrs_detect(d_sig=counts, fs=fs_hz, adc_gain=200.0, adc_zero=0))


def _sleepecg(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    import sleepecg

    del mains_hz
    return np.asarray(sleepecg.detect_heartbeats(_bridged(signals_mv, lead), fs_hz))


def _neurokit(method: str, cleaning: str) -> Callable[[Signal, float, int, float], Peaks]:
    def find(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
        import neurokit2

        told = {"powerline": mains_hz} if cleaning == "neurokit" else {}  # it assumes 50 Hz otherwise
        rate = int(fs_hz) if fs_hz == int(fs_hz) else fs_hz
        clean = neurokit2.ecg_clean(_bridged(signals_mv, lead), sampling_rate=rate, method=cleaning, **told)
        found = neurokit2.ecg_findpeaks(clean, sampling_rate=rate, method=method)["ECG_R_Peaks"]
        return np.asarray(found)

    return find


def _bridged(signals_mv: Signal, lead: int) -> Signal:
    return fill_gaps(signals_mv[lead])[0]


#: NeuroKit's methods, and the cleaning each is meant for (its own where it has none).
_NEUROKIT = {
    "neurokit": "neurokit",
    "pantompkins1985": "pantompkins1985",
    "hamilton2002": "hamilton2002",
    "elgendi2010": "elgendi2010",
    "engzeemod2012": "engzeemod2012",
    "manikandan2012": "neurokit",
    "rodrigues2021": "neurokit",
    "nabian2018": "neurokit",
}
DETECTORS: dict[str, Detector] = {
    OURS: Detector(_ours, "ecgfed", every_lead=True),
    "xqrs": Detector(_xqrs, "wfdb"),
    "gqrs": Detector(_gqrs, "wfdb"),
    **{name: Detector(_neurokit(name, cleaning), "neurokit2") for name, cleaning in _NEUROKIT.items()},
    "emrich2023": Detector(_neurokit("emrich2023", "emrich2023"), "neurokit2", module="ts2vg"),
    "sleepecg": Detector(_sleepecg, "sleepecg", module="sleepecg"),
}


def detector_by_name(name: str) -> Detector:
    """Return a detector that can run here.

    Raises:
        OptionError: an unknown name, or one whose package is not installed.
    """
    if name not in DETECTORS:
        raise OptionError("--detector", f"{name!r}", f"one of {', '.join(DETECTORS)}")
    detector = DETECTORS[name]
    if detector.module and find_spec(detector.module) is None:
        raise OptionError(
            "--detector", f"{name} is not installed", action=f"pip install 'ecgfed[{name}]', or name another"
        )
    return detector


def detect_r_peaks(
    signals_mv: NDArray[np.floating],
    fs_hz: float,
    *,
    lead: int = 0,
    detector: str = OURS,
    mains_hz: float = 60.0,
    name: str = "signal",
) -> Peaks:
    """Find the R peaks of a recording.

    Args:
        signals_mv: (samples,) or (leads, samples) millivolt, NaN where there is no sample. Ours finds the beats beside
            a gap and none in it; for the others gaps are bridged by straight lines.
        fs_hz: sampling frequency in Hz.
        lead: the lead in use. Ours looks at every lead and puts the peaks on this one; the others see no other.
        detector: a name from ``DETECTORS``.
        mains_hz: frequency of the mains where it was recorded, for the detectors that filter it out.
        name: what to call the signal in an error.

    Returns:
        (peaks,) int64 sample numbers in increasing order.

    Raises:
        OptionError: unknown detector, or one that is not installed.
        RecordError: a signal that is too short or flat, a sampling frequency below 100 Hz, or no beat found.
    """
    chosen = detector_by_name(detector)
    signals = np.atleast_2d(np.asarray(signals_mv, dtype=np.float64))
    shown = signals if chosen.every_lead else signals[lead : lead + 1]
    duration_s = signals.shape[1] / fs_hz
    if duration_s < MIN_DURATION_S:
        raise RecordError(name, f"lasts {duration_s:.1f} s", f"at least {MIN_DURATION_S:g} s to find beats in")
    if fs_hz < MIN_FS_HZ:
        raise RecordError(name, f"sampling frequency {fs_hz:g} Hz", f"at least {MIN_FS_HZ:g} Hz")
    if not any(_changes(one) for one in shown):
        raise RecordError(name, "is flat (no change above 1 microvolt)", "an ECG", "check the electrode or the lead")
    try:
        found = chosen.find(shown, fs_hz, lead if chosen.every_lead else 0, mains_hz)
    except (IndexError, ValueError, TypeError, ZeroDivisionError) as problem:  # of others, that find nothing
        if detector == OURS:
            raise
        raise RecordError(name, f"no beats found by {detector} ({problem})", "an ECG", "check the lead") from problem
    peaks = np.unique(found[np.isfinite(found)]).astype(np.int64)
    if not len(peaks):
        raise RecordError(name, f"no beats found by {detector}", "an ECG", "check the lead")
    return peaks


def _changes(signal_mv: Signal) -> bool:
    """Whether a lead has valid samples that differ by a microvolt or more."""
    valid = signal_mv[np.isfinite(signal_mv)]
    return bool(len(valid) and np.ptp(valid) >= 1e-3)
