r"""FedProx (Li et al., MLSys 2020, arXiv 1812.06127): FedAvg with a proximal term.

.. math::
    \min_{w_i} F_i(w_i) + \frac{\mu}{2} \lVert w_i - w^t \rVert^2  \tag{2}

:math:`\mu` = 0 is FedAvg. The paper tunes mu over {1, 0.1, 0.01, 0.001}.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from ecgfed.methods.algebra import minus, plus
from ecgfed.methods.base import Batch, ClientInfo, Losses, Tree
from ecgfed.methods.card import Card
from ecgfed.methods.fedavg import FedAvg
from ecgfed.methods.local_sgd import train_whole_model
from ecgfed.methods.server_sgd import FederatedSgdSettings
from ecgfed.methods.settings import ranged


@dataclass(frozen=True)
class FedProxSettings(FederatedSgdSettings):
    """Settings of FedProx.

    Attributes:
        mu: strength of the proximal term (mu).
    """

    mu: float = ranged(0.01, 0, 1e4)


class FedProx(FedAvg):
    """FedAvg whose local models are held near the received one."""

    name: ClassVar[str] = "fedprox"
    card: ClassVar[Card] = replace(FedAvg.card, title="FedProx", reference="Li et al., MLSys 2020")
    settings_type: ClassVar[type] = FedProxSettings

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        return {**super().begin(shared, kept, info), "received": shared["model"]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = train_whole_model(
            self.net,
            state,
            batches[0],
            self.settings,
            lambda gradient, w: plus(gradient, minus(w, state["received"]), self.settings.mu),
        )
        return {**state, **trained}, losses
