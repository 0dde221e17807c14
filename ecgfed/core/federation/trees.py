"""Nested dictionaries of tensors: flattening, stacking, counting bytes."""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ecgfed.core.methods.base import Tree

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
    """Return the tree of flattened leaves (empty branches are lost)."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *branches, leaf = _names(path)
        node = tree
        for branch in branches:
            node = node.setdefault(branch, {})
        node[leaf] = value
    return tree


@functools.lru_cache(maxsize=65536)  # every client of every round has the same paths
def _names(path: str) -> tuple[str, ...]:
    return tuple(path.split(_SEPARATOR))


def stack(trees: Sequence[Tree]) -> Tree:
    """Stack trees of equal structure along a new first axis."""
    flat = [flatten(tree) for tree in trees]
    return unflatten({path: torch.stack([leaves[path] for leaves in flat]) for path in flat[0]})


def tree_bytes(tree: Tree) -> int:
    """Return the total size of a tree's leaves in bytes."""
    return sum(value.numel() * value.element_size() for value in flatten(tree).values())


def compact_storage(tree: Tree) -> Tree:
    """Return the tree with leaves that are slices of a larger tensor copied, so that the large one can be freed."""
    return unflatten(
        {
            path: value.clone() if value.untyped_storage().nbytes() > value.numel() * value.element_size() else value
            for path, value in flatten(tree).items()
        }
    )
