"""FedBN against a plain loop over clients, steps and names of layers; new clients; nets that have no such layers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.fedbn import FedBN
from ecgfed.core.methods.server_sgd import PlainMeanSettings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.testing.federation import CLASSES, synthetic_federation

LABELS = ([0] * 7 + [1] * 5, [1] * 9 + [2] * 3, [0, 2] * 4)
LAYERS = ("stem_norm", "block0.norm0", "block0.norm1", "block1.norm0", "block1.norm1")
LR, STEPS = 0.1, 2
#: a batch holds all beats of a client
PLAN = TrainPlan(rounds=3, local_epochs=None, local_steps=STEPS, batch_size=64, seed=4)


def fedbn(norm: str) -> FedBN:
    return FedBN(ResNet1d(NetSpec(CLASSES, width=0.35, norm=norm)), PlainMeanSettings(lr=LR, momentum=0))


def run(method: FedBN, data: TrainingData) -> State:
    with ThreadEngine(data, PLAN, 1) as engine:
        return train(method, data, PLAN, engine, initial_state(method, PLAN))


@pytest.fixture(autouse=True)
def double() -> object:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def doubled() -> TrainingData:
    data = synthetic_federation(LABELS)
    return replace(data, examples=data.examples.astype(np.float64))  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_fedbn_is_a_plain_loop(norm: str) -> None:
    data, method = doubled(), fedbn(norm)
    state, net = run(method, data), method.net
    entries = ("weight", "bias", *(("running_mean", "running_var") if norm == "batch" else ()))
    own = {f"extractor.{layer}.{entry}" for layer in LAYERS for entry in entries}

    models = [net.initial(PLAN.seed) for _ in LABELS]
    assert own < set(models[0])
    for _ in range(PLAN.rounds):
        for client, model in enumerate(models):
            batch = data.batch(data.rows[client])
            for _ in range(STEPS):
                leaves = {name: value.clone().requires_grad_("running" not in name) for name, value in model.items()}
                stats: dict[str, torch.Tensor] = {}
                F.cross_entropy(net.logits(leaves, batch.inputs, stats), batch.label).backward()
                for name, leaf in leaves.items():
                    model[name] = stats[name] if name in stats else (leaf - LR * leaf.grad).detach()
        for name in set(models[0]) - own:
            mean = sum(model[name] for model in models) / len(models)  # equal weights, whatever their beats
            for model in models:
                model[name] = mean

    assert set(state.server["model"]) == set(models[0]) - own
    for client, model in enumerate(models):
        (stage,) = method.personal_model(state.server, state.client_states[client]).stages
        assert stage.params.keys() == model.keys()
        for name, value in model.items():
            torch.testing.assert_close(stage.params[name], value, rtol=1e-9, atol=1e-11)
    norms = [state.client_states[client]["norm"]["extractor.stem_norm.weight"] for client in range(len(LABELS))]
    assert not torch.equal(norms[0], norms[1])


def test_the_average_has_the_mean_of_the_normalisation_layers() -> None:
    data, method = doubled(), fedbn("batch")
    state = run(method, data)
    states = [state.client_states[client] for client in range(len(LABELS))]
    (stage,) = method.global_model(state.server, states, "average").stages  # type: ignore[union-attr]
    for name, value in stage.params.items():
        alone = (
            [own["norm"][name] for own in states] if "norm" in name.split(".")[-2] else [state.server["model"][name]]
        )
        torch.testing.assert_close(value, torch.stack(alone).mean(0))


def test_a_new_client_trains_normalisation_layers_of_its_own() -> None:
    method = fedbn("batch")
    state = run(method, doubled())
    initial = method.net.initial(PLAN.seed)
    new = method.init_new_client(state.server, initial)
    assert new.keys() == {"norm"}
    assert all(torch.equal(value, initial[name]) for name, value in new["norm"].items())


def test_a_net_without_normalisation_layers_is_refused() -> None:
    with pytest.raises(OptionError, match="norm"):
        fedbn("none")
