"""Shape inference for graphs: shapes, memory and work of every value, before anything runs.

Memory and time of an untrusted graph are bounded before ONNX Runtime loads it (docs/decisions/0025); ``operations``
lists the operations it may contain.
"""

import numpy as np

from ecgfed.exports.device.onnx_file import GraphParts, ValueType
from ecgfed.exports.device.operations import FLOAT, INT, Known, result_of
from ecgfed.exports.device.protobuf import WireError

#: Maximum bytes of values alive at the same time, for a full batch.
MOST_BYTES = 1 << 30
#: Maximum multiplications and additions per example (an ensemble of 50 ResNet-30 takes 3e9).
MOST_WORK = 1 << 34
MOST_AXES = 8


def _known_at_start(parts: GraphParts, batch: int) -> dict[str, Known]:
    known: dict[str, Known] = {}
    for tensor in parts.tensors:
        values = tensor.values
        if values.dtype == FLOAT and not np.isfinite(values).all():
            raise WireError(f"holds weights that are not finite ({tensor.name})")
        numbers = tuple(map(int, values.tolist())) if values.dtype == INT and values.ndim == 1 else None
        if numbers is not None and len(numbers) > MOST_AXES:
            raise WireError(f"holds {len(numbers)} whole numbers ({tensor.name})")
        _add(known, tensor.name, Known(values.dtype, values.shape, numbers))
    for entry in parts.inputs:
        if not entry.shape or entry.shape[0] not in (None, batch) or any(not dim or dim < 1 for dim in entry.shape[1:]):
            raise WireError(f"takes {entry.name!r} of shape {shape_text(entry)}, which is no batch of beats")
        _add(known, entry.name, Known(entry.dtype, (batch, *(dim or 0 for dim in entry.shape[1:]))))
    return known


def _add(known: dict[str, Known], name: str, value: Known) -> None:
    if not name or name in known:
        raise WireError(f"makes {name!r} twice")
    known[name] = value


def shape_text(entry: ValueType) -> str:
    """Return a shape as text: ``(beats, 12)``."""
    return f"({', '.join('beats' if dim is None else str(dim) for dim in entry.shape)})"


def batch_of(parts: GraphParts, max_batch: int) -> int | None:
    """Return the fixed batch size of a graph, at most ``max_batch``, or None if it is open; raises WireError."""
    (first, *further_sizes) = {entry.shape[0] if entry.shape else 0 for entry in parts.inputs} or {0}
    if further_sizes or (first is not None and not 1 <= first <= max_batch):
        inputs = ", ".join(f"{entry.name!r} of shape {shape_text(entry)}" for entry in parts.inputs) or "nothing"
        raise WireError(f"takes {inputs}, which is no batch of 1 to {max_batch} beats")
    return first


def check_operations(parts: GraphParts, batch: int) -> dict[str, Known]:
    """Infer all values of a graph from its inputs to its outputs.

    Args:
        batch: examples per run.

    Returns:
        Every value by name.

    Raises:
        WireError: an unsupported operation, incompatible shapes, non-finite weights, or more memory or work than
            allowed.
    """
    known = _known_at_start(parts, batch)
    last = {name: index for index, node in enumerate(parts.nodes) for name in node.inputs}
    last.update({entry.name: len(parts.nodes) for entry in parts.outputs})
    live_bytes = sum(value.size * value.dtype.itemsize for value in known.values())
    work = 0
    for index, node in enumerate(parts.nodes):
        result, each = result_of(node, known)
        if len(result.shape) > MOST_AXES or not all(result.shape):
            raise WireError(f"makes a value of shape {result.shape}")
        (name,) = node.outputs
        _add(known, name, result)
        live_bytes += result.size * result.dtype.itemsize
        work += result.size * each
        if live_bytes > MOST_BYTES or work > MOST_WORK * batch:
            raise WireError(f"would take {live_bytes:,} bytes and {work:,} multiplications for {batch} examples")
        freed = {
            value_name for value_name in (*node.inputs, name) if value_name and last.get(value_name, index) <= index
        }
        live_bytes -= sum(known[value_name].size * known[value_name].dtype.itemsize for value_name in freed)
    _check_described(parts, known)
    return known


def _check_described(parts: GraphParts, known: dict[str, Known]) -> None:
    """Check the declared shapes of a graph's values, which ONNX Runtime may rely on."""
    for entry in (*parts.outputs, *parts.described):
        value = known.get(entry.name)
        if value is None:
            raise WireError(f"describes {entry.name!r}, which nothing makes")
        fits = len(entry.shape) == len(value.shape) and value.dtype == entry.dtype
        if not fits or any(dim not in (None, is_) for dim, is_ in zip(entry.shape, value.shape, strict=True)):
            raise WireError(f"says {entry.name!r} is {shape_text(entry)}, but makes {value.shape} for a whole batch")
