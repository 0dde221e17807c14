r"""FedFomo (Zhang et al., ICLR 2021, arXiv 2012.08565): each client mixes the models that lower its loss.

With :math:`\theta_i` the client's model before the round, :math:`\theta_n` another's, and L_i the loss on the client's
validation beats:

.. math::
    w_n = \max\left(0, \frac{L_i(\theta_i) - L_i(\theta_n)}{\lVert \theta_n - \theta_i \rVert}\right), \qquad
    \theta_i \leftarrow \theta_i + \sum_n \frac{w_n}{\sum_k w_k} (\theta_n - \theta_i)  \tag{5, 6}

then local training. The server stores every client's last model and the matrix of affinities (section 3.3: sums of
past w_n, which the clients send), and sends a client a few models per round: those of highest affinity, each replaced
by a random one with probability epsilon, which falls by ``epsilon_decay`` per round. There is no global model.

Privacy: a patient's model is sent to other clients unchanged, without its number, and the server learns which models
help which client.

Departure from the paper: a client without validation beats keeps its model, since it cannot compare others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.algebra import minus, square_length
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Requirements, Returned, Tree
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, trainable


@dataclass(frozen=True)
class FedFomoSettings(SgdSettings):
    """Settings of FedFomo.

    Attributes:
        candidates: models sent to a client per round (M).
        epsilon: probability of a random model in place of one of high affinity, in the first round.
        epsilon_decay: decrease of epsilon per round.
    """

    candidates: int = ranged(5, 1, 10_000)
    epsilon: float = ranged(0.3, 0, 1)
    epsilon_decay: float = ranged(0.05, 0, 1)


def mixed(
    model: Params, candidates: Sequence[Params], model_loss: Tensor, losses: Sequence[Tensor]
) -> tuple[Params, Tensor]:
    """Equations 5 and 6: return the new model, and w_n of each candidate before it is clamped at 0, float64.

    Running statistics are mixed with the same weights.
    """
    distance = torch.stack([square_length(minus(trainable(model), candidate)).sqrt() for candidate in candidates])
    raw = torch.where(distance > 0, (model_loss - torch.stack(list(losses))) / distance, 0.0)
    positive = raw.clamp_min(0.0)
    share = positive / positive.sum().clamp_min(torch.finfo(positive.dtype).tiny)  # all 0 where nobody helps
    new = dict(model)
    for w, candidate in zip(share, candidates, strict=True):
        new = {name: value + w.to(value.dtype) * (candidate[name] - model[name]) for name, value in new.items()}
    return new, raw


class FedFomo(Method):
    """Personal models as mixtures of other clients' models."""

    name: ClassVar[str] = "fedfomo"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedFomo",
        "Zhang et al., ICLR 2021",
        down=(Sent("models", "some others' models", "models", "another"),),
        up=(Sent("model", "local model"), Sent("gain", "how much those models helped", "numbers")),
        stores=(Stored("model", "personal model", "as it is"),),
    )
    settings_type: ClassVar[type] = FedFomoSettings
    has_global_model: ClassVar[bool] = False
    requirements = Requirements(validation=True)

    def server_start(self, initial: Params) -> Tree:
        return {"models": {}}

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        models: list[Params] = list(server.get("models", {}).values())
        if not models:
            return self.client_start(initial)
        return self.client_start({name: torch.stack([model[name] for model in models]).mean(0) for name in models[0]})

    def server_message(self, server: Tree, client: int) -> Tree:
        models, selected = server.get("models", {}), self._select(server, client)
        return {"models": {str(rank): models[str(candidate)] for rank, candidate in enumerate(selected)}}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        models = message.get("models", {})  # empty branches are not transmitted
        candidates: list[Params] = [models[rank] for rank in sorted(models, key=int)]
        model: Params = client_state["model"]
        gain = torch.zeros(self.settings.candidates, dtype=torch.float64)
        if candidates and info.validation is not None:
            with torch.no_grad():
                logits = [self.net.logits(params, info.validation.inputs) for params in (model, *candidates)]
                model_loss, *losses = (batch_loss(each, info.validation, self.settings) for each in logits)
            model, raw = mixed(model, candidates, model_loss, losses)
            gain[: len(raw)] = raw
        return {"model": model, "velocity": zeros_like(model), "gain": gain}

    def _select(self, server: Tree, client: int) -> list[int]:
        """Return the clients whose models this client receives in the next round, in the order they were drawn."""
        candidates = sorted(int(number) for number in server.get("models", {}) if int(number) != client)
        affinity = server.get("affinity", torch.zeros(0, 0))
        affinity_of = dict(enumerate(affinity[client].tolist())) if client < len(affinity) else {}
        seed, number = int(server.get("seed", 0)), int(server.get("round", 0)) + 1
        draw = torch.Generator().manual_seed(((seed * 1_000_003 + number) * 1_000_003 + client) % 2**64)
        ranked = sorted(candidates, key=lambda candidate: (-affinity_of.get(candidate, 0.0), candidate))
        epsilon = max(0.0, self.settings.epsilon - self.settings.epsilon_decay * (number - 1))
        selected: list[int] = []
        for _ in range(min(self.settings.candidates, len(candidates))):
            remaining = [candidate for candidate in ranked if candidate not in selected]
            at_random = float(torch.rand((), generator=draw, device="cpu")) < epsilon
            rank = int(torch.randint(len(remaining), (), generator=draw, device="cpu")) if at_random else 0
            selected.append(remaining[rank])
        return selected

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"], "gain": state["gain"]}, {"model": state["model"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        sent = {
            str(int(client)): {name: value[k] for name, value in returned.tree["model"].items()}
            for k, client in enumerate(returned.clients)
        }
        models: dict[str, Params] = {**server.get("models", {}), **sent}
        before = server.get("affinity", torch.zeros(0, 0))
        numbers, known = max(int(client) for client in models) + 1, len(before)
        affinity = torch.zeros(numbers, numbers, dtype=torch.float64)
        affinity[:known, :known] = before
        for client, gain in zip(returned.clients.tolist(), returned.tree["gain"], strict=True):
            selected = self._select(server, client)  # the same draw as in ``server_message``
            affinity[client, selected] += gain[: len(selected)]
        return {
            "models": models,
            "affinity": affinity,
            "round": torch.tensor(returned.round),
            "seed": torch.tensor(returned.seed),
        }

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))
