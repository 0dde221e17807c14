r"""FedGate: personal where it knows, global where it does not. A method of this project, after GRP-FED.

Server, each round: every client counts the same, and Adam steps towards their mean.

.. math:: \theta = \sum_m \lambda_m \theta_m, \qquad \lambda_m = \frac{1}{M}

With ``q0`` and ``eta_q`` it weighs clients by their losses instead, as GRP-FED does (Chou et al. 2021, equations 2 and
3), but q never falls below 0, where the best served would be favoured. Over five seeds the global model did not serve
the worst served measurably better (docs/results.md), so it is not the default.

.. math::
    q' = \max\Big(0,\, q + \eta_q \frac{\sigma' - \sigma}{(\sigma' + \sigma)/2}\Big), \qquad
    \lambda_m = \frac{(L_m)^{q'}}{\sum_i (L_i)^{q'}}

Client, each batch: a step of the global model. Nothing personal is trained in the federation, so a round costs what
FedAvg's does. A patient's answer is made afterwards, from the global model and its own beats: near them a kernel
machine p on them, elsewhere the global model g, by a gate s on distance and evidence (``ecgfed.personal.gated``).

.. math:: (1 - s)\, p + s \operatorname{softmax} \tilde g
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.communication import Sent, Stored
from ecgfed.methods.fedavg import FedAvg
from ecgfed.methods.grp_fed import loss_weights, next_power
from ecgfed.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.methods.server_sgd import FederatedSgdSettings, server_start, server_step
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params


@dataclass(frozen=True)
class FedGateSettings(FederatedSgdSettings):
    """Settings of FedGate.

    Attributes:
        q0: loss power before the first round; 0 gives all clients the same weight.
        eta_q: how fast q follows the spread of the losses (eta_q); 0 leaves it as it is.
        loss_memory: L_m = memory * old + (1 - memory) * new, kept by the client.
    """

    lr: float = 0.02
    server_optimizer: str = "adam"
    server_lr: float = 0.01
    server_momentum: float = 0.9
    server_schedule: str = "cosine"
    q0: float = ranged(0.0, 0, 100)
    eta_q: float = ranged(0.0, 0, 100)
    loss_memory: float = ranged(0.5, 0, 0.9999)


class FedGate(FedAvg):
    """One global model in which all patients count the same; a gate to each patient's own beats."""

    name: ClassVar[str] = "fed-gate"
    communication = replace(
        FedAvg.communication,
        title="FedGate",
        reference="ours",
        up=(*FedAvg.communication.up, Sent("loss", "its loss", "number")),
        stores=(Stored("loss", "its loss", "as it is"),),
    )
    settings_type: ClassVar[type] = FedGateSettings
    personal: ClassVar[str] = "gated"

    def server_start(self, initial: Params) -> Tree:
        zero = torch.zeros((), dtype=torch.float64)
        start = server_start(initial, self.settings)
        return {**start, "q": zero + self.settings.q0, "sigma": zero - 1, "effective_clients": zero}

    def client_start(self, initial: Params) -> Tree:
        return {"loss": torch.full((), -1.0, dtype=torch.float64)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        zero = torch.zeros((), dtype=torch.float64)
        state = super().init_round(message, client_state, info)
        return {**state, "loss_before": client_state["loss"], "loss_sum": zero, "steps": zero}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)
        return {**new, "loss_sum": state["loss_sum"] + losses["loss"], "steps": state["steps"] + 1}, losses

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        mean = state["loss_sum"] / state["steps"]
        before, memory = state["loss_before"], self.settings.loss_memory
        loss = torch.where(before < 0, mean, memory * before + (1 - memory) * mean)
        return {"model": state["model"], "loss": loss}, {"loss": loss}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        losses: Tensor = returned.tree["loss"]
        sigma = losses.std(correction=0)
        moved = next_power(server["q"], sigma, server["sigma"], self.settings.eta_q).clamp_min(0.0)
        q = torch.where(server["sigma"] < 0, server["q"], moved)
        weights = loss_weights(losses, q)
        mean = weighted_mean(returned.tree["model"], weights)
        stepped = server_step(server, mean, self.settings, returned.progress)
        return {**stepped, "q": q, "sigma": sigma, "effective_clients": 1 / (weights**2).sum()}

    def round_report(self, server: Tree) -> dict[str, float]:
        return {name: float(server[name]) for name in ("q", "sigma", "effective_clients")}
