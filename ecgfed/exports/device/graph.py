"""A graph of a bundle: its bytes are read once, checked, and passed to ONNX Runtime."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError
from ecgfed.base.safe_io import read_bounded
from ecgfed.exports.device.graph_shapes import batch_of, check_operations, shape_text
from ecgfed.exports.device.onnx_file import ModelFile, ValueType, read_model, read_parts
from ecgfed.exports.device.protobuf import WireError

#: Batch size for the memory check of a graph. Blocks of beats are split at multiples of it.
BATCH = 256
#: Examples per run, a divisor of ``BATCH``, so that activations stay in a core's cache: a fifth faster than 256, with
#: identical results (tests/device/test_classifier.py).
AT_ONCE = 32
#: ONNX opset of the shape inference rules and of export.
OPSET = 18
#: Maximum size of a graph in bytes (an ensemble of 50 ResNet-30 has 82 MB).
MAX_FILE_BYTES = 512 << 20


@dataclass(frozen=True, eq=False)
class Graph:
    """A checked graph.

    Attributes:
        path: its file.
        data: the file's bytes.
        metadata: of the file.
        inputs: its inputs.
        output: its single output.
        batch: fixed batch size, or None if variable.
    """

    path: Path
    data: bytes
    metadata: dict[str, str]
    inputs: tuple[ValueType, ...]
    output: ValueType
    batch: int | None = None


def graph_fault(path: Path, problem: object) -> BundleError:
    """Return the error for a graph not written by ecgfed."""
    return BundleError(path, f"is no graph of ecgfed's: it {problem}", action="export it again")


def read_graph_file(path: Path) -> bytes:
    """Return a graph's bytes; raises BundleError if it is not a file, or longer than ``MAX_FILE_BYTES``."""
    return read_bounded(path, MAX_FILE_BYTES, BundleError)


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

    Raises:
        BundleError: not an ONNX file, content that export does not write (``graph_shapes``), or excessive memory or
            time.
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
        raise graph_fault(path, f"gives {output.name!r} of shape {shape_text(output)}")
    return Graph(path, data, model.metadata, parts.inputs, output, batch)


class Session:
    """A checked graph in ONNX Runtime, on one thread; raises BundleError if it cannot be loaded."""

    def __init__(self, graph: Graph) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # ONNX was checked; do not let ONNX Runtime detect its own format in the same bytes
        options.add_session_config_entry("session.load_model_format", "ONNX")
        # int8 variants are defined by float arithmetic on dequantised values; integer kernels may saturate on some CPUs
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        self.graph = graph
        try:
            self.session = onnxruntime.InferenceSession(graph.data, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # onnxruntime has its own exception types
            raise graph_fault(graph.path, f"cannot be run ({problem})") from problem

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Run the graph on a batch.

        Args:
            feeds: its inputs by name, each (beats, ...).

        Returns:
            (beats, numbers) float32, finite.

        Raises:
            BundleError: it fails, or returns an unexpected shape or non-finite values.
        """
        graph = self.graph
        inputs = {entry.name: feeds[entry.name] for entry in graph.inputs}
        beats = len(next(iter(inputs.values())))
        try:
            value = self._run_batches(inputs, beats)
        except Exception as problem:  # onnxruntime has its own exception types
            raise graph_fault(graph.path, f"failed on {beats} beats ({problem})") from problem
        output = np.asarray(value, dtype=np.float32)
        if output.shape != (beats, graph.output.shape[1]):
            actual = f"gave {graph.output.name} of shape {output.shape}, not {shape_text(graph.output)}"
            raise graph_fault(graph.path, actual)
        if not np.isfinite(output).all():
            action = "train and export again"
            raise BundleError(graph.path, f"gives {graph.output.name} that are not finite", "finite numbers", action)
        return output

    def _run_batches(self, inputs: dict[str, NDArray[Any]], beats: int) -> NDArray[Any]:
        """Run a batch; for a fixed batch size in parts, the last one padded with the last example."""
        size = self.graph.batch or beats
        parts = []
        for start in range(0, beats, size):
            rows = np.minimum(np.arange(start, start + size), beats - 1)
            feeds = inputs if size == beats else {name: value[rows] for name, value in inputs.items()}
            parts.append(self.session.run([self.graph.output.name], feeds)[0])
        return parts[0] if len(parts) == 1 and size == beats else np.concatenate(parts)[:beats]
