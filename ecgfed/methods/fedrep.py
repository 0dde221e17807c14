r"""FedRep (Collins et al., ICML 2021, arXiv 2102.07078), Algorithm 1: first the head, then the body, never both.

In a round a patient trains its head with the received extractor frozen, then the extractor with that head frozen; the
extractors are averaged. While the body is frozen its normalisation statistics stay too. A round of one step moves both,
since neither may go without.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.base import Batch, ClientInfo, Losses, Tree
from ecgfed.methods.card import Card
from ecgfed.methods.fedper import FedPer
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model
from ecgfed.methods.settings import ranged


@dataclass(frozen=True)
class FedRepSettings(SgdSettings):
    """Settings of FedRep.

    Attributes:
        head_share: share of a round's steps that train the head; the official runs use 10 epochs of 11. At least one
            step is left to each.
    """

    head_share: float = ranged(10 / 11, 0, 1)


class FedRep(FedPer):
    """Shared extractor and personal heads, trained in turns."""

    name: ClassVar[str] = "fedrep"
    card: ClassVar[Card] = replace(FedPer.card, title="FedRep", reference="Collins et al., ICML 2021")
    settings_type: ClassVar[type] = FedRepSettings

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        head_steps = min(max(round(self.settings.head_share * info.steps), 1), max(info.steps - 1, 1))
        return {
            **super().begin(shared, kept, info),
            "head_until": torch.tensor(head_steps),
            "body_from": torch.tensor(0 if info.steps == 1 else head_steps),
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = train_whole_model(self.net, state, batches[0], self.settings)
        moves = {"head": t < state["head_until"], "extractor": t >= state["body_from"]}
        for kind in ("model", "velocity"):  # running statistics belong to the extractor's entries
            trained[kind] = {
                name: torch.where(moves[name.split(".")[0]], value, state[kind][name])
                for name, value in trained[kind].items()
            }
        return {**state, **trained}, losses
