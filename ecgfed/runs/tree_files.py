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

from ecgfed.errors import EcgfedError
from ecgfed.federation.trees import flatten, unflatten
from ecgfed.files import write_bytes
from ecgfed.methods.base import Tree

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


#: The key of a safetensors header under which texts about the whole file stand.
_METADATA = "__metadata__"


def serialised(tree: Tree, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a tree as the bytes of a safetensors file, with texts about it.

    What ``safetensors.torch.save`` writes, without its copies: there
    are dozens of small tensors in a tree, and a checkpoint has a tree for every client.
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
    """Return the tensors' entries of a header, and the order of the data; all clients of a run share both.

    Data come in order of their types, wide ones first, so that every tensor is aligned. The head names them in the
    tree's own order, which ``load_tree`` restores: a sum over parameters has other bits in another order.
    """
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
    """Write a tree as safetensors, whole or not at all, and return the bytes; raises StorageError."""
    data = serialised(tree)
    write_bytes(path, data)
    return data


def load_tree(data: bytes, path: Path, error: type[EcgfedError]) -> Tree:
    """Read a tree from the bytes of a safetensors file, its leaves in the order they were saved in.

    Raises ``error`` when the bytes are no such file.
    """
    try:
        flat = load(data)
        return unflatten({path: flat[path] for path in _header(data) if path in flat})
    except (SafetensorError, ValueError, KeyError) as problem:
        raise error(path, f"is no safetensors file ({problem})", action="restore it from a backup") from problem


def _header(data: bytes) -> dict[str, Any]:
    return dict(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]))


def metadata_of(data: bytes) -> dict[str, str]:
    """Return the texts about a safetensors file that ``load_tree`` has read; none where it carries none."""
    return dict(_header(data).get(_METADATA, {}))
