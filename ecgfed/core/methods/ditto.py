r"""Ditto (Li et al., ICML 2021, arXiv 2012.04221), Algorithm 1: a personal model held near the global one.

.. math::
    v_i \leftarrow v_i - \eta_p (\nabla F_i(v_i) + \lambda (v_i - w^t))

:math:`\lambda` = 0 is local training; a large one gives the global model.

Departures from the paper: both models take the same number of steps on the same batches, since the engine fixes the
beats of a round; momentum, with a velocity for each model (0 is the paper's); the server steps with Adam
(``server_optimizer``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from ecgfed.core.methods.algebra import minus, plus
from ecgfed.core.methods.communication import CommunicationSpec, Metric, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Tree
from ecgfed.core.methods.local_sgd import train_full_model, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params


@dataclass(frozen=True)
class DittoSettings(FederatedSgdSettings):
    """Settings of Ditto.

    Attributes:
        personal_lr: learning rate of the personal model (eta_p).
        lam: pull towards the received global model (lambda); the paper uses 0.1 to 2.
    """

    personal_lr: float = ranged(5e-3, 0, 100)
    lam: float = ranged(0.1, 0, 1e4)


class Ditto(FedAvg):
    """FedAvg, and beside it a personal model with a pull towards the global one."""

    name: ClassVar[str] = "ditto"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="Ditto",
        reference="Li et al., ICML 2021",
        stores=(Stored("model", "personal model"), Stored("velocity", "its momentum")),
        metrics=(Metric("personal_loss", "the personal model's loss"),),
    )
    settings_type: ClassVar[type] = DittoSettings

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial, "velocity": zeros_like(initial)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {
            **super().init_round(message, client_state, info),
            "received": message["model"],
            "personal": client_state,
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)
        personal, personal_losses = train_full_model(
            self.net,
            state["personal"],
            batches[0],
            replace(self.settings, lr=self.settings.personal_lr),
            lambda gradient, v: plus(gradient, minus(v, state["received"]), self.settings.lam),
        )
        return {**new, "personal": personal}, {**losses, "personal_loss": personal_losses["loss"]}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, state["personal"]

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))
