"""Arithmetic on parameter dictionaries: the vector space the papers' equations live in.

Results have the names of the first argument; running statistics are left out of steps by passing ``trainable`` entries.
"""

import torch
from torch import Tensor

from ecgfed.core.nets.layers import Params


def plus(a: Params, b: Params, scale: float | Tensor = 1.0) -> Params:
    """``a + scale * b``."""
    return {name: value + scale * b[name] for name, value in a.items()}


def minus(a: Params, b: Params) -> Params:
    """``a - b``."""
    return {name: value - b[name] for name, value in a.items()}


def times(a: Params, scale: float | Tensor) -> Params:
    """``scale * a``."""
    return {name: value * scale for name, value in a.items()}


def square_length(a: Params) -> Tensor:
    """``||a||^2`` over all entries, 0-d float64; summed by name, so that the order of a dictionary changes no bit."""
    return torch.stack([a[name].double().square().sum() for name in sorted(a)]).sum()


def inner(a: Params, b: Params) -> Tensor:
    """``<a, b>`` over the entries of ``a``, 0-d float64; summed by name, as ``square_length``."""
    return torch.stack([(a[name].double() * b[name].double()).sum() for name in sorted(a)]).sum()
