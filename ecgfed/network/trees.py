"""Convert trees of tensors to Flower records and back, leaf by leaf under their own names, without pickle.

The leaves of several patients are stacked, as the server's ``aggregate`` expects them, so a message has as many leaves
as the method, however many patients a site has. The order of a tree's leaves is preserved, because the bits of a sum
over them depend on it.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Tree
from ecgfed.network.errors import NetworkError

#: NumPy's name of a leaf's dtype -> torch dtype.
_TYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool")
}
#: Upper bound on the size of an NPY header.
_HEADER_BYTES = 4096
#: Largest accepted leaf in a message, bytes: far above any leaf of ecgfed's nets.
MAX_BYTES = 1 << 30


def record_of(leaves: Mapping[str, Tensor]) -> ArrayRecord:
    """Return leaves by path as a Flower record."""
    return ArrayRecord({path: Array.from_numpy_ndarray(leaf.detach().cpu().numpy()) for path, leaf in leaves.items()})


def leaves_of(record: ArrayRecord) -> dict[str, Tensor]:
    """Return the leaves of a received record, in its order.

    Raises:
        NetworkError: an unknown dtype, a size that does not fit the shape or is too large, or malformed data.
    """
    return {path: _leaf(path, array) for path, array in record.items()}


def _leaf(path: str, array: Array) -> Tensor:
    where = f"leaf {path[:200]!r} of a message"
    if array.dtype not in _TYPES:
        raise NetworkError(where, f"has type {array.dtype[:40]!r}", f"one of {', '.join(_TYPES)}")
    expected = prod(array.shape) * np.dtype(array.dtype).itemsize
    if not 0 <= expected <= MAX_BYTES or not expected <= len(array.data) <= expected + _HEADER_BYTES:
        reason = f"has {len(array.data):,} bytes for shape {tuple(array.shape)}"
        raise NetworkError(where, reason, f"about {expected:,}")
    try:
        values = array.numpy()  # NPY without pickles
    except (ValueError, EOFError, TypeError) as problem:
        raise NetworkError(where, f"cannot be read ({problem!s:.100})") from problem
    if values.dtype != np.dtype(array.dtype) or values.shape != tuple(array.shape):
        raise NetworkError(where, "does not match its header", f"{array.dtype} {tuple(array.shape)}")
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def down_records(trees: Sequence[Tree]) -> tuple[ArrayRecord, ArrayRecord, dict[str, list[int]]]:
    """Encode the trees sent to a site's clients: shared leaves once, per-client leaves stacked.

    Args:
        trees: the tree for each client, in the order of their numbers; a shared leaf is the same tensor in each tree.

    Returns:
        The shared leaves, the per-client leaves (holders, ...), and by path the positions of the clients that hold it.
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
    """Decode ``down_records`` to a tree for each client; raises NetworkError."""
    common, each = leaves_of(shared), leaves_of(per_client)
    flat = [dict(common) for _ in range(participants)]
    for path, stacked in each.items():
        positions = list(holders.get(path, ()))
        if stacked.dim() < 1 or len(stacked) != len(positions) or not all(0 <= p < participants for p in positions):
            raise NetworkError(f"leaf {path[:200]!r} of a message", "does not fit the clients it names")
        for position, leaf in zip(positions, stacked, strict=True):
            flat[position][path] = leaf
    return [unflatten(leaves) for leaves in flat]


def up_leaves(record: ArrayRecord, expected: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> dict[str, Tensor]:
    """Return the stacked leaves of a reply after checking that it has exactly the expected leaves.

    Args:
        record: the reply's record.
        expected: path -> dtype and shape, with the clients on the first axis.

    Raises:
        NetworkError: other leaves, dtypes or shapes, or malformed data.
    """
    for path in {*expected, *record}:
        where = f"leaf {path[:200]!r} of a message"
        if path not in record or path not in expected:
            raise NetworkError(where, "is missing" if path in expected else "was not requested")
        (dtype, shape), array = expected[path], record[path]
        if _TYPES.get(array.dtype) != dtype or tuple(array.shape) != shape:
            received = f"is {array.dtype[:40]} {tuple(array.shape)!s:.100}"
            raise NetworkError(where, received, f"{str(dtype).removeprefix('torch.')} {shape}")
    leaves = leaves_of(record)
    return {path: leaves[path] for path in expected}
