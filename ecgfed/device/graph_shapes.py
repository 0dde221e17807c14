"""How much a graph takes: shapes, memory and work of every value, before anything runs.

The memory and the time that a stranger's graph will take are known before ONNX Runtime sees it
(docs/decisions/0025); which operations it may be made of is said in ``operations``.
"""

import numpy as np

from ecgfed.device.onnx_file import GraphParts, ValueType
from ecgfed.device.operations import FLOAT, INT, Known, result_of
from ecgfed.device.protobuf import WireError

#: The most bytes of values that may be held at once, at a whole batch.
MOST_BYTES = 1 << 30
#: The most multiplications and additions for one example: 50 ResNet-30 side by side take 3e9.
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
            raise WireError(f"takes {entry.name!r} of shape {shown(entry)}, which is no batch of beats")
        _add(known, entry.name, Known(entry.dtype, (batch, *(dim or 0 for dim in entry.shape[1:]))))
    return known


def _add(known: dict[str, Known], name: str, value: Known) -> None:
    if not name or name in known:
        raise WireError(f"makes {name!r} twice")
    known[name] = value


def shown(entry: ValueType) -> str:
    """Say a shape as a person would: ``(beats, 12)``."""
    return f"({', '.join('beats' if dim is None else str(dim) for dim in entry.shape)})"


def batch_of(parts: GraphParts, most: int) -> int | None:
    """Return how many examples a graph takes at once, at most ``most``; None where that is open. Raises WireError."""
    (first, *others) = {entry.shape[0] if entry.shape else 0 for entry in parts.inputs} or {0}
    if others or (first is not None and not 1 <= first <= most):
        inputs = ", ".join(f"{entry.name!r} of shape {shown(entry)}" for entry in parts.inputs) or "nothing"
        raise WireError(f"takes {inputs}, which is no batch of 1 to {most} beats")
    return first


def check_operations(parts: GraphParts, batch: int) -> dict[str, Known]:
    """Follow a graph's values from its inputs to its outputs.

    Args:
        parts: the graph.
        batch: examples it is given at once.

    Returns:
        What is known of every value, by name.

    Raises:
        WireError: an operation that is not on the list, shapes that do not fit, weights that are not finite, or more
            memory or work than any graph of ours takes.
    """
    known = _known_at_start(parts, batch)
    last = {name: place for place, node in enumerate(parts.nodes) for name in node.inputs}
    last.update({entry.name: len(parts.nodes) for entry in parts.outputs})
    held = sum(value.size * value.dtype.itemsize for value in known.values())
    work = 0
    for place, node in enumerate(parts.nodes):
        made, each = result_of(node, known)
        if len(made.shape) > MOST_AXES or not all(made.shape):
            raise WireError(f"makes a value of shape {made.shape}")
        (name,) = node.outputs
        _add(known, name, made)
        held += made.size * made.dtype.itemsize
        work += made.size * each
        if held > MOST_BYTES or work > MOST_WORK * batch:
            raise WireError(f"would take {held:,} bytes and {work:,} multiplications for {batch} examples")
        gone = {one for one in (*node.inputs, name) if one and last.get(one, place) <= place}
        held -= sum(known[one].size * known[one].dtype.itemsize for one in gone)
    _check_described(parts, known)
    return known


def _check_described(parts: GraphParts, known: dict[str, Known]) -> None:
    """What the graph says of its own values, which ONNX Runtime may plan with, has to be so."""
    for entry in (*parts.outputs, *parts.described):
        value = known.get(entry.name)
        if value is None:
            raise WireError(f"describes {entry.name!r}, which nothing makes")
        fits = len(entry.shape) == len(value.shape) and value.dtype == entry.dtype
        if not fits or any(dim not in (None, is_) for dim, is_ in zip(entry.shape, value.shape, strict=True)):
            raise WireError(f"says {entry.name!r} is {shown(entry)}, but makes {value.shape} for a whole batch")
