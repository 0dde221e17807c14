"""How sure an answer is: probabilities that are worth what they say, and beats that look like none in training.

A manifest says for each model a temperature, which divides its logits, and a threshold, below which a class is
uncertain; and for all of them a graph that gives a beat's distance to the nearest typical one, with the distance from
which on it is far. Bundles of an older ecgfed say nothing: then logits stay as they are, and no beat is uncertain.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.windows import WINDOW_SAMPLES
from ecgfed.device.graph import Graph, Session, graph_fault
from ecgfed.device.graph_shapes import shown
from ecgfed.device.int8 import INT8

#: The role of the graph that measures how far a beat is from typical ones.
FAR = "far"
#: Bounds of what a manifest may say: beyond them float32 makes a certainty of everything, or of nothing.
COLDEST, HOTTEST, FARTHEST = 0.001, 1000.0, 1e6


@dataclass(frozen=True)
class Certainty:
    """What one model's probabilities are worth.

    Attributes:
        temperature: divides the logits.
        threshold: a class whose probability lies below it is uncertain; at 1 every class is, at 0 none.
        accuracy: how often the classes of the others are right, on the beats it was chosen on; None where nobody asked.
    """

    temperature: float = 1.0
    threshold: float = 0.0
    accuracy: float | None = None

    def uncertain(self, probability: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Say of the probabilities (beats,) of the answered classes which leave these uncertain; NaN does."""
        return np.asarray(~(probability >= self.threshold) | (self.threshold >= 1.0))


#: What a bundle says that says nothing.
UNSAID = Certainty()


@dataclass(frozen=True)
class FarRule:
    """When a beat is far.

    Attributes:
        graph: the file of the graph that measures.
        threshold: the distance above which a beat is far.
    """

    graph: str
    threshold: float


def certainty_in(manifest: Mapping[str, Any], patient: str | None, *, int8: bool = False) -> Certainty:
    """Return what a manifest says of the global model or a patient's, or of its int8 form, which has to be there.

    Raises:
        TypeError, ValueError: it is not of its form.
    """
    entry = manifest["global"] if patient is None else manifest["patients"][patient]
    entry = entry[INT8] if int8 else entry
    said, rule = entry.get("certainty"), manifest.get("certainty")
    if said is None or rule is None:
        return UNSAID
    temperature, threshold = _number(said["temperature"], "temperature"), _number(said["threshold"], "threshold")
    accuracy = _number(rule["accuracy"], "accuracy")
    if not COLDEST <= temperature <= HOTTEST or not 0 <= threshold <= 1 or not 0 < accuracy <= 1:
        raise ValueError("a certainty in its bounds")
    return Certainty(temperature, threshold, accuracy)


def far_rule_in(manifest: Mapping[str, Any]) -> FarRule | None:
    """Return when a beat is far, or None where a manifest does not say it.

    Raises:
        TypeError, ValueError: it is not of its form, or its graph is no file of the bundle's.
    """
    said = (manifest.get("certainty") or {}).get(FAR)
    if said is None:
        return None
    name, threshold = said["graph"], _number(said["threshold"], "threshold")
    if (
        not isinstance(name, str)
        or manifest["files"].get(name, {}).get("role") != FAR
        or not 0 <= threshold <= FARTHEST
    ):
        raise ValueError("a graph of the bundle that says what is far")
    return FarRule(name, threshold)


def check_certainties(manifest: Mapping[str, Any]) -> None:
    """Check all that a manifest says of certainty; raises KeyError, TypeError or ValueError."""
    far_rule_in(manifest)
    for patient in (None, *manifest["patients"]):
        certainty_in(manifest, patient)
        if (manifest["global"] if patient is None else manifest["patients"][patient]).get(INT8) is not None:
            certainty_in(manifest, patient, int8=True)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"a {name} that is a number")
    return float(value)


class Farness:
    """Measures how far beats are from typical ones.

    Args:
        graph: gives a distance (beats, 1) for windows (beats, 1, 256).
        threshold: the distance above which a beat is far.

    Raises:
        BundleError: another graph.
    """

    def __init__(self, graph: Graph, threshold: float) -> None:
        takes = [(entry.name, entry.dtype.name, entry.shape[1:]) for entry in graph.inputs]
        if takes != [("window", "float32", (1, WINDOW_SAMPLES))]:
            raise graph_fault(graph.path, f"takes {', '.join(map(shown, graph.inputs)) or 'nothing'}, not a window")
        if (graph.output.name, graph.output.shape[1]) != ("distance", 1):
            raise graph_fault(graph.path, f"gives {graph.output.name} {shown(graph.output)}, not one distance")
        self.session, self.threshold = Session(graph), threshold

    def __call__(self, window_mv: NDArray[np.float32], batch: int) -> NDArray[np.bool_]:
        """Say of windows (beats, 1, 256) in millivolt which are far, ``batch`` of them at a time."""
        return np.asarray(self.distance(window_mv, batch) > self.threshold)

    def distance(self, window_mv: NDArray[np.float32], batch: int) -> NDArray[np.float32]:
        """Measure windows (beats, 1, 256) in millivolt, ``batch`` of them at a time; (beats,) float32."""
        distance = np.empty(len(window_mv), np.float32)
        for start in range(0, len(window_mv), batch):
            some = slice(start, start + batch)
            distance[some] = self.session.run({"window": np.ascontiguousarray(window_mv[some])})[:, 0]
        return distance
