"""The detector of SleepECG: Pan and Tompkins' steps in C (Brunner and Hofer, JOSS 8(86):5411, 2023)."""

from ecgfed.domain.signal.detectors.base import Detector, Peaks, Signal, as_peaks


def _find(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    import sleepecg

    del mains_hz
    return as_peaks(sleepecg.detect_heartbeats(signals_mv[lead], fs_hz), signals_mv.shape[1])


DETECTORS = (Detector("sleepecg", _find, "sleepecg", modules=("sleepecg",)),)
