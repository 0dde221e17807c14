"""Ours: every lead, and gaps as they are (``ecgfed.domain.signal.qrs``)."""

from ecgfed.domain.signal.detectors.base import OURS, Detector, Peaks, Signal
from ecgfed.domain.signal.qrs import QrsDetector, detect_qrs


def _find(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    del mains_hz  # its smoothing takes out 50 and 60 Hz alike
    return detect_qrs(signals_mv, fs_hz, lead=lead)


def _stream(fs_hz: float, leads: int, lead: int) -> QrsDetector:
    return QrsDetector(fs_hz, leads, lead=lead)


DETECTORS = (Detector(OURS, _find, "ecgfed", every_lead=True, copes_with_gaps=True, stream=_stream),)
