"""The hypernetwork of Fed-RoD (Ha et al. 2017): class distribution in, weights of a personal head out."""

import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Initialiser, Params, linear

#: Scale of the initial head, so that personal logits start small compared with the generic ones.
SMALL = 0.01


def initial_hypernetwork(classes: int, features: int, hidden: int, seed: int) -> Params:
    """Draw two linear layers, names ``hyper.*``; the same seed gives the same bits."""
    draw = Initialiser(seed)
    draw.linear("hyper.hidden", classes, hidden)
    draw.linear("hyper.out", hidden, classes * (features + 1), gain=SMALL**2)
    return draw.params


def head_from_hypernetwork(params: Params, distribution: Tensor, features: int) -> Params:
    """Return the head for class shares (classes,) with sum 1: ``personal.weight`` and ``personal.bias``."""
    classes = distribution.shape[0]
    flat = linear(params, "hyper.out", F.relu(linear(params, "hyper.hidden", distribution[None])))[0]
    weight, bias = flat[: classes * features], flat[classes * features :]
    return {"personal.weight": weight.reshape(classes, features), "personal.bias": bias}
