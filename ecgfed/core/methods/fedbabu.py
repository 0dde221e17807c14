r"""FedBABU (Oh, Kim and Yun, ICLR 2022, arXiv 2106.06042), Algorithm 1: only the body is trained in the federation.

With the model split into a body and a head, :math:`\theta = \{\theta_\text{ext}, \theta_\text{cls}\}`, and the head the
one that every client starts with:

.. math::
    \theta_\text{ext} \leftarrow \theta_\text{ext}
      - \eta \nabla_{\theta_\text{ext}} F_i(\theta_\text{ext}, \theta_\text{cls}^0), \qquad
    \theta_\text{cls} = \theta_\text{cls}^0

The bodies are averaged by data share. The global model has the untrained head; personal models are made by fine-tuning
the whole model after the federation (section 5.2), which is ``--personal finetune``, this method's default.

Departures from the paper: fine-tuning stops early on validation beats, where the paper takes a number of epochs;
momentum in local SGD is a setting (the paper's is 0.9); the server steps with Adam (``server_optimizer``).

Numbers of algorithm and section, and the paper's settings, are from memory of the paper.
"""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import BEATS, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import zeros_like
from ecgfed.core.methods.server_sgd import server_step
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import extractor_of, head_of


class FedBabu(Method):
    """FedAvg of the extractor under a head that is never trained; patients fine-tune both afterwards."""

    name: ClassVar[str] = "fedbabu"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedBABU",
        "Oh et al., ICLR 2022",
        down=(Sent("extractor", "extractor", "extractor"),),
        up=(Sent("extractor", "extractor", "extractor", mean=BEATS),),
        stores=(Stored("head", "the head that all clients start with", "in effect"),),
    )
    averages = True
    personal: ClassVar[str] = "finetune"

    def client_start(self, initial: Params) -> Tree:
        return {"head": head_of(initial)}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"extractor": extractor_of(server["model"])}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        model = {**message["extractor"], **client_state["head"]}
        return {"model": model, "velocity": zeros_like(model)}

    def adjust_gradient(self, gradient: Params, w: Params, state: Tree) -> Params:
        return {**gradient, **zeros_like(head_of(gradient))}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)
        return {**new, "model": {**new["model"], **head_of(state["model"])}}, losses  # no weight decay of the head

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"extractor": extractor_of(state["model"])}, {"head": head_of(state["model"])}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        mean = weighted_mean(returned.tree["extractor"], self.weights(returned))
        return server_step(server, {**server["model"], **mean}, self.settings, returned.progress)
