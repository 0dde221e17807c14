"""Parts of a net's parameters: extractor, classifier head, normalisation layers."""

import torch

from ecgfed.core.nets.layers import Params, part_of


def extractor_of(params: Params) -> Params:
    """Return the extractor's entries of a net's parameters."""
    return part_of(params, "extractor")


def head_of(params: Params) -> Params:
    """Return the classifier head's entries of a net's parameters."""
    return part_of(params, "head")


def norm_of(params: Params) -> Params:
    """Return the entries of the normalisation layers, running statistics included."""
    return {name: value for name, value in params.items() if is_norm(name.rpartition(".")[0])}


def without_norm(params: Params) -> Params:
    """Return all other entries."""
    return {name: value for name, value in params.items() if not is_norm(name.rpartition(".")[0])}


def is_norm(path: str) -> bool:
    """Whether a layer's path is that of a normalisation layer: nets end it with ``norm``, or ``norm`` and a number."""
    return path.rpartition(".")[2].rstrip("0123456789").endswith("norm")


def count_parameters(params: Params) -> int:
    """Return the number of values, running statistics included."""
    return sum(torch.numel(value) for value in params.values())
