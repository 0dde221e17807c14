r"""GRP-FED: global-regularised personalisation (Chou et al. 2021, arXiv 2108.13858), Algorithm 1.

Server, each round: the loss power q follows the spread of the clients' losses and decides the weights.

.. math::
    q' = q + \eta_q \frac{\sigma' - \sigma}{(\sigma' + \sigma)/2}  \tag{2}
    \lambda_m = \frac{(L_m)^{q'}}{\sum_i (L_i)^{q'}}, \qquad \theta^g = \sum_m \lambda_m \theta_m^g  \tag{3}

Client, each batch: a step of the global model on cross-entropy, a step of its own extractor against the head, and a
step of its discriminator D, which tells global features (true) from local ones (false).

.. math::
    \theta_F^l: \beta J(C(F(x; \theta_F^l)), y) + (1 - \beta) L_R, \quad L_R = \log(1 - D(f^l))  \tag{4, 5}
    \theta_D: L_D = \log(1 - D(f^g)) + \log D(f^l)

What the paper leaves open, and what was changed so that it learns on 46 real patients, are settings;
docs/grp-fed.md gives each its reason. ``grp-fed-printed`` is the algorithm as printed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.methods.base import Method
from ecgfed.methods.communication import CommunicationSpec, Metric, Sent, Stored
from ecgfed.methods.interface import Batch, ClientInfo, Losses, Requirements, Returned, Tree, row_mean, weighted_mean
from ecgfed.methods.local_sgd import gradients, sgd_step, train_full_model, zeros_like
from ecgfed.methods.losses import batch_loss
from ecgfed.methods.models import Pipeline, Stage
from ecgfed.methods.server_sgd import FederatedSgdSettings, server_start, server_step
from ecgfed.methods.settings import choice, ranged
from ecgfed.nets.discriminator import discriminate, feature_gradient, initial_discriminator
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net
from ecgfed.nets.parts import extractor_of, head_of

#: A loss below this counts as this, so that its logarithm is finite.
SMALLEST_LOSS = 1e-8
#: The discriminator's own seed; every client starts from the same one.
DISCRIMINATOR_SEED = 20210712
#: What q may follow.
DRIVERS = ("spread", "relative", "worst-tenth")
#: Condition on the settings under which a client's loss on its validation beats travels.
ON_VALIDATION = ("driver=worst-tenth",)
#: Conditions on the settings under which there is a personal part.
PERSONAL = ("personalise=true", "personal_start<1")


@dataclass(frozen=True)
class GrpFedSettings(FederatedSgdSettings):
    """Settings of GRP-FED.

    Attributes:
        local_lr: learning rate of the local extractor and the discriminator.
        beta: weight of the personal cross-entropy against the regulariser L_R (beta).
        q0: loss power before the first round.
        eta_q: how fast q follows the spread of the losses (eta_q).
        driver: what q follows: ``spread`` (sigma, the losses' standard deviation, as printed), ``relative`` (sigma over
            their mean, which does not fall because all losses fall) or ``worst-tenth`` (the worst tenth's mean loss on
            validation beats over everybody's; one number more travels).
        q_floor: q never falls below this; below 0 the best served would be favoured.
        share_mix: 0 weights clients by equation 3 alone, 1 by data share alone.
        loss_memory: 0 takes L_m from this round; else L_m = memory * old + (1 - memory) * new, kept by the client.
        discriminator_loss: ``printed`` (L_D above, unbounded below) or ``bce`` (binary cross-entropy).
        regulariser: ``printed`` (L_R above, saturating) or ``non-saturating`` (-log D(f^l)).
        head: head of the local step, ``received`` (line 28) or ``trained`` (this batch's).
        features: f^g of the discriminator, by the ``received`` (line 34) or the ``trained`` extractor.
        gradient_penalty: gamma of gamma/2 E |grad D|^2 on both kinds of features, added to the discriminator's loss (R1
            and R2 of Mescheder et al. 2018, which keeps the game from running away). 0 is off, as printed.
        keep_velocity: the momentum of local extractor and discriminator lives on between rounds.
        anchor: share of the received global extractor mixed into the local one before each round; 1 restarts it there,
            0 leaves it to itself, as printed.
        personal_start: share of the run's rounds after which the local steps begin, from the global extractor received
            then; before, the global model answers for the patient. 0, as printed, begins in the first round.
        personalise: ``false`` trains the global model only.
    """

    lr: float = 0.02
    server_optimizer: str = "adam"
    server_lr: float = 0.01
    server_momentum: float = 0.9
    server_schedule: str = "cosine"
    local_lr: float = ranged(5e-3, 0, 100)
    beta: float = ranged(0.5, 0, 1)
    q0: float = ranged(1.0, 0, 100)
    eta_q: float = ranged(0.5, 0, 100)
    driver: str = choice("spread", DRIVERS)
    q_floor: float = ranged(0.0, -1000, 100)
    share_mix: float = ranged(0.0, 0, 1)
    loss_memory: float = ranged(0.5, 0, 0.9999)
    discriminator_loss: str = choice("bce", ("printed", "bce"))
    regulariser: str = choice("non-saturating", ("printed", "non-saturating"))
    head: str = choice("received", ("received", "trained"))
    features: str = choice("received", ("received", "trained"))
    gradient_penalty: float = ranged(10.0, 0, 1e6)
    keep_velocity: bool = True
    anchor: float = ranged(0.0, 0, 1)
    personal_start: float = ranged(0.8, 0, 1)
    personalise: bool = True

    def planned_by_length(self, over: float) -> tuple[str, ...]:
        """And the local steps begin after a share of all rounds; until then, a longer run does the same."""
        late = self.personalise and 0 < self.personal_start < over
        return (*super().planned_by_length(over), *((f"personal_start={self.personal_start:g}",) if late else ()))


def next_power(q: Tensor, sigma: Tensor, sigma_before: Tensor, eta_q: float) -> Tensor:
    """Equation 2; q stays when both spreads are 0. All 0-d."""
    total = sigma + sigma_before
    change = torch.where(total > 0, 2 * (sigma - sigma_before) / total.clamp_min(1e-300), torch.zeros_like(total))
    return q + eta_q * change


def unevenness(losses: Tensor, driver: str) -> Tensor:
    """What q follows, for clients' losses (m,): sigma, sigma over the mean, or the worst tenth over the mean; 0-d."""
    if driver == "worst-tenth":
        worst = losses.topk(math.ceil(len(losses) / 10)).values
        return worst.mean() / losses.mean().clamp_min(SMALLEST_LOSS)
    sigma = losses.std(correction=0)
    return sigma if driver == "spread" else sigma / losses.mean().clamp_min(SMALLEST_LOSS)


def loss_weights(losses: Tensor, q: Tensor) -> Tensor:
    """Equation 3 as a stable softmax, lambda = softmax(q log L); (m,) with sum 1."""
    return torch.softmax(q * losses.clamp_min(SMALLEST_LOSS).log(), dim=0)


def regulariser_loss(logit_local: Tensor, form: str, weight: Tensor | None = None) -> Tensor:
    """L_R for the discriminator's logits of local features (B,): what the local extractor minimises; 0-d.

    log(1 - D) is logsigmoid(-logit); -log D has the same fixed point and does not fade while D is right.
    """
    each = F.logsigmoid(-logit_local) if form == "printed" else -F.logsigmoid(logit_local)
    return row_mean(each, weight)


def discriminator_loss(logit_global: Tensor, logit_local: Tensor, form: str, weight: Tensor | None = None) -> Tensor:
    """L_D for logits of global and local features (B,) each: what the discriminator minimises; 0-d."""
    if form == "printed":
        return row_mean(F.logsigmoid(-logit_global) + F.logsigmoid(logit_local), weight)
    return -row_mean(F.logsigmoid(logit_global) + F.logsigmoid(-logit_local), weight)


def steepness(discriminator: Params, features: Iterable[Tensor], weight: Tensor | None = None) -> Tensor:
    """Half the mean of |grad D|^2, D as its logit, over several sets of features (B, features) each; 0-d."""
    each = [feature_gradient(discriminator, f).square().sum(1) for f in features]
    return torch.stack([row_mean(lengths, weight) for lengths in each]).mean() / 2


class GrpFed(Method):
    """GRP-FED with the defaults that learn on MIT-BIH."""

    name: ClassVar[str] = "grp-fed"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "GRP-FED",
        "Chou et al., 2021",
        down=(Sent("model", "global model"),),
        up=(
            Sent("model", "local model"),
            Sent("loss", "its loss", "number"),
            Sent("valid_loss", "its loss on validation beats", "number", condition=ON_VALIDATION),
        ),
        stores=(
            Stored("loss", "its loss", "as it is"),
            Stored("local", "personal extractor, discriminator", condition=PERSONAL),
            Stored("local/head", "head it trained against", "as it is", (*PERSONAL, "head=trained")),
        ),
        metrics=(
            Metric("local_loss", "the personal extractor's loss", PERSONAL),
            Metric("discriminator_loss", "the discriminator's loss", (*PERSONAL, "beta<1")),
        ),
    )
    settings_type: ClassVar[type] = GrpFedSettings
    averages = True

    def __init__(self, net: Net, settings: GrpFedSettings) -> None:
        super().__init__(net, settings)
        self.requirements = Requirements(validation=settings.driver == "worst-tenth")

    def server_start(self, initial: Params) -> Tree:
        zero = torch.zeros((), dtype=torch.float64)
        return {
            **server_start(initial, self.settings),
            "q": zero + self.settings.q0,
            "sigma": zero - 1,
            "effective_clients": zero,
        }

    def client_start(self, initial: Params) -> Tree:
        return {"loss": torch.full((), -1.0, dtype=torch.float64)}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"model": server["model"]}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        zero = torch.zeros((), dtype=torch.float64)
        state = {
            "received": message["model"],
            "model": message["model"],
            "velocity": zeros_like(message["model"]),
            "loss_before": client_state["loss"],
            "loss_sum": zero,
            "steps": zero,
        }
        if self.requirements.validation:
            state["valid_loss"] = self._validation_loss(message["model"], info)
        if self.settings.personalise and info.progress >= self.settings.personal_start:
            state["local"] = self._local_start(extractor_of(message["model"]), client_state.get("local"))
        return state

    def _validation_loss(self, received: Params, info: ClientInfo) -> Tensor:
        """Return the received model's loss on the client's validation beats, -1 where it has none; 0-d float64."""
        if info.validation is None:
            return torch.full((), -1.0, dtype=torch.float64)
        with torch.no_grad():
            return batch_loss(
                self.net.logits(received, info.validation.inputs), info.validation, self.settings
            ).double()

    def _local_start(self, received: Params, client_state: Tree | None) -> Tree:
        """Return the patient's own part of the state at the start of a round."""
        if client_state is None:
            discriminator = initial_discriminator(self.net.features, DISCRIMINATOR_SEED)
            return {
                "extractor": received,
                "extractor_velocity": zeros_like(received),
                "discriminator": discriminator,
                "discriminator_velocity": zeros_like(discriminator),
            }
        local = {name: client_state[name] for name in client_state if name != "head"}
        if self.settings.anchor:
            share = self.settings.anchor
            anchored = {name: torch.lerp(own, received[name], share) for name, own in local["extractor"].items()}
            local["extractor"] = anchored
        if not self.settings.keep_velocity:
            for part in ("extractor", "discriminator"):
                local[f"{part}_velocity"] = zeros_like(local[part])
        return local

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        batch = batches[0]
        # lines 22-25: the global model
        trained, losses = train_full_model(self.net, state, batch, self.settings)
        state = {**state, **trained, "loss_sum": state["loss_sum"] + losses["loss"], "steps": state["steps"] + 1}
        if "local" not in state:
            return state, losses
        local, local_losses = self._local_step(state, batch)
        return {**state, "local": {**state["local"], **local}}, {**losses, **local_losses}

    def _local_step(self, state: Tree, batch: Batch) -> tuple[Tree, Losses]:
        """Lines 28-36: the local extractor against the fixed head, then the discriminator."""
        client_state, settings = state["local"], self.settings
        local_sgd = replace(settings, lr=settings.local_lr)
        head = head_of(state["received"] if settings.head == "received" else state["model"])
        source = state["received"] if settings.features == "received" else state["model"]

        def objective(extractor: Params) -> tuple[Tensor, Params]:
            stats: Params = {}
            f_l = self.net.extract(extractor, batch.inputs, stats)
            total = settings.beta * batch_loss(self.net.classify(head, f_l), batch, settings)
            if settings.beta < 1:
                logit = discriminate(client_state["discriminator"], f_l)
                fooled = regulariser_loss(logit, settings.regulariser, batch.weight)
                total = total + (1 - settings.beta) * fooled
            return total, stats

        grads, local_loss, stats = gradients(objective, client_state["extractor"])
        extractor, velocity = sgd_step(
            client_state["extractor"], grads, client_state["extractor_velocity"], stats, local_sgd
        )
        new = {"extractor": extractor, "extractor_velocity": velocity}
        if settings.beta == 1:  # no regulariser: nothing asks the discriminator
            return new, {"local_loss": local_loss}
        with torch.no_grad():
            f_g = self.net.extract(source, batch.inputs, {})
            f_l = self.net.extract(extractor, batch.inputs, {})

        def discriminator_objective(discriminator: Params) -> tuple[Tensor, Params]:
            logits = discriminate(discriminator, f_g), discriminate(discriminator, f_l)
            total = discriminator_loss(*logits, settings.discriminator_loss, batch.weight)
            if settings.gradient_penalty:
                total = total + settings.gradient_penalty * steepness(discriminator, (f_g, f_l), batch.weight)
            return total, {}

        grads, d_loss, _ = gradients(discriminator_objective, client_state["discriminator"])
        discriminator, d_velocity = sgd_step(
            client_state["discriminator"], grads, client_state["discriminator_velocity"], {}, local_sgd
        )
        new |= {"discriminator": discriminator, "discriminator_velocity": d_velocity}
        return new, {"local_loss": local_loss, "discriminator_loss": d_loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        mean = state["loss_sum"] / state["steps"]
        before, memory = state["loss_before"], self.settings.loss_memory
        loss = torch.where(before < 0, mean, memory * before + (1 - memory) * mean)
        client_state: Tree = {"loss": loss}
        if "local" in state:
            head = head_of(state["received" if self.settings.head == "received" else "model"])
            client_state["local"] = {**state["local"], "head": head}
        returned: Tree = {"model": state["model"], "loss": loss}
        if "valid_loss" in state:
            returned["valid_loss"] = state["valid_loss"]
        return returned, client_state

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        losses: Tensor = returned.tree["loss"]
        driving: Tensor = returned.tree.get("valid_loss", losses)
        sigma = unevenness(torch.where(driving < 0, losses, driving), self.settings.driver)
        first = server["sigma"] < 0
        q = torch.where(first, server["q"], next_power(server["q"], sigma, server["sigma"], self.settings.eta_q))
        q = q.clamp_min(self.settings.q_floor)
        mix = self.settings.share_mix
        weights = (1 - mix) * loss_weights(losses, q) + mix * returned.data_share
        mean = weighted_mean(returned.tree["model"], weights)
        moved = server_step(server, mean, self.settings, returned.progress)
        return {**moved, "q": q, "sigma": sigma, "effective_clients": 1 / (weights**2).sum()}

    def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Pipeline:
        return Pipeline((Stage("model", server["model"], shared=True),))

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        if "local" not in client_state:
            return Pipeline((Stage("model", server["model"], shared=True),))
        own = Stage("extractor", client_state["local"]["extractor"], shared=False)
        return Pipeline((own, Stage("head", head_of(server["model"]), shared=True)))

    def alternative_models(self, server: Tree, client_state: Tree) -> dict[str, Pipeline]:
        if "local" not in client_state:
            return {}
        own, head = (Stage(role, client_state["local"][role], shared=False) for role in ("extractor", "head"))
        return {"head it trained against": Pipeline((own, head))}

    def round_report(self, server: Tree) -> dict[str, float]:
        return {name: float(server[name]) for name in ("q", "sigma", "effective_clients")}


@dataclass(frozen=True)
class PrintedSettings(GrpFedSettings):
    """GRP-FED's settings with the paper's values as defaults (section 4.1 and Algorithm 1)."""

    lr: float = 5e-3
    server_optimizer: str = "sgd"
    server_lr: float = 1.0
    server_momentum: float = 0.0
    server_schedule: str = "constant"
    beta: float = 0.5
    q0: float = 10.0
    q_floor: float = -1000.0
    loss_memory: float = 0.0
    gradient_penalty: float = 0.0
    personal_start: float = 0.0
    discriminator_loss: str = "printed"
    regulariser: str = "printed"


class GrpFedPrinted(GrpFed):
    """GRP-FED as Algorithm 1 prints it: unbounded L_D, saturating L_R, q0 = 10, plain aggregation."""

    name: ClassVar[str] = "grp-fed-printed"
    communication: ClassVar[CommunicationSpec] = replace(
        GrpFed.communication, title="GRP-FED as printed", reference="Chou et al., 2021, Algorithm 1"
    )
    settings_type: ClassVar[type] = PrintedSettings
