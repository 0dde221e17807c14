r"""MOON (Li, He and Song, CVPR 2021, arXiv 2103.16257), Algorithm 1: representations are held near the global model's.

With z a beat's representation by the model in training, :math:`z_\text{glob}` by the received global model,
:math:`z_\text{prev}` by the client's model of its last round, and sim the cosine similarity:

.. math::
    \ell_\text{con} &= -\log \frac{e^{\operatorname{sim}(z, z_\text{glob}) / \tau}}
      {e^{\operatorname{sim}(z, z_\text{glob}) / \tau} + e^{\operatorname{sim}(z, z_\text{prev}) / \tau}}  \tag{3} \\
    \ell &= \ell_\text{sup} + \mu\, \ell_\text{con}  \tag{4}

Models are averaged by data share; the global model serves every patient. In a client's first round its last model is
the one that all start with.

Departures from the paper: a representation is the extractor's features, without the projection head that the paper adds
to the net; momentum in local SGD (the paper's is 0.9, too); the server steps with Adam (``server_optimizer``).

Numbers of algorithm and equations, and the paper's settings, are from memory of the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Tree, row_mean
from ecgfed.core.methods.local_sgd import gradients, sgd_step
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params


@dataclass(frozen=True)
class MoonSettings(FederatedSgdSettings):
    """Settings of MOON.

    Attributes:
        mu: weight of the contrastive loss (mu); the paper tunes it over 0.1, 1, 5 and 10, and takes 5 for CIFAR-10, 1
            for CIFAR-100 and Tiny-ImageNet.
        temperature: tau of the contrastive loss.
    """

    mu: float = ranged(1.0, 0, 1e4)
    temperature: float = ranged(0.5, 1e-3, 1e3)


def contrastive_loss(z: Tensor, z_glob: Tensor, z_prev: Tensor, temperature: float) -> Tensor:
    """Return equation 3 for each beat, (B,), of representations (B, features)."""
    to_glob, to_prev = F.cosine_similarity(z, z_glob), F.cosine_similarity(z, z_prev)
    return F.softplus((to_prev - to_glob) / temperature)


class Moon(FedAvg):
    """FedAvg with a contrastive loss between the representations of models."""

    name: ClassVar[str] = "moon"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="MOON",
        reference="Li et al., CVPR 2021",
        stores=(Stored("model", "local model", "as it is"),),
    )
    settings_type: ClassVar[type] = MoonSettings

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {
            **super().init_round(message, client_state, info),
            "global": message["model"],
            "previous": client_state["model"],
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        batch, settings = batches[0], self.settings
        with torch.no_grad():
            z_glob, z_prev = (self.net.extract(state[which], batch.inputs) for which in ("global", "previous"))

        def objective(params: Params) -> tuple[Tensor, Params]:
            stats: Params = {}
            z = self.net.extract(params, batch.inputs, stats)
            supervised = batch_loss(self.net.classify(params, z), batch, settings)
            contrastive = row_mean(contrastive_loss(z, z_glob, z_prev, settings.temperature), batch.weight)
            return supervised + settings.mu * contrastive, stats  # equation 4

        grads, loss, stats = gradients(objective, state["model"])
        model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, settings)
        return {**state, "model": model, "velocity": velocity}, {"loss": loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"model": state["model"]}
