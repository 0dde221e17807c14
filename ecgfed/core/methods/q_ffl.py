r"""q-FFL, solved by q-FedAvg (Li et al., ICLR 2020, arXiv 1905.10497), Algorithm 2.

.. math::
    \min_w \sum_i \frac{1}{q + 1} F_i^{q+1}(w), \qquad g_i = L (w - w_i), \qquad
    \Delta_i = F_i^q g_i, \qquad h_i = q F_i^{q-1} \lVert g_i \rVert^2 + L F_i^q, \qquad
    w \leftarrow w - \frac{\sum \Delta_i}{\sum h_i}

F_i is the loss over all of a client's training beats at the received w, before it trains (with ``survey_beats``, an
estimate of it over so many, for rounds that are short beside it). Dividing both sums by
:math:`\sum F_i^q` leaves :math:`u = \operatorname{softmax}(q \log F)`, which is stable at q = 10:
:math:`w \leftarrow w - \sum u_i g_i / \sum u_i (q \lVert g_i \rVert^2 / F_i + L)`.

L is 1/eta for plain SGD. Momentum m makes :math:`w - w_i` up to 1/(1 - m) times longer than eta times the gradients, so
L is (1 - m)/eta.

Departures from the paper: momentum, with L as above; running statistics, which have no gradient, are averaged with
weights u; the server steps with Adam (``server_optimizer``).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from ecgfed.core.methods.algebra import plus
from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.fedavg import LossFirst, LossFirstSettings
from ecgfed.core.methods.interface import Returned, Tree, weighted_mean
from ecgfed.core.methods.server_sgd import server_step
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, is_buffer, trainable

#: Losses are clamped to this, so that logarithm and inverse are finite.
SMALLEST_LOSS = 1e-8


@dataclass(frozen=True)
class QFflSettings(LossFirstSettings):
    """Settings of q-FFL.

    Attributes:
        q: power of the losses; 0 is the unweighted mean of the clients' models.
    """

    lr: float = ranged(0.02, 1e-9, 100)
    q: float = ranged(0.3, 0, 100)


class QFfl(LossFirst):
    """Clients weighted by their losses to the power q."""

    name: ClassVar[str] = "q-ffl"
    communication: ClassVar[CommunicationSpec] = replace(
        LossFirst.communication, title="q-FFL", reference="Li et al., ICLR 2020"
    )
    settings_type: ClassVar[type] = QFflSettings
    averages = False  # the step is divided by a sum over the lengths of the updates

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        settings, w = self.settings, server["model"]
        lipschitz = (1.0 - settings.momentum) / settings.lr
        losses = returned.tree["loss"].clamp_min(SMALLEST_LOSS)
        u = torch.softmax(settings.q * losses.log(), dim=0)
        models = returned.tree["model"]
        # g_i = L (w - w_i), every entry (m, ...)
        g: Params = {name: lipschitz * (value - models[name]) for name, value in trainable(w).items()}
        lengths = torch.stack([value.double().flatten(1).square().sum(1) for _, value in sorted(g.items())]).sum(0)
        total = (u * (settings.q * lengths / losses + lipschitz)).sum()
        moved = plus(trainable(w), weighted_mean(g, u), -1.0 / float(total))
        averaged = weighted_mean({name: value for name, value in models.items() if is_buffer(name)}, u)
        return server_step(server, {**w, **averaged, **moved}, settings, returned.progress)
