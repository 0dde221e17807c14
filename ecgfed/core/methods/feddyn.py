r"""FedDyn (Acar et al., ICLR 2021, arXiv 2111.04263), Algorithm 1.

.. math::
    \theta_i &= \arg\min_\theta F_i(\theta) - \langle g_i, \theta \rangle
      + \frac{\alpha}{2} \lVert \theta - w \rVert^2 \\
    g_i &\leftarrow g_i - \alpha (\theta_i - w), \qquad
    h \leftarrow h - \frac{\alpha}{M} \sum_{i \in S} (\theta_i - w), \qquad
    w \leftarrow \operatorname{mean}_S \theta_i - \frac{h}{\alpha}

The gradient of the quadratic, :math:`\alpha (\theta - w)`, is linear in the distance.

Departures from the paper: the minimum is approached by the SGD steps of a round, with momentum (0 is the paper's);
running statistics, which the paper does not mention, are the participants' mean.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ecgfed.core.methods.algebra import minus, plus
from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.fedavg import FedAvgUniform
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, trainable


@dataclass(frozen=True)
class FedDynSettings(SgdSettings):
    """Settings of FedDyn.

    Attributes:
        alpha: strength of the dynamic regulariser (alpha); the paper uses 0.1, 0.01 or 0.001.
    """

    alpha: float = ranged(0.01, 1e-6, 1e4)


class FedDyn(FedAvgUniform):
    """FedAvg with a regulariser that moves the clients' optima onto the global one."""

    name: ClassVar[str] = "feddyn"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvgUniform.communication,
        title="FedDyn",
        reference="Acar et al., ICLR 2021",
        stores=(Stored("linear", "gradient of the regulariser", "in effect"),),
    )
    settings_type: ClassVar[type] = FedDynSettings

    def server_start(self, initial: Params) -> Tree:
        return {"model": initial, "h": zeros_like(initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"linear": zeros_like(initial)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {
            **super().init_round(message, client_state, info),
            "received": message["model"],
            "linear": client_state["linear"],
        }

    def adjust_gradient(self, gradient: Params, w: Params, state: Tree) -> Params:
        return plus(minus(gradient, state["linear"]), minus(w, state["received"]), self.settings.alpha)

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        change = minus(trainable(state["model"]), state["received"])
        return {"model": state["model"]}, {"linear": plus(state["linear"], change, -self.settings.alpha)}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        alpha = self.settings.alpha
        mean = weighted_mean(returned.tree["model"], self.weights(returned))
        change = minus(trainable(mean), server["model"])
        share = len(returned.clients) / returned.federation  # mean times m / M is the sum over M
        h = plus(server["h"], change, -alpha * share)
        return {"model": {**mean, **plus(trainable(mean), h, -1.0 / alpha)}, "h": h}
