r"""APFL (Deng, Kamani and Mahdavi 2020, arXiv 2003.13461), Algorithm 1: a personal model mixed with the global one.

.. math::
    w_i &\leftarrow w_i - \eta \nabla f_i(w_i), \qquad \bar v_i = \alpha_i v_i + (1 - \alpha_i) w_i \\
    v_i &\leftarrow v_i - \eta \nabla_{v} f_i(\bar v_i) = v_i - \eta\, \alpha_i \nabla f_i(\bar v_i) \\
    \alpha_i &\leftarrow \alpha_i - \eta \langle v_i - w_i, \nabla f_i(\bar v_i) \rangle
      \quad \text{(section 4.2), held in } [0, 1]

Every gradient is taken at the models of the step before. The server averages the :math:`w_i`; :math:`v_i` and
:math:`\alpha_i` stay with the client, whose model is :math:`\bar v_i` with the server's w. As in the authors' code,
:math:`\alpha_i` moves once a round, at its first step; there its adaptation is an option that is off by default.

Departures from the paper: participants are weighted by data share (equally in the paper); momentum (0 is the paper's);
running statistics of the mixture belong to :math:`v_i`; the server steps with Adam (``server_optimizer``).

Numbers of algorithm and section, and the paper's settings, are from memory of the paper; the authors' code is
github.com/MLOPTPSU/FedTorch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.algebra import inner, minus, plus, times
from ecgfed.core.methods.communication import CommunicationSpec, Metric, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Tree
from ecgfed.core.methods.local_sgd import model_gradients, sgd_step, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, trainable


@dataclass(frozen=True)
class ApflSettings(FederatedSgdSettings):
    """Settings of APFL.

    Attributes:
        alpha: share of the personal model in the mixture before the first round (alpha_i).
        adaptive: whether each client adapts its alpha_i, once a round.
    """

    alpha: float = ranged(0.5, 0, 1)
    adaptive: bool = True


def mixture(v: Params, w: Params, alpha: Tensor) -> Params:
    """Return alpha v + (1 - alpha) w, with the running statistics of v."""
    return {**v, **plus(times(trainable(v), alpha), w, 1 - alpha)}


class Apfl(FedAvg):
    """FedAvg, and a personal model that is a learned mixture of the global one and the client's own."""

    name: ClassVar[str] = "apfl"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="APFL",
        reference="Deng et al., 2020",
        stores=(Stored("model", "its own model"), Stored("alpha", "that model's share of the mixture")),
        metrics=(Metric("personal_loss", "the personal model's loss"),),
    )
    settings_type: ClassVar[type] = ApflSettings

    def client_start(self, initial: Params) -> Tree:
        like = next(iter(initial.values()))
        return {"model": initial, "alpha": like.new_full((), self.settings.alpha)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {
            **super().init_round(message, client_state, info),
            "v": client_state["model"],
            "v_velocity": zeros_like(client_state["model"]),
            "alpha": client_state["alpha"],
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        w, v, alpha, settings = state["model"], state["v"], state["alpha"], self.settings
        new, losses = super().step(state, batches, t)
        gradient, loss, stats = model_gradients(self.net, mixture(v, w, alpha), batches[0], settings)
        new["v"], new["v_velocity"] = sgd_step(v, times(gradient, alpha), state["v_velocity"], stats, settings)
        if settings.adaptive:
            moved = alpha - settings.lr * inner(minus(trainable(v), w), gradient).to(alpha.dtype)
            new["alpha"] = torch.where(torch.as_tensor(t, device=loss.device) == 0, moved.clamp(0, 1), alpha)
        return new, {**losses, "personal_loss": loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"model": state["v"], "alpha": state["alpha"]}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        mixed = mixture(client_state["model"], server["model"], client_state["alpha"])
        return Pipeline((Stage("model", mixed, shared=False),))
