r"""Fed-RoD: federated robust decoupling (Chen and Chao, ICLR 2022, arXiv 2107.00778), Algorithm 1.

Two predictors on one extractor. The generic branch (extractor :math:`\theta`, head :math:`\psi`) is trained with a
balanced risk and averaged; the personal head :math:`\phi` is trained with the client's plain risk on top of it:

.. math::
    \theta_m, \psi_m &= \arg\min \mathcal{L}^{BR}_m(\theta, \psi)  \tag{8} \\
    \phi_m &= \arg\min \mathcal{L}_m(h_G(f(x)) + h_P(f(x); \phi)), \quad
      f \text{ and } h_G \text{ without gradient}  \tag{9}

both by SGD at the same time. In ``fed-rod`` (linear) :math:`\phi_m` stays with the client; in ``fed-rod-hyper`` a
hypernetwork computes it from the client's class distribution, :math:`\phi_m = H(a_m; \nu)`, and :math:`\nu` is
averaged (11), so that a new patient gets a head from a class distribution alone. The personal model is the client's
:math:`\theta_m, \psi_m, \phi_m`.

What the paper leaves open: the generic branch is trained by FedAvg, FedProx, SCAFFOLD or FedDyn (``generic``); the
personal head starts from 0, so that the first personal model is the generic one. A departure: the server steps with
Adam for the generic branch (``server_optimizer``), but for FedDyn's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import BEATS, EQUAL, CommunicationSpec, Metric, Sent, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.feddyn import FedDyn, FedDynSettings
from ecgfed.core.methods.fedprox import FedProx, FedProxSettings
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, cross_entropy, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.scaffold import Scaffold, ScaffoldSettings
from ecgfed.core.methods.settings import choice, ranged, settings_of
from ecgfed.core.nets.hypernetwork import head_from_hypernetwork, initial_hypernetwork
from ecgfed.core.nets.layers import Params, linear
from ecgfed.core.nets.net import Net

GENERIC: dict[str, type[FedAvg]] = {"fedavg": FedAvg, "fedprox": FedProx, "scaffold": Scaffold, "feddyn": FedDyn}
#: The hypernetwork's own seed; every client starts from the same one.
HYPER_SEED = 20220425


@dataclass(frozen=True, kw_only=True)
class FedRodSettings(FedProxSettings, ScaffoldSettings, FedDynSettings):
    """Settings of Fed-RoD, and with them every setting of the method that trains its generic branch.

    A setting that this method does not have is refused unless it is left at its default.

    Attributes:
        risk: of the generic branch; ``bsm`` in the paper.
        generic: how the generic branch is trained: ``fedavg``, ``fedprox``, ``scaffold`` or ``feddyn``.
        hidden: hidden features of the hypernetwork; the paper uses 16 or 32.
    """

    risk: str = "bsm"
    momentum: float = 0.9
    generic: str = choice("fedavg", GENERIC)
    hidden: int = ranged(16, 1, 4096)

    def check_together(self) -> None:
        self.generic_settings()  # raises what that method's settings raise
        for name in unused_settings(self.generic):
            if getattr(self, name) != _DEFAULTS[name]:
                value = f"{getattr(self, name)}, which {self.generic} does not have"
                action = "leave it out, or choose another generic"
                raise OptionError(f"{param('settings')} {name}", value, "nothing", action, code="conflict")

    def generic_settings(self) -> SgdSettings:
        """Return the settings of the method that trains the generic branch."""
        kind = GENERIC[self.generic].settings_type
        settings: SgdSettings = kind(**{setting.name: getattr(self, setting.name) for setting in settings_of(kind)})
        return settings

    @classmethod
    def of_earlier_versions(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        # version 0.1 took mu and alpha whatever the generic branch, and did nothing with them
        unused = unused_settings(values.get("generic", "fedavg"))
        return {name: value for name, value in super().of_earlier_versions(values).items() if name not in unused}


#: Fed-RoD's defaults, of its settings and of the generic methods'.
_DEFAULTS = {setting.name: setting.default for setting in settings_of(FedRodSettings)}


def unused_settings(generic: str) -> set[str]:
    """Return settings that some generic method has and this one does not."""
    of_each = {
        name: {setting.name for setting in settings_of(method.settings_type)} for name, method in GENERIC.items()
    }
    return set().union(*of_each.values()) - of_each.get(generic, set())


class FedRod(Method):
    """Fed-RoD (linear): the personal head stays with the client."""

    name: ClassVar[str] = "fed-rod"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "Fed-RoD (linear)",
        "Chen and Chao, ICLR 2022",
        down=(
            Sent("generic/model", "generic model"),
            Sent("generic/variate", "control variate", "trainable", condition=("generic=scaffold",)),
        ),
        up=(
            Sent("generic/model", "local generic model", mean=BEATS, equal_if=("generic=scaffold", "generic=feddyn")),
            Sent(
                "generic/change",
                "change of its control variate",
                "trainable",
                condition=("generic=scaffold",),
                mean=EQUAL,
            ),
        ),
        stores=(
            Stored("model", "local generic model", "as it is"),
            Stored("model/personal.weight", "personal head"),
            Stored("model/personal.bias", "personal head"),
            Stored("personal", "personal head"),
            Stored("generic/variate", "control variate", "in effect", ("generic=scaffold",)),
            Stored("generic/linear", "gradient of the regulariser", "in effect", ("generic=feddyn",)),
        ),
        metrics=(Metric("personal_loss", "the personal model's loss"),),
    )
    settings_type: ClassVar[type] = FedRodSettings
    averages = True

    def __init__(self, net: Net, settings: FedRodSettings) -> None:
        super().__init__(net, settings)
        self.generic = GENERIC[settings.generic](net, settings.generic_settings())

    def server_start(self, initial: Params) -> Tree:
        return {"generic": self.generic.server_start(initial)}

    def client_start(self, initial: Params) -> Tree:
        classes = self.net.spec.classes
        like = next(iter(initial.values()))
        zero_head = {
            "personal.weight": like.new_zeros(classes, self.net.features),
            "personal.bias": like.new_zeros(classes),
        }
        return {"generic": self.generic.client_start(initial), "personal": zero_head}

    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        return self.client_start({**initial, **server["generic"]["model"]})

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"generic": self.generic.server_message(server["generic"], client)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        personal = self._personal_start(message, client_state)
        counts = info.class_counts.to(next(iter(personal.values())).dtype)
        return {
            "generic": self.generic.init_round(message["generic"], client_state.get("generic", {}), info),
            "personal": personal,
            "velocity": zeros_like(personal),
            "mix": counts / counts.sum().clamp_min(1),  # 0 for a client without labels
        }

    def _personal_start(self, message: Tree, client_state: Tree) -> Params:
        """Return what the personal branch trains: phi, in the hyper form nu."""
        personal: Params = client_state["personal"]
        return personal

    def _personal_head(self, personal: Params, distribution: Tensor) -> Params:
        """Return phi: ``personal`` itself, in the hyper form computed from the class distribution."""
        return personal

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        model, batch = state["generic"]["model"], batches[0]
        generic, losses = self.generic.step(state["generic"], batches, t)
        with torch.no_grad():  # equation 9 sends nothing into theta and psi
            features = self.net.extract(model, batch.inputs, {})
            generic_logits = self.net.classify(model, features)

        def objective(personal: Params) -> tuple[Tensor, Params]:
            head = self._personal_head(personal, state["mix"])
            return cross_entropy(generic_logits + linear(head, "personal", features), batch), {}

        grads, loss, _ = gradients(objective, state["personal"])
        personal, velocity = sgd_step(state["personal"], grads, state["velocity"], {}, self.settings)
        new = {**state, "generic": generic, "personal": personal, "velocity": velocity}
        return new, {**losses, "personal_loss": loss}

    def current_model(self, state: Tree) -> Params:
        return self.generic.current_model(state["generic"])

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, generic_state = self.generic.finish_round(state["generic"], info)
        head = self._personal_head(state["personal"], state["mix"])
        client_state: Tree = {"model": {**state["generic"]["model"], **head}, "personal": state["personal"]}
        if generic_state:
            client_state["generic"] = generic_state
        return {"generic": returned}, client_state

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return {"generic": self.generic.aggregate(server["generic"], replace(returned, tree=returned.tree["generic"]))}

    def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Pipeline:
        return Pipeline((Stage("model", server["generic"]["model"], shared=True),))

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        if "model" not in client_state:
            return self.global_model(server, (), "ensemble")
        return Pipeline((Stage("decoupled", client_state["model"], shared=False),))


class FedRodHyper(FedRod):
    """Fed-RoD (hyper): a shared hypernetwork makes the personal head from the class mix."""

    name: ClassVar[str] = "fed-rod-hyper"
    communication: ClassVar[CommunicationSpec] = replace(
        FedRod.communication,
        title="Fed-RoD (hyper)",
        down=(*FedRod.communication.down, Sent("hyper", "hypernetwork", "net")),
        up=(*FedRod.communication.up, Sent("hyper", "local hypernetwork", "net", mean=BEATS)),
        stores=tuple(entry for entry in FedRod.communication.stores if entry.name != "personal"),
    )

    def server_start(self, initial: Params) -> Tree:
        hyper = initial_hypernetwork(self.net.spec.classes, self.net.features, self.settings.hidden, HYPER_SEED)
        like = next(iter(initial.values()))
        return {**super().server_start(initial), "hyper": {name: value.to(like) for name, value in hyper.items()}}

    def client_start(self, initial: Params) -> Tree:
        return {"generic": self.generic.client_start(initial)}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {**super().server_message(server, client), "hyper": server["hyper"]}

    def _personal_start(self, message: Tree, client_state: Tree) -> Params:
        hyper: Params = message["hyper"]
        return hyper

    def _personal_head(self, personal: Params, distribution: Tensor) -> Params:
        return head_from_hypernetwork(personal, distribution, self.net.features)

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, client_state = super().finish_round(state, info)
        return {**returned, "hyper": client_state.pop("personal")}, client_state

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        hyper = weighted_mean(returned.tree["hyper"], returned.data_share)
        return {**super().aggregate(server, returned), "hyper": hyper}

    def model_from_class_distribution(self, server: Tree, distribution: Tensor) -> Pipeline:
        head = self._personal_head(server["hyper"], distribution.to(server["hyper"]["hyper.out.bias"]))
        return Pipeline((Stage("decoupled", {**server["generic"]["model"], **head}, shared=False),))
