"""One graph of a bundle: its bytes read once, checked, and these very bytes given to ONNX Runtime."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.device.graph_shapes import batch_of, check_operations, shown
from ecgfed.device.onnx_file import ModelFile, ValueType, read_model, read_parts
from ecgfed.device.protobuf import WireError
from ecgfed.errors import BundleError
from ecgfed.safe_io import read_bounded

#: The most examples a graph is weighed for: bounds memory. Blocks of beats are cut at multiples of it.
BATCH = 256
#: Examples that are run at once, a divisor of it: so few that what the layers pass on stays in a core's own cache. A
#: fifth less time than 256 at once, and the same bits (tests/device/test_classifier.py).
AT_ONCE = 32
#: The version of ONNX's operations that the shapes' rules are written for, and that export writes.
OPSET = 18
#: The longest graph in bytes; one of 50 ResNet-30 has 82 MB.
MOST_FILE_BYTES = 512 << 20


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph that has been checked.

    Attributes:
        path: its file.
        data: the file's bytes.
        metadata: what it says of itself.
        inputs: what it takes.
        output: the one value it gives.
        batch: how many examples it takes at once, no more and no fewer; None where that is open.
    """

    path: Path
    data: bytes
    metadata: dict[str, str]
    inputs: tuple[ValueType, ...]
    output: ValueType
    batch: int | None = None


def graph_fault(path: Path, problem: object) -> BundleError:
    """Return the error of a graph that is none of ours."""
    return BundleError(path, f"is no graph of ecgfed's: it {problem}", action="export it again")


def read_graph_file(path: Path) -> bytes:
    """Return a graph's bytes; raises BundleError for what is no file, or longer than any graph of ours."""
    return read_bounded(path, MOST_FILE_BYTES, BundleError)


def outside_of(path: Path, data: bytes) -> ModelFile:
    """Read versions and metadata of a graph; raises BundleError."""
    try:
        model = read_model(data)
        if model.opset != OPSET:
            raise WireError(f"is made of version {model.opset} of ONNX's operations, not {OPSET}")
    except WireError as problem:
        raise graph_fault(path, problem) from None
    return model


def check_graph(path: Path, data: bytes) -> Graph:
    """Check a graph before anything runs it.

    Args:
        path: its file, for errors.
        data: the file's bytes.

    Raises:
        BundleError: it is no ONNX file, holds what export never writes (``graph_shapes``), or would take more memory
            or time than any graph of ours.
    """
    model = outside_of(path, data)
    try:
        parts = read_parts(model.graph)
        batch = batch_of(parts, BATCH)
        check_operations(parts, batch or BATCH)
        if len(parts.outputs) != 1:
            raise WireError(f"gives {len(parts.outputs)} values, not one")
    except WireError as problem:
        raise graph_fault(path, problem) from None
    (output,) = parts.outputs
    if output.dtype != np.float32 or len(output.shape) != 2 or output.shape[0] != batch or output.shape[1] is None:
        raise graph_fault(path, f"gives {output.name!r} of shape {shown(output)}")
    return Graph(path, data, model.metadata, parts.inputs, output, batch)


class Session:
    """A checked graph in ONNX Runtime, on one thread; raises BundleError where it cannot be made."""

    def __init__(self, graph: Graph) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # what was checked is ONNX; a file that is ONNX Runtime's own format as well shall not be read as that
        options.add_session_config_entry("session.load_model_format", "ONNX")
        # int8 forms mean floats between the whole numbers; kernels of whole numbers may saturate on some processors
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        self.graph = graph
        try:
            self.session = onnxruntime.InferenceSession(graph.data, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # onnxruntime raises kinds of its own
            raise graph_fault(graph.path, f"cannot be run ({problem})") from problem

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return what the graph gives for a batch.

        Args:
            feeds: its inputs by name, each (beats, ...).

        Returns:
            (beats, numbers) float32, finite.

        Raises:
            BundleError: it fails, or gives another shape or numbers that are not finite.
        """
        graph = self.graph
        given = {entry.name: feeds[entry.name] for entry in graph.inputs}
        beats = len(next(iter(given.values())))
        try:
            value = self._answers(given, beats)
        except Exception as problem:  # onnxruntime raises kinds of its own
            raise graph_fault(graph.path, f"failed on {beats} beats ({problem})") from problem
        found = np.asarray(value, dtype=np.float32)
        if found.shape != (beats, graph.output.shape[1]):
            raise graph_fault(graph.path, f"gave {graph.output.name} of shape {found.shape}, not {shown(graph.output)}")
        if not np.isfinite(found).all():
            raise BundleError(
                graph.path, f"gives {graph.output.name} that are not finite", "finite numbers", "train and export again"
            )
        return found

    def _answers(self, given: dict[str, NDArray[Any]], beats: int) -> NDArray[Any]:
        """Run a batch; in parts where the graph takes so many at once, the last example filling the last part up."""
        size = self.graph.batch or beats
        parts = []
        for start in range(0, beats, size):
            rows = np.minimum(np.arange(start, start + size), beats - 1)
            feeds = given if size == beats else {name: value[rows] for name, value in given.items()}
            parts.append(self.session.run([self.graph.output.name], feeds)[0])
        return parts[0] if len(parts) == 1 and size == beats else np.concatenate(parts)[:beats]
