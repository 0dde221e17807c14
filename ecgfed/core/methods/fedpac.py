r"""FedPAC (Xu, Tong and Huang, ICLR 2023, arXiv 2306.11867): aligned features, and heads combined for each client.

A client receives the extractor, the global centroids (mean features of each class) and a head combined for it. Before
it trains, it measures its features with the received extractor: :math:`h_i^k = \pi_i^k \mu_i^k`, class share times mean
features, and :math:`v_i = \frac{1}{n_i} \sum_k \big(\pi_i^k E \lVert f \rVert^2 - \lVert h_i^k \rVert^2\big)`. Then it
trains the head with the extractor frozen, and the extractor with the head frozen and its features aligned:

.. math::
    \mathcal{L}_i = \operatorname{CE} + \lambda \cdot \frac{1}{B} \sum_{(x, y)} \frac{1}{D}
      \lVert f(x) - c^{(y)} \rVert^2

The server averages extractors by data share and centroids by beats, and combines heads :math:`\psi_j`:

.. math::
    \alpha_i = \arg\min_{\alpha \ge 0,\, \sum_j \alpha_j = 1} \sum_j \alpha_j^2 v_j
      + \sum_k \lVert \sum_j \alpha_j (h_i^k - h_j^k) \rVert^2, \qquad
    \psi_i \leftarrow \sum_j \alpha_{ij} \psi_j

A client's model is the shared extractor with its own trained head. There is no global model.

Privacy: the server learns each client's mean features, class shares and beats per class, and gets its head. Where one
other client gets all the weight, its head goes to the addressee unchanged.

Departures from the paper: the distance is that of each beat, averaged over features, as in the authors' code; a beat of
a class without a global centroid has no second term (in the authors' code the client's own centroid takes its place); a
client that has not taken part, or that comes back, trains from the head that was last combined for it; the head has the
learning rate of the extractor (0.1 and 0.01 in the authors' code); momentum in local SGD.

The authors' code is github.com/JianXu95/FedPAC.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Requirements, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, sgd_step, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.prototypes import (
    PROTOTYPES_DOWN,
    PROTOTYPES_UP,
    aligned_gradients,
    combined_prototypes,
    feature_statistics,
    no_prototypes,
)
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import extractor_of, head_of


@dataclass(frozen=True)
class FedPacSettings(SgdSettings):
    """Settings of FedPAC.

    Attributes:
        lam: weight of the alignment (lambda); the authors' code has 1.
        head_share: share of a round's steps that train the head; the authors take 1 epoch of 6. Each part gets at
            least one step.
    """

    lam: float = ranged(1.0, 0, 1e4)
    head_share: float = ranged(1 / 6, 0, 1)


def combination(h: NDArray[np.float64], v: NDArray[np.float64], client: int) -> NDArray[np.float64]:
    """Return alpha (m,) for one of m clients with h (m, classes * features) and v (m,).

    The objective is ``|R alpha|^2`` with R as below. Over the simplex, it has the minimum of the non-negative least
    squares of ``|R beta|^2 + (sum beta - 1)^2``, divided by its sum: for beta = s alpha the latter is, at its best s,
    q / (1 + q) of q, the objective at alpha.
    """
    residuals = np.vstack([np.diag(np.sqrt(v)), (h[client] - h).T, np.ones((1, len(h)))])
    beta, _ = nnls(residuals, np.append(np.zeros(len(residuals) - 1), 1.0))
    alpha: NDArray[np.float64] = beta / beta.sum()
    return alpha


class FedPac(Method):
    """Shared extractor with aligned features; each client's head begins at a combination of all."""

    name: ClassVar[str] = "fedpac"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedPAC",
        "Xu et al., ICLR 2023",
        down=(
            Sent("extractor", "extractor", "extractor"),
            *PROTOTYPES_DOWN,
            Sent("head", "the heads combined for it", "head", "addressee"),
        ),
        up=(
            Sent("extractor", "extractor", "extractor"),
            Sent("head", "classifier head", "head"),
            *PROTOTYPES_UP,
            Sent("shares", "those before training, times class shares", "prototypes"),
            Sent("variance", "their variance", "number"),
        ),
        stores=(Stored("head", "classifier head", "as it is"),),
    )
    settings_type: ClassVar[type] = FedPacSettings
    has_global_model: ClassVar[bool] = False
    requirements = Requirements(training=True)

    def server_start(self, initial: Params) -> Tree:
        return {"extractor": extractor_of(initial), **no_prototypes(self.net, initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"head": head_of(initial)}

    def server_message(self, server: Tree, client: int) -> Tree:
        message = {name: server[name] for name in ("extractor", "prototypes", "beats")}
        heads = server.get("heads", {})
        return {**message, "head": heads[str(client)]} if str(client) in heads else message

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        assert info.training is not None  # required above
        head: Params = message["head"] if "head" in message else client_state["head"]
        model = {**message["extractor"], **head}
        mean, count, square = feature_statistics(self.net, model, info.training)
        shares = mean * (count / count.sum())[:, None]  # h_i
        variance = (square.sum() / count.sum() - shares.square().sum()) / count.sum()  # v_i
        head_steps = min(max(round(self.settings.head_share * info.steps), 1), max(info.steps - 1, 1))
        return {
            "model": model,
            "velocity": zeros_like(model),
            "prototypes": message["prototypes"],
            "beats": message["beats"],
            "shares": shares.to(message["prototypes"].dtype),
            "variance": variance,
            "head_until": torch.tensor(head_steps),
            "body_from": torch.tensor(0 if info.steps == 1 else head_steps),
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        settings = self.settings
        grads, loss, stats = aligned_gradients(self.net, state, batches[0], settings, settings.lam)
        model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, settings)
        moves = {"head": t < state["head_until"], "extractor": t >= state["body_from"]}
        new = {
            kind: {name: torch.where(moves[name.split(".")[0]], w, state[kind][name]) for name, w in tree.items()}
            for kind, tree in (("model", model), ("velocity", velocity))
        }
        return {**state, **new}, {"loss": loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        assert info.training is not None  # required above
        mean, count, _ = feature_statistics(self.net, state["model"], info.training)
        head = head_of(state["model"])
        returned = {
            "extractor": extractor_of(state["model"]),
            "head": head,
            "prototypes": mean.to(state["prototypes"].dtype),
            "beats": count,
            "shares": state["shares"],
            "variance": state["variance"],
        }
        return returned, {"head": head}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        tree = returned.tree
        h, v = tree["shares"].double().flatten(1).numpy(), tree["variance"].double().clamp_min(0).numpy()
        combined = {
            str(client): weighted_mean(tree["head"], torch.from_numpy(combination(h, v, number)))
            for number, client in enumerate(returned.clients.tolist())
        }
        return {
            "extractor": weighted_mean(tree["extractor"], returned.data_share),
            **combined_prototypes(server, tree),
            "heads": {**server.get("heads", {}), **combined},
        }

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        extractor = Stage("extractor", server["extractor"], shared=True)
        return Pipeline((extractor, Stage("head", client_state["head"], shared=False)))
