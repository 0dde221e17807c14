r"""Centralised training: all patients' training beats in one place. This is not federated learning.

.. math:: \min_w \sum_i p_i F_i(w), \quad \text{by SGD on batches of all beats together}

with :math:`p_i` client i's share of the training beats: FedAvg's objective without its federation, and so an upper
bound to hold federated methods against. ``ecgfed train`` pools the training beats of all clients into one client, which
trains by the recipe of the other methods: the same net, loss, local optimizer, batch size and number of passes. The
velocity is kept from round to round, so that rounds make no difference: two rounds of three steps equal one of six.
``ecgfed federate`` refuses it.

Beats of which only a label of the recording is known are left out. With ``--most-per-class N`` an epoch draws at most N
beats of a class times the number of clients.
"""

from typing import ClassVar

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Requirements, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.nets.layers import Params


class Centralised(Method):
    """SGD on all patients' beats in one place: not federated, an upper bound."""

    name: ClassVar[str] = "centralised"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "Centralised",
        "upper bound, not federated",
        down=(Sent("model", "the model, on the same machine"),),
        up=(Sent("model", "the model, on the same machine"),),
        stores=(Stored("velocity", "its momentum"),),
    )
    settings_type: ClassVar[type] = SgdSettings
    averages = True
    requirements = Requirements(pooled=True)

    def server_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def client_start(self, initial: Params) -> Tree:
        return {"velocity": zeros_like(initial)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {"model": message["model"], "velocity": client_state["velocity"]}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"velocity": state["velocity"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return {"model": weighted_mean(returned.tree["model"], self.weights(returned))}
