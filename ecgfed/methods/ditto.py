r"""Ditto (Li et al., ICML 2021, arXiv 2012.04221), Algorithm 1: a personal model held near the global one.

.. math::
    v_i \leftarrow v_i - \eta_p (\nabla F_i(v_i) + \lambda (v_i - w^t))

:math:`\lambda` = 0 is training alone; a large one the global model. Each model has a velocity of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from ecgfed.methods.algebra import minus, plus
from ecgfed.methods.answers import Chain, Part
from ecgfed.methods.base import Batch, ClientInfo, Losses, Tree
from ecgfed.methods.card import Card, Keeps, Reports
from ecgfed.methods.fedavg import FedAvg
from ecgfed.methods.local_sgd import train_whole_model, zeros_like
from ecgfed.methods.server_sgd import FederatedSgdSettings
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params


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
    card: ClassVar[Card] = replace(
        FedAvg.card,
        title="Ditto",
        reference="Li et al., ICML 2021",
        keeps=(Keeps("model", "personal model"), Keeps("velocity", "its momentum")),
        reports=(Reports("personal_loss", "the personal model's loss"),),
    )
    settings_type: ClassVar[type] = DittoSettings

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial, "velocity": zeros_like(initial)}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        return {**super().begin(shared, kept, info), "received": shared["model"], "personal": kept}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = train_whole_model(self.net, state, batches[0], self.settings)
        personal, personal_losses = train_whole_model(
            self.net,
            state["personal"],
            batches[0],
            replace(self.settings, lr=self.settings.personal_lr),
            lambda gradient, v: plus(gradient, minus(v, state["received"]), self.settings.lam),
        )
        return {**state, **trained, "personal": personal}, {**losses, "personal_loss": personal_losses["loss"]}

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, state["personal"]

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        return Chain((Part("model", kept["model"], shared=False),))
