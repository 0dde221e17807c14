r"""A patient's model on the global model's frozen features: a linear head, a kernel machine, and the gate.

With x a beat's description (features, and the shape of the window if the net has one), standardised per patient, and
c_k the centres, beats of the patient:

.. math::
    \text{kernel}: \quad o(x) = b + \sum_k a_k e^{-\lVert x - c_k \rVert^2} \\
    \text{gate}: \quad p = \operatorname{softmax}(o(x) + \alpha g(x)), \qquad \tilde g = g(x) - r, \qquad
    s = \sigma\big(\kappa \ln \tfrac{d(x)}{\tau} + \lambda (\max_c \tilde g_c - \textstyle\sum_c p_c \tilde g_c)
      - \theta\big), \qquad (1 - s)\, p + s \operatorname{softmax} \tilde g

g are the global head's logits, which support the personal model with weight :math:`\alpha` among the patient's classes
(b excludes the others), r the margin of classes without beats, d the distance to the nearest centre, :math:`\tau` a
quantile of the distances of the patient's beats. So the global model decides far from the patient's beats (d above
:math:`\tau`) and where it strongly contradicts the personal one. The graph's output is the logarithm of the mixture,
with a thousandth added to every class.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Params, is_exported, linear

#: Added to each probability before its logarithm: below it, rounding of the distance changes logits by more than two
#: devices may differ.
PROBABILITY_FLOOR = 1e-3
#: Lower bound of a distance, in units of tau: below it rounding would matter, and the gate is closed anyway.
MIN_DISTANCE = 0.25
#: Rows whose differences to the centres are computed at once; the bits of a row do not depend on it.
ROWS_AT_ONCE = 32


def squared_distances(params: Params, described: Tensor) -> Tensor:
    """Return squared distances to the centres; (B, D) -> (B, centres).

    From differences: for a beat near a centre ``x^2 - 2xc + c^2`` would be rounding error only, and the gate would
    differ between machines.
    """
    x = (described - params["own.shift"]) * params["own.scale"]
    # some rows at a time: their differences stay in the processor's cache, which is 13 times as fast
    parts = (x,) if is_exported() else torch.split(x, ROWS_AT_ONCE)
    differences = (part[:, None, :] - params["own.kept"][None] for part in parts)
    squares = [(difference * difference).sum(2) for difference in differences]
    return squares[0] if len(squares) == 1 else torch.cat(squares)


def prototype_distance(params: Params, shape: Tensor) -> Tensor:
    """Return the mean square (B, 1) between shapes (B, S) and the nearest prototype.

    Multiplied out, unlike the gate's distances: for this use small distances need not be exact.
    """
    prototypes = params["far.typical"]
    square = (shape * shape).sum(1, keepdim=True) - 2.0 * F.linear(shape, prototypes) + params["far.square"]
    return square.amin(1, keepdim=True) / shape.shape[1]


def linear_logits(params: Params, features: Tensor) -> Tensor:
    """Return logits (B, classes) of a linear head on features (B, features)."""
    return linear(params, "own", features)


def _kernel_output(params: Params, square: Tensor) -> Tensor:
    return F.linear(torch.exp(-square), params["own.weight"], params["own.bias"])


def kernel_logits(params: Params, described: Tensor) -> Tensor:
    """Return logits (B, classes) of the kernel machine for descriptions (B, D)."""
    return _kernel_output(params, squared_distances(params, described))


def gated_logits(params: Params, described: Tensor, global_logits: Tensor) -> Tensor:
    """Return log-probabilities (B, classes) of the mixture of kernel machine and global model, plus a thousandth."""
    square = squared_distances(params, described)
    personal = torch.softmax(_kernel_output(params, square) + params["gate.backing"] * global_logits, dim=1)
    reserved = global_logits - params["gate.reserve"]
    contradiction = reserved.amax(1, keepdim=True) - (personal * reserved).sum(1, keepdim=True)
    nearest = square.amin(1, keepdim=True) / params["gate.reach"]
    log_distance = 0.5 * torch.log(F.relu(nearest - MIN_DISTANCE**2) + MIN_DISTANCE**2)
    gate = params["gate.slope"] * log_distance + params["gate.trust"] * contradiction - params["gate.threshold"]
    # 1 - s as sigmoid(-gate): for s near 1 a difference would be rounding error only
    mixed = torch.sigmoid(-gate) * personal + torch.sigmoid(gate) * torch.softmax(reserved, dim=1)
    return torch.log(mixed + PROBABILITY_FLOOR)
