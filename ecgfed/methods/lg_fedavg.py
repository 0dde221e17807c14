r"""LG-FedAvg (Liang et al. 2020, arXiv 2001.01523), Algorithm 1: each patient keeps an extractor, the head is shared.

Both are trained together; the heads of the participants are averaged, unweighted. The official runs start from a
FedAvg checkpoint: here the first ``warm_start`` of the rounds are FedAvg. New data are answered by the ensemble of the
personal models (section 3), never by one extractor. A patient is sent the whole model until it has an extractor.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.answers import Answer, Chain, Part, together
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree, weighted_mean
from ecgfed.methods.card import Card, Keeps, Travels
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model, zeros_like
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params
from ecgfed.nets.parts import extractor_of, head_of


@dataclass(frozen=True)
class LgFedAvgSettings(SgdSettings):
    """Settings of LG-FedAvg.

    Attributes:
        warm_start: share of the rounds that are FedAvg; 0 starts from nothing.
    """

    warm_start: float = ranged(0.5, 0, 1)

    def planned_by_length(self, over: float) -> tuple[str, ...]:
        """FedAvg has a share of all rounds; until that is over, a longer run does the same."""
        return (f"warm_start={self.warm_start:g}",) if 0 < self.warm_start < min(1.0, over) else ()


class LgFedAvg(Method):
    """Personal extractors, shared head."""

    name: ClassVar[str] = "lg-fedavg"
    card: ClassVar[Card] = Card(
        "LG-FedAvg",
        "Liang et al., 2020",
        down=(
            Travels("model", "global model (until it has an extractor)"),
            Travels("head", "classifier head", "head", when=("warm_start<1",)),
        ),
        up=(
            Travels("model", "local model (in the warm start)", when=("warm_start>0",)),
            Travels("head", "classifier head", "head", when=("warm_start<1",)),
        ),
        keeps=(Keeps("extractor", "extractor", when=("warm_start<1",)),),
    )
    settings_type: ClassVar[type] = LgFedAvgSettings
    averages = True
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def client_start(self, initial: Params) -> Tree:
        return {}

    def shared(self, server: Tree, client: int) -> Tree:
        if client in server.get("personal", torch.empty(0)):  # it has an extractor of its own
            return {"head": head_of(server["model"])}
        return {"model": server["model"]}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        model = {**shared.get("model", {}), **kept.get("extractor", {}), **shared.get("head", {})}
        return {"model": model, "velocity": zeros_like(model)}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        return train_whole_model(self.net, state, batches[0], self.settings)

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        warm = info.progress < self.settings.warm_start
        if warm:
            return {"model": state["model"]}, {}
        return {"head": head_of(state["model"])}, {"extractor": extractor_of(state["model"])}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        if "model" in returned.tree:
            return {"model": weighted_mean(returned.tree["model"], returned.data_share)}
        even = torch.full_like(returned.train_examples, 1.0 / len(returned.train_examples))
        before = server.get("personal", returned.clients[:0])
        return {
            "model": {**server["model"], **weighted_mean(returned.tree["head"], even)},
            "personal": torch.unique(torch.cat([before, returned.clients])),
        }

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        return together([self.personal_answer(server, client) for client in kept], protocol)

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        if "extractor" not in kept:
            return Chain((Part("model", server["model"], shared=True),))
        own = Part("extractor", kept["extractor"], shared=False)
        return Chain((own, Part("head", head_of(server["model"]), shared=True)))
