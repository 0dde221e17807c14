r"""SCAFFOLD (Karimireddy et al., ICML 2020, arXiv 1910.06378), Algorithm 1.

.. math::
    y_i &\leftarrow y_i - \eta (g_i(y_i) - c_i + c) \\
    c_i^+ &= c_i - c + \frac{x - y_i}{K \eta}  \quad \text{(option II)} \qquad
    c_i^+ = g_i(x) \quad \text{(option I, over the round's batches)} \\
    x &\leftarrow x + \operatorname{mean}(y_i - x), \qquad c \leftarrow c + \frac{m}{M} \operatorname{mean}(c_i^+ - c_i)

Option II assumes plain SGD: with momentum m a step is up to 1/(1 - m) times longer than eta g, c_i is overstated by as
much, and the method can diverge. So momentum is 0 unless option I is chosen.

Departures from the paper: running statistics, which it does not mention, are the participants' mean; the server steps
with Adam (``server_optimizer``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.methods.algebra import minus, plus, times
from ecgfed.core.methods.communication import EQUAL, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.fedavg import FedAvgUniform
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import model_gradients, zeros_like
from ecgfed.core.methods.server_sgd import FederatedSgdSettings, server_step
from ecgfed.core.methods.settings import choice
from ecgfed.core.nets.layers import Params, trainable


@dataclass(frozen=True)
class ScaffoldSettings(FederatedSgdSettings):
    """Settings of SCAFFOLD.

    Attributes:
        option: ``II`` (from the change of the model) or ``I`` (gradient at the received model over the round's batches,
            a second gradient each step).
    """

    momentum: float = 0.0
    option: str = choice("II", ("I", "II"))

    def check_together(self) -> None:
        super().check_together()
        if self.option == "II" and self.momentum:
            expected = "0 with SCAFFOLD's option II, which is exact for plain SGD only"
            action = f"leave it out, or add {param('settings')} option=I"
            raise OptionError(f"{param('settings')} momentum", f"{self.momentum}", expected, action, code="conflict")


class Scaffold(FedAvgUniform):
    """FedAvg with control variates against client drift."""

    name: ClassVar[str] = "scaffold"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvgUniform.communication,
        title="SCAFFOLD",
        reference="Karimireddy et al., ICML 2020",
        down=(*FedAvgUniform.communication.down, Sent("variate", "control variate", "trainable")),
        up=(*FedAvgUniform.communication.up, Sent("change", "change of its control variate", "trainable", mean=EQUAL)),
        stores=(Stored("variate", "control variate", "in effect"),),
    )
    settings_type: ClassVar[type] = ScaffoldSettings

    def server_start(self, initial: Params) -> Tree:
        return {**super().server_start(initial), "variate": zeros_like(initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"variate": zeros_like(initial)}

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"model": server["model"], "variate": server["variate"]}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        state = {
            **super().init_round(message, client_state, info),
            "received": message["model"],
            "client_variate": client_state["variate"],
            "server_variate": message["variate"],
            "steps": torch.zeros((), dtype=torch.float64),
        }
        if self.settings.option == "I":
            state["gradient_sum"] = zeros_like(message["model"])
        return state

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step({**state, "steps": state["steps"] + 1}, batches, t)
        if self.settings.option == "I":
            grads, _, _ = model_gradients(self.net, state["received"], batches[0], self.settings)
            new["gradient_sum"] = plus(state["gradient_sum"], grads)
        return new, losses

    def adjust_gradient(self, gradient: Params, w: Params, state: Tree) -> Params:
        return plus(minus(gradient, state["client_variate"]), state["server_variate"])

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        if self.settings.option == "I":
            variate = times(state["gradient_sum"], 1.0 / float(state["steps"]))
        else:
            change = minus(trainable(state["received"]), state["model"])
            scale = 1.0 / (float(state["steps"]) * self.settings.lr)
            variate = plus(minus(state["client_variate"], state["server_variate"]), change, scale)
        return {"model": state["model"], "change": minus(variate, state["client_variate"])}, {"variate": variate}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        weights = self.weights(returned)
        mean = weighted_mean(returned.tree["model"], weights)
        change = weighted_mean(returned.tree["change"], weights)
        share = len(returned.clients) / returned.federation  # m / M
        moved = server_step(server, mean, self.settings, returned.progress)
        return {**moved, "variate": plus(server["variate"], change, share)}
