r"""LG-FedAvg (Liang et al. 2020, arXiv 2001.01523), Algorithm 1: personal extractors, shared head.

Both are trained together; the heads of the participants are averaged, unweighted. The global model is the ensemble of
the personal models (section 3), never that of one extractor. A patient receives the full model until it has an
extractor.

Departure from the paper: the official runs start from a FedAvg checkpoint; here the first ``warm_start`` of the rounds
are FedAvg, so that a run needs no other run.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import BEATS, EQUAL, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import extractor_of, head_of


@dataclass(frozen=True)
class LgFedAvgSettings(SgdSettings):
    """Settings of LG-FedAvg.

    Attributes:
        warm_start: share of the rounds that are FedAvg; 0 starts from random weights.
    """

    warm_start: float = ranged(0.8, 0, 1)

    def planned_by_length(self, over: float) -> tuple[str, ...]:
        """Return ``warm_start`` if FedAvg lasted for a share of the planned rounds that is over."""
        return (f"warm_start={self.warm_start:g}",) if 0 < self.warm_start < min(1.0, over) else ()


class LgFedAvg(Method):
    """Personal extractors, shared head."""

    name: ClassVar[str] = "lg-fedavg"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "LG-FedAvg",
        "Liang et al., 2020",
        down=(
            Sent("model", "global model (until it has an extractor)"),
            Sent("head", "classifier head", "head", condition=("warm_start<1",)),
        ),
        up=(
            Sent("model", "local model (in the warm start)", condition=("warm_start>0",), mean=BEATS),
            Sent("head", "classifier head", "head", condition=("warm_start<1",), mean=EQUAL),
        ),
        stores=(Stored("extractor", "extractor", condition=("warm_start<1",)),),
    )
    settings_type: ClassVar[type] = LgFedAvgSettings
    averages = True
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def server_message(self, server: Tree, client: int) -> Tree:
        if client in server.get("personal", torch.empty(0)):  # it has a personal extractor
            return {"head": head_of(server["model"])}
        return {"model": server["model"]}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        model = {**message.get("model", {}), **client_state.get("extractor", {}), **message.get("head", {})}
        return {"model": model, "velocity": zeros_like(model)}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        if info.progress < self.settings.warm_start:
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

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        if "extractor" not in client_state:
            return Pipeline((Stage("model", server["model"], shared=True),))
        extractor = Stage("extractor", client_state["extractor"], shared=False)
        return Pipeline((extractor, Stage("head", head_of(server["model"]), shared=True)))
