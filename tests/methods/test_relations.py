"""MTL and FedFomo by hand on two clients of two parameters."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from ecgfed.federation.data import TrainingData
from ecgfed.federation.threads import ThreadEngine
from ecgfed.federation.train import initial_state, train
from ecgfed.methods.fedfomo import FedFomo, FedFomoSettings, mixed
from ecgfed.methods.local import Local
from ecgfed.methods.mtl import RIDGE, Mtl, learned_relation

ETA, STEPS, ROUNDS = 0.3, 2, 2


def test_mtl_with_the_mean_relation_by_hand() -> None:
    lam, w = 0.4, [tiny.START, tiny.START]
    for _ in range(ROUNDS):
        mean = (w[0] + w[1]) / 2
        new = []
        for i in (0, 1):
            x = w[i]
            for _ in range(STEPS):
                x = x - ETA * (tiny.grad(x, i) + 2 * lam * (x - mean))
            new.append(x)
        w = new
    state = tiny.run(Mtl, lam=lam)
    for i in (0, 1):
        assert tiny.pair(state.kept[i]["model"]) == pytest.approx(w[i], abs=1e-12)
    assert tiny.pair(state.server["mean"]) == pytest.approx((w[0] + w[1]) / 2, abs=1e-12)


def test_the_regularisers_gradient_flows() -> None:
    alone, free, held = tiny.run(Local), tiny.run(Mtl, lam=0.0), tiny.run(Mtl, lam=1.0)
    a, b, c = (tiny.pair(state.kept[0]["model"]) for state in (alone, free, held))
    assert b == pytest.approx(a, abs=1e-14)
    assert np.abs(c - a).max() > 1e-3


def test_mean_relation_is_the_centring_matrix_squared() -> None:
    centre = np.eye(3) - np.ones((3, 3)) / 3
    w = np.random.default_rng(0).normal(size=(2, 3))
    gradient = 2 * w @ (centre @ centre)  # of tr(W Omega W^T), Omega symmetric
    assert gradient == pytest.approx(2 * (w - w.mean(1, keepdims=True)))


def test_the_learned_relation_by_hand() -> None:
    # two orthogonal models of lengths 2 and 1: (W^T W)^(1/2) = diag(2, 1), Sigma = diag(2, 1) / 3
    omega = learned_relation(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    expected = np.diag([1 / (2 / 3 + RIDGE), 1 / (1 / 3 + RIDGE)])
    assert omega.numpy() == pytest.approx(expected / expected.diagonal().mean(), abs=1e-9)
    # alike models repel nothing: the off-diagonal is negative, so that they pull towards each other
    assert learned_relation(torch.tensor([[1.0, 0.1], [1.0, -0.1]]))[0, 1] < 0


def test_mtl_with_a_learned_relation_by_hand() -> None:
    lam, w = 0.3, [tiny.START, tiny.START]
    for r in range(ROUNDS):
        if r == 0:  # the server has seen nobody yet
            pulls = [lambda x: x - tiny.START] * 2
        else:
            omega = learned_relation(torch.tensor(np.stack(w))).numpy()
            at_start = list(w)
            pulls = [
                lambda x, o=omega, s=at_start: o[0, 0] * x + o[0, 1] * s[1],
                lambda x, o=omega, s=at_start: o[1, 1] * x + o[1, 0] * s[0],
            ]
        new = []
        for i in (0, 1):
            x = w[i]
            for _ in range(STEPS):
                x = x - ETA * (tiny.grad(x, i) + 2 * lam * pulls[i](x))
            new.append(x)
        w = new
    state = tiny.run(Mtl, lam=lam, relation="learned")
    for i in (0, 1):
        assert tiny.pair(state.kept[i]["model"]) == pytest.approx(w[i], abs=1e-10)


def test_fedfomos_mixture_by_hand() -> None:
    own = {"w": torch.tensor([0.0, 0.0])}
    others = [{"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([0.0, 1.0])}, {"w": torch.tensor([2.0, 0.0])}]
    losses = [torch.tensor(value) for value in (0.5, 0.8, 1.4)]
    new, raw = mixed(own, others, torch.tensor(1.0), losses)
    assert raw == pytest.approx([0.5 / 5, 0.2 / 1, -0.4 / 2])
    # weights 1/3 and 2/3, the third cut at 0
    assert new["w"].tolist() == pytest.approx([3 / 3, 4 / 3 + 2 / 3])


def test_nothing_better_and_the_same_model_change_nothing() -> None:
    own = {"w": torch.tensor([1.0])}
    for other, loss in (({"w": torch.tensor([3.0])}, 2.0), ({"w": torch.tensor([1.0])}, 0.5)):
        assert mixed(own, [other], torch.tensor(1.0), [torch.tensor(loss)])[0]["w"].tolist() == [1.0]


def _run(plan: object, valid: dict[int, np.ndarray], **settings: float) -> tuple[object, TrainingData]:
    data = replace(tiny.data(), valid_rows=valid)
    method = FedFomo(tiny.TinyNet(), FedFomoSettings(lr=ETA, momentum=0.0, **settings))  # type: ignore[arg-type]
    with ThreadEngine(data, plan, 1) as engine:  # type: ignore[arg-type]
        return train(method, data, plan, engine, initial_state(method, plan)), data  # type: ignore[arg-type]


def test_fedfomo_by_hand() -> None:
    w = [tiny.START, tiny.START]
    for r in range(ROUNDS):
        mixtures = list(w)
        if r:  # the validation beats are the training ones here
            for i in (0, 1):
                gain = tiny.loss(w[i], i) - tiny.loss(w[1 - i], i)
                if gain > 0:
                    mixtures[i] = w[1 - i]  # the only candidate gets the whole weight
        new = []
        for i in (0, 1):
            x = mixtures[i]
            for _ in range(STEPS):
                x = x - ETA * tiny.grad(x, i)
            new.append(x)
        w = new
    rows = tiny.data().rows
    state, _ = _run(tiny.PLAN, rows)
    for i in (0, 1):
        assert tiny.pair(state.kept[i]["model"]) == pytest.approx(w[i], abs=1e-12)  # type: ignore[attr-defined]
        assert float(state.kept[i]["affinity"][1 - i]) != 0.0  # type: ignore[attr-defined]


def test_fedfomo_without_validation_beats_is_local() -> None:
    state, _ = _run(tiny.PLAN, {})
    local = tiny.run(Local)
    for i in (0, 1):
        found = tiny.pair(state.kept[i]["model"])  # type: ignore[attr-defined]
        assert found == pytest.approx(tiny.pair(local.kept[i]["model"]), abs=1e-14)


def test_candidates_are_those_of_highest_affinity_or_random_ones() -> None:
    from ecgfed.methods.base import ClientInfo

    models = {str(i): {} for i in range(8)}
    affinity = torch.tensor([0.0, 5, 1, 0, 4, 0, 3, 0], dtype=torch.float64)
    info = ClientInfo(2, 40, 10, torch.ones(2), 1, seed=3, client_numbers=8)
    greedy = FedFomo(tiny.TinyNet(), FedFomoSettings(candidates=3))._offered(models, affinity, info)  # type: ignore[arg-type]
    assert greedy == ["1", "4", "6"]  # epsilon has fallen to 0 by round 40
    first = replace(info, round=1)
    always = FedFomo(tiny.TinyNet(), FedFomoSettings(candidates=3, epsilon=1.0))  # type: ignore[arg-type]
    draws = {tuple(always._offered(models, affinity, replace(first, index=i))) for i in range(8)}
    assert len(draws) > 3
    assert always._offered(models, affinity, first) == always._offered(models, affinity, first)
    assert all(len(set(d)) == 3 for d in draws)
