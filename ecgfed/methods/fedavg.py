r"""Federated averaging (McMahan et al., AISTATS 2017).

.. math:: \min_w \sum_i p_i F_i(w), \qquad w^{t+1} = \sum_{i \in S_t} p_i\, w_i^{t+1}

with :math:`p_i` client i's share of the participants' training beats (``fedavg``) or 1/m (``fedavg-uniform``), and
:math:`w_i` the result of local SGD from :math:`w^t`. The server may step on with an optimizer of its own
(``server_optimizer``). The global model stands in for every patient.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.answers import Chain, Part
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree, weighted_mean
from ecgfed.methods.card import Card, Travels
from ecgfed.methods.local_sgd import train_whole_model, zeros_like
from ecgfed.methods.risks import risk
from ecgfed.methods.server_sgd import FederatedSgdSettings, server_start, server_step
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net


class FedAvg(Method):
    """FedAvg, weighted by data share."""

    name: ClassVar[str] = "fedavg"
    card: ClassVar[Card] = Card(
        "FedAvg",
        "McMahan et al., AISTATS 2017",
        down=(Travels("model", "global model"),),
        up=(Travels("model", "local model"),),
    )
    settings_type: ClassVar[type] = FederatedSgdSettings
    averages = True

    def server_start(self, initial: Params) -> Tree:
        return server_start(initial, self.settings)

    def client_start(self, initial: Params) -> Tree:
        return {}

    def shared(self, server: Tree, client: int) -> Tree:
        return {"model": server["model"]}

    def survey(self, shared: Tree, batch: Batch) -> Losses:
        return {"loss": risk(self.net.logits(shared["model"], batch.inputs), batch, self.settings)}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        return {"model": shared["model"], "velocity": zeros_like(shared["model"])}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        return train_whole_model(self.net, state, batches[0], self.settings)

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        mean = weighted_mean(returned.tree["model"], self.weights(returned))
        return server_step(server, mean, self.settings, returned.progress)

    def weights(self, returned: Returned) -> torch.Tensor:
        """Aggregation weights (m,): data shares p_i."""
        return returned.data_share

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Chain:
        return Chain((Part("model", server["model"], shared=True),))

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        return Chain((Part("model", server["model"], shared=True),))

    def local_answer(self, returned: Tree) -> Chain | None:
        return Chain((Part("model", returned["model"], shared=False),))


class FedAvgUniform(FedAvg):
    """FedAvg with every participant weighted the same."""

    name: ClassVar[str] = "fedavg-uniform"
    card: ClassVar[Card] = replace(FedAvg.card, title="FedAvg, unweighted")

    def weights(self, returned: Returned) -> torch.Tensor:
        """Aggregation weights (m,): 1/m each."""
        return torch.full_like(returned.train_examples, 1.0 / len(returned.train_examples))


@dataclass(frozen=True)
class LossFirstSettings(FederatedSgdSettings):
    """Settings of methods that ask for a loss before training.

    Attributes:
        survey_beats: over how many training beats at most that loss is taken, others in each round; 0 takes all.
    """

    survey_beats: int = ranged(0, 0, 1_000_000_000)


class LossFirst(FedAvg):
    """FedAvg whose clients return, with their model, the loss over their training beats at the received one.

    What fair aggregations weigh by (q-FFL, AFL); not a method of its own.
    """

    name: ClassVar[str] = ""
    card: ClassVar[Card] = replace(FedAvg.card, up=(*FedAvg.card.up, Travels("loss", "loss before training", "number")))
    settings_type: ClassVar[type] = LossFirstSettings

    def __init__(self, net: Net, settings: LossFirstSettings) -> None:
        super().__init__(net, settings)
        self.needs = replace(self.needs, survey=True, survey_beats=settings.survey_beats)

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        return {**super().begin(shared, kept, info), "loss_before": info.survey["loss"]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = super().step(state, batches, t)
        return {**state, **trained}, losses

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"], "loss": state["loss_before"]}, {}
