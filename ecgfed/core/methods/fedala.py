r"""FedALA (Zhang et al., AAAI 2023, arXiv 2212.01197): each client learns how much of the global model it takes.

Before local training, a client mixes the received model :math:`\Theta` into its own last model :math:`\Theta_i`, with a
weight for each parameter of the p last layers; all other layers are received as they are:

.. math::
    \hat\Theta_i &= \Theta_i + (\Theta - \Theta_i) \odot [1;\, W_i], \qquad W_i \in [0, 1] \\
    W_i &\leftarrow \operatorname{clip}\big(W_i - \eta\, \nabla_{\hat\Theta_i} \mathcal{L}(\hat\Theta_i)
      \odot (\Theta - \Theta_i),\, 0,\, 1\big)

The weights start at 1, FedAvg's choice. They are learned on a random share of the client's training beats, from its
second round on: that time until the losses of ten passes have a standard deviation below ``threshold``, later by one
pass a round.
The server averages the trained models by data share; a client's model is the one after its local training.

Departures from the paper: momentum in local SGD; running statistics are received, not mixed; at most ``passes`` passes
the first time; the server steps with Adam (``server_optimizer``).

The authors' code is github.com/TsingZ0/FedALA; its p of 2 counts a layer's weight and bias apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import Batch, ClientInfo, Requirements, Tree
from ecgfed.core.methods.local_sgd import gradients, zeros_like
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, trainable

#: Passes whose losses decide whether the weights have converged.
COMPARED = 10


@dataclass(frozen=True)
class FedAlaSettings(FederatedSgdSettings):
    """Settings of FedALA; layers, ala_share, ala_lr and threshold have the defaults of the authors' code.

    Attributes:
        layers: number of last layers that are mixed (p).
        ala_share: share of the training beats on which the weights are learned, drawn anew in each round (s).
        ala_lr: their learning rate (eta).
        ala_batch: beats per step of the weights.
        threshold: standard deviation of the losses of ten passes below which the first learning ends.
        passes: maximum number of passes of the first learning.
    """

    layers: int = ranged(1, 1, 1000)
    ala_share: float = ranged(0.8, 0.001, 1)
    ala_lr: float = ranged(1.0, 0, 1e4)
    ala_batch: int = ranged(64, 1, 100_000)
    threshold: float = ranged(0.1, 0, 1e4)
    passes: int = ranged(20, 1, 10_000)


class FedAla(FedAvg):
    """FedAvg whose clients begin with a learned mixture of the global model and their own."""

    name: ClassVar[str] = "fedala"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="FedALA",
        reference="Zhang et al., AAAI 2023",
        stores=(Stored("model", "local model", "as it is"), Stored("weights", "how much of the global model it takes")),
    )
    settings_type: ClassVar[type] = FedAlaSettings
    requirements = Requirements(training=True)

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial, "weights": {name: torch.ones_like(w) for name, w in self._mixed(initial).items()}}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        received, own, weights = message["model"], client_state["model"], client_state["weights"]
        if info.earlier_rounds > 0:
            passes = self.settings.passes if info.earlier_rounds == 1 else 1
            weights = self._learn(received, own, weights, info, passes)
        model = {**received, **mixture(received, own, weights)}
        return {"model": model, "velocity": zeros_like(model), "weights": weights}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"model": state["model"], "weights": state["weights"]}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))

    def _mixed(self, model: Params) -> Params:
        """Return the trainable entries of the p last layers of a model whose entries are in the net's order."""
        layers = list(dict.fromkeys(name.rpartition(".")[0] for name in model))[-self.settings.layers :]
        return {name: value for name, value in trainable(model).items() if name.rpartition(".")[0] in layers}

    def _learn(self, received: Params, own: Params, weights: Params, info: ClientInfo, passes: int) -> Params:
        """Return the weights W_i after at most so many passes. No value is read, since a GPU would be waited for."""
        losses: list[Tensor] = []
        active = next(iter(received.values())).new_ones(())  # 0 once the weights have converged
        for _ in range(passes):
            for batch in self._beats(info):

                def objective(w: Params, batch: Batch = batch) -> tuple[Tensor, Params]:
                    logits = self.net.logits({**received, **mixture(received, own, w)}, batch.inputs)
                    return batch_loss(logits, batch, self.settings), {}

                # the derivative by W is that by the mixture, times (received - own)
                gradient, loss, _ = gradients(objective, weights)
                rate = self.settings.ala_lr * active
                weights = {name: (w - rate * gradient[name]).clamp(0, 1) for name, w in weights.items()}
            losses.append(loss)
            if len(losses) > COMPARED:
                spread = torch.stack(losses[-COMPARED:]).std(correction=0)
                active = active * (spread >= self.settings.threshold)
        return weights

    def _beats(self, info: ClientInfo) -> Iterator[Batch]:
        """Yield this round's random share of the client's training beats, in batches."""
        assert info.training is not None  # required above
        draw = torch.Generator().manual_seed(((info.seed * 1_000_003 + info.round) * 1_000_003 + info.index) % 2**64)
        order = torch.randperm(info.training.count, generator=draw, device="cpu")
        count = max(1, round(self.settings.ala_share * info.training.count))
        return info.training.batches(self.settings.ala_batch, order[:count])


def mixture(received: Params, own: Params, weights: Params) -> Params:
    """Return own + (received - own) * W for the entries of the weights."""
    return {name: own[name] + (received[name] - own[name]) * w for name, w in weights.items()}
