r"""pFedHN (Shamsian et al., ICML 2021, arXiv 2103.04628), Algorithm 1: a hypernetwork makes each client's model.

The server holds the hypernetwork h, with parameters :math:`\varphi`, and an embedding :math:`v_i` of each client, and
sends the client's model. The client trains it and sends the result, of which the server needs the change:

.. math::
    \theta_i = h(v_i; \varphi), \qquad \tilde\theta_i = \theta_i - \eta \nabla \mathcal{L}_i \dots, \qquad
    \Delta\theta_i = \tilde\theta_i - \theta_i \\
    \varphi \leftarrow \varphi + \alpha\, (\nabla_\varphi \theta_i)^\top \Delta\theta_i, \qquad
    v_i \leftarrow v_i + \alpha\, (\nabla_{v_i} \theta_i)^\top \Delta\theta_i

The hypernetwork is a net of linear layers with ReLU between the hidden ones; its last layer has an output for each
parameter of a client's model. The personal model is :math:`h(v_i; \varphi)`, as in the paper; ``evaluate`` also scores
the client's last :math:`\tilde\theta_i` (alternative ``local``). There is no global model. A new patient gets an
embedding of its own at random, and its model is the one after its local training; a client that never took part has the
model of the mean embedding.

Privacy: the server makes every patient's model and sees each after local training.

Departures from the paper: all participants of a round take part in one step of :math:`\varphi`, by their mean (the
paper takes one client a step); its last layer starts at the net's initial parameters, with small weights, so that the
first models are as good as those of other methods; embeddings have no momentum; gradients are not clipped, those of
local training only with ``clip`` (the authors' code clips both at 50); running statistics are the participants' mean.

The number of the algorithm is from memory of the paper; the authors' code is github.com/AvivSham/pFedHN.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Initialiser, Params, is_buffer, linear, trainable
from ecgfed.core.nets.net import Net

#: Seeds of the hypernetwork and of the embeddings, to which a client's number is added.
HYPER_SEED, EMBEDDING_SEED = 20210308, 1_000_000_007
#: Standard deviation of the last layer's output around the net's initial parameters, for activations of length 1.
SMALL = 0.01


@dataclass(frozen=True)
class PFedHnSettings(SgdSettings):
    """Settings of pFedHN; defaults are those of the authors' code, the embedding's for 48 clients.

    Attributes:
        lr: of local training.
        weight_decay: of local training.
        embedding: length of a client's embedding; the authors take 1 + a quarter of the number of clients.
        hidden: features of each hidden layer of the hypernetwork.
        hidden_layers: number of hidden layers after the first.
        hyper_lr: learning rate of hypernetwork and embeddings (alpha).
        hyper_momentum: momentum of the hypernetwork.
        hyper_decay: weight decay of the hypernetwork and the embeddings.
    """

    lr: float = 5e-3
    weight_decay: float = 5e-5
    embedding: int = ranged(13, 1, 4096)
    hidden: int = ranged(100, 1, 4096)
    hidden_layers: int = ranged(3, 0, 100)
    hyper_lr: float = ranged(0.01, 0, 100)
    hyper_momentum: float = ranged(0.9, 0, 0.9999)
    hyper_decay: float = ranged(1e-3, 0, 1)


class PFedHn(Method):
    """A hypernetwork at the server makes every client's model."""

    name: ClassVar[str] = "pfedhn"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "pFedHN",
        "Shamsian et al., ICML 2021",
        down=(Sent("model", "model that the server made for it", scope="addressee"),),
        up=(Sent("model", "local model"),),
        stores=(Stored("model", "local model", "as it is"), Stored("number", "its number", "in effect")),
    )
    settings_type: ClassVar[type] = PFedHnSettings
    has_global_model: ClassVar[bool] = False

    def __init__(self, net: Net, settings: PFedHnSettings) -> None:
        super().__init__(net, settings)
        self.shapes = {name: value.shape for name, value in sorted(trainable(net.initial(0)).items())}

    def server_start(self, initial: Params) -> Tree:
        settings, target = self.settings, torch.cat([initial[name].flatten() for name in self.shapes])
        draw = Initialiser(HYPER_SEED)
        draw.linear("hyper.0", settings.embedding, settings.hidden)
        for number in range(1, settings.hidden_layers + 1):
            draw.linear(f"hyper.{number}", settings.hidden, settings.hidden)
        draw.linear("hyper.out", settings.hidden, len(target), gain=SMALL**2)
        hyper = {name: value.to(target) for name, value in draw.params.items()} | {"hyper.out.bias": target}
        return {
            "hyper": hyper,
            "velocity": {name: torch.zeros_like(value) for name, value in hyper.items()},
            "statistics": {name: value for name, value in initial.items() if is_buffer(name)},
        }

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"model": self._model(server, self._embedding(server, client))}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"model": state["model"], "number": torch.tensor(info.index)}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        settings, clients = self.settings, returned.clients.tolist()
        phi = {name: value.detach().requires_grad_() for name, value in server["hyper"].items()}
        v = torch.stack([self._embedding(server, client) for client in clients]).detach().requires_grad_()
        with torch.enable_grad():
            theta = self._outputs(phi, v)
        trained = torch.cat([returned.tree["model"][name].flatten(1) for name in self.shapes], dim=1)
        # the derivative of a loss whose gradient by theta_i is theta_i minus the trained model
        *grads, grad_v = torch.autograd.grad(theta, [*phi.values(), v], (theta - trained).detach())
        velocity = {
            name: settings.hyper_momentum * server["velocity"][name]
            + grad / len(clients)
            + settings.hyper_decay * value
            for (name, value), grad in zip(server["hyper"].items(), grads, strict=True)
        }
        moved = v.detach() - settings.hyper_lr * (grad_v + settings.hyper_decay * v.detach())
        numbers = range(max(len(self._embeddings(server)), max(clients) + 1))
        embeddings = torch.stack([self._embedding(server, number) for number in numbers])
        embeddings[clients] = moved
        statistics = {name: value for name, value in returned.tree["model"].items() if is_buffer(name)}
        return {
            "hyper": {name: value - settings.hyper_lr * velocity[name] for name, value in server["hyper"].items()},
            "velocity": velocity,
            "statistics": weighted_mean(statistics, returned.data_share),
            "embeddings": embeddings,
        }

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        known = self._embeddings(server)
        if "number" not in client_state:  # it never took part: nobody's model, that of the mean embedding
            embedding = known.mean(0) if len(known) else self._embedding(server, 0)
        elif int(client_state["number"]) >= len(known):  # a new patient
            return self._local(client_state)
        else:
            embedding = known[int(client_state["number"])]
        return Pipeline((Stage("model", self._model(server, embedding), shared=False),))

    def alternative_models(self, server: Tree, client_state: Tree) -> dict[str, Pipeline]:
        return {"local": self._local(client_state)} if "model" in client_state else {}

    def _local(self, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))

    def _embeddings(self, server: Tree) -> Tensor:
        """Return the embeddings (numbers, embedding) that the server has; none before the first round."""
        like: Tensor = server["hyper"]["hyper.out.bias"]
        known: Tensor = server.get("embeddings", like.new_zeros(0, self.settings.embedding))
        return known

    def _embedding(self, server: Tree, client: int) -> Tensor:
        """Return v_i (embedding,), drawn for the client's number until it has taken part."""
        known = self._embeddings(server)
        if client < len(known):
            return known[client]
        draw = torch.Generator().manual_seed(EMBEDDING_SEED + client)
        drawn = torch.randn(self.settings.embedding, generator=draw, device="cpu")
        return drawn.to(server["hyper"]["hyper.out.bias"])

    def _outputs(self, phi: Params, v: Tensor) -> Tensor:
        """Return h(v), (m, parameters), for embeddings (m, embedding)."""
        hidden = linear(phi, "hyper.0", v)
        for number in range(1, self.settings.hidden_layers + 1):
            hidden = linear(phi, f"hyper.{number}", F.relu(hidden))
        return linear(phi, "hyper.out", hidden)

    def _model(self, server: Tree, embedding: Tensor) -> Params:
        """Return h(v_i) as a model, with the server's running statistics."""
        flat = self._outputs(server["hyper"], embedding[None])[0]
        parts = torch.split(flat, [shape.numel() for shape in self.shapes.values()])
        made = {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}
        return {**made, **server.get("statistics", {})}
