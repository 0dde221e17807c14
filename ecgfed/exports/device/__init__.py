"""Inference from a bundle: numpy and onnxruntime (scipy for odd sampling frequencies); never torch, never wfdb."""

from ecgfed.domain.beats.context import LOOK_AHEAD
from ecgfed.domain.beats.context_stream import ContextStream
from ecgfed.domain.beats.intervals import intervals_s
from ecgfed.domain.signal.qrs import DELAY_S, QrsDetector, detect_qrs
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.drift import Drift
from ecgfed.exports.device.golden import GoldenCheck, check_golden
from ecgfed.exports.device.predictions import Predictions
from ecgfed.exports.device.stream import StreamBeat, StreamClassifier

__all__ = [
    "DELAY_S",
    "LOOK_AHEAD",
    "Bundle",
    "Classifier",
    "ContextStream",
    "Drift",
    "GoldenCheck",
    "Predictions",
    "QrsDetector",
    "StreamBeat",
    "StreamClassifier",
    "check_golden",
    "detect_qrs",
    "intervals_s",
    "open_bundle",
]
