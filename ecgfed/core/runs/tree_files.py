"""Nested dictionaries of tensors as safetensors files."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load

from ecgfed.base.errors import EcgfedError
from ecgfed.base.files import write_bytes
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Tree

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


#: Key of the metadata in a safetensors header.
_METADATA = "__metadata__"


def serialised(tree: Tree, metadata: Mapping[str, str] | None = None) -> bytes:
    """Serialise a tree as safetensors, with metadata.

    Equivalent to ``safetensors.torch.save`` without its copies, since a tree has dozens of small tensors, and a
    checkpoint a tree for every client.
    """
    flat = flatten(tree)
    entries, order = _entries(tuple((path, value.dtype, value.shape) for path, value in flat.items()))
    texts = f"{json.dumps(_METADATA)}:{json.dumps(dict(metadata), separators=(',', ':'))}" if metadata else ""
    text = f"{{{texts}{',' if texts and entries else ''}{entries}}}".encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    parts: list[Any] = []
    for path in order:
        value = flat[path].view(torch.int16) if flat[path].dtype == torch.bfloat16 else flat[path]
        parts.append(np.ascontiguousarray(value.numpy(force=True)))
    return b"".join([header, *parts])


@lru_cache(maxsize=16)
def _entries(leaves: tuple[tuple[str, torch.dtype, torch.Size], ...]) -> tuple[str, list[str]]:
    """Return a header's entries in the tree's order, on which sums depend, and the data's order, by item size."""
    aligned = sorted(leaves, key=lambda leaf: (-leaf[1].itemsize, leaf[0]))
    begin: dict[str, int] = {}
    offset = 0
    for path, dtype, shape in aligned:
        begin[path] = offset
        offset += shape.numel() * dtype.itemsize
    entries = {
        path: {
            "dtype": _DTYPES[dtype],
            "shape": list(shape),
            "data_offsets": [begin[path], begin[path] + shape.numel() * dtype.itemsize],
        }
        for path, dtype, shape in leaves
    }
    return json.dumps(entries, separators=(",", ":"))[1:-1], [path for path, _, _ in aligned]


def save_tree(path: Path, tree: Tree) -> bytes:
    """Write a tree as safetensors atomically and return the bytes; raises StorageError."""
    data = serialised(tree)
    write_bytes(path, data)
    return data


def load_tree(data: bytes, path: Path, error: type[EcgfedError]) -> Tree:
    """Read a tree from the bytes of a safetensors file, with leaves in the saved order.

    Raises ``error`` if the bytes are not a safetensors file.
    """
    try:
        flat = load(data)
        return unflatten({path: flat[path] for path in _header(data) if path in flat})
    except (SafetensorError, ValueError, KeyError) as problem:
        raise error(path, f"is no safetensors file ({problem})", action="restore it from a backup") from problem


def _header(data: bytes) -> dict[str, Any]:
    return dict(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]))


def metadata_of(data: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file; empty if it has none."""
    return dict(_header(data).get(_METADATA, {}))
