r"""The server's step along the mean change of the clients' models.

With :math:`\bar w` the aggregated client models and :math:`\Delta = \bar w - w`:

.. math::
    \text{sgd:}\quad v \leftarrow m\,v + \Delta, \qquad w \leftarrow w + \eta_s v

(FedAvgM: Hsu, Qi and Brown 2019, arXiv 1909.06335; :math:`m = 0, \eta_s = 1` is plain aggregation), and

.. math::
    \text{adam:}\quad v \leftarrow m\,v + (1 - m) \Delta, \quad u \leftarrow \beta_2 u + (1 - \beta_2) \Delta^2,
    \quad w \leftarrow w + \eta_s \hat v / (\sqrt{\hat u} + \tau)

(FedAdam: Reddi et al., ICLR 2021, algorithm 2, with Adam's bias correction), whose step does not depend on the length
of :math:`\Delta`.

The defaults of local and server steps are shared by all methods that have both, and were tuned on validation beats of
MIT-BIH (docs/decisions/0111). ``PLAIN_MEAN`` is the server of the papers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ecgfed.core.methods.interface import Tree
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.settings import choice, ranged
from ecgfed.core.nets.layers import Params, trainable


@dataclass(frozen=True)
class FederatedSgdSettings(SgdSettings):
    """Local SGD and the server's step.

    Attributes:
        server_lr: step eta_s along the (accumulated) change.
        server_momentum: momentum m of that step.
        server_optimizer: how the server steps: ``sgd`` or ``adam``.
        server_beta2: decay beta_2 of adam's squares.
        server_tau: tau, adam's floor, in units of a round's change.
        server_schedule: ``constant``, or ``cosine``: eta_s falls to 0 over the run's rounds along half a cosine
            (Loshchilov and Hutter, ICLR 2017, without restarts).
    """

    server_lr: float = ranged(0.01, 0, 1000)
    server_momentum: float = ranged(0.9, 0, 0.9999)
    server_optimizer: str = choice("adam", ("sgd", "adam"))
    server_beta2: float = ranged(0.99, 0, 0.999999)
    server_tau: float = ranged(1e-5, 1e-12, 1)
    server_schedule: str = choice("cosine", ("constant", "cosine"))

    @classmethod
    def of_earlier_versions(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a stored run; a method that had no server step then had the plain mean."""
        return {**PLAIN_MEAN, **super().of_earlier_versions(values)}

    def planned_by_length(self, over: float) -> tuple[str, ...]:
        """Return the cosine schedule, which spans the planned rounds."""
        return ("server_schedule=cosine",) if over > 0 and self.server_schedule == "cosine" else ()


@dataclass(frozen=True)
class PlainMeanSettings(FederatedSgdSettings):
    """The same with plain aggregation, for methods whose paper allows no other server step."""

    server_lr: float = 1.0
    server_momentum: float = 0.0
    server_optimizer: str = "sgd"
    server_schedule: str = "constant"


#: Plain aggregation, as federated averaging and most papers have it.
PLAIN_MEAN: dict[str, str | float] = {
    name: getattr(PlainMeanSettings, name)
    for name in ("server_optimizer", "server_lr", "server_momentum", "server_schedule")
}


def server_start(initial: Params, settings: FederatedSgdSettings) -> Tree:
    """Return the server's model and its optimizer's state before the first round."""
    start: Tree = {"model": initial}
    if settings.server_optimizer == "adam":
        start |= {"server_square": zeros_like(initial), "server_rounds": torch.zeros((), dtype=torch.float64)}
    if settings.server_optimizer == "adam" or settings.server_momentum:
        start["server_velocity"] = zeros_like(initial)
    return start


def server_step(server: Tree, mean: Params, settings: FederatedSgdSettings, progress: float) -> Tree:
    """Move the server's ``model`` towards the aggregated one; running statistics are replaced.

    Args:
        server: the server's state.
        mean: the aggregated model.
        settings: the server's optimizer.
        progress: completed share of the run, for the schedule.
    """
    step_size = settings.server_lr
    if settings.server_schedule == "cosine":
        step_size *= 0.5 * (1 + math.cos(math.pi * progress))
    model, change = server["model"], {name: mean[name] - value for name, value in trainable(server["model"]).items()}
    if settings.server_optimizer == "adam":
        m, beta2, rounds = settings.server_momentum, settings.server_beta2, server["server_rounds"] + 1
        velocity = {name: m * server["server_velocity"][name] + (1 - m) * step for name, step in change.items()}
        square = {name: beta2 * server["server_square"][name] + (1 - beta2) * step**2 for name, step in change.items()}
        correct_v, correct_u = 1 - m ** float(rounds), 1 - beta2 ** float(rounds)
        moved = {
            name: server["model"][name]
            + step_size * (velocity[name] / correct_v) / ((square[name] / correct_u).sqrt() + settings.server_tau)
            for name in change
        }
        return {
            "model": {**mean, **moved},
            "server_velocity": velocity,
            "server_square": square,
            "server_rounds": rounds,
        }
    if not settings.server_momentum:
        if step_size == 1:
            return {"model": mean}
        return {"model": {**mean, **{name: model[name] + step_size * step for name, step in change.items()}}}
    before = server["server_velocity"]
    velocity = {name: settings.server_momentum * before[name] + step for name, step in change.items()}
    moved = {name: model[name] + step_size * step for name, step in velocity.items()}
    return {"model": {**mean, **moved}, "server_velocity": velocity}
