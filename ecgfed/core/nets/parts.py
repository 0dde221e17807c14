"""Parts of a net's parameters: extractor and classifier head."""

import torch

from ecgfed.core.nets.layers import Params, part_of


def extractor_of(params: Params) -> Params:
    """Return the extractor's entries of a net's parameters."""
    return part_of(params, "extractor")


def head_of(params: Params) -> Params:
    """Return the classifier head's entries of a net's parameters."""
    return part_of(params, "head")


def count_parameters(params: Params) -> int:
    """Return the number of values, running statistics included."""
    return sum(torch.numel(value) for value in params.values())
