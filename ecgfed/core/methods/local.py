r"""Local training: every client alone, nothing is sent.

.. math:: \min_{w_i} F_i(w_i) \quad \text{for each client } i

The velocity is kept between rounds, so that rounds make no difference: two rounds of three steps equal one of six.
The global model is the ensemble of all clients' models (mean of probabilities, as in LG-FedAvg and the GRP-FED paper)
or the average of their weights (as in Fed-RoD's comparison).
"""

from typing import ClassVar

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params


class Local(Method):
    """Every client trains a model alone."""

    name: ClassVar[str] = "local"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "Local", "baseline", stores=(Stored("model", "whole model"), Stored("velocity", "its momentum"))
    )
    settings_type: ClassVar[type] = SgdSettings
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        return {}

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial, "velocity": zeros_like(initial)}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return client_state

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {}, state

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return server

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))
