"""q-FFL and AFL by hand on two clients of two parameters, and their identities."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.afl import Afl, AflFedAvg, onto_simplex
from ecgfed.core.methods.q_ffl import QFfl

ETA, STEPS, ROUNDS = 0.3, 2, 2


def _local(w: np.ndarray, i: int, steps: int = STEPS) -> np.ndarray:
    for _ in range(steps):
        w = w - ETA * tiny.grad(w, i)
    return w


@pytest.mark.parametrize("q", [0.5, 2.0, 10.0])
def test_q_fedavg_by_hand_as_printed(q: float) -> None:
    w, lipschitz = tiny.START, 1 / ETA
    for _ in range(ROUNDS):
        losses = [tiny.loss(w, i) for i in (0, 1)]  # at the received w, over all beats
        g = [lipschitz * (w - _local(w, i)) for i in (0, 1)]
        delta = sum(f**q * gi for f, gi in zip(losses, g, strict=True))
        h = sum(q * f ** (q - 1) * gi @ gi + lipschitz * f**q for f, gi in zip(losses, g, strict=True))
        w = w - delta / h
    assert tiny.pair(tiny.run(QFfl, q=q).server["model"]) == pytest.approx(w, abs=1e-11)


def test_momentum_shortens_the_step_it_lengthened() -> None:
    """From rest, m = 0.5 makes two steps (1 + 1.5) eta g long; g_i = (1 - m)/eta (w - w_i), L = (1 - m)/eta."""
    plan = replace(tiny.PLAN, rounds=1)
    w, lipschitz, q = tiny.START, 0.5 / ETA, 1.0
    losses, g = [tiny.loss(w, i) for i in (0, 1)], []
    for i in (0, 1):
        x, v = w, np.zeros(2)
        for _ in range(STEPS):
            v = 0.5 * v + tiny.grad(x, i)
            x = x - ETA * v
        g.append(lipschitz * (w - x))
    h = sum(q * gi @ gi + lipschitz * f for f, gi in zip(losses, g, strict=True))
    w = w - sum(f * gi for f, gi in zip(losses, g, strict=True)) / h
    assert tiny.pair(tiny.run(QFfl, plan, q=q, momentum=0.5).server["model"]) == pytest.approx(w, abs=1e-12)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ([0.5, 0.5], [0.5, 0.5]),
        ([1.0, 0.6], [0.7, 0.3]),  # both lowered by 0.3
        ([3.0, 0.1], [1.0, 0.0]),
        ([0.2, 0.2, 0.2], [1 / 3, 1 / 3, 1 / 3]),
        ([1.2, 0.4, -0.5], [0.9, 0.1, 0.0]),
    ],
)
def test_projection_onto_the_simplex_by_hand(point: list[float], expected: list[float]) -> None:
    assert onto_simplex(torch.tensor(point, dtype=torch.float64)).tolist() == pytest.approx(expected)


def test_projection_is_the_nearest_point() -> None:
    rng = np.random.default_rng(0)
    point = torch.tensor(rng.normal(size=6))
    found = onto_simplex(point)
    assert float(found.sum()) == pytest.approx(1.0)
    others = torch.tensor(rng.dirichlet(np.ones(6), size=2000))
    assert ((others - point).square().sum(1) >= (found - point).square().sum() - 1e-12).all()


@pytest.mark.parametrize(("kind", "steps"), [(Afl, 1), (AflFedAvg, 2)])
def test_afl_by_hand(kind: type[AflFedAvg], steps: int) -> None:
    w, mixture, path = tiny.START, np.array([0.5, 0.5]), []
    for _ in range(3):
        losses = np.array([tiny.loss(w, i) for i in (0, 1)])
        ends = [_local(w, i, steps) for i in (0, 1)]
        w = mixture[0] * ends[0] + mixture[1] * ends[1]
        mixture = onto_simplex(torch.tensor(mixture + 0.4 * losses)).numpy()
        path.append(w)
    plan = replace(tiny.PLAN, rounds=3, local_steps=steps)
    state = tiny.run(kind, plan, lambda_lr=0.4)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)
    assert state.server["lambda"].tolist() == pytest.approx(mixture.tolist(), abs=1e-12)
    assert tiny.pair(state.server["mean"]) == pytest.approx(np.mean(path, axis=0), abs=1e-12)


def test_afl_says_what_it_is_defined_for() -> None:
    with pytest.raises(OptionError, match=r"^local_steps: "):
        tiny.run(Afl)
    with pytest.raises(OptionError, match=r"^clients_per_round: "):
        tiny.run(AflFedAvg, replace(tiny.PLAN, clients_per_round=1))
    with pytest.raises(OptionError, match="momentum"):
        tiny.run(Afl, momentum=0.9)
