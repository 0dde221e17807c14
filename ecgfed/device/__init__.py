"""Inference from a bundle: numpy and onnxruntime (scipy for odd sampling frequencies); never torch, never wfdb."""

from ecgfed.beats.context import LOOK_AHEAD, ContextStream
from ecgfed.beats.intervals import intervals_s
from ecgfed.device.bundle import Bundle, open_bundle
from ecgfed.device.classifier import Classifier
from ecgfed.device.drift import Drift
from ecgfed.device.golden import GoldenCheck, check_golden
from ecgfed.device.predictions import Predictions
from ecgfed.device.stream import StreamBeat, StreamClassifier
from ecgfed.signal.qrs import DELAY_S, QrsDetector, detect_qrs

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
