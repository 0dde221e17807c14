r"""Federated averaging (McMahan et al., AISTATS 2017), Algorithm 1; implemented by ``Method`` itself (``base.py``).

.. math:: \min_w \sum_i p_i F_i(w), \qquad w^{t+1} = \sum_{i \in S_t} p_i\, w_i^{t+1}

with :math:`p_i` client i's share of the participants' training beats (``fedavg``) or 1/m (``fedavg-uniform``), and
:math:`w_i` the result of local SGD from :math:`w^t`. The global model serves every patient.

Departures from the paper: momentum in local SGD (0 is the paper's); the server takes its step with Adam, which is
FedAdam of Reddi et al. 2021. ``server_optimizer=sgd`` with ``server_lr=1``, ``server_momentum=0`` and
``server_schedule=constant`` is the paper's plain mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import BEATS, EQUAL, CommunicationSpec, Sent
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.net import Net


class FedAvg(Method):
    """FedAvg, weighted by data share."""

    name: ClassVar[str] = "fedavg"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedAvg",
        "McMahan et al., AISTATS 2017",
        down=(Sent("model", "global model"),),
        up=(Sent("model", "local model", mean=BEATS),),
    )
    averages = True

    def local_model(self, returned: Tree) -> Pipeline | None:
        return Pipeline((Stage("model", returned["model"], shared=False),))


class FedAvgUniform(FedAvg):
    """FedAvg with equal weights for all participants."""

    name: ClassVar[str] = "fedavg-uniform"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication, title="FedAvg, unweighted", up=(Sent("model", "local model", mean=EQUAL),)
    )

    def weights(self, returned: Returned) -> Tensor:
        """Return the aggregation weights (m,): 1/m each."""
        return torch.full_like(returned.train_examples, 1.0 / len(returned.train_examples))


@dataclass(frozen=True)
class LossFirstSettings(FederatedSgdSettings):
    """Settings of methods that use the loss before training.

    Attributes:
        survey_beats: over how many training beats at most that loss is taken, others in each round; 0 takes all. The
            default is what a round trains on by default, since rounds are short beside a pass over all beats.
    """

    survey_beats: int = ranged(64, 0, 1_000_000_000)

    @classmethod
    def of_earlier_versions(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        # version 0.1 always took all
        return {"survey_beats": 0, **super().of_earlier_versions(values)}


class LossFirst(FedAvg):
    """FedAvg whose clients also return the loss of the received model on their training beats.

    Base of fair aggregations that weight by this loss (q-FFL, AFL); not a method by itself.
    """

    name: ClassVar[str] = ""
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication, up=(Sent("model", "local model"), Sent("loss", "loss before training", "number"))
    )
    settings_type: ClassVar[type] = LossFirstSettings

    def __init__(self, net: Net, settings: LossFirstSettings) -> None:
        super().__init__(net, settings)
        self.requirements = replace(self.requirements, pre_round_metrics=True, pre_round_beats=settings.survey_beats)

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        state = super().init_round(message, client_state, info)
        return {**state, "loss_before": info.pre_round_metrics["loss"]}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"], "loss": state["loss_before"]}, {}
