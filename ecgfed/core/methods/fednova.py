r"""FedNova (Wang et al., NeurIPS 2020, arXiv 2007.07481): changes are averaged per local step, whatever their number.

After :math:`\tau_i` local steps a client has moved by :math:`w - w_i = \eta\, G_i a_i`, where :math:`G_i` has the
gradient of each step as a column and :math:`a_i` says how much each of them counts in the sum. With momentum
:math:`\rho` (section 4):

.. math::
    \lVert a_i \rVert_1 = \frac{1}{1 - \rho} \Big(\tau_i - \frac{\rho (1 - \rho^{\tau_i})}{1 - \rho}\Big)

Server (with the choice of :math:`\tau_\text{eff}` of the official code):

.. math::
    d_i = \frac{w - w_i}{\lVert a_i \rVert_1}, \qquad \tau_\text{eff} = \sum_i p_i \lVert a_i \rVert_1, \qquad
    w \leftarrow w - \tau_\text{eff} \sum_i p_i d_i

Clients that take equally many steps make this FedAvg. With ``local_epochs`` a patient with more beats takes more steps,
and FedAvg would count it for that in addition to its data share.

Departures from the paper: running statistics, which it does not mention, are the mean by data share; the server steps
with Adam (``server_optimizer``); local proximal terms are left to ``fedprox``.

The number of the section is from memory of the paper; the official code is github.com/JYWa/FedNova.
"""

from dataclasses import replace
from typing import ClassVar

import torch

from ecgfed.core.methods.algebra import plus
from ecgfed.core.methods.communication import CommunicationSpec, Sent
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree, weighted_mean
from ecgfed.core.methods.server_sgd import server_step
from ecgfed.core.nets.layers import trainable


def accumulation(steps: int, momentum: float) -> float:
    """Return ||a_i||_1 of a number of local SGD steps."""
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


class FedNova(FedAvg):
    """FedAvg whose clients' changes are divided by their effective number of local steps."""

    name: ClassVar[str] = "fednova"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="FedNova",
        reference="Wang et al., NeurIPS 2020",
        up=(Sent("model", "local model"), Sent("steps", "its effective number of steps", "number")),
    )
    averages = False

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        steps = accumulation(info.steps, self.settings.momentum)
        return {"model": state["model"], "steps": torch.tensor(steps, dtype=torch.float64)}, {}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        share, steps = self.weights(returned), returned.tree["steps"]
        effective = (share * steps).sum()  # tau_eff
        mean = weighted_mean(returned.tree["model"], share)
        w = trainable(server["model"])
        change = {name: returned.tree["model"][name] - value for name, value in w.items()}
        moved = plus(w, weighted_mean(change, effective * share / steps))  # w - tau_eff sum p_i d_i
        return server_step(server, {**mean, **moved}, self.settings, returned.progress)
