r"""FedProx (Li et al., MLSys 2020, arXiv 1812.06127): FedAvg with a proximal term.

.. math::
    \min_{w_i} F_i(w_i) + \frac{\mu}{2} \lVert w_i - w^t \rVert^2  \tag{2}

:math:`\mu` = 0 is FedAvg. The paper tunes mu over {1, 0.1, 0.01, 0.001}.

Departures from the paper: every client takes the planned number of steps (the paper lets slow ones take fewer); clients
are sampled uniformly and weighted by data share, as in the authors' code (the paper samples by data share and averages
uniformly); the server steps with Adam (``server_optimizer``).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ecgfed.core.methods.algebra import minus, plus
from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import ClientInfo, Tree
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params


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
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication, title="FedProx", reference="Li et al., MLSys 2020"
    )
    settings_type: ClassVar[type] = FedProxSettings

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {**super().init_round(message, client_state, info), "received": message["model"]}

    def adjust_gradient(self, gradient: Params, w: Params, state: Tree) -> Params:
        return plus(gradient, minus(w, state["received"]), self.settings.mu)
