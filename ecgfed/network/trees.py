"""Trees of tensors as Flower's records, leaf by leaf under their own names, and back; no pickle on the way.

Leaves of several patients are stacked, as the server's ``aggregate`` gets them, so that a message has as many leaves as
the method has, however many patients a site has. The order of a tree's leaves is kept: the bits of a sum over them
depend on it.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from ecgfed.federation.trees import flatten, unflatten
from ecgfed.methods.base import Tree
from ecgfed.network.errors import NetworkError

#: A leaf's type in a message, as numpy calls it.
_TYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
#: The header of the NPY format takes less.
_HEADER_BYTES = 4096
#: The longest leaf anybody takes from a message: far above any net's here.
MAX_BYTES = 1 << 30


def record_of(leaves: Mapping[str, Tensor]) -> ArrayRecord:
    """Return leaves by path as one of Flower's records."""
    return ArrayRecord({path: Array.from_numpy_ndarray(leaf.detach().cpu().numpy()) for path, leaf in leaves.items()})


def leaves_of(record: ArrayRecord) -> dict[str, Tensor]:
    """Return the leaves of a record that came over the network, in its order.

    Raises:
        NetworkError: a type that no leaf has, more bytes than its shape needs or than anybody takes, or damage.
    """
    return {path: _leaf(path, array) for path, array in record.items()}


def _leaf(path: str, array: Array) -> Tensor:
    where = f"leaf {path[:200]!r} of a message"
    if array.dtype not in _TYPES:
        raise NetworkError(where, f"has type {array.dtype[:40]!r}", f"one of {', '.join(_TYPES)}")
    expected = prod(array.shape) * np.dtype(array.dtype).itemsize
    if not 0 <= expected <= MAX_BYTES or not expected <= len(array.data) <= expected + _HEADER_BYTES:
        raise NetworkError(
            where, f"has {len(array.data):,} bytes for shape {tuple(array.shape)}", f"about {expected:,}"
        )
    try:
        values = array.numpy()  # NPY without pickles
    except (ValueError, EOFError, TypeError) as problem:
        raise NetworkError(where, f"cannot be read ({problem!s:.100})") from problem
    if values.dtype != np.dtype(array.dtype) or values.shape != tuple(array.shape):
        raise NetworkError(where, "is not what it says it is", f"{array.dtype} {tuple(array.shape)}")
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def down_records(trees: Sequence[Tree]) -> tuple[ArrayRecord, ArrayRecord, dict[str, list[int]]]:
    """Return what the server sends a site's participants: what all share, once; what is each one's own, stacked.

    Args:
        trees: what each participant is sent, in the order of its numbers; what is the same for everybody are the same
            tensors.

    Returns:
        The shared leaves, the own leaves (holders, ...), and by path the places of the holders among the participants.
    """
    flat = [flatten(tree) for tree in trees]
    shared = {path: leaf for path, leaf in flat[0].items() if all(leaves.get(path) is leaf for leaves in flat)}
    per_client: dict[str, Tensor] = {}
    holders: dict[str, list[int]] = {}
    for path in dict.fromkeys(path for leaves in flat for path in leaves if path not in shared):
        holders[path] = [position for position, leaves in enumerate(flat) if path in leaves]
        per_client[path] = torch.stack([flat[position][path] for position in holders[path]])
    return record_of(shared), record_of(per_client), holders


def down_trees(
    shared: ArrayRecord, per_client: ArrayRecord, holders: Mapping[str, Sequence[int]], participants: int
) -> list[Tree]:
    """Return what ``down_records`` was made of, a tree for each participant; raises NetworkError."""
    common, each = leaves_of(shared), leaves_of(per_client)
    flat = [dict(common) for _ in range(participants)]
    for path, stacked in each.items():
        positions = list(holders.get(path, ()))
        if stacked.dim() < 1 or len(stacked) != len(positions) or not all(0 <= p < participants for p in positions):
            raise NetworkError(f"leaf {path[:200]!r} of a message", "is not for the participants it names")
        for position, leaf in zip(positions, stacked, strict=True):
            flat[position][path] = leaf
    return [unflatten(leaves) for leaves in flat]


def up_leaves(record: ArrayRecord, expected: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> dict[str, Tensor]:
    """Return the stacked leaves of a reply that has to have these and no others; nothing is read of one that has not.

    Args:
        record: the reply's.
        expected: path -> type and shape, participants first.

    Raises:
        NetworkError: other leaves, types or shapes, or damage.
    """
    for path in {*expected, *record}:
        where = f"leaf {path[:200]!r} of a message"
        if path not in record or path not in expected:
            raise NetworkError(where, "is missing" if path in expected else "is none that was asked for")
        (dtype, shape), array = expected[path], record[path]
        if _TYPES.get(array.dtype) != dtype or tuple(array.shape) != shape:
            received = f"is {array.dtype[:40]} {tuple(array.shape)!s:.100}"
            raise NetworkError(where, received, f"{str(dtype).removeprefix('torch.')} {shape}")
    leaves = leaves_of(record)
    return {path: leaves[path] for path in expected}
