r"""FedFomo (Zhang et al., ICLR 2021, arXiv 2012.08565): each client mixes the models that help it.

With :math:`\theta_i` the client's model before the round, :math:`\theta_n` another's, and L_i the loss on the client's
validation beats:

.. math::
    w_n = \max\left(0, \frac{L_i(\theta_i) - L_i(\theta_n)}{\lVert \theta_n - \theta_i \rVert}\right), \qquad
    \theta_i \leftarrow \theta_i + \sum_n \frac{w_n}{\sum_k w_k} (\theta_n - \theta_i)  \tag{5, 6}

then local training. The server keeps every client's last model and the matrix of affinities (section 3.3: the sums of
past w_n, which the clients send it), and sends a client a few models a round: those of highest affinity, each with
probability epsilon a random one instead; epsilon falls by ``epsilon_decay`` a round. There is no global model. A client
without validation beats mixes nothing.

So a patient's model goes to others as it is, without its number, and the server learns whose models serve whom.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.algebra import minus, square_length
from ecgfed.methods.answers import Answer, Chain, Part, together
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Needs, Returned, Tree
from ecgfed.methods.card import Card, Keeps, Travels
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model, zeros_like
from ecgfed.methods.risks import risk
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params, trainable


@dataclass(frozen=True)
class FedFomoSettings(SgdSettings):
    """Settings of FedFomo.

    Attributes:
        candidates: models offered to a client in a round (M).
        epsilon: probability of a random model in place of one of high affinity, in the first round.
        epsilon_decay: how much epsilon falls a round.
    """

    candidates: int = ranged(5, 1, 10_000)
    epsilon: float = ranged(0.3, 0, 1)
    epsilon_decay: float = ranged(0.05, 0, 1)


def mixed(
    own: Params, others: Sequence[Params], own_loss: Tensor, losses: Sequence[Tensor]
) -> tuple[Params, list[float]]:
    """Equations 5 and 6: the new model, and each raw w_n before it is cut at 0.

    Running statistics are mixed with the same weights.
    """
    raw = []
    for other, loss in zip(others, losses, strict=True):
        length = square_length(minus(trainable(own), other)).sqrt()
        raw.append(float((own_loss - loss) / length) if float(length) > 0 else 0.0)
    positive = [max(0.0, w) for w in raw]
    total = sum(positive)
    new = dict(own)
    if total > 0:
        for w, other in zip(positive, others, strict=True):
            new = {name: value + (w / total) * (other[name] - own[name]) for name, value in new.items()}
    return new, raw


class FedFomo(Method):
    """Personal models as mixtures of others'."""

    name: ClassVar[str] = "fedfomo"
    card: ClassVar[Card] = Card(
        "FedFomo",
        "Zhang et al., ICLR 2021",
        down=(Travels("models", "some others' models", "models", "another"),),
        up=(Travels("model", "local model"), Travels("gain", "how much those models helped", "numbers")),
        keeps=(Keeps("model", "personal model", "as it is"),),
    )
    settings_type: ClassVar[type] = FedFomoSettings
    has_global_model: ClassVar[bool] = False
    needs = Needs(validation=True)

    def server_start(self, initial: Params) -> Tree:
        return {"models": {}}

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial}

    def newcomer(self, server: Tree, initial: Params) -> Tree:
        models: list[Params] = list(server.get("models", {}).values())
        mean = {name: torch.stack([one[name] for one in models]).mean(0) for name in models[0]} if models else initial
        return self.client_start(mean)

    def shared(self, server: Tree, client: int) -> Tree:
        models, offered = server.get("models", {}), self._offered(server, client)
        return {"models": {str(place): models[str(other)] for place, other in enumerate(offered)}}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        offered = shared.get("models", {})  # an empty branch is no branch
        others: list[Params] = [offered[place] for place in sorted(offered, key=int)]
        model: Params = kept["model"]
        gain = torch.zeros(self.settings.candidates, dtype=torch.float64)
        if others and info.validation is not None:
            own_loss, *losses = (self._loss(one, info.validation) for one in (model, *others))
            model, raw = mixed(model, others, own_loss, losses)
            gain[: len(raw)] = torch.tensor(raw, dtype=torch.float64)
        return {"model": model, "velocity": zeros_like(model), "gain": gain}

    def _loss(self, model: Params, validation: Batch) -> Tensor:
        with torch.no_grad():
            return risk(self.net.logits(model, validation.inputs), validation, self.settings)

    def _offered(self, server: Tree, client: int) -> list[int]:
        """The other clients whose models this one gets in the next round, in the order of the choice."""
        others = sorted(int(other) for other in server.get("models", {}) if int(other) != client)
        affinity = server.get("affinity", torch.zeros(0, 0))
        own = dict(enumerate(affinity[client].tolist())) if client < len(affinity) else {}
        seed, number = int(server.get("seed", 0)), int(server.get("round", 0)) + 1
        draw = torch.Generator().manual_seed(((seed * 1_000_003 + number) * 1_000_003 + client) % 2**64)
        best = sorted(others, key=lambda other: (-own.get(other, 0.0), other))
        epsilon = max(0.0, self.settings.epsilon - self.settings.epsilon_decay * (number - 1))
        chosen: list[int] = []
        for _ in range(min(self.settings.candidates, len(others))):
            left = [other for other in best if other not in chosen]
            at_random = float(torch.rand((), generator=draw, device="cpu")) < epsilon
            place = int(torch.randint(len(left), (), generator=draw, device="cpu")) if at_random else 0
            chosen.append(left[place])
        return chosen

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = train_whole_model(self.net, state, batches[0], self.settings)
        return {**state, **trained}, losses

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
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
            offered = self._offered(server, client)  # once more what it was sent
            affinity[client, offered] += gain[: len(offered)]
        return {
            "models": models,
            "affinity": affinity,
            "round": torch.tensor(returned.round),
            "seed": torch.tensor(returned.seed),
        }

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        return together([self.personal_answer(server, client) for client in kept], protocol)

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        return Chain((Part("model", kept["model"], shared=False),))
