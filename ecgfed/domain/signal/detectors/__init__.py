"""R-peak detection: one function, the detector by name; ours by default. One detector is one file of this folder."""

from ecgfed.domain.signal.detectors.base import (
    DEFAULT_MAINS_HZ,
    OURS,
    Detector,
    Find,
    Peaks,
    Signal,
    Stream,
    as_peaks,
    check_mains,
)
from ecgfed.domain.signal.detectors.detect import MIN_DURATION_S, check_input, check_peaks, detect_r_peaks
from ecgfed.domain.signal.detectors.registry import (
    detector_by_name,
    detector_names,
    detector_option,
    detectors,
    stored_detector,
    stored_mains,
)

__all__ = [
    "DEFAULT_MAINS_HZ",
    "MIN_DURATION_S",
    "OURS",
    "Detector",
    "Find",
    "Peaks",
    "Signal",
    "Stream",
    "as_peaks",
    "check_input",
    "check_mains",
    "check_peaks",
    "detect_r_peaks",
    "detector_by_name",
    "detector_names",
    "detector_option",
    "detectors",
    "stored_detector",
    "stored_mains",
]
