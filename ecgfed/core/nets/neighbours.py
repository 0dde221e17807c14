r"""The model of kNN-Per: k nearest neighbours among a patient's features, mixed with the global model.

With f a beat's features (D of them), z_i and y_i the features and class of a beat of the patient, and N the k nearest:

.. math::
    d_i = \lVert f - z_i \rVert^2 / D, \qquad
    p_c = \frac{\sum_{i \in N} [y_i = c]\, e^{-d_i}}{\sum_{i \in N} e^{-d_i}}, \qquad
    \lambda\, p + (1 - \lambda) \operatorname{softmax} g

g are the global head's logits. Beats at the same distance as the k-th count with it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.personal_head import PROBABILITY_FLOOR

#: k: the paper's default, from memory of it.
NEIGHBOURS = 10
#: Beyond every distance, and what makes a difference of one rounding step larger than 1.
FAR, STEEP = 1e9, 1e20


def at_most(distance: Tensor, limit: Tensor) -> Tensor:
    """Return 1 where a distance is at most the limit, otherwise 0, by arithmetic that every exported graph may use."""
    return ((limit - distance) * STEEP + 1.0).clamp(0.0, 1.0)


def nearest(distance: Tensor, k: int) -> Tensor:
    """Return (B, N), 1 for each row's k smallest distances (B, N) and those equal to the k-th, otherwise 0."""
    remaining, kth = distance, []
    for _ in range(k):  # the next smallest value, and whether k distances are at most that
        value = remaining.amin(1, keepdim=True)
        taken = at_most(distance, value)
        kth.append(value + FAR * (k - taken.sum(1, keepdim=True)).clamp(0.0, 1.0))
        remaining = distance + FAR * taken
    return at_most(distance, torch.cat(kth, 1).amin(1, keepdim=True))


def neighbour_logits(params: Params, features: Tensor, global_logits: Tensor) -> Tensor:
    """Return log-probabilities (B, classes) of the mixture, plus a thousandth.

    Args:
        params: ``own.kept`` (N, features), at least k of them; ``own.weight`` (classes, N), a beat's class as 1, and 0
            in the columns of unused beats, which lie far from all; ``own.share`` (1,), lambda.
        features: (B, features).
        global_logits: (B, classes).
    """
    difference = features[:, None, :] - params["own.kept"][None]
    distance = (difference * difference).sum(2) / features.shape[1]
    # relative to the nearest, so that not all are 0
    kernel = torch.exp(distance.amin(1, keepdim=True) - distance) * nearest(distance, NEIGHBOURS)
    own = F.linear(kernel, params["own.weight"]) / kernel.sum(1, keepdim=True)
    share = params["own.share"]
    return torch.log(share * own + (1.0 - share) * torch.softmax(global_logits, dim=1) + PROBABILITY_FLOOR)
