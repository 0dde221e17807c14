r"""pFedMe (Dinh et al., NeurIPS 2020, arXiv 2006.08848), Algorithm 1: personal models by Moreau envelopes.

.. math::
    \theta_i &\approx \arg\min_\theta f_i(\theta; \text{batch}) + \frac{\lambda}{2} \lVert \theta - w_i \rVert^2
      \quad \text{(inner gradient steps)} \\
    w_i &\leftarrow w_i - \eta \lambda (w_i - \theta_i), \qquad
    w \leftarrow (1 - \beta) w + \beta \operatorname{mean}_S w_i

The personal model is :math:`\theta_i`, not :math:`w_i`. Running statistics are those of :math:`\theta_i`.

Departure from the paper: only the round's participants update their models (the paper's update all and send some).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.algebra import minus, plus
from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.fedavg import FedAvgUniform
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import model_gradients
from ecgfed.core.methods.losses import LossSettings
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, is_buffer, trainable


@dataclass(frozen=True)
class PFedMeSettings(LossSettings):
    """Settings of pFedMe; no momentum, as in the paper.

    Attributes:
        lr: step of w_i (eta).
        lam: lambda, from {15, 20, 30} in the paper.
        inner_steps: gradient steps for theta_i on a batch (K).
        personal_lr: their learning rate.
        beta: step of the server towards the mean (beta).
    """

    lr: float = ranged(0.02, 0, 100)
    lam: float = ranged(30.0, 0, 1e4)
    inner_steps: int = ranged(3, 1, 1000)
    personal_lr: float = ranged(0.02, 0, 100)
    beta: float = ranged(1.0, 0, 10)


class PFedMe(FedAvgUniform):
    """Global model of the clients' w_i, personal models theta_i near them."""

    name: ClassVar[str] = "pfedme"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvgUniform.communication,
        title="pFedMe",
        reference="Dinh et al., NeurIPS 2020",
        stores=(Stored("personal", "personal model, but for BatchNorm's statistics"),),
    )
    settings_type: ClassVar[type] = PFedMeSettings

    def server_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def client_start(self, initial: Params) -> Tree:
        return {"personal": initial}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {"model": message["model"], "personal": message["model"]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        settings = self.settings
        w, theta = state["model"], state["personal"]
        losses: list[Tensor] = []
        for _ in range(settings.inner_steps):
            gradient, loss, stats = model_gradients(self.net, theta, batches[0], settings)
            point = trainable(theta)
            pulled = plus(gradient, minus(point, w), settings.lam)
            theta = {**theta, **stats, **plus(point, pulled, -settings.personal_lr)}
            losses.append(loss)
        point = trainable(w)
        stats = {name: value for name, value in theta.items() if is_buffer(name)}
        w = {**w, **stats, **plus(point, minus(point, theta), -settings.lr * settings.lam)}
        return {"model": w, "personal": theta}, {"loss": losses[0]}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"personal": state["personal"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        mean = weighted_mean(returned.tree["model"], self.weights(returned))
        return {"model": {n: torch.lerp(value, mean[n], self.settings.beta) for n, value in server["model"].items()}}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["personal"], shared=False),))
