r"""Fed-RoD: federated robust decoupling (Chen and Chao, ICLR 2022, arXiv 2107.00778), Algorithm 1.

Two predictors on one extractor. The generic branch (extractor :math:`\theta`, head :math:`\psi`) is trained with a
balanced risk and averaged; the personal head :math:`\phi` is trained with the client's plain risk on top of it:

.. math::
    \theta_m, \psi_m &= \arg\min \mathcal{L}^{BR}_m(\theta, \psi)  \tag{8} \\
    \phi_m &= \arg\min \mathcal{L}_m(h_G(f(x)) + h_P(f(x); \phi)), \quad
      f \text{ and } h_G \text{ without gradient}  \tag{9}

both by SGD at the same time. ``fed-rod`` (linear) keeps :math:`\phi_m` with the client; ``fed-rod-hyper`` makes it from
the client's class mix, :math:`\phi_m = H(a_m; \nu)`, and averages :math:`\nu` (11), so that a new patient gets a head
from a class mix alone. The personal model is the client's own :math:`\theta_m, \psi_m, \phi_m`.

The generic branch is any generic method: FedAvg, FedProx, SCAFFOLD or FedDyn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ecgfed.errors import OptionError
from ecgfed.methods.answers import Chain, Part
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree, cross_entropy, weighted_mean
from ecgfed.methods.card import Card, Keeps, Reports, Travels
from ecgfed.methods.fedavg import FedAvg
from ecgfed.methods.feddyn import FedDyn, FedDynSettings
from ecgfed.methods.fedprox import FedProx, FedProxSettings
from ecgfed.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.methods.scaffold import Scaffold, ScaffoldSettings
from ecgfed.methods.settings import choice, ranged, settings_of
from ecgfed.nets.hypernetwork import initial_hypernetwork, made_head
from ecgfed.nets.layers import Params, linear
from ecgfed.nets.net import Net

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
        self.of_the_generic_branch()  # refuses what that method refuses
        for name in _not_taken(self.generic):
            if getattr(self, name) != _DEFAULTS[name]:
                found = f"{getattr(self, name)}, which {self.generic} does not have"
                raise OptionError(f"--set {name}", found, "nothing", "leave it out, or choose another generic")

    def of_the_generic_branch(self) -> SgdSettings:
        """The settings of the method that trains the generic branch."""
        kind = GENERIC[self.generic].settings_type
        made: SgdSettings = kind(**{setting.name: getattr(self, setting.name) for setting in settings_of(kind)})
        return made

    @classmethod
    def of_earlier_versions(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        # version 0.1 took mu and alpha whatever the generic branch, and did nothing with them
        idle = _not_taken(values.get("generic", "fedavg"))
        return {name: value for name, value in values.items() if name not in idle}


#: Fed-RoD's own defaults of the settings that are its own and of the generic methods'.
_DEFAULTS = {setting.name: setting.default for setting in settings_of(FedRodSettings)}


def _not_taken(generic: str) -> set[str]:
    """Settings that some generic method has and this one has not."""
    of_each = {
        name: {setting.name for setting in settings_of(method.settings_type)} for name, method in GENERIC.items()
    }
    return set().union(*of_each.values()) - of_each.get(generic, set())


class FedRod(Method):
    """Fed-RoD (linear): the personal head stays with the client."""

    name: ClassVar[str] = "fed-rod"
    card: ClassVar[Card] = Card(
        "Fed-RoD (linear)",
        "Chen and Chao, ICLR 2022",
        down=(
            Travels("generic/model", "generic model"),
            Travels("generic/variate", "control variate", "trainable", when=("generic=scaffold",)),
        ),
        up=(
            Travels("generic/model", "local generic model"),
            Travels("generic/change", "change of its control variate", "trainable", when=("generic=scaffold",)),
        ),
        keeps=(
            Keeps("model", "local generic model", "as it is"),
            Keeps("model/personal.weight", "personal head"),
            Keeps("model/personal.bias", "personal head"),
            Keeps("personal", "personal head"),
            Keeps("generic/variate", "control variate", "in effect", ("generic=scaffold",)),
            Keeps("generic/linear", "gradient of the regulariser", "in effect", ("generic=feddyn",)),
        ),
        reports=(Reports("personal_loss", "the personal model's loss"),),
    )
    settings_type: ClassVar[type] = FedRodSettings
    averages = True

    def __init__(self, net: Net, settings: FedRodSettings) -> None:
        super().__init__(net, settings)
        self.generic = GENERIC[settings.generic](net, settings.of_the_generic_branch())

    def server_start(self, initial: Params) -> Tree:
        return {"generic": self.generic.server_start(initial)}

    def client_start(self, initial: Params) -> Tree:
        classes = self.net.spec.classes
        like = next(iter(initial.values()))
        nothing = {
            "personal.weight": like.new_zeros(classes, self.net.features),
            "personal.bias": like.new_zeros(classes),
        }
        return {"generic": self.generic.client_start(initial), "personal": nothing}

    def newcomer(self, server: Tree, initial: Params) -> Tree:
        return self.client_start({**initial, **server["generic"]["model"]})

    def shared(self, server: Tree, client: int) -> Tree:
        return {"generic": self.generic.shared(server["generic"], client)}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        own = self._personal_start(shared, kept)
        counts = info.class_counts.to(next(iter(own.values())).dtype)
        return {
            "generic": self.generic.begin(shared["generic"], kept.get("generic", {}), info),
            "personal": own,
            "velocity": zeros_like(own),
            "mix": counts / counts.sum(),
        }

    def _personal_start(self, shared: Tree, kept: Tree) -> Params:
        """What the personal branch trains: phi here, nu in the hyper form."""
        own: Params = kept["personal"]
        return own

    def _personal_head(self, own: Params, mix: Tensor) -> Params:
        """phi: itself here, made from the class mix in the hyper form."""
        return own

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        model, batch = state["generic"]["model"], batches[0]
        generic, losses = self.generic.step(state["generic"], batches, t)
        with torch.no_grad():  # equation 9 sends nothing into theta and psi
            features = self.net.extract(model, batch.inputs, {})
            generic_logits = self.net.classify(model, features)

        def personal_risk(own: Params) -> tuple[Tensor, Params]:
            head = self._personal_head(own, state["mix"])
            return cross_entropy(generic_logits + linear(head, "personal", features), batch), {}

        grads, loss, _ = gradients(personal_risk, state["personal"])
        own, velocity = sgd_step(state["personal"], grads, state["velocity"], {}, self.settings)
        new = {**state, "generic": generic, "personal": own, "velocity": velocity}
        return new, {**losses, "personal_loss": loss}

    def in_training(self, state: Tree) -> Params:
        return self.generic.in_training(state["generic"])

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, kept = self.generic.finish(state["generic"], info)
        head = self._personal_head(state["personal"], state["mix"])
        mine = {**state["generic"]["model"], **head}
        keeps = {"model": mine, "personal": state["personal"]} | ({"generic": kept} if kept else {})
        return {"generic": returned}, keeps

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return {"generic": self.generic.aggregate(server["generic"], replace(returned, tree=returned.tree["generic"]))}

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Chain:
        return Chain((Part("model", server["generic"]["model"], shared=True),))

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        if "model" not in kept:
            return self.global_answer(server, (), "ensemble")
        return Chain((Part("decoupled", kept["model"], shared=False),))


class FedRodHyper(FedRod):
    """Fed-RoD (hyper): a shared hypernetwork makes the personal head from the class mix."""

    name: ClassVar[str] = "fed-rod-hyper"
    card: ClassVar[Card] = replace(
        FedRod.card,
        title="Fed-RoD (hyper)",
        down=(*FedRod.card.down, Travels("hyper", "hypernetwork", "net")),
        up=(*FedRod.card.up, Travels("hyper", "local hypernetwork", "net")),
        keeps=tuple(entry for entry in FedRod.card.keeps if entry.name != "personal"),
    )

    def server_start(self, initial: Params) -> Tree:
        classes = self.net.spec.classes
        hyper = initial_hypernetwork(classes, self.net.features, self.settings.hidden, HYPER_SEED)
        like = next(iter(initial.values()))
        return {**super().server_start(initial), "hyper": {name: value.to(like) for name, value in hyper.items()}}

    def client_start(self, initial: Params) -> Tree:
        return {"generic": self.generic.client_start(initial)}

    def shared(self, server: Tree, client: int) -> Tree:
        return {**super().shared(server, client), "hyper": server["hyper"]}

    def _personal_start(self, shared: Tree, kept: Tree) -> Params:
        hyper: Params = shared["hyper"]
        return hyper

    def _personal_head(self, own: Params, mix: Tensor) -> Params:
        return made_head(own, mix, self.net.features)

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, kept = super().finish(state, info)
        return {**returned, "hyper": kept.pop("personal")}, kept

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        hyper = weighted_mean(returned.tree["hyper"], returned.data_share)
        return {**super().aggregate(server, returned), "hyper": hyper}

    def from_class_mix(self, server: Tree, mix: Tensor) -> Chain:
        head = self._personal_head(server["hyper"], mix.to(server["hyper"]["hyper.out.bias"]))
        return Chain((Part("decoupled", {**server["generic"]["model"], **head}, shared=False),))
