r"""AFL (Mohri, Sivek, Suresh, ICML 2019, arXiv 1902.00146), Stochastic-AFL: the worst mixture of clients decides.

.. math::
    w &\leftarrow w - \gamma_w \sum_i \lambda_i \nabla F_i(w), \\
    \lambda &\leftarrow \Pi_\Delta (\lambda + \gamma_\lambda F(w))

with :math:`\Pi_\Delta` the Euclidean projection onto the simplex; every client takes part in every round. ``afl`` is
exact with ``--local-steps 1`` and momentum 0; its model is the average of w over the rounds.

Departures in ``afl-fedavg``: several local steps, which makes it FedAvg weighted by lambda, as the GRP-FED comparison
implies; its model is the last w; the server steps with Adam (``server_optimizer``). F_i is the loss over all of a
client's training beats at the received w, or over ``survey_beats`` of them, as stochastic AFL estimates it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.fedavg import LossFirst, LossFirstSettings
from ecgfed.core.methods.interface import Requirements, Returned, Tree, weighted_mean
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import PlainMeanSettings, server_start, server_step
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net


@dataclass(frozen=True)
class AflSettings(LossFirstSettings):
    """Settings of AFL.

    Attributes:
        lr: step of w (gamma_w).
        lambda_lr: step of the mixture (gamma_lambda).
    """

    momentum: float = 0.0
    lambda_lr: float = ranged(0.001, 0, 1e4)


@dataclass(frozen=True)
class ExactAflSettings(PlainMeanSettings, AflSettings):
    """AFL's settings with the step of the paper, whose guarantee is for plain steps and losses over all beats."""

    momentum: float = 0.0
    lambda_lr: float = 0.1
    survey_beats: int = 0


def onto_simplex(point: Tensor) -> Tensor:
    """Euclidean projection of (M,) onto the probability simplex (Duchi et al., ICML 2008, figure 1)."""
    falling = point.sort(descending=True).values
    rank = torch.arange(1, len(point) + 1, dtype=point.dtype)
    excess = (falling.cumsum(0) - 1.0) / rank
    return (point - excess[int((falling > excess).sum()) - 1]).clamp_min(0.0)


class AflFedAvg(LossFirst):
    """FedAvg weighted by AFL's mixture of clients."""

    name: ClassVar[str] = "afl-fedavg"
    communication: ClassVar[CommunicationSpec] = replace(
        LossFirst.communication, title="AFL with local steps", reference="Mohri et al., ICML 2019"
    )
    settings_type: ClassVar[type] = AflSettings
    requirements = Requirements(pre_round_metrics=True, all_clients=True)

    def server_start(self, initial: Params) -> Tree:
        return {**server_start(initial, self.settings), "rounds": torch.zeros((), dtype=torch.float64), "mean": initial}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        m = len(returned.clients)
        mixture = server.get("lambda", torch.full((m,), 1.0 / m, dtype=torch.float64))
        aggregated = weighted_mean(returned.tree["model"], mixture)
        moved = server_step(server, aggregated, self.settings, returned.progress)
        rounds = server["rounds"] + 1
        mean = {
            name: torch.lerp(old, moved["model"][name], 1.0 / float(rounds)) for name, old in server["mean"].items()
        }
        return {
            **moved,
            "mean": mean,
            "rounds": rounds,
            "lambda": onto_simplex(mixture + self.settings.lambda_lr * returned.tree["loss"]),
        }

    def round_report(self, server: Tree) -> dict[str, float]:
        return {"effective_clients": float(1 / server["lambda"].square().sum())} if "lambda" in server else {}


class Afl(AflFedAvg):
    """Agnostic federated learning as published."""

    name: ClassVar[str] = "afl"
    communication: ClassVar[CommunicationSpec] = replace(AflFedAvg.communication, title="AFL")
    settings_type: ClassVar[type] = ExactAflSettings
    requirements = Requirements(pre_round_metrics=True, single_step=True, all_clients=True)

    def __init__(self, net: Net, settings: AflSettings) -> None:
        super().__init__(net, settings)
        if settings.momentum:
            actual = f"{settings.momentum}"
            action = "or choose afl-fedavg"
            raise OptionError(f"{param('settings')} momentum", actual, "0 with afl", action, code="conflict")

    def _average(self, server: Tree) -> Pipeline:
        return Pipeline((Stage("model", server["mean"], shared=True),))

    def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Pipeline:
        return self._average(server)

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return self._average(server)
