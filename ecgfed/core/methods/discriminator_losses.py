"""Losses of GRP-FED's adversarial game between local extractor and discriminator, as printed and as modified."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.interface import row_mean
from ecgfed.core.nets.discriminator import feature_gradient
from ecgfed.core.nets.layers import Params


def regulariser_loss(logit_local: Tensor, form: str, weight: Tensor | None = None) -> Tensor:
    """Return L_R, which the local extractor minimises, for the discriminator's logits of local features (B,); 0-d.

    ``printed``: log(1 - D) = logsigmoid(-logit). ``non-saturating``: -log D, which has the same fixed point and a
    gradient that does not vanish while D is right.
    """
    return row_mean(F.logsigmoid(-logit_local) if form == "printed" else -F.logsigmoid(logit_local), weight)


def discriminator_loss(logit_global: Tensor, logit_local: Tensor, form: str, weight: Tensor | None = None) -> Tensor:
    """Return L_D, which the discriminator minimises, for logits of global and local features (B,); 0-d."""
    if form == "printed":
        return row_mean(F.logsigmoid(-logit_global) + F.logsigmoid(logit_local), weight)
    return -row_mean(F.logsigmoid(logit_global) + F.logsigmoid(-logit_local), weight)


def gradient_penalty(discriminator: Params, features: Iterable[Tensor], weight: Tensor | None = None) -> Tensor:
    """Return half the mean of |grad D|^2, D as its logit, over several sets of features (B, features); 0-d."""
    lengths = [feature_gradient(discriminator, f).square().sum(1) for f in features]
    return torch.stack([row_mean(values, weight) for values in lengths]).mean() / 2
