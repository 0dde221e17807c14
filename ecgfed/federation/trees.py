"""Nested dictionaries of tensors: flattening, stacking, counting bytes."""

from collections.abc import Sequence
from typing import Any

import torch

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


def tree_bytes(tree: Tree) -> int:
    """Return how many bytes a tree's leaves hold."""
    return sum(value.numel() * value.element_size() for value in flatten(tree).values())


def own_memory(tree: Tree) -> Tree:
    """Return the tree with leaves that hold no more memory than their own: a slice of a stack would keep it all."""
    return unflatten(
        {
            path: value.clone() if value.untyped_storage().nbytes() > value.numel() * value.element_size() else value
            for path, value in flatten(tree).items()
        }
    )
