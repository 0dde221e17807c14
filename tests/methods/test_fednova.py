"""FedNova by hand on two clients of two parameters, with unequal numbers of steps and with momentum."""

from dataclasses import replace

import numpy as np
import pytest
import tiny

from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.fednova import FedNova

SHARES = (2 / 5, 3 / 5)


def grad_of_one(model: np.ndarray, x: float, y: int) -> np.ndarray:
    p = 1 / (1 + np.exp(-(model[0] * x + model[1])))
    return (p - y) * np.array([x, 1.0])


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_fednova_by_hand(momentum: float) -> None:
    plan = replace(tiny.PLAN, local_epochs=1, local_steps=None, batch_size=1)
    data, w, used = tiny.data(), tiny.START, [0, 0]
    for _ in range(plan.rounds):
        directions, lengths = [], []
        for i, (x, y) in enumerate(tiny.POINTS):
            order = data.epoch_rows(plan.seed, i, used[i]) - data.rows[i][0]
            used[i] += 1
            steps, v, local = len(x), np.zeros(2), w
            for row in order:
                v = momentum * v + grad_of_one(local, x[row], y[row])
                local = local - 0.3 * v
            # column sums of the matrix of how much each step's gradient counts in each later step
            a = [sum(momentum**later for later in range(steps - step)) for step in range(steps)]
            directions.append((w - local) / sum(a))
            lengths.append(sum(a))
        effective = sum(p * length for p, length in zip(SHARES, lengths, strict=True))
        w = w - effective * sum(p * d for p, d in zip(SHARES, directions, strict=True))
    state = tiny.run(FedNova, plan, momentum=momentum)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)


def test_with_equally_many_steps_it_is_fedavg() -> None:
    nova, avg = tiny.run(FedNova, momentum=0.9), tiny.run(FedAvg, momentum=0.9)
    assert tiny.pair(nova.server["model"]) == pytest.approx(tiny.pair(avg.server["model"]), abs=1e-12)
