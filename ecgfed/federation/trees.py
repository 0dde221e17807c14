"""Nested dictionaries of tensors: flattening, stacking, and safetensors files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from ecgfed.errors import EcgfedError
from ecgfed.files import write_bytes
from ecgfed.methods.base import Tree

_SEPARATOR = "/"


def flatten(tree: Tree, prefix: str = "") -> dict[str, torch.Tensor]:
    """Return the leaves by path: ``{"model": {"head.out.bias": x}}`` -> ``{"model/head.out.bias": x}``."""
    flat: dict[str, torch.Tensor] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}{_SEPARATOR}"))
        else:
            flat[prefix + name] = value
    return flat


def unflatten(flat: dict[str, torch.Tensor]) -> Tree:
    """Return the tree that ``flatten`` took apart (empty branches are not kept)."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *branches, leaf = path.split(_SEPARATOR)
        node = tree
        for branch in branches:
            node = node.setdefault(branch, {})
        node[leaf] = value
    return tree


def stack(trees: Sequence[Tree]) -> Tree:
    """Stack trees of one shape along a new first axis."""
    flat = [flatten(tree) for tree in trees]
    return unflatten({path: torch.stack([one[path] for one in flat]) for path in flat[0]})


def save_tree(path: Path, tree: Tree) -> bytes:
    """Write a tree as safetensors, whole or not at all, and return the bytes; raises StorageError."""
    data = save({name: value.detach().contiguous() for name, value in flatten(tree).items()})
    write_bytes(path, data)
    return data


def load_tree(data: bytes, path: Path, error: type[EcgfedError]) -> Tree:
    """Read a tree from the bytes of a safetensors file; raises ``error`` when they are none."""
    try:
        return unflatten(load(data))
    except (SafetensorError, ValueError, KeyError) as problem:
        raise error(path, f"is no safetensors file ({problem})", action="restore it") from problem
