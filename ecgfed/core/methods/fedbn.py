r"""FedBN (Li et al., ICLR 2021, arXiv 2102.07623), Algorithm 1: the normalisation layers stay with the client.

.. math::
    w^{(l)} = \frac{1}{K} \sum_k w_k^{(l)} \quad \text{for every layer } l \text{ that does not normalise}

All layers are trained together. Scale, shift and, with BatchNorm, running statistics of a normalisation layer are the
client's own and never sent. There is no global model: for an unseen client the authors recommend the average of the
clients' normalisation layers (github.com/med-air/FedBN, issue 9), which is ``--global average``; the ensemble is the
default, as for all methods without one. A new client that has labelled beats trains layers of its own.

Departures from the paper: group normalisation, the nets' default, is kept local as batch normalisation is; the mean is
over the round's participants; momentum in local SGD (0 is the paper's); the server steps with Adam
(``server_optimizer``).
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import EQUAL, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree
from ecgfed.core.methods.local_sgd import zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import norm_of, without_norm


class FedBN(Method):
    """FedAvg with equal weights, of all but the normalisation layers."""

    name: ClassVar[str] = "fedbn"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedBN",
        "Li et al., ICLR 2021",
        down=(Sent("model", "global model without normalisation layers", "without norm"),),
        up=(Sent("model", "local model without normalisation layers", "without norm", mean=EQUAL),),
        stores=(Stored("norm", "normalisation layers"),),
    )
    averages = True
    has_global_model: ClassVar[bool] = False

    def __init__(self, net: Net, settings: FederatedSgdSettings) -> None:
        if net.spec.norm == "none":
            actual = f"none, and {self.name} leaves the normalisation layers with the client"
            action = "" if net.spec.module is not None else f"pass {param('norm')} group or batch"
            raise OptionError("norm", actual, "a net that has some", action)
        super().__init__(net, settings)

    def server_start(self, initial: Params) -> Tree:
        return super().server_start(without_norm(initial))

    def client_start(self, initial: Params) -> Tree:
        return {"norm": norm_of(initial)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        model = {**message["model"], **client_state["norm"]}
        return {"model": model, "velocity": zeros_like(model)}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": without_norm(state["model"])}, {"norm": norm_of(state["model"])}

    def weights(self, returned: Returned) -> Tensor:
        """Return the aggregation weights (m,): 1/m each."""
        return torch.full_like(returned.train_examples, 1.0 / len(returned.train_examples))

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", {**server["model"], **client_state["norm"]}, shared=False),))
