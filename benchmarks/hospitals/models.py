"""The methods of the table, how one is trained, and the models that come of it."""

from dataclasses import dataclass, field
from typing import Any

import torch
from common import SAME_SERVER
from sites import SITES

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.models import Model, Pipeline
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.gated import Gated

ROUNDS, STEPS, BATCH = 20, 50, 64
#: The server's step: the plain mean, or Adam with a falling step size, which FedGate and GRP-FED have by default.
PLAIN = {"server_optimizer": "sgd", "server_lr": 1.0, "server_momentum": 0.0, "server_schedule": "constant"}
ADAM = {name: value for name, value in SAME_SERVER.items() if name != "lr"}
#: Settings that each method is tuned over, on validation patients; those without a server over step sizes alone.
GRID = ({"lr": 0.01, **PLAIN}, {"lr": 0.03, **PLAIN}, {"lr": 0.03, **ADAM})
GRID_ALONE = ({"lr": 0.003}, {"lr": 0.01}, {"lr": 0.03})


@dataclass(frozen=True)
class Entry:
    """A row of the table.

    Attributes:
        method: a registered method.
        norm: normalisation of the net.
        pooled: whether the beats of both sites lie at one place.
        protocol: how the sites' models stand for everybody, for a method without a global model.
        settings: that are not tuned.
    """

    method: str
    norm: str = "group"
    pooled: bool = False
    protocol: str = "ensemble"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def grid(self) -> tuple[dict[str, Any], ...]:
        """The settings that are tried for it."""
        return GRID_ALONE if self.method == "local" else GRID


ENTRIES = {
    "each site alone": Entry("local"),
    "FedAvg": Entry("fedavg"),
    "FedProx": Entry("fedprox", settings={"mu": 0.1}),
    "FedBN": Entry("fedbn", norm="batch", protocol="average"),
    "GRP-FED": Entry("grp-fed"),
    "FedGate": Entry("fed-gate"),
    "pooled": Entry("fedavg", pooled=True),
    "FedAvg, batch norm": Entry("fedavg", norm="batch"),
    "FedBN, group norm": Entry("fedbn", protocol="average"),
}


def trained(entry: Entry, data: TrainingData, settings: dict[str, Any], seed: int) -> tuple[Method, State]:
    """Train an entry; each site takes as many steps in a round, and a pool the steps of both."""
    kind = method_by_name(entry.method)
    net = make_net(NetSpec(data.classes, "context", entry.norm, rr=True, rr_version=3, window_share=0.3))
    method = kind(net, make_settings(kind.settings_type, {**entry.settings, **settings}))
    steps = STEPS * len(SITES) if entry.pooled else STEPS
    plan = TrainPlan(rounds=ROUNDS, local_epochs=None, local_steps=steps, batch_size=BATCH, seed=seed)
    with ThreadEngine(data, plan, 1) as engine:
        return method, train(method, data, plan, engine, initial_state(method, plan))


def models_of(entry: Entry, method: Method, state: State, data: TrainingData, seed: int) -> dict[str, Model]:
    """Return the global model, and by site those of the sites where they differ from it."""
    states = [state.client_states.get(int(client), {}) for client in data.clients]
    models: dict[str, Model] = {"global": method.global_model(state.server, states, entry.protocol)}
    if entry.pooled:
        return models
    for client, site in enumerate(SITES):
        if method.personal == "gated":
            assert isinstance(models["global"], Pipeline)
            counts = sum(data.class_counts(int(other)) for other in data.clients)
            assert isinstance(counts, torch.Tensor)
            beats = PatientBeats(data.batch(data.rows[client]), None, counts / counts.sum(), (seed, client))
            params = {name: value for stage in models["global"].stages for name, value in stage.params.items()}
            models[site] = Gated().fit(method.net, params, beats)
            continue
        own = method.personal_model(state.server, states[client])
        if not all(stage.shared for stage in own.stages):
            models[site] = own
    return models
