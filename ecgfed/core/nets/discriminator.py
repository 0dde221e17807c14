"""The global-regularised discriminator D of GRP-FED: features in, one logit out (true: from the global extractor)."""

import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Initialiser, Params, linear

HIDDEN = 64


def initial_discriminator(features: int, seed: int) -> Params:
    """Draw a discriminator of two linear layers, names ``discriminator.*``; the same seed gives the same bits."""
    draw = Initialiser(seed)
    draw.linear("discriminator.hidden", features, HIDDEN)
    draw.linear("discriminator.out", HIDDEN, 1, gain=1.0)
    return draw.params


def discriminate(params: Params, features: Tensor) -> Tensor:
    """Logit of D (B,) for features (B, features); D itself is its sigmoid."""
    return linear(params, "discriminator.out", F.relu(linear(params, "discriminator.hidden", features)))[:, 0]


def feature_gradient(params: Params, features: Tensor) -> Tensor:
    """Gradient of the logit by the features (B, features), in closed form: W_1^T (w_2 where the hidden unit is on)."""
    on = (linear(params, "discriminator.hidden", features) > 0).to(features.dtype)
    return (on * params["discriminator.out.weight"]) @ params["discriminator.hidden.weight"]
