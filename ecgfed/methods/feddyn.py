r"""FedDyn (Acar et al., ICLR 2021, arXiv 2111.04263), Algorithm 1.

.. math::
    \theta_i &= \arg\min_\theta F_i(\theta) - \langle g_i, \theta \rangle
      + \frac{\alpha}{2} \lVert \theta - w \rVert^2 \\
    g_i &\leftarrow g_i - \alpha (\theta_i - w), \qquad
    h \leftarrow h - \frac{\alpha}{M} \sum_{i \in S} (\theta_i - w), \qquad
    w \leftarrow \operatorname{mean}_S \theta_i - \frac{h}{\alpha}

The quadratic is squared: its gradient :math:`\alpha (\theta - w)` is linear in the distance. Running statistics are the
participants' mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from ecgfed.methods.algebra import minus, plus
from ecgfed.methods.base import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.methods.card import Card, Keeps
from ecgfed.methods.fedavg import FedAvgUniform
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model, zeros_like
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params, trainable


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
    card: ClassVar[Card] = replace(
        FedAvgUniform.card,
        title="FedDyn",
        reference="Acar et al., ICLR 2021",
        keeps=(Keeps("linear", "gradient of the regulariser", "in effect"),),
    )
    settings_type: ClassVar[type] = FedDynSettings

    def server_start(self, initial: Params) -> Tree:
        return {"model": initial, "h": zeros_like(initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"linear": zeros_like(initial)}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        return {**super().begin(shared, kept, info), "received": shared["model"], "linear": kept["linear"]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = train_whole_model(
            self.net,
            state,
            batches[0],
            self.settings,
            lambda gradient, w: plus(
                minus(gradient, state["linear"]), minus(w, state["received"]), self.settings.alpha
            ),
        )
        return {**state, **trained}, losses

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        way = minus(trainable(state["model"]), state["received"])
        return {"model": state["model"]}, {"linear": plus(state["linear"], way, -self.settings.alpha)}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        alpha = self.settings.alpha
        mean = weighted_mean(returned.tree["model"], self.weights(returned))
        way = minus(trainable(mean), server["model"])
        share = len(returned.clients) / returned.federation  # mean times m / M is the sum over M
        h = plus(server["h"], way, -alpha * share)
        return {"model": {**mean, **plus(trainable(mean), h, -1.0 / alpha)}, "h": h}
