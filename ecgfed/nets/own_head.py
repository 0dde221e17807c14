r"""A patient's own answer on the global model's frozen features: a linear head, a kernel machine, and the gate.

With x a beat's description (features, and the shape of the window where the net has one), scaled by the patient's own
numbers, and c_k the patient's kept beats:

.. math::
    \text{kernel}: \quad o(x) = b + \sum_k a_k e^{-\lVert x - c_k \rVert^2} \\
    \text{gate}: \quad p = \operatorname{softmax}(o(x) + \alpha g(x)), \qquad \tilde g = g(x) - r, \qquad
    s = \sigma\big(\kappa \ln \tfrac{d(x)}{\tau} + \lambda (\max_c \tilde g_c - \textstyle\sum_c p_c \tilde g_c)
      - \theta\big), \qquad (1 - s)\, p + s \operatorname{softmax} \tilde g

g are the global head's logits, which back the personal answer by :math:`\alpha` among the patient's own classes (b
shuts the others out), r what the patient's own beats ask of classes it has never had, d the distance to the nearest
kept beat, :math:`\tau` how far its own beats lie. So the global model answers where the patient's own beats
say nothing (d above :math:`\tau`) and where it has much against the personal answer. What a graph gives is the
logarithm of the mixture, with a thousandth added to every class.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.nets.layers import Params, linear

#: Added to each probability before its logarithm: rounding of the distance moves what is rarer by more than two devices
#: may differ.
LEAST = 1e-3
#: No distance counts as less than this share of tau: below it rounding decides, and the gate is long shut.
NEAREST = 0.25


def squared_distances(params: Params, described: Tensor) -> Tensor:
    """Squared distance of each beat to each kept one; (B, D) -> (B, kept beats).

    Difference by difference: where a beat is nearly a kept one, ``x^2 - 2xc + c^2`` would leave rounding alone, and the
    gate would answer otherwise on another machine.
    """
    x = (described - params["own.shift"]) * params["own.scale"]
    apart = x[:, None, :] - params["own.kept"][None]
    return (apart * apart).sum(2)


def typical_distance(params: Params, shape: Tensor) -> Tensor:
    """Mean square (B, 1) between shapes (B, S) and the nearest of the typical ones.

    Multiplied out, unlike the gate's distances: whoever asks how far a beat lies does not ask of those that are near.
    """
    typical = params["far.typical"]
    square = (shape * shape).sum(1, keepdim=True) - 2.0 * F.linear(shape, typical) + params["far.square"]
    return square.amin(1, keepdim=True) / shape.shape[1]


def linear_logits(params: Params, features: Tensor) -> Tensor:
    """Logits (B, classes) of a linear head on features (B, features)."""
    return linear(params, "own", features)


def _of_kernel(params: Params, square: Tensor) -> Tensor:
    return F.linear(torch.exp(-square), params["own.weight"], params["own.bias"])


def kernel_logits(params: Params, described: Tensor) -> Tensor:
    """Logits (B, classes) of the kernel machine for descriptions (B, D)."""
    return _of_kernel(params, squared_distances(params, described))


def gated_logits(params: Params, described: Tensor, global_logits: Tensor) -> Tensor:
    """Logarithms (B, classes) of the mixture of kernel machine and global model, a thousandth added to each class."""
    square = squared_distances(params, described)
    own = torch.softmax(_of_kernel(params, square) + params["gate.backing"] * global_logits, dim=1)
    others = global_logits - params["gate.reserve"]
    against = others.amax(1, keepdim=True) - (own * others).sum(1, keepdim=True)
    nearest = square.amin(1, keepdim=True) / params["gate.reach"]
    far = 0.5 * torch.log(F.relu(nearest - NEAREST**2) + NEAREST**2)
    lean = params["gate.slope"] * far + params["gate.trust"] * against - params["gate.threshold"]
    # 1 - s as the sigmoid of the opposite: where s is nearly 1, a difference would leave rounding alone
    mixed = torch.sigmoid(-lean) * own + torch.sigmoid(lean) * torch.softmax(others, dim=1)
    return torch.log(mixed + LEAST)
