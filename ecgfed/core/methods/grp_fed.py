r"""GRP-FED: global-regularised personalisation (Chou et al. 2021, arXiv 2108.13858), Algorithm 1.

Server, each round: the loss power q follows the spread of the clients' losses and determines their weights.

.. math::
    q' = q + \eta_q \frac{\sigma' - \sigma}{(\sigma' + \sigma)/2}  \tag{2}
    \lambda_m = \frac{(L_m)^{q'}}{\sum_i (L_i)^{q'}}, \qquad \theta^g = \sum_m \lambda_m \theta_m^g  \tag{3}

Client, each batch: a step of the global model on cross-entropy (lines 22-25), a step of its local extractor against
the head, and a step of its discriminator D, which tells global features (true) from local ones (false; lines 28-36).

.. math::
    \theta_F^l: \beta J(C(F(x; \theta_F^l)), y) + (1 - \beta) L_R, \quad L_R = \log(1 - D(f^l))  \tag{4, 5}
    \theta_D: L_D = \log(1 - D(f^g)) + \log D(f^l)

Departures from the paper are settings, with their measured effects in docs/grp-fed.md; ``grp-fed-printed`` has none:

- ``discriminator_loss``, ``gradient_penalty``: the printed L_D is unbounded below;
- ``regulariser``: the gradient of the printed L_R vanishes while D is right;
- ``server_optimizer``, ``server_schedule``: averaging lets clients with different classes forget;
- ``q0``, ``q_floor``, ``loss_memory``: from q = 10, q hardly changes, and below 0 small losses would be favoured;
- ``personal_start``: the local steps begin from a trained extractor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.communication import CommunicationSpec, Metric, Sent, Stored
from ecgfed.core.methods.discriminator_losses import discriminator_loss, gradient_penalty, regulariser_loss
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Requirements, Returned, Tree
from ecgfed.core.methods.local_sgd import gradients, sgd_step, zeros_like
from ecgfed.core.methods.loss_weighted import LossWeighted, unevenness
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import choice, ranged
from ecgfed.core.nets.discriminator import discriminate, initial_discriminator
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import extractor_of, head_of

#: Seed of the discriminator; every client starts from the same one.
DISCRIMINATOR_SEED = 20210712
#: Conditions on the settings under which there is a personal extractor.
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
            their mean, which does not fall because all losses fall) or ``worst-tenth`` (mean loss of the worst tenth on
            validation beats over that of all; needs one more number from each client).
        q_floor: lower bound of q; below 0 clients with small losses would be favoured.
        share_mix: 0 weights clients by equation 3 only, 1 by data share only.
        loss_memory: L_m = memory * old + (1 - memory) * new, stored by the client; 0 takes L_m from this round.
        discriminator_loss: ``printed`` (L_D above, unbounded below) or ``bce`` (binary cross-entropy).
        regulariser: ``printed`` (L_R above, saturating) or ``non-saturating`` (-log D(f^l)).
        head: head of the local step, ``received`` (line 28) or ``trained`` (this batch's).
        features: f^g of the discriminator, by the ``received`` (line 34) or the ``trained`` extractor.
        gradient_penalty: gamma of gamma/2 E |grad D|^2 on both kinds of features, added to the discriminator's loss (R1
            and R2 of Mescheder et al. 2018, which stabilise the game). 0 is off, as printed.
        keep_velocity: whether the momentum of local extractor and discriminator persists between rounds.
        anchor: share of the received global extractor mixed into the local one before each round; 1 restarts it from
            there, 0 is off, as printed.
        personal_start: share of the run's rounds after which the local steps begin, from the global extractor received
            then; until then the personal model is the global one. 0, as printed, begins in the first round.
        personalise: ``false`` trains the global model only.
    """

    local_lr: float = ranged(5e-3, 0, 100)
    beta: float = ranged(0.5, 0, 1)
    q0: float = ranged(1.0, 0, 100)
    eta_q: float = ranged(0.5, 0, 100)
    driver: str = choice("spread", ("spread", "relative", "worst-tenth"))
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
        """Return ``personal_start``, too, if the local steps began at a share of the planned rounds."""
        late = self.personalise and 0 < self.personal_start < over
        return (*super().planned_by_length(over), *((f"personal_start={self.personal_start:g}",) if late else ()))


class GrpFed(LossWeighted):
    """GRP-FED with the defaults that learn on MIT-BIH."""

    name: ClassVar[str] = "grp-fed"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "GRP-FED",
        "Chou et al., 2021",
        down=(Sent("model", "global model"),),
        up=(
            Sent("model", "local model"),
            Sent("loss", "its loss", "number"),
            Sent("valid_loss", "its loss on validation beats", "number", condition=("driver=worst-tenth",)),
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

    def __init__(self, net: Net, settings: GrpFedSettings) -> None:
        super().__init__(net, settings)
        self.requirements = Requirements(validation=settings.driver == "worst-tenth")
        self.q_floor = settings.q_floor

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        received = message["model"]
        state = {**super().init_round(message, client_state, info), "received": received}
        if self.requirements.validation:
            state["valid_loss"] = torch.full((), -1.0, dtype=torch.float64)  # a client without validation beats
            if info.validation is not None:
                with torch.no_grad():
                    logits = self.net.logits(received, info.validation.inputs)
                    state["valid_loss"] = batch_loss(logits, info.validation, self.settings).double()
        if self.settings.personalise and info.progress >= self.settings.personal_start:
            state["local"] = self._init_local(extractor_of(received), client_state.get("local"))
        return state

    def _init_local(self, received: Params, stored: Tree | None) -> Tree:
        """Return local extractor, discriminator and their velocities at the start of a round."""
        if stored is None:
            like = next(iter(received.values()))  # drawn on the CPU
            drawn = initial_discriminator(self.net.features, DISCRIMINATOR_SEED)
            discriminator = {name: value.to(like.device) for name, value in drawn.items()}
            local = {"extractor": received, "discriminator": discriminator}
        else:
            local = {name: stored[name] for name in stored if name != "head"}
            if anchor := self.settings.anchor:
                extractor = local["extractor"].items()
                local["extractor"] = {name: torch.lerp(value, received[name], anchor) for name, value in extractor}
        if stored is None or not self.settings.keep_velocity:
            for part in ("extractor", "discriminator"):
                local[f"{part}_velocity"] = zeros_like(local[part])
        return local

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)  # lines 22-25
        if "local" not in state:
            return new, losses
        local, local_losses = self._local_step(new, batches[0])
        return {**new, "local": {**state["local"], **local}}, {**losses, **local_losses}

    def _local_step(self, state: Tree, batch: Batch) -> tuple[Tree, Losses]:
        """Lines 28-36: the local extractor against the fixed head, then the discriminator."""
        local, settings = state["local"], self.settings
        local_sgd = replace(settings, lr=settings.local_lr)
        head = head_of(state["received" if settings.head == "received" else "model"])

        def local_objective(extractor: Params) -> tuple[Tensor, Params]:
            stats: Params = {}
            f_l = self.net.extract(extractor, batch.inputs, stats)
            total = settings.beta * batch_loss(self.net.classify(head, f_l), batch, settings)
            if settings.beta < 1:
                logit = discriminate(local["discriminator"], f_l)
                total = total + (1 - settings.beta) * regulariser_loss(logit, settings.regulariser, batch.weight)
            return total, stats

        grads, local_loss, stats = gradients(local_objective, local["extractor"])
        extractor, velocity = sgd_step(local["extractor"], grads, local["extractor_velocity"], stats, local_sgd)
        new = {"extractor": extractor, "extractor_velocity": velocity}
        if settings.beta == 1:  # no regulariser, so the discriminator is not used
            return new, {"local_loss": local_loss}
        with torch.no_grad():
            source = state["received" if settings.features == "received" else "model"]
            f_g = self.net.extract(source, batch.inputs, {})
            f_l = self.net.extract(extractor, batch.inputs, {})

        def discriminator_objective(discriminator: Params) -> tuple[Tensor, Params]:
            logits = discriminate(discriminator, f_g), discriminate(discriminator, f_l)
            total = discriminator_loss(*logits, settings.discriminator_loss, batch.weight)
            if settings.gradient_penalty:
                penalty = gradient_penalty(discriminator, (f_g, f_l), batch.weight)
                total = total + settings.gradient_penalty * penalty
            return total, {}

        grads, d_loss, _ = gradients(discriminator_objective, local["discriminator"])
        discriminator, velocity = sgd_step(
            local["discriminator"], grads, local["discriminator_velocity"], {}, local_sgd
        )
        new |= {"discriminator": discriminator, "discriminator_velocity": velocity}
        return new, {"local_loss": local_loss, "discriminator_loss": d_loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, client_state = super().finish_round(state, info)
        if "local" in state:
            head = head_of(state["received" if self.settings.head == "received" else "model"])
            client_state["local"] = {**state["local"], "head": head}
        if "valid_loss" in state:
            returned["valid_loss"] = state["valid_loss"]
        return returned, client_state

    def unevenness(self, returned: Returned) -> Tensor:
        losses: Tensor = returned.tree["loss"]
        valid: Tensor = returned.tree.get("valid_loss", losses)
        return unevenness(torch.where(valid < 0, losses, valid), self.settings.driver)

    def client_weights(self, returned: Returned, q: Tensor) -> Tensor:
        mix: float = self.settings.share_mix
        return (1 - mix) * super().client_weights(returned, q) + mix * returned.data_share

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        if "local" not in client_state:
            return super().personal_model(server, client_state)
        extractor = Stage("extractor", client_state["local"]["extractor"], shared=False)
        return Pipeline((extractor, Stage("head", head_of(server["model"]), shared=True)))

    def alternative_models(self, server: Tree, client_state: Tree) -> dict[str, Pipeline]:
        if "local" not in client_state:
            return {}
        stages = tuple(Stage(role, client_state["local"][role], shared=False) for role in ("extractor", "head"))
        return {"head it trained against": Pipeline(stages)}
