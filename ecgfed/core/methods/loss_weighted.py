"""FedAvg with clients weighted by a power q of their losses: GRP-FED's equations 2 and 3, printed in ``grp_fed.py``.

Base of GRP-FED and FedGate, not a method by itself.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.core.methods.server_sgd import server_step
from ecgfed.core.nets.layers import Params

#: Losses are clamped to this, so that the logarithm is finite.
SMALLEST_LOSS = 1e-8


def next_power(q: Tensor, sigma: Tensor, sigma_before: Tensor, eta_q: float) -> Tensor:
    """Equation 2, all 0-d; q does not change if both spreads are 0."""
    total = sigma + sigma_before
    change = torch.where(total > 0, 2 * (sigma - sigma_before) / total.clamp_min(1e-300), torch.zeros_like(total))
    return q + eta_q * change


def loss_weights(losses: Tensor, q: Tensor) -> Tensor:
    """Equation 3 as a stable softmax, lambda = softmax(q log L); (m,) with sum 1."""
    return torch.softmax(q * losses.clamp_min(SMALLEST_LOSS).log(), dim=0)


def unevenness(losses: Tensor, driver: str) -> Tensor:
    """Return what q follows, for losses (m,): sigma, sigma over the mean, or the worst tenth over the mean; 0-d."""
    if driver == "worst-tenth":
        worst = losses.topk(math.ceil(len(losses) / 10)).values
        return worst.mean() / losses.mean().clamp_min(SMALLEST_LOSS)
    sigma = losses.std(correction=0)
    return sigma if driver == "spread" else sigma / losses.mean().clamp_min(SMALLEST_LOSS)


class LossWeighted(Method):
    """FedAvg weighted by a power of losses; settings have ``q0``, ``eta_q`` and ``loss_memory``."""

    averages = True
    #: lower bound of q; below 0 clients with small losses would be favoured
    q_floor: float = 0.0

    def server_start(self, initial: Params) -> Tree:
        zero = torch.zeros((), dtype=torch.float64)
        state = {"q": zero + self.settings.q0, "sigma": zero - 1, "effective_clients": zero}
        return {**super().server_start(initial), **state}

    def client_start(self, initial: Params) -> Tree:
        return {"loss": torch.full((), -1.0, dtype=torch.float64)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        state = super().init_round(message, client_state, info)
        zero = torch.zeros((), dtype=torch.float64)
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
        sigma = self.unevenness(returned)
        q = next_power(server["q"], sigma, server["sigma"], self.settings.eta_q)
        q = torch.where(server["sigma"] < 0, server["q"], q).clamp_min(self.q_floor)
        weights = self.client_weights(returned, q)
        mean = weighted_mean(returned.tree["model"], weights)
        moved = server_step(server, mean, self.settings, returned.progress)
        return {**moved, "q": q, "sigma": sigma, "effective_clients": 1 / (weights**2).sum()}

    def unevenness(self, returned: Returned) -> Tensor:
        """Return sigma, which q follows: the standard deviation of the losses; 0-d."""
        losses: Tensor = returned.tree["loss"]
        return losses.std(correction=0)

    def client_weights(self, returned: Returned, q: Tensor) -> Tensor:
        """Return the aggregation weights (m,) by equation 3."""
        return loss_weights(returned.tree["loss"], q)

    def round_report(self, server: Tree) -> dict[str, float]:
        return {name: float(server[name]) for name in ("q", "sigma", "effective_clients")}
