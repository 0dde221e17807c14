r"""MTL: multi-task learning over clients (Smith et al., NeurIPS 2017, arXiv 1705.10467) for any net, by SGD.

.. math::
    \min_W \sum_i F_i(w_i) + \lambda \operatorname{tr}(W \Omega W^\top), \qquad
    \nabla_{w_i} = \nabla F_i(w_i) + 2 \lambda \sum_j \Omega_{ij} w_j

W has a column per client. ``relation=mean`` takes :math:`\Omega = (I - 11^\top / M)^2`, which holds every model
near the mean of all: :math:`\sum_j \Omega_{ij} w_j = w_i - \bar w`. ``relation=learned`` takes
:math:`\Omega = (\Sigma + \epsilon I)^{-1}` with
:math:`\Sigma = (W^\top W)^{1/2} / \operatorname{tr}((W^\top W)^{1/2})` of the models the server last saw (Zhang and
Yeung 2010), scaled so that its mean diagonal is 1. In a round the others' columns are those of its start.

The server learns what a patient trains. All start from one model, and a patient sends all that a round changed in its
own: their sum is its model. With ``relation=learned`` it sends the model too, and gets the others' summed by its row of
:math:`\Omega`, which is one other patient's model, scaled, where only two have been seen. Running statistics stay.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.algebra import minus, plus, times
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import EQUAL, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.settings import choice, ranged
from ecgfed.core.nets.layers import Params, trainable
from ecgfed.core.nets.net import Net

#: Added to the relation's diagonal before it is inverted.
RIDGE = 1e-3
#: Condition on the settings under which the server learns a relation.
LEARNED = ("relation=learned",)


@dataclass(frozen=True)
class MtlSettings(SgdSettings):
    """Settings of MTL.

    Attributes:
        lam: strength of the relation (lambda).
        relation: ``mean`` holds every model near the mean of all; ``learned`` learns who is like whom, and sends more.
    """

    lam: float = ranged(0.01, 0, 1e4)
    relation: str = choice("mean", ("mean", "learned"))


def learned_relation(columns: Tensor) -> Tensor:
    """Omega (M, M) for models (M, parameters), float64."""
    values, vectors = torch.linalg.eigh(columns.double() @ columns.double().T)
    root = (vectors * values.clamp_min(0.0).sqrt()) @ vectors.T
    sigma = root / root.trace().clamp_min(1e-300)
    omega = torch.linalg.inv(sigma + RIDGE * torch.eye(len(sigma), dtype=torch.float64))
    scaled: Tensor = omega / omega.diagonal().mean()
    return scaled


def _by_number(models: dict[str, Params]) -> dict[str, Params]:
    """Return the models in the order of their clients' numbers."""
    return {client: models[client] for client in sorted(models, key=int)}


def _relation_of(models: dict[str, Params]) -> Tensor:
    """Return Omega (M, M) of the clients' models, in their order."""
    flat = [torch.cat([model[name].flatten() for name in sorted(model)]) for model in models.values()]
    return learned_relation(torch.stack(flat))


class Mtl(Method):
    """A model per client, coupled by a relation between clients."""

    name: ClassVar[str] = "mtl"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "MTL",
        "Smith et al., NeurIPS 2017",
        down=(
            Sent("mean", "mean of all models", "trainable"),
            Sent("others", "sum of the others' models", "trainable", "addressee", LEARNED),
            Sent("own", "weight of its own model", "number", "addressee", LEARNED),
        ),
        up=(
            Sent("change", "change of its own model", "trainable", mean=EQUAL),
            Sent("model", "its own model", "trainable", condition=LEARNED),
        ),
        stores=(
            Stored("model", "own model", "in effect", ("relation=mean",)),
            Stored("model", "own model", "as it is", LEARNED),
            Stored("velocity", "its momentum"),
        ),
    )
    settings_type: ClassVar[type] = MtlSettings
    has_global_model: ClassVar[bool] = False

    def __init__(self, net: Net, settings: MtlSettings) -> None:
        super().__init__(net, settings)
        self.averages = settings.relation != "learned"  # if learned, the server stores every model

    def server_start(self, initial: Params) -> Tree:
        start: Tree = {"mean": trainable(initial)}
        return {**start, "models": {}} if self.settings.relation == "learned" else start

    def client_start(self, initial: Params) -> Tree:
        return {"model": initial, "velocity": zeros_like(initial)}

    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        return self.client_start({**initial, **server["mean"]})

    def server_message(self, server: Tree, client: int) -> Tree:
        models = _by_number(server.get("models", {}))
        if len(models) < 2 or str(client) not in models:
            return {"mean": server["mean"]}
        # computed once per round in ``aggregate``; a checkpoint of version 0.1 does not have it
        omega = server["relation"] if "relation" in server else _relation_of(models)
        k = list(models).index(str(client))
        weights = omega[k].clone()
        weights[k] = 0.0
        names = list(next(iter(models.values())))
        stacked = {name: torch.stack([model[name] for model in models.values()]) for name in names}
        return {"mean": server["mean"], "others": weighted_mean(stacked, weights), "own": omega[k, k].clone()}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        client_state = {**client_state, "before": trainable(client_state["model"])}
        if "others" in message:
            return {**client_state, "others": message["others"], "own": message["own"]}
        # w_i minus the mean: the fixed relation, or a client from which the server has no model yet
        return {**client_state, "others": times(message["mean"], -1.0), "own": torch.ones((), dtype=torch.float64)}

    def adjust_gradient(self, gradient: Params, w: Params, state: Tree) -> Params:
        omega_ii = state["own"].to(next(iter(w.values())).dtype)
        return plus(gradient, plus(times(w, omega_ii), state["others"]), 2 * self.settings.lam)

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        model = state["model"]
        returned: Tree = {"change": minus(trainable(model), state["before"])}
        if self.settings.relation == "learned":
            returned["model"] = trainable(model)
        return returned, {"model": model, "velocity": state["velocity"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        # every client started from the same model, so the mean of all moves by the participants' changes over M
        weights = torch.full((len(returned.clients),), 1.0 / returned.federation, dtype=torch.float64)
        new: Tree = {"mean": plus(server["mean"], weighted_mean(returned.tree["change"], weights))}
        if self.settings.relation == "learned":
            received = {
                str(int(client)): {name: value[k] for name, value in returned.tree["model"].items()}
                for k, client in enumerate(returned.clients)
            }
            new["models"] = _by_number({**server.get("models", {}), **received})
            if len(new["models"]) > 1:
                new["relation"] = _relation_of(new["models"])
        return new

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=False),))
