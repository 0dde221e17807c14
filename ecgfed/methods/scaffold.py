r"""SCAFFOLD (Karimireddy et al., ICML 2020, arXiv 1910.06378), Algorithm 1.

.. math::
    y_i &\leftarrow y_i - \eta (g_i(y_i) - c_i + c) \\
    c_i^+ &= c_i - c + \frac{x - y_i}{K \eta}  \quad \text{(option II)} \qquad
    c_i^+ = g_i(x) \quad \text{(option I, over the round's batches)} \\
    x &\leftarrow x + \operatorname{mean}(y_i - x), \qquad c \leftarrow c + \frac{m}{M} \operatorname{mean}(c_i^+ - c_i)

Option II assumes plain SGD: with momentum m a step is up to 1/(1 - m) times longer than eta g, c_i is overstated by as
much, and the method can diverge. So momentum is 0 here unless option I is chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.errors import OptionError
from ecgfed.methods.algebra import minus, plus, times
from ecgfed.methods.base import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.methods.card import Card, Keeps, Travels
from ecgfed.methods.fedavg import FedAvgUniform
from ecgfed.methods.local_sgd import gradients, train_whole_model, zeros_like
from ecgfed.methods.risks import risk
from ecgfed.methods.server_sgd import FederatedSgdSettings, server_step
from ecgfed.methods.settings import choice
from ecgfed.nets.layers import Params, trainable


@dataclass(frozen=True)
class ScaffoldSettings(FederatedSgdSettings):
    """Settings of SCAFFOLD.

    Attributes:
        option: ``II`` (from the way the model went) or ``I`` (gradient at the received model over the round's batches,
            a second gradient each step).
    """

    momentum: float = 0.0
    option: str = choice("II", ("I", "II"))

    def check_together(self) -> None:
        if self.option == "II" and self.momentum:
            raise OptionError(
                "--set momentum",
                f"{self.momentum}",
                "0 with SCAFFOLD's option II, which is exact for plain SGD only",
                "leave it out, or add --set option=I",
            )


class Scaffold(FedAvgUniform):
    """FedAvg with control variates against client drift."""

    name: ClassVar[str] = "scaffold"
    card: ClassVar[Card] = replace(
        FedAvgUniform.card,
        title="SCAFFOLD",
        reference="Karimireddy et al., ICML 2020",
        down=(*FedAvgUniform.card.down, Travels("variate", "control variate", "trainable")),
        up=(*FedAvgUniform.card.up, Travels("change", "change of its control variate", "trainable")),
        keeps=(Keeps("variate", "control variate", "in effect"),),
    )
    settings_type: ClassVar[type] = ScaffoldSettings

    def server_start(self, initial: Params) -> Tree:
        return {**super().server_start(initial), "variate": zeros_like(initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"variate": zeros_like(initial)}

    def shared(self, server: Tree, client: int) -> Tree:
        return {"model": server["model"], "variate": server["variate"]}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        state = {
            **super().begin(shared, kept, info),
            "received": shared["model"],
            "own": kept["variate"],
            "shared": shared["variate"],
            "steps": torch.zeros((), dtype=torch.float64),
        }
        if self.settings.option == "I":
            state["gradient_sum"] = zeros_like(shared["model"])
        return state

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        batch = batches[0]
        trained, losses = train_whole_model(
            self.net,
            state,
            batch,
            self.settings,
            lambda gradient, _: plus(minus(gradient, state["own"]), state["shared"]),
        )
        new = {**state, **trained, "steps": state["steps"] + 1}
        if self.settings.option == "I":

            def local_risk(params: Params) -> tuple[Tensor, Params]:
                return risk(self.net.logits(params, batch.inputs, {}), batch, self.settings), {}

            new["gradient_sum"] = plus(state["gradient_sum"], gradients(local_risk, state["received"])[0])
        return new, losses

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        if self.settings.option == "I":
            variate = times(state["gradient_sum"], 1.0 / float(state["steps"]))
        else:
            way = minus(trainable(state["received"]), state["model"])
            scale = 1.0 / (float(state["steps"]) * self.settings.lr)
            variate = plus(minus(state["own"], state["shared"]), way, scale)
        return {"model": state["model"], "change": minus(variate, state["own"])}, {"variate": variate}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        weights = self.weights(returned)
        mean = weighted_mean(returned.tree["model"], weights)
        change = weighted_mean(returned.tree["change"], weights)
        share = len(returned.clients) / returned.federation  # m / M
        moved = server_step(server, mean, self.settings, returned.progress)
        return {**moved, "variate": plus(server["variate"], change, share)}
