"""A chain of graphs: windows in, class probabilities out."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import BundleError, RecordError
from ecgfed.base.text import count_of
from ecgfed.domain.beats import alike
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import WINDOW_SAMPLES
from ecgfed.domain.signal.quality import LeadQuality
from ecgfed.exports.device.calibration import UNCALIBRATED, Calibration, OodDetector
from ecgfed.exports.device.graph import AT_ONCE, BATCH, Graph, Session, check_graph, graph_fault, read_graph_file
from ecgfed.exports.device.graph_shapes import shape_text
from ecgfed.exports.device.predictions import UNCLASSIFIED, Predictions

#: From this number of beats on, batches run on two threads.
_SHARED, _THREADS = 2048, 2
#: Shape of one image for bundles trained on images.
IMAGE_SHAPE = (3, 32, 32)
#: Inputs of the first graph of a chain: name -> dtype and shape of one example; RR features of version 1, see
#: ``input_of``.
INPUTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "window": ("float32", (1, WINDOW_SAMPLES)),
    "rr": ("float32", (len(RR_NAMES[1]),)),
    "image": ("uint8", IMAGE_SHAPE),
}


def input_of(name: str, rr_version: int) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of one example of an input, for a version of the RR features; raises KeyError."""
    return ("float32", (len(RR_NAMES[rr_version]),)) if name == "rr" else INPUTS[name]


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return the probabilities (beats, classes) of logits, numerically stable."""
    shifted = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(np.float64))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float32)


def _real_numbers(name: str, values: NDArray[Any], unit: str) -> NDArray[np.float32]:
    """Return finite floating-point values as float32; raises RecordError otherwise."""
    if not np.issubdtype(values.dtype, np.floating):
        raise RecordError(name, f"values of type {values.dtype}", f"{unit} in float32")
    with np.errstate(over="ignore"):  # overflow to infinity is rejected below
        values = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise RecordError(name, "values that are not finite", "finite values")
    return values


def check_chain(graphs: Sequence[Graph], classes: int, rr: int) -> None:
    """Check that the graphs of a chain fit each other, the inputs and the classes.

    Args:
        graphs: the chain, in order.
        classes: number of classes.
        rr: version of the RR features that the first graph takes, 0 for none.

    Raises:
        BundleError: unexpected name, dtype or shape of an input or output, naming the graph.
    """
    first, last = graphs[0], graphs[-1]
    takes = {entry.name for entry in first.inputs}
    expected = [{"window", "rr"}] if rr else [{"window"}, {"image"}]
    if takes not in expected:
        raise graph_fault(first.path, f"takes {_listed(takes)}, not {' or '.join(map(_listed, expected))}")
    for entry in first.inputs:
        dtype, shape = input_of(entry.name, int(rr))
        if (entry.dtype.name, entry.shape[1:]) != (dtype, shape):
            raise graph_fault(first.path, f"takes {entry.name} as {entry.dtype.name} of shape {shape_text(entry)}")
    for before, graph in pairwise(graphs):
        takes_all = [(entry.name, entry.dtype, entry.shape) for entry in graph.inputs]
        if takes_all != [(before.output.name, before.output.dtype, before.output.shape)]:
            raise graph_fault(graph.path, f"does not take what {before.path.name} gives, {shape_text(before.output)}")
    if (last.output.name, last.output.shape[1]) != ("logits", classes):
        actual = f"gives {last.output.name} {shape_text(last.output)}, not logits of {count_of(classes, 'class')}"
        raise graph_fault(last.path, actual)


def _aligned_batches(blocks: Iterable[Windows]) -> Iterator[Windows]:
    """Regroup blocks of beats into full batches, because batches of other sizes may round differently."""
    remainder: Windows | None = None
    for block in blocks:
        if remainder is not None:
            block = Windows.joined([remainder, block])
        aligned = len(block.flags) // BATCH * BATCH
        remainder = block.chosen(slice(aligned, None))
        if aligned:
            yield block.chosen(slice(aligned))
    if remainder is not None and len(remainder.flags):
        yield remainder


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names, reverse=True)) or "nothing"


@renamed_fields("0.3", "0.5", certainty="calibration", farness="ood_detector")
class Classifier:
    """A chain of graphs: windows in, class probabilities out.

    Args:
        graphs: ONNX files, or checked graphs, applied one after the other.
        classes: class names in order.
        rr: version of the RR features that the first graph takes, 0 for none (True is 1).
        calibration: temperature and threshold of its probabilities.
        ood_detector: detects out-of-distribution beats, or None.
        averaged_over_alike_beats: whether ``classify_recording`` averages over groups of alike beats
            (``ecgfed.domain.beats.alike``): a global model with RR features of version 3 does; a personal model knows
            the patient's own beats.

    Raises:
        BundleError: a graph not written by export, or graphs that do not fit each other or the classes.
    """

    def __init__(
        self,
        graphs: Sequence[Path | Graph],
        classes: tuple[str, ...],
        rr: int,
        calibration: Calibration = UNCALIBRATED,
        ood_detector: OodDetector | None = None,
        *,
        averaged_over_alike_beats: bool = False,
    ) -> None:
        checked = [
            graph if isinstance(graph, Graph) else check_graph(graph, read_graph_file(graph)) for graph in graphs
        ]
        check_chain(checked, len(classes), rr)
        self.classes, self.rr, self.calibration, self.ood_detector = classes, int(rr), calibration, ood_detector
        self.averaged_over_alike_beats = averaged_over_alike_beats
        self.sessions = [Session(graph) for graph in checked]

    def logits(self, window_mv: NDArray[np.float32], rr_s: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return logits (beats, classes), finite.

        Args:
            window_mv: (beats, 1, 256) millivolt at 360 Hz, filtered, not normalised.
            rr_s: (beats, features) RR features of version ``rr``, for a net that takes them.

        Raises:
            RecordError: unexpected shape, integers (raw units of a recorder, not millivolt), or non-finite values (a
                graph would propagate NaN silently).
            BundleError: a graph returns non-finite values.
        """
        window_mv = np.asarray(window_mv)
        if window_mv.ndim != 3 or window_mv.shape[1:] != (1, WINDOW_SAMPLES):
            raise RecordError("window", f"shape {window_mv.shape}", f"(beats, 1, {WINDOW_SAMPLES})")
        feeds = {"window": _real_numbers("window", window_mv, "millivolt")}
        if self.rr:
            if rr_s is None:
                raise RecordError("rr", "is missing", f"shape {self._rr_shape(len(window_mv))} for this net")
            rr_s = np.asarray(rr_s)
            if rr_s.shape != self._rr_shape(len(window_mv)):
                raise RecordError("rr", f"shape {rr_s.shape}", f"{self._rr_shape(len(window_mv))} for this net")
            feeds["rr"] = _real_numbers("rr", rr_s, "seconds" if self.rr == 1 else "RR features")
        return self._in_batches(feeds, len(window_mv))

    def _rr_shape(self, beats: int) -> tuple[int, int]:
        return beats, len(RR_NAMES[self.rr])

    def image_logits(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return logits (images, classes) of a bundle of images, for pixels (images, 3, 32, 32) uint8.

        Raises:
            RecordError: unexpected shape or dtype.
            BundleError: a graph returns non-finite values.
        """
        if image.dtype != np.uint8 or image.ndim != 4 or image.shape[1:] != IMAGE_SHAPE:
            raise RecordError("image", f"{image.dtype} of shape {image.shape}", f"uint8 (images, {IMAGE_SHAPE})")
        return self._in_batches({"image": np.ascontiguousarray(image)}, len(image))

    def _in_batches(self, feeds: dict[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
        names = [entry.name for entry in self.sessions[0].graph.inputs]
        if not set(names) <= set(feeds):
            raise RecordError("inputs", f"are {', '.join(feeds)}", f"{', '.join(names)} for this bundle")

        def run_batch(start: int) -> list[NDArray[np.float32]]:
            stop = min(start + BATCH, count)
            edges = [(i, min(i + AT_ONCE, stop)) for i in range(start, stop, AT_ONCE)]
            return [self._run({k: v[i:j] for k, v in feeds.items()}) for i, j in edges]

        if count < _SHARED:
            parts = [run_batch(start) for start in range(0, count, BATCH)]
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                parts = list(pool.map(run_batch, range(0, count, BATCH)))
        outputs = [output for part in parts for output in part]
        return np.concatenate(outputs) if outputs else np.empty((0, len(self.classes)), np.float32)

    def _run(self, feeds: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        for session in self.sessions:
            feeds = {session.graph.output.name: session.run(feeds)}
        (value,) = feeds.values()
        return value

    def predict(
        self,
        signal_mv: NDArray[np.floating],
        fs_hz: float,
        r_samples: NDArray[np.int64],
        quality: LeadQuality | None = None,
    ) -> Predictions:
        """Classify the beats of an unprocessed recording.

        Args:
            signal_mv: (samples,) one lead in millivolt, NaN for missing samples.
            fs_hz: its sampling frequency in Hz.
            r_samples: (beats,) int64 increasing sample numbers of *all* R peaks, which the RR features need.
            quality: quality of the lead if already computed; it determines the flags.

        Raises:
            RecordError: a signal that is not one lead, or R peaks that are not sample numbers (seconds, for example),
                not increasing, or outside the signal.
        """
        signal_mv, r_samples = np.asanyarray(signal_mv), np.asarray(r_samples)
        if r_samples.size and r_samples.dtype.kind not in "iu":
            problem = f"are of type {r_samples.dtype}"
            raise RecordError("R peaks", problem, "sample numbers (int64)", "multiply seconds by fs_hz, and round")
        r_samples = r_samples.astype(np.int64)
        if signal_mv.ndim != 1 or not len(signal_mv):
            raise RecordError("signal", f"shape {signal_mv.shape}", "(samples,) of one lead")
        if r_samples.ndim != 1 or (np.diff(r_samples, prepend=-1) <= 0).any() or (r_samples >= len(signal_mv)).any():
            raise RecordError("R peaks", "are not in order inside the signal", f"increasing, 0 to {len(signal_mv) - 1}")
        windows = windows_around(signal_mv, fs_hz, r_samples, quality, rr_version=self.rr or 1)
        return replace(self.classify(windows), sample=r_samples, fs_hz=fs_hz)

    def classify(self, windows: Windows) -> Predictions:
        """Classify extracted windows (``ecgfed.domain.beats``); raises RecordError as ``logits`` does."""
        return self._predictions(*self._outputs(windows), windows.flags, windows.no_signal)

    def classify_blocks(self, blocks: Iterable[Windows], *, grouped: bool = False) -> Predictions:
        """Classify beats block by block, in bounded memory.

        Args:
            blocks: consecutive beats of one recording; the result is that of ``classify`` for all at once.
            grouped: average the answers over groups of alike beats (``ecgfed.domain.beats.alike``); the blocks are a
                whole recording with RR features of version 3.

        Raises:
            RecordError: as ``logits``.
        """
        no_flag, none = np.empty(0, np.uint8), np.empty(0, np.bool_)
        nothing = (np.empty((0, len(self.classes)), np.float32), none, no_flag, none)
        outputs, points = [nothing], []
        for part in _aligned_batches(blocks):
            outputs.append((*self._outputs(part), part.flags, part.no_signal))
            if grouped:
                points.append(alike.points(part.rr_s))
        probability, unlike, flags, no_signal = (np.concatenate(part) for part in zip(*outputs, strict=True))
        if points:
            probability = alike.averaged(probability, np.concatenate(points), ~no_signal)
        return self._predictions(probability, unlike, flags, no_signal)

    def classify_recording(self, blocks: Iterable[Windows]) -> Predictions:
        """Classify all beats of a recording, block by block; raises RecordError as ``logits``."""
        return self.classify_blocks(blocks, grouped=self.averaged_over_alike_beats)

    def _outputs(self, windows: Windows) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return calibrated probabilities (beats, classes), out-of-distribution flags (beats,); raises BundleError."""
        logits = self.logits(windows.window_mv, windows.rr_s)
        with np.errstate(over="ignore"):  # overflow would turn probabilities into NaN; checked below
            scaled = logits / np.float32(self.calibration.temperature)
        if not np.isfinite(scaled).all():
            problem = f"gives logits up to {np.abs(logits).max():.3g}, too large for the temperature"
            raise BundleError(self.sessions[-1].graph.path, problem, "finite numbers", "train and export again")
        probability = softmax(scaled)
        if self.ood_detector is None:
            return probability, np.zeros(len(probability), np.bool_)
        return probability, self.ood_detector(windows.window_mv, AT_ONCE)

    def _predictions(
        self,
        probability: NDArray[np.float32],
        out_of_distribution: NDArray[np.bool_],
        flags: NDArray[np.uint8],
        no_signal: NDArray[np.bool_],
    ) -> Predictions:
        label = probability.argmax(1)
        uncertain = self.calibration.low_confidence(probability.max(axis=1, initial=0.0)) | out_of_distribution
        override = np.where(no_signal, UNCLASSIFIED, "")
        return Predictions(
            label,
            probability,
            flags,
            self.classes,
            out_of_distribution=out_of_distribution,
            low_confidence=uncertain | no_signal,
            override=override,
        )

    def __repr__(self) -> str:
        rr = f", with RR features {self.rr}" if self.rr else ""
        return f"Classifier({count_of(len(self.sessions), 'graph')}, {count_of(len(self.classes), 'class')}{rr})"
