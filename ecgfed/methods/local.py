r"""Local training: every client alone, nothing travels.

.. math:: \min_{w_i} F_i(w_i) \quad \text{for each client } i

The velocity lives on between rounds, so that rounds leave no trace: two rounds of three steps are one of six.
The global answer is the ensemble of all clients' models (mean of probabilities, as LG-FedAvg does and the GRP-FED paper
follows) or the average of their weights (Fed-RoD's protocol).
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from torch import Tensor

from ecgfed.methods.answers import Answer, Chain, Part, together
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree
from ecgfed.methods.card import Card, Keeps
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model, zeros_like
from ecgfed.nets.layers import Params


class Local(Method):
    """Every client trains a model of its own."""

    name: ClassVar[str] = "local"
    card: ClassVar[Card] = Card(
        "Local", "baseline", keeps=(Keeps("model", "whole model"), Keeps("velocity", "its momentum"))
    )
    settings_type: ClassVar[type] = SgdSettings
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        return {}

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial, "velocity": zeros_like(initial)}

    def shared(self, server: Tree, client: int) -> Tree:
        return {}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        return kept

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        return train_whole_model(self.net, state, batches[0], self.settings)

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {}, state

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return server

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        return together([self.personal_answer(server, client) for client in kept], protocol)

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        return Chain((Part("model", kept["model"], shared=False),))
