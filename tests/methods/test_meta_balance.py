"""Meta-BSM: its steps worked in numpy with central differences, and what it must not break."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor

from ecgfed.base.errors import CohortError
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.meta_set import meta_set, with_meta_set
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.meta_balance import BALANCE, first_balance
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

LR, META_LR = 0.4, 0.3
ONE_STEP = TrainPlan(rounds=1, local_epochs=None, local_steps=1, batch_size=8)


def federation() -> TrainingData:
    """The tiny clients, their own points as validation beats: the meta set is one beat of each class."""
    data = tiny.data()
    return replace(data, valid_rows=dict(data.rows))


def weigher() -> dict[str, np.ndarray]:
    start = first_balance(1.0, torch.zeros((), dtype=torch.float64))
    return {name: value.numpy() for name, value in start.items() if name != "gamma"}


def q_of(net: dict[str, np.ndarray], loss: np.ndarray) -> np.ndarray:
    hidden = np.maximum(0.0, loss[:, None] * net["weigher.hidden.weight"][:, 0] + net["weigher.hidden.bias"])
    return 1 / (1 + np.exp(-(hidden @ net["weigher.out.weight"][0] + net["weigher.out.bias"][0])))


def bsm(model: np.ndarray, gamma: float, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses of balanced softmax at (w, b) and their gradients (points, 2)."""
    n = np.bincount(y, minlength=2)
    z = model[0] * x + model[1] + gamma * np.log(n[1] / n[0])
    p = 1 / (1 + np.exp(-z))
    return -np.log(np.where(y == 1, p, 1 - p)), (p - y)[:, None] * np.stack([x, np.ones_like(x)], 1)


def batch_gradient(
    model: np.ndarray, gamma: float, net: dict[str, np.ndarray], client: int, seen_with: float
) -> np.ndarray:
    """Gradient of the weighted loss; the net looks at losses with the gamma ``seen_with``, which are data to it."""
    q = q_of(net, bsm(model, seen_with, *tiny.POINTS[client])[0])
    _, each = bsm(model, gamma, *tiny.POINTS[client])
    gradient: np.ndarray = (q[:, None] * each).sum(0) / q.sum()
    return gradient


def meta_loss(gamma: float, net: dict[str, np.ndarray], client: int, x: np.ndarray, y: np.ndarray) -> float:
    """Plain cross-entropy of the meta set after the step that gamma and the net decide."""
    ahead = tiny.START - LR * batch_gradient(tiny.START, gamma, net, client, 1.0)
    p = 1 / (1 + np.exp(-(ahead[0] * x + ahead[1])))
    return float(-np.mean(np.where(y == 1, np.log(p), np.log(1 - p))))


def test_gamma_weights_and_model_move_as_worked_by_hand() -> None:
    data = federation()
    state = tiny.run(Local, ONE_STEP, data, risk="meta-bsm", lr=LR, meta_lr=META_LR, meta_beats=1)
    meta = meta_set(data, 1, ONE_STEP.seed)
    x, y = meta.inputs.examples[:, 0, 0].numpy(), meta.label.numpy()
    assert sorted(y) == [0, 1]
    h = 1e-6
    for client in range(2):
        net = weigher()
        gamma = 1.0 - META_LR * (meta_loss(1 + h, net, client, x, y) - meta_loss(1 - h, net, client, x, y)) / (2 * h)
        learned = state.client_states[client][BALANCE]
        assert float(learned["gamma"]) == pytest.approx(gamma, abs=1e-8)
        assert (abs(gamma - 1.0) > 1e-4) == (client == 1)  # the first client has as many of either class
        bias = net["weigher.out.bias"]
        slope = 0.0
        for sign in (1, -1):
            net["weigher.out.bias"] = bias + sign * h
            slope += sign * meta_loss(1.0, net, client, x, y) / (2 * h)
        net["weigher.out.bias"] = bias
        assert float(learned["weigher.out.bias"][0]) == pytest.approx(float(bias[0]) - META_LR * slope, abs=1e-8)
        new = {name: value.numpy() for name, value in learned.items() if name != "gamma"}
        model = tiny.START - LR * batch_gradient(tiny.START, gamma, new, client, gamma)
        found = state.client_states[client]["model"]
        assert [float(found["extractor.w"]), float(found["head.b"])] == pytest.approx(model, abs=1e-8)


def test_without_learning_and_with_even_weights_it_is_balanced_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    def even(gamma: float, like: Tensor) -> dict[str, Tensor]:
        start = first_balance(gamma, like)
        return {name: value if name == "gamma" else torch.zeros_like(value) for name, value in start.items()}

    monkeypatch.setattr("ecgfed.core.methods.meta_balance.first_balance", even)
    learned = tiny.run(FedAvg, federation=federation(), risk="meta-bsm", meta_lr=0.0, gamma=0.7)
    plain = tiny.run(FedAvg, federation=federation(), risk="bsm", gamma=0.7)
    for name, value in plain.server["model"].items():
        torch.testing.assert_close(learned.server["model"][name], value, atol=1e-12, rtol=0)


def real_net_federation() -> TrainingData:
    """Three clients; the first has one class only, the second one beat."""
    rng = np.random.default_rng(5)
    return TrainingData(
        clients=np.arange(3),
        rows={0: np.arange(10), 1: np.arange(10, 11), 2: np.arange(11, 31)},
        examples=rng.standard_normal((37, 1, 256)).astype(np.float32),
        rr=None,
        label=np.concatenate([np.zeros(10), [1], rng.integers(0, 3, 20), np.arange(6) % 3]).astype(np.int64),
        classes=3,
        valid_rows={2: np.arange(31, 37)},
    )


@pytest.mark.parametrize("name", ["fedavg", "fed-rod-hyper", "per-fedavg", "q-ffl", "fedfomo", "local", "grp-fed"])
def test_any_method_takes_it_in_either_engine_and_stays_finite(name: str) -> None:
    data, plan = real_net_federation(), TrainPlan(rounds=2, local_epochs=1, batch_size=8)
    kind, values = method_by_name(name), {"risk": "meta-bsm"}
    if name == "grp-fed":  # Adam's step is a sign where gradients are small: float tolerance needs the plain server
        values |= {"server_optimizer": "sgd", "server_lr": "1"}
    method = kind(ResNet1d(NetSpec(3, width=0.35)), make_settings(kind.settings_type, values))
    states = []
    for engine in (ThreadEngine(data, plan, 1), BatchedEngine(data, plan, "cpu", 2)):
        with engine:
            states.append(train(method, data, plan, engine, initial_state(method, plan)))
    one, many = states
    for mine, theirs in [
        (one.server, many.server),
        *((one.client_states[c], many.client_states[c]) for c in one.client_states),
    ]:
        a, b = flatten(mine), flatten(theirs)
        for path in a:
            assert torch.isfinite(a[path]).all(), path
            torch.testing.assert_close(a[path], b[path], atol=1e-4, rtol=1e-3, msg=lambda m, p=path: f"{p}: {m}")
    gammas = [float(one.client_states[client][BALANCE]["gamma"]) for client in range(3)]
    assert gammas[2] != 1.0
    assert gammas[:2] == [1.0, 1.0]  # with one class only its logit is left: the risk is 0, and nothing to learn


def test_the_meta_set_is_balanced_and_drawn_from_validation_beats_only() -> None:
    data = real_net_federation()
    found = meta_set(data, 10, 0)
    assert torch.bincount(found.label).tolist() == [2, 2, 2]  # as many as there are
    assert torch.bincount(meta_set(data, 1, 0).label).tolist() == [1, 1, 1]
    allowed = data.examples[31:37]
    assert all((window.numpy() == allowed).all(axis=(1, 2)).any() for window in found.inputs.examples)


def test_a_cohort_without_validation_beats_is_refused() -> None:
    data = replace(real_net_federation(), valid_rows={})
    kind = method_by_name("fedavg")
    method = kind(ResNet1d(NetSpec(3, width=0.35)), make_settings(kind.settings_type, {"risk": "meta-bsm"}))
    with pytest.raises(CohortError, match="no validation beats"):
        with_meta_set(method, data, 0)
