r"""GPFL (Zhang et al., ICCV 2023, arXiv 2308.10279): generic and personal features through one conditional valve.

Shared by all clients are the extractor f, an embedding :math:`e_c` of each class, and a valve V that turns features
into others under a condition; the head h is the client's own. With :math:`a_i` the client's class shares:

.. math::
    V(f, u) &= \operatorname{ReLU}\big((\gamma(u) + 1) \odot f + \beta(u)\big), \qquad
      \gamma(u), \beta(u) = \operatorname{LayerNorm}(\operatorname{ReLU}(W u + b)) \text{ each} \\
    g &= \frac{1}{C} \sum_c e_c, \qquad p_i = \sum_c a_{i,c}\, e_c \quad \text{of the received embeddings} \\
    \mathcal{L}_i &= \operatorname{CE}\big(h(V(f, p_i)), y\big)
      - \log \frac{e^{\cos(V(f, g), e_y)}}{\sum_c e^{\cos(V(f, g), e_c)}}
      + \lambda \lVert V(f, g) - \bar e_y \rVert_2 + \frac{\mu}{2} \big(\lVert V \rVert^2 + \lVert E \rVert^2\big)

with :math:`\bar e` the received embeddings, which take no gradient. Extractor, embeddings and valve are averaged by
data share. A client's model is :math:`h(V(f, p_i))` with the server's f, V and embeddings; for it a client stores its
class shares, which are not sent. There is no global model: the ensemble of the clients' models, or their average.

Departures from the paper: the distance is averaged over the beats of a batch (the authors' code takes the norm of the
whole batch); momentum in local SGD.

The authors' code is github.com/TsingZ0/GPFL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.algebra import plus
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import BEATS, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, row_mean, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import NORM_EPS, Initialiser, Params, linear, part_of
from ecgfed.core.nets.parts import extractor_of, head_of

#: Seed of valve and embeddings, which all clients start with.
SEED = 20231002
#: Added to a squared distance, whose root has no derivative at 0.
TINY = 1e-12


@dataclass(frozen=True)
class GpflSettings(SgdSettings):
    """Settings of GPFL; defaults are those of the authors' script for MNIST.

    Attributes:
        lam: weight of the distance to the embedding of a beat's class (lambda).
        mu: weight decay of valve and embeddings (mu).
    """

    lam: float = ranged(0.01, 0, 1e4)
    mu: float = ranged(0.1, 0, 1e4)


def scale_and_shift(params: Params, condition: Tensor) -> tuple[Tensor, Tensor]:
    """Return gamma + 1 and beta, (features,) each, under a condition (features,)."""

    def branch(name: str) -> Tensor:
        hidden = F.relu(linear(params, f"valve.{name}", condition[None]))[0]
        weight, bias = params[f"valve.{name}_norm.weight"], params[f"valve.{name}_norm.bias"]
        return F.layer_norm(hidden, hidden.shape, weight, bias, NORM_EPS)

    return branch("gamma") + 1.0, branch("beta")


def valve(params: Params, features: Tensor, condition: Tensor) -> Tensor:
    """Return V(f, u) for features (B, features) and a condition (features,)."""
    scale, shift = scale_and_shift(params, condition)
    return F.relu(features * scale + shift)


class Gpfl(Method):
    """Shared extractor, valve and class embeddings; personal heads on conditioned features."""

    name: ClassVar[str] = "gpfl"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "GPFL",
        "Zhang et al., ICCV 2023",
        down=(
            Sent("extractor", "extractor", "extractor"),
            Sent("valve", "conditional valve", "net"),
            Sent("embeddings", "class embeddings", "net"),
        ),
        up=(
            Sent("extractor", "extractor", "extractor", mean=BEATS),
            Sent("valve", "conditional valve", "net", mean=BEATS),
            Sent("embeddings", "class embeddings", "net", mean=BEATS),
        ),
        stores=(Stored("head", "classifier head"), Stored("shares", "its class shares")),
    )
    settings_type: ClassVar[type] = GpflSettings
    averages = True
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        features, like = self.net.features, next(iter(initial.values()))
        draw = Initialiser(SEED)
        for name in ("gamma", "beta"):
            draw.linear(f"valve.{name}", features, features)
            draw.norm(f"valve.{name}_norm", features, "group")
        draw.linear("class", features, self.net.spec.classes, gain=features)  # standard normal, as torch's embeddings
        drawn = {name: value.to(like) for name, value in draw.params.items()}
        embeddings = {"class.weight": drawn["class.weight"]}
        return {"extractor": extractor_of(initial), "valve": part_of(drawn, "valve"), "embeddings": embeddings}

    def client_start(self, initial: Params) -> Tree:
        classes, like = self.net.spec.classes, next(iter(initial.values()))
        return {"head": head_of(initial), "shares": like.new_full((classes,), 1.0 / classes)}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {name: server[name] for name in ("extractor", "valve", "embeddings")}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        received = message["embeddings"]["class.weight"]
        counts = info.class_counts.to(received)
        shares = counts / counts.sum().clamp_min(1)
        model = {**message["extractor"], **client_state["head"], **message["valve"], **message["embeddings"]}
        return {
            "model": model,
            "velocity": zeros_like(model),
            "received": received,
            "generic": received.mean(0),
            "personal": shares @ received,
            "shares": shares,
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        batch, settings = batches[0], self.settings

        def objective(params: Params) -> tuple[Tensor, Params]:
            stats: Params = {}
            f = self.net.extract(params, batch.inputs, stats)
            personal, generic = (valve(params, f, state[condition]) for condition in ("personal", "generic"))
            supervised = batch_loss(self.net.classify(params, personal), batch, settings)
            cosine = F.normalize(generic) @ F.normalize(params["class.weight"]).T
            guided = F.cross_entropy(cosine, batch.label, reduction="none")
            distance = ((generic - state["received"][batch.label]).square().sum(1) + TINY).sqrt()
            return supervised + row_mean(guided + settings.lam * distance, batch.weight), stats

        grads, loss, stats = gradients(objective, state["model"])
        decayed = {**part_of(state["model"], "valve"), "class.weight": state["model"]["class.weight"]}
        grads = {**grads, **plus({name: grads[name] for name in decayed}, decayed, settings.mu)}
        model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, settings)
        return {**state, "model": model, "velocity": velocity}, {"loss": loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        model = state["model"]
        embeddings = {"class.weight": model["class.weight"]}
        returned = {"extractor": extractor_of(model), "valve": part_of(model, "valve"), "embeddings": embeddings}
        return returned, {"head": head_of(model), "shares": state["shares"]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        weights = self.weights(returned)
        return {name: weighted_mean(returned.tree[name], weights) for name in ("extractor", "valve", "embeddings")}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        scale, shift = scale_and_shift(server["valve"], client_state["shares"] @ server["embeddings"]["class.weight"])
        conditioned = {"valve.scale": scale, "valve.shift": shift}
        return Pipeline(
            (Stage("valved", {**server["extractor"], **client_state["head"], **conditioned}, shared=False),)
        )
