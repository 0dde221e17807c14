r"""FedFomo (Zhang et al., ICLR 2021, arXiv 2012.08565): each client mixes the models that help it.

With :math:`\theta_i` the client's model before the round, :math:`\theta_n` another's, and L_i the loss on the client's
validation beats:

.. math::
    w_n = \max\left(0, \frac{L_i(\theta_i) - L_i(\theta_n)}{\lVert \theta_n - \theta_i \rVert}\right), \qquad
    \theta_i \leftarrow \theta_i + \sum_n \frac{w_n}{\sum_k w_k} (\theta_n - \theta_i)  \tag{5, 6}

then local training. The server offers a few models a round: those of highest affinity (the sum of past w_n), each with
probability epsilon a random one instead; epsilon falls by ``epsilon_decay`` a round. There is no global model. A client
without validation beats mixes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.algebra import minus, square_length
from ecgfed.methods.answers import Answer, Chain, Part, together
from ecgfed.methods.base import Batch, Card, ClientInfo, Losses, Method, Needs, Returned, Tree
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model, zeros_like
from ecgfed.methods.risks import risk
from ecgfed.methods.settings import check_range
from ecgfed.nets.layers import Params, trainable


@dataclass(frozen=True)
class FedFomoSettings(SgdSettings):
    """Settings of FedFomo.

    Attributes:
        candidates: models offered to a client in a round (M).
        epsilon: probability of a random model in place of one of high affinity, in the first round.
        epsilon_decay: how much epsilon falls a round.
    """

    candidates: int = 5
    epsilon: float = 0.3
    epsilon_decay: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("candidates", self.candidates, 1, 10_000)
        check_range("epsilon", self.epsilon, 0.0, 1.0)
        check_range("epsilon_decay", self.epsilon_decay, 0.0, 1.0)


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
    card: ClassVar[Card] = Card("FedFomo", "Zhang et al., ICLR 2021", shared="others' models", stays="whole model")
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

    def shared(self, server: Tree) -> Tree:
        return {"models": server.get("models", {})}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        affinity = kept.get("affinity", torch.zeros(info.client_numbers, dtype=torch.float64)).cpu().clone()
        offered = self._offered(shared.get("models", {}), affinity, info)  # an empty branch is no branch
        model: Params = kept["model"]
        if offered and info.validation is not None:
            others = [shared["models"][client] for client in offered]
            own_loss, *losses = (self._loss(one, info.validation) for one in (model, *others))
            model, raw = mixed(model, others, own_loss, losses)
            for client, w in zip(offered, raw, strict=True):
                affinity[int(client)] += w
        return {"model": model, "velocity": zeros_like(model), "affinity": affinity}

    def _loss(self, model: Params, validation: Batch) -> Tensor:
        with torch.no_grad():
            return risk(self.net.logits(model, validation.inputs), validation, self.settings)

    def _offered(self, models: dict[str, Params], affinity: Tensor, info: ClientInfo) -> list[str]:
        """The other clients whose models this one gets in this round."""
        others = sorted((client for client in models if client != str(info.index)), key=int)
        draw = torch.Generator().manual_seed((info.seed * 1_000_003 + info.round) * 1_000_003 + info.index)
        best = sorted(others, key=lambda client: (-float(affinity[int(client)]), int(client)))
        epsilon = max(0.0, self.settings.epsilon - self.settings.epsilon_decay * (info.round - 1))
        chosen: list[str] = []
        for _ in range(min(self.settings.candidates, len(others))):
            left = [client for client in best if client not in chosen]
            at_random = float(torch.rand((), generator=draw, device="cpu")) < epsilon
            place = int(torch.randint(len(left), (), generator=draw, device="cpu")) if at_random else 0
            chosen.append(left[place])
        return chosen

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        trained, losses = train_whole_model(self.net, state, batches[0], self.settings)
        return {**state, **trained}, losses

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"model": state["model"], "affinity": state["affinity"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        sent = {
            str(int(client)): {name: value[k] for name, value in returned.tree["model"].items()}
            for k, client in enumerate(returned.clients)
        }
        return {"models": {**server.get("models", {}), **sent}}

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        return together([self.personal_answer(server, client) for client in kept], protocol)

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        return Chain((Part("model", kept["model"], shared=False),))
