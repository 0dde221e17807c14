"""Confidence of predictions: calibrated probabilities, and detection of out-of-distribution beats.

For each model, a manifest holds a temperature, which divides its logits, and a threshold below which a class has low
confidence. For all models, it names a graph that computes a beat's distance to the nearest prototype, and the distance
above which a beat is out of distribution. Older bundles have neither: logits are unchanged, and no beat is marked.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.windows import WINDOW_SAMPLES
from ecgfed.exports.device.graph import Graph, Session, graph_fault
from ecgfed.exports.device.graph_shapes import shape_text
from ecgfed.exports.device.int8 import INT8

#: Role of the graph that computes the distance to the nearest prototype; key in the manifest.
FAR = "far"
#: Limits of the temperature and the distance; beyond them, float32 probabilities degenerate.
MIN_TEMPERATURE, MAX_TEMPERATURE, MAX_DISTANCE = 0.001, 1000.0, 1e6


@dataclass(frozen=True)
class Calibration:
    """Calibration of one model.

    Attributes:
        temperature: divides the logits.
        threshold: probability below which a class has low confidence; at 1 every class does, at 0 none.
        accuracy: required accuracy of the classes above the threshold, on the beats it was fitted on; None if unset.
    """

    temperature: float = 1.0
    threshold: float = 0.0
    accuracy: float | None = None

    def low_confidence(self, probability: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which probabilities (beats,) of the predicted classes are of low confidence; NaN is."""
        return np.asarray(~(probability >= self.threshold) | (self.threshold >= 1.0))


#: Calibration of a bundle without one.
UNCALIBRATED = Calibration()


@dataclass(frozen=True)
class OodRule:
    """Rule for out-of-distribution beats.

    Attributes:
        graph: file of the graph that computes distances.
        threshold: distance above which a beat is out of distribution.
    """

    graph: str
    threshold: float


def calibration_in(manifest: Mapping[str, Any], patient: str | None, *, int8: bool = False) -> Calibration:
    """Return the calibration of the global or a patient's model, or of its int8 variant, which must exist.

    Raises:
        TypeError, ValueError: it is malformed.
    """
    entry = manifest["global"] if patient is None else manifest["patients"][patient]
    entry = entry[INT8] if int8 else entry
    entry_calibration, rule = entry.get("certainty"), manifest.get("certainty")
    if entry_calibration is None or rule is None:
        return UNCALIBRATED
    temperature = _number(entry_calibration["temperature"], "temperature")
    threshold = _number(entry_calibration["threshold"], "threshold")
    accuracy = _number(rule["accuracy"], "accuracy")
    if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE or not 0 <= threshold <= 1 or not 0 < accuracy <= 1:
        raise ValueError("a certainty in its bounds")
    return Calibration(temperature, threshold, accuracy)


def ood_rule_in(manifest: Mapping[str, Any]) -> OodRule | None:
    """Return the rule for out-of-distribution beats, or None if a manifest has none.

    Raises:
        TypeError, ValueError: it is malformed, or its graph is not a file of the bundle.
    """
    entry = (manifest.get("certainty") or {}).get(FAR)
    if entry is None:
        return None
    name, threshold = entry["graph"], _number(entry["threshold"], "threshold")
    if (
        not isinstance(name, str)
        or manifest["files"].get(name, {}).get("role") != FAR
        or not 0 <= threshold <= MAX_DISTANCE
    ):
        raise ValueError("a graph of the bundle that says what is far")
    return OodRule(name, threshold)


def check_calibrations(manifest: Mapping[str, Any]) -> None:
    """Check all calibrations of a manifest; raises KeyError, TypeError or ValueError."""
    ood_rule_in(manifest)
    for patient in (None, *manifest["patients"]):
        calibration_in(manifest, patient)
        if (manifest["global"] if patient is None else manifest["patients"][patient]).get(INT8) is not None:
            calibration_in(manifest, patient, int8=True)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"a {name} that is a number")
    return float(value)


class OodDetector:
    """Detects out-of-distribution beats by their distance to the nearest prototype.

    Args:
        graph: returns a distance (beats, 1) for windows (beats, 1, 256).
        threshold: distance above which a beat is out of distribution.

    Raises:
        BundleError: the graph has other inputs or outputs.
    """

    def __init__(self, graph: Graph, threshold: float) -> None:
        takes = [(entry.name, entry.dtype.name, entry.shape[1:]) for entry in graph.inputs]
        if takes != [("window", "float32", (1, WINDOW_SAMPLES))]:
            actual = f"takes {', '.join(map(shape_text, graph.inputs)) or 'nothing'}, not a window"
            raise graph_fault(graph.path, actual)
        if (graph.output.name, graph.output.shape[1]) != ("distance", 1):
            raise graph_fault(graph.path, f"gives {graph.output.name} {shape_text(graph.output)}, not one distance")
        self.session, self.threshold = Session(graph), threshold

    def __call__(self, window_mv: NDArray[np.float32], batch: int) -> NDArray[np.bool_]:
        """Return which windows (beats, 1, 256), in millivolt, are out of distribution; ``batch`` at a time."""
        return np.asarray(self.distance(window_mv, batch) > self.threshold)

    def distance(self, window_mv: NDArray[np.float32], batch: int) -> NDArray[np.float32]:
        """Return the distances (beats,) float32 of windows (beats, 1, 256) in millivolt; ``batch`` at a time."""
        distance = np.empty(len(window_mv), np.float32)
        for start in range(0, len(window_mv), batch):
            some = slice(start, start + batch)
            distance[some] = self.session.run({"window": np.ascontiguousarray(window_mv[some])})[:, 0]
        return distance
