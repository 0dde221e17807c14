"""Which engine runs; several executions mean one thing with balanced risks (methods: tests/testing)."""

import numpy as np
import pytest
import torch

from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.engine_choice import open_engine
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

#: sizes with a short last batch, one smaller than a batch, and more clients than slots
SIZES = (20, 33, 5, 16, 41)


def federation(rr: bool) -> TrainingData:
    rng = np.random.default_rng(3)
    total, edges = sum(SIZES), np.cumsum((0, *SIZES))
    return TrainingData(
        clients=np.arange(len(SIZES)),
        rows={i: np.arange(edges[i], edges[i + 1]) for i in range(len(SIZES))},
        examples=rng.standard_normal((total, 1, 256)).astype(np.float32),
        rr=rng.uniform(0.5, 1.2, (total, 4)).astype(np.float32) if rr else None,
        label=rng.integers(0, 3, total),
        classes=3,
        valid_rows={i: np.arange(edges[i], edges[i] + 3) for i in range(len(SIZES))},
    )


@pytest.mark.parametrize("risk", ["ir", "ldam", "cdt", "bsm"])
def test_balanced_risks_mean_the_same_in_either_engine(risk: str) -> None:
    data, plan, kind = federation(False), TrainPlan(rounds=1, local_epochs=1, batch_size=8), methods()["fedavg"]
    method = kind(ResNet1d(NetSpec(3, width=0.35)), make_settings(kind.settings_type, {"risk": risk, "gamma": 0.5}))
    models = []
    for engine in (ThreadEngine(data, plan, 1), BatchedEngine(data, plan, "cpu", 2)):
        with engine:
            models.append(train(method, data, plan, engine, initial_state(method, plan)).server["model"])
    for name, value in models[0].items():
        torch.testing.assert_close(value, models[1][name], atol=1e-5, rtol=1e-4)


def test_the_engine_is_chosen_by_device_and_wish() -> None:
    data, plan = federation(False), TrainPlan(batch_size=64)
    with open_engine(data, plan, device="cpu", workers=3) as engine:
        assert isinstance(engine, ThreadEngine)
        assert engine.workers == 3
    with open_engine(data, plan, device="cpu", engine="batched", slots=7) as engine:
        assert isinstance(engine, BatchedEngine)
        assert engine.slots == 7
    with open_engine(data, TrainPlan(batch_size=16), device="cpu") as engine:
        assert isinstance(engine, ThreadEngine)  # five clients
    with open_engine(data, TrainPlan(batch_size=16, clients_per_round=8), device="cpu") as engine:
        assert isinstance(engine, BatchedEngine)  # small batches: the calls cost as much as the arithmetic
        assert engine.slots == 12
    with open_engine(data, TrainPlan(batch_size=16), device="cpu", engine="threads") as engine:
        assert isinstance(engine, ThreadEngine)


@pytest.mark.parametrize("rr", [False, True])
def test_stacks_in_threads_give_the_same_bits_as_one_after_another(rr: bool) -> None:
    data, plan = federation(rr), TrainPlan(rounds=2, local_epochs=1, batch_size=8, seed=3)
    kind = methods()["grp-fed"]
    method = kind(ResNet1d(NetSpec(3, width=0.35, rr=rr)), make_settings(kind.settings_type, {"personal_start": 0.0}))
    models = []
    for workers in (1, 3):
        with BatchedEngine(data, plan, "cpu", 2, workers) as engine:
            state = train(method, data, plan, engine, initial_state(method, plan))
            models.append({**state.server["model"], **flatten(state.client_states[0])})
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"device": "tpu"}, "device: "),
        ({"engine": "ray", "device": "cpu"}, "engine: "),
        ({"engine": "batched", "slots": 0, "device": "cpu"}, "slots: "),
        ({"slots": 4, "device": "cpu"}, "slots: "),
    ],
)
def test_engines_that_make_no_sense_are_refused(asked: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        open_engine(federation(False), TrainPlan(), **asked)  # type: ignore[arg-type]


def test_a_loss_that_is_not_finite_names_the_client_in_either_engine() -> None:
    data, plan = federation(False), TrainPlan(rounds=3, local_epochs=1, batch_size=8)
    kind = methods()["fedavg"]
    method = kind(ResNet1d(NetSpec(3, width=0.35)), make_settings(kind.settings_type, {"lr": 99.0}))
    for engine in (ThreadEngine(data, plan, 1), BatchedEngine(data, plan, "cpu", 2)):
        with engine, pytest.raises(RunError, match=r"client \d+ in round"):
            train(method, data, plan, engine, initial_state(method, plan))
