r"""FedRep (Collins et al., ICML 2021, arXiv 2102.07078), Algorithm 1: head and extractor are trained in turn.

In a round a patient trains its head with the received extractor frozen, then the extractor with that head frozen; the
extractors are averaged by data share. While the extractor is frozen, so are its running statistics.

Departures from the paper: a round of a single step trains both, since neither may be left untrained; the extractors
are weighted by data share, as in FedPer (the paper weights them equally).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.fedper import FedPer
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Tree
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.settings import ranged


@dataclass(frozen=True)
class FedRepSettings(SgdSettings):
    """Settings of FedRep.

    Attributes:
        head_share: share of a round's steps that train the head; the official runs use 10 epochs of 11. Each gets
            at least one step.
    """

    head_share: float = ranged(10 / 11, 0, 1)


class FedRep(FedPer):
    """Shared extractor and personal heads, trained in turn."""

    name: ClassVar[str] = "fedrep"
    communication: ClassVar[CommunicationSpec] = replace(
        FedPer.communication, title="FedRep", reference="Collins et al., ICML 2021"
    )
    settings_type: ClassVar[type] = FedRepSettings

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        head_steps = min(max(round(self.settings.head_share * info.steps), 1), max(info.steps - 1, 1))
        return {
            **super().init_round(message, client_state, info),
            "head_until": torch.tensor(head_steps),
            "body_from": torch.tensor(0 if info.steps == 1 else head_steps),
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)
        moves = {"head": t < state["head_until"], "extractor": t >= state["body_from"]}
        for kind in ("model", "velocity"):  # running statistics belong to the extractor's entries
            new[kind] = {
                name: torch.where(moves[name.split(".")[0]], value, state[kind][name])
                for name, value in new[kind].items()
            }
        return new, losses
