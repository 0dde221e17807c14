r"""per-FedAvg (Fallah et al., NeurIPS 2020, arXiv 2002.07948), Algorithm 1: personal models by one step.

.. math::
    w \leftarrow w - \beta (I - \alpha \nabla^2 f_i(w; D'')) \, \nabla f_i(w - \alpha \nabla f_i(w; D); D')

with independent batches D, D', D''. ``form=fo`` drops the Hessian; ``form=hf`` takes its product with
:math:`v = \nabla f_i(w - \alpha \nabla f_i(w; D); D')` as
:math:`(\nabla f_i(w + \delta v; D'') - \nabla f_i(w - \delta v; D'')) / (2 \delta)`.

Departures from the paper: a patient's model is one step of alpha from the global model it last received, on the first
batch of that round, so that it exists at any time of the run (the paper adapts the final model after training); the
server steps with Adam (``server_optimizer``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.algebra import minus, plus, times
from ecgfed.core.methods.communication import CommunicationSpec, Metric, Stored
from ecgfed.core.methods.fedavg import FedAvgUniform
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Requirements, Tree
from ecgfed.core.methods.local_sgd import model_gradients, sgd_step
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import choice, ranged
from ecgfed.core.nets.layers import Params, trainable
from ecgfed.core.nets.net import Net


@dataclass(frozen=True)
class PerFedAvgSettings(FederatedSgdSettings):
    """Settings of per-FedAvg.

    Attributes:
        lr: outer step (beta).
        alpha: inner step (alpha).
        form: ``fo`` (first order) or ``hf`` (Hessian-free).
        delta: width of the finite difference of ``hf``.
    """

    momentum: float = 0.0
    alpha: float = ranged(0.001, 0, 100)
    form: str = choice("fo", ("fo", "hf"))
    delta: float = ranged(1e-3, 1e-8, 1)


class PerFedAvg(FedAvgUniform):
    """A global initial model for personal ones (MAML over clients)."""

    name: ClassVar[str] = "per-fedavg"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvgUniform.communication,
        title="per-FedAvg",
        reference="Fallah et al., NeurIPS 2020",
        stores=(Stored("personal", "personal model"),),
        metrics=(Metric("inner_loss", "its loss after the step of alpha"),),
    )
    settings_type: ClassVar[type] = PerFedAvgSettings

    def __init__(self, net: Net, settings: PerFedAvgSettings) -> None:
        super().__init__(net, settings)
        self.requirements = Requirements(batches_per_step=3 if settings.form == "hf" else 2)

    def client_start(self, initial: Params) -> Tree:
        return {"personal": initial}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {**super().init_round(message, client_state, info), "personal": message["model"]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        model, settings = state["model"], self.settings
        first, loss, stats = model_gradients(self.net, model, batches[0], settings)
        inner = {**model, **stats, **plus(trainable(model), first, -settings.alpha)}
        outer, inner_loss, stats = model_gradients(self.net, inner, batches[1], settings)
        direction = outer
        if settings.form == "hf":
            moved = (plus(trainable(model), outer, sign * settings.delta) for sign in (1.0, -1.0))
            ahead, behind = (model_gradients(self.net, {**model, **point}, batches[2], settings)[0] for point in moved)
            direction = plus(outer, times(minus(ahead, behind), 1.0 / (2.0 * settings.delta)), -settings.alpha)
        model, velocity = sgd_step(model, direction, state["velocity"], stats, settings)
        is_first = torch.as_tensor(t, device=loss.device) == 0
        personal = {name: torch.where(is_first, inner[name], value) for name, value in state["personal"].items()}
        return {"model": model, "velocity": velocity, "personal": personal}, {"loss": loss, "inner_loss": inner_loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"personal": state["personal"]}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["personal"], shared=False),))
