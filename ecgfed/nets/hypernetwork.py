"""The hypernetwork of Fed-RoD: a patient's class mix in, the weights of a personal head out (Ha et al. 2017)."""

import torch.nn.functional as F
from torch import Tensor

from ecgfed.nets.layers import Initialiser, Params, linear

#: How far from nothing a made head starts: personal logits should begin small beside the generic ones.
SMALL = 0.01


def initial_hypernetwork(classes: int, features: int, hidden: int, seed: int) -> Params:
    """Draw two linear layers, names ``hyper.*``; the same seed gives the same bits."""
    draw = Initialiser(seed)
    draw.linear("hyper.hidden", classes, hidden)
    draw.linear("hyper.out", hidden, classes * (features + 1), gain=SMALL**2)
    return draw.params


def made_head(params: Params, mix: Tensor, features: int) -> Params:
    """The personal head for a class mix (classes,) that sums to 1: ``personal.weight`` and ``personal.bias``."""
    classes = mix.shape[0]
    flat = linear(params, "hyper.out", F.relu(linear(params, "hyper.hidden", mix[None])))[0]
    weight, bias = flat[: classes * features], flat[classes * features :]
    return {"personal.weight": weight.reshape(classes, features), "personal.bias": bias}
