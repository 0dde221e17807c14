r"""FedProto (Tan et al., AAAI 2022, arXiv 2105.00243), Algorithm 1: prototypes are shared, models are not.

A prototype is the mean of the features of a client's training beats of a class. With f the client's extractor,
:math:`D_{i,j}` its beats of class j, and :math:`D` features:

.. math::
    C_i^{(j)} &= \frac{1}{|D_{i,j}|} \sum_{x \in D_{i,j}} f_i(x), \qquad
    \bar C^{(j)} = \sum_i \frac{|D_{i,j}|}{\sum_k |D_{k,j}|} C_i^{(j)} \\
    \mathcal{L}_i &= \mathcal{L}_S + \lambda \cdot \frac{1}{B} \sum_{(x, y) \in \text{batch}}
      \frac{1}{D} \lVert f_i(x) - \bar C^{(y)} \rVert^2

Beats of a class without a global prototype have no second term. A client computes its prototypes of all its training
beats with its model after local training. Its model answers with the class of the nearest global prototype, which is
the linear layer :math:`2 \bar C^{(j)} f - \lVert \bar C^{(j)} \rVert^2`; ``evaluate`` also scores the client's own head
(alternative ``head``). The ensemble of the clients' models with their own heads stands in as global model.

Privacy: the server learns each client's mean features and number of beats by class. A class that a single client has
goes to all others as that client's prototype, unchanged.

Departures from the paper: the distance is that of each beat and not of a batch's prototypes, as in the authors' code,
whose mean over features is taken too; the paper's further factor of one over the number of clients, which would shrink
prototypes towards 0, is left out; a class that no participant of a round has keeps its last prototype; momentum in
local SGD.

The number of the algorithm, and the paper's settings, are from memory of the paper; the authors' code is
github.com/yuetan031/FedProto.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Requirements, Returned, Tree
from ecgfed.core.methods.local_sgd import SgdSettings, sgd_step, zeros_like
from ecgfed.core.methods.models import Model, Pipeline, Stage, combine_models
from ecgfed.core.methods.prototypes import (
    PROTOTYPES_DOWN,
    PROTOTYPES_UP,
    aligned_gradients,
    combined_prototypes,
    feature_statistics,
    no_prototypes,
)
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import extractor_of

#: Logit of a class without a prototype, which is never the nearest.
NEVER = -1e4


@dataclass(frozen=True)
class FedProtoSettings(SgdSettings):
    """Settings of FedProto.

    Attributes:
        lam: weight of the distance to the prototypes (lambda); the paper's is 1.
    """

    lam: float = ranged(1.0, 0, 1e4)


class FedProto(Method):
    """Own models, regularised towards prototypes that all clients share."""

    name: ClassVar[str] = "fedproto"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedProto",
        "Tan et al., AAAI 2022",
        down=PROTOTYPES_DOWN,
        up=PROTOTYPES_UP,
        stores=(Stored("model", "own model"),),
    )
    settings_type: ClassVar[type] = FedProtoSettings
    has_global_model: ClassVar[bool] = False
    requirements = Requirements(training=True)

    def server_start(self, initial: Params) -> Tree:
        return no_prototypes(self.net, initial)

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"prototypes": server["prototypes"], "beats": server["beats"]}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {**message, "model": client_state["model"], "velocity": zeros_like(client_state["model"])}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        settings = self.settings
        grads, loss, stats = aligned_gradients(self.net, state, batches[0], settings, settings.lam)
        model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, settings)
        return {**state, "model": model, "velocity": velocity}, {"loss": loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        assert info.training is not None  # required above
        mean, beats, _ = feature_statistics(self.net, state["model"], info.training)
        returned = {"prototypes": mean.to(state["prototypes"].dtype), "beats": beats}
        return returned, {"model": state["model"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return combined_prototypes(server, returned.tree)

    def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Model:
        return combine_models([self._with_own_head(state) for state in client_states], protocol)

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        prototypes = server["prototypes"]
        if not bool(server["beats"].any()):  # before the first round
            return self._with_own_head(client_state)
        bias = torch.where(server["beats"] > 0, -prototypes.square().sum(1), NEVER)
        nearest = Stage("linear", {"own.weight": 2 * prototypes, "own.bias": bias.to(prototypes.dtype)}, shared=True)
        return Pipeline((Stage("extractor", extractor_of(client_state["model"]), shared=False), nearest))

    def alternative_models(self, server: Tree, client_state: Tree) -> dict[str, Pipeline]:
        return {"head": self._with_own_head(client_state)}

    def _with_own_head(self, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))
