"""A chain of graphs: windows in, class probabilities out."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import Windows, windows_around
from ecgfed.beats.rr import RR_NAMES
from ecgfed.beats.windows import WINDOW_SAMPLES
from ecgfed.device.certainty import UNSAID, Certainty, Farness
from ecgfed.device.graph import AT_ONCE, BATCH, Graph, Session, check_graph, graph_fault, read_graph_file
from ecgfed.device.graph_shapes import shown
from ecgfed.device.predictions import Predictions
from ecgfed.errors import BundleError, RecordError
from ecgfed.signal.quality import LeadQuality
from ecgfed.text import count_of

#: So many beats are shared out among threads: another one cuts the windows of a long recording meanwhile, and is done
#: before the graph where both have one core each.
_SHARED, _THREADS = 2048, 2
#: One image of a bundle that was trained on images.
IMAGE_SHAPE = (3, 32, 32)
#: What the first graph of a chain may take: name -> element type and shape of one example; of RR features those of
#: version 1, see ``input_of``.
INPUTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "window": ("float32", (1, WINDOW_SAMPLES)),
    "rr": ("float32", (len(RR_NAMES[1]),)),
    "image": ("uint8", IMAGE_SHAPE),
}


def input_of(name: str, rr_version: int) -> tuple[str, tuple[int, ...]]:
    """Return element type and shape of one example of an input, for a version of the RR features; raises KeyError."""
    return ("float32", (len(RR_NAMES[rr_version]),)) if name == "rr" else INPUTS[name]


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float32]:
    """Probabilities (beats, classes) of logits, computed stably."""
    shifted = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(np.float64))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float32)


def _real_numbers(name: str, values: NDArray[Any], unit: str) -> NDArray[np.float32]:
    """Return finite floating-point values as float32; raises RecordError for anything else."""
    if not np.issubdtype(values.dtype, np.floating):
        raise RecordError(name, f"values of type {values.dtype}", f"{unit} in float32")
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused here
        values = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise RecordError(name, "values that are not finite", "finite values")
    return values


def check_chain(graphs: Sequence[Graph], classes: int, rr: int) -> None:
    """Compare graphs with one another and with what they are for.

    Args:
        graphs: the chain, in order.
        classes: how many classes there are.
        rr: the version of the RR features that the first graph takes, 0 for none.

    Raises:
        BundleError: inputs or outputs of another name, type or shape; the line names the graph.
    """
    first, last = graphs[0], graphs[-1]
    takes = {entry.name for entry in first.inputs}
    wanted = [{"window", "rr"}] if rr else [{"window"}, {"image"}]
    if takes not in wanted:
        raise graph_fault(first.path, f"takes {_listed(takes)}, not {' or '.join(map(_listed, wanted))}")
    for entry in first.inputs:
        dtype, shape = input_of(entry.name, int(rr))
        if (entry.dtype.name, entry.shape[1:]) != (dtype, shape):
            raise graph_fault(first.path, f"takes {entry.name} as {entry.dtype.name} of shape {shown(entry)}")
    for before, graph in pairwise(graphs):
        takes_all = [(entry.name, entry.dtype, entry.shape) for entry in graph.inputs]
        if takes_all != [(before.output.name, before.output.dtype, before.output.shape)]:
            raise graph_fault(graph.path, f"does not take what {before.path.name} gives, {shown(before.output)}")
    if (last.output.name, last.output.shape[1]) != ("logits", classes):
        raise graph_fault(
            last.path, f"gives {last.output.name} {shown(last.output)}, not logits of {count_of(classes, 'class')}"
        )


def _whole_batches(blocks: Iterable[Windows]) -> Iterator[Windows]:
    """Cut blocks of beats where batches of all of them end, since a batch of another size may round otherwise."""
    left: Windows | None = None
    for block in blocks:
        if left is not None:
            block = Windows(
                np.concatenate([left.window_mv, block.window_mv]),
                np.concatenate([left.rr_s, block.rr_s]),
                np.concatenate([left.flags, block.flags]),
            )
        whole = len(block.flags) // BATCH * BATCH
        left = block.chosen(slice(whole, None))
        if whole:
            yield block.chosen(slice(whole))
    if left is not None and len(left.flags):
        yield left


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names, reverse=True)) or "nothing"


class Classifier:
    """A chain of graphs: windows in, class probabilities out.

    Args:
        graphs: ONNX files, or checked graphs, applied one after the other.
        classes: class names in order.
        rr: the version of the RR features that the first graph takes, 0 for none (true is 1).
        certainty: what its probabilities are worth.
        farness: says which beats look like none in training, or None where nobody can.

    Raises:
        BundleError: a graph that export did not write, or graphs that do not fit one another or the classes.
    """

    def __init__(
        self,
        graphs: Sequence[Path | Graph],
        classes: tuple[str, ...],
        rr: int,
        certainty: Certainty = UNSAID,
        farness: Farness | None = None,
    ) -> None:
        checked = [one if isinstance(one, Graph) else check_graph(one, read_graph_file(one)) for one in graphs]
        check_chain(checked, len(classes), rr)
        self.classes, self.rr, self.certainty, self.farness = classes, int(rr), certainty, farness
        self.sessions = [Session(graph) for graph in checked]

    def logits(self, window_mv: NDArray[np.float32], rr_s: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return logits (beats, classes), finite.

        Args:
            window_mv: (beats, 1, 256) millivolt at 360 Hz, filtered, not normalised.
            rr_s: (beats, features) RR features of the version ``rr``, for a net that takes them.

        Raises:
            RecordError: another shape, whole numbers (which are a recorder's units and no millivolt), or values that
                are not finite (a graph would pass NaN on in silence).
            BundleError: a graph gives numbers that are not finite.
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
            RecordError: another shape or type.
            BundleError: a graph gives numbers that are not finite.
        """
        if image.dtype != np.uint8 or image.ndim != 4 or image.shape[1:] != IMAGE_SHAPE:
            raise RecordError("image", f"{image.dtype} of shape {image.shape}", f"uint8 (images, {IMAGE_SHAPE})")
        return self._in_batches({"image": np.ascontiguousarray(image)}, len(image))

    def _in_batches(self, feeds: dict[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
        wanted = [entry.name for entry in self.sessions[0].graph.inputs]
        if not set(wanted) <= set(feeds):
            raise RecordError("inputs", f"are {', '.join(feeds)}", f"{', '.join(wanted)} for this bundle")

        def answers(start: int) -> list[NDArray[np.float32]]:
            stop = min(start + BATCH, count)
            edges = [(i, min(i + AT_ONCE, stop)) for i in range(start, stop, AT_ONCE)]
            return [self._run({k: v[i:j] for k, v in feeds.items()}) for i, j in edges]

        if count < _SHARED:
            parts = [answers(start) for start in range(0, count, BATCH)]
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                parts = list(pool.map(answers, range(0, count, BATCH)))
        made = [one for part in parts for one in part]
        return np.concatenate(made) if made else np.empty((0, len(self.classes)), np.float32)

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
        """Classify the beats of a recording as it was recorded.

        Args:
            signal_mv: (samples,) one lead in millivolt, NaN where there is no sample.
            fs_hz: its sampling frequency in Hz.
            r_samples: (beats,) int64 increasing positions of *all* R peaks, since RR intervals count.
            quality: the lead's bad stretches, where they are known already; they decide the flags.

        Raises:
            RecordError: a signal that is not one lead, or R peaks that are no sample numbers (seconds, say), out of
                order or outside it.
        """
        signal_mv, r_samples = np.asanyarray(signal_mv), np.asarray(r_samples)
        if r_samples.size and r_samples.dtype.kind not in "iu":
            found = f"are of type {r_samples.dtype}"
            raise RecordError("R peaks", found, "sample numbers (int64)", "multiply seconds by fs_hz, and round")
        r_samples = r_samples.astype(np.int64)
        if signal_mv.ndim != 1 or not len(signal_mv):
            raise RecordError("signal", f"shape {signal_mv.shape}", "(samples,) of one lead")
        if r_samples.ndim != 1 or (np.diff(r_samples, prepend=-1) <= 0).any() or (r_samples >= len(signal_mv)).any():
            raise RecordError("R peaks", "are not in order inside the signal", f"increasing, 0 to {len(signal_mv) - 1}")
        windows = windows_around(signal_mv, fs_hz, r_samples, quality, rr_version=self.rr or 1)
        return replace(self.classify(windows), sample=r_samples, fs_hz=fs_hz)

    def classify(self, windows: Windows) -> Predictions:
        """Classify beats that have been cut (``ecgfed.beats``); raises RecordError as ``logits`` does."""
        return self._judged(*self._answers(windows), windows.flags)

    def classify_blocks(self, blocks: Iterable[Windows]) -> Predictions:
        """Classify beats that come block by block, of which no more than the answers are kept.

        Args:
            blocks: consecutive beats of one recording; the answers are those of ``classify`` for all at once.

        Raises:
            RecordError: as ``logits``.
        """
        nothing = (np.empty((0, len(self.classes)), np.float32), np.empty(0, np.bool_), np.empty(0, np.uint8))
        answers = [nothing, *((*self._answers(windows), windows.flags) for windows in _whole_batches(blocks))]
        probability, far, flags = (np.concatenate(part) for part in zip(*answers, strict=True))
        return self._judged(probability, far, flags)

    def _answers(self, windows: Windows) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return calibrated probabilities (beats, classes), and which beats are far; raises BundleError."""
        logits = self.logits(windows.window_mv, windows.rr_s)
        with np.errstate(over="ignore"):  # what overflows would make NaN of a probability, and is refused
            scaled = logits / np.float32(self.certainty.temperature)
        if not np.isfinite(scaled).all():
            found = f"gives logits up to {np.abs(logits).max():.3g}, too large for the temperature"
            raise BundleError(self.sessions[-1].graph.path, found, "finite numbers", "train and export again")
        probability = softmax(scaled)
        if self.farness is None:
            return probability, np.zeros(len(probability), np.bool_)
        return probability, self.farness(windows.window_mv, AT_ONCE)

    def _judged(
        self, probability: NDArray[np.float32], far: NDArray[np.bool_], flags: NDArray[np.uint8]
    ) -> Predictions:
        label, uncertain = probability.argmax(1), self.certainty.uncertain(probability.max(axis=1, initial=0.0)) | far
        return Predictions(label, probability, flags, self.classes, far=far, uncertain=uncertain)

    def __repr__(self) -> str:
        rr = f", with RR features {self.rr}" if self.rr else ""
        return f"Classifier({count_of(len(self.sessions), 'graph')}, {count_of(len(self.classes), 'class')}{rr})"
