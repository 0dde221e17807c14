r"""The server's own step along what the clients changed, with momentum (FedAvgM: Hsu, Qi and Brown 2019, arXiv 1909.06335).

.. math:: v \leftarrow m\,v + (\bar w - w), \qquad w \leftarrow w + \eta_s v

with :math:`\bar w` the aggregated client models. :math:`m = 0, \eta_s = 1` is plain aggregation.
"""

from dataclasses import dataclass

from ecgfed.methods.base import Tree
from ecgfed.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.methods.settings import check_range
from ecgfed.nets.layers import Params


@dataclass(frozen=True)
class FederatedSgdSettings(SgdSettings):
    """Local SGD and the server's step.

    Attributes:
        server_lr: step eta_s along the (accumulated) change.
        server_momentum: momentum m of that step.
    """

    server_lr: float = 1.0
    server_momentum: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("server_lr", self.server_lr, 0.0, 1000.0)
        check_range("server_momentum", self.server_momentum, 0.0, 0.9999)


def server_start(initial: Params) -> Tree:
    """Return the server's model and its velocity before the first round."""
    return {"model": initial, "server_velocity": zeros_like(initial)}


def server_step(server: Tree, mean: Params, settings: FederatedSgdSettings) -> Tree:
    """Move the server's ``model`` towards the aggregated one; running statistics are taken as they are."""
    if settings.server_lr == 1 and not settings.server_momentum:
        return {"model": mean, "server_velocity": server["server_velocity"]}
    model, velocity = dict(mean), {}
    for name, speed in server["server_velocity"].items():
        before = server["model"][name]
        velocity[name] = settings.server_momentum * speed + (mean[name] - before)
        model[name] = before + settings.server_lr * velocity[name]
    return {"model": model, "server_velocity": velocity}
