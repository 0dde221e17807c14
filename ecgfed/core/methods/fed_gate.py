r"""FedGate: a global model, gated to a personal one near the patient's beats. A method of this project, after GRP-FED.

Server, each round: every client counts the same, and Adam steps towards their mean.

.. math:: \theta = \sum_m \lambda_m \theta_m, \qquad \lambda_m = \frac{1}{M}

With ``q0`` and ``eta_q`` it weights clients by their losses instead, as GRP-FED does (Chou et al. 2021, equations 2 and
3), but with q of at least 0, below which clients with small losses would be favoured. Over five seeds this did not
measurably improve the global model for the worst clients (docs/results.md), so it is not the default.

.. math::
    q' = \max\Big(0,\, q + \eta_q \frac{\sigma' - \sigma}{(\sigma' + \sigma)/2}\Big), \qquad
    \lambda_m = \frac{(L_m)^{q'}}{\sum_i (L_i)^{q'}}

Client, each batch: a step of the global model. Nothing personal is trained in the federation, so a round costs what
FedAvg's does. A patient's model is fitted afterwards, from the global model and the patient's beats: near them a kernel
machine p, elsewhere the global model g, with a gate s on distance and evidence (``ecgfed.core.personal.gated``).

.. math:: (1 - s)\, p + s \operatorname{softmax} \tilde g

Its closest relative is kNN-Per (Marfoq et al., ICML 2022, arXiv 2111.09360; ``knn_per.py``), which came before it:
there too the federation trains the global model alone, and a patient's model compares features with those of the
patient's own examples. Its mixture has one share for all examples of a patient; here the gate depends on the beat.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ecgfed.core.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import Tree
from ecgfed.core.methods.loss_weighted import LossWeighted
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged


@dataclass(frozen=True)
class FedGateSettings(FederatedSgdSettings):
    """Settings of FedGate.

    Attributes:
        q0: loss power before the first round; 0 gives all clients the same weight.
        eta_q: how fast q follows the spread of the losses (eta_q); 0 keeps q constant.
        loss_memory: L_m = memory * old + (1 - memory) * new, stored by the client.
    """

    q0: float = ranged(0.0, 0, 100)
    eta_q: float = ranged(0.0, 0, 100)
    loss_memory: float = ranged(0.5, 0, 0.9999)


class FedGate(LossWeighted):
    """A global model with equal weights for all patients, and a gated personal model."""

    name: ClassVar[str] = "fed-gate"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="FedGate",
        reference="ours",
        up=(Sent("model", "local model"), Sent("loss", "its loss", "number")),
        stores=(Stored("loss", "its loss", "as it is"),),
    )
    settings_type: ClassVar[type] = FedGateSettings
    personal: ClassVar[str] = "gated"

    def local_model(self, returned: Tree) -> Pipeline | None:
        return Pipeline((Stage("model", returned["model"], shared=False),))
