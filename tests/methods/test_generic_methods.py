"""FedProx, SCAFFOLD and FedDyn by hand on two clients of two parameters, and their identities."""

import numpy as np
import pytest
import tiny

from ecgfed.core.methods.feddyn import FedDyn
from ecgfed.core.methods.fedprox import FedProx
from ecgfed.core.methods.scaffold import Scaffold

ETA, STEPS, ROUNDS = 0.3, 2, 2
SHARES = (2 / 5, 3 / 5)


def test_fedprox_by_hand() -> None:
    mu, w = 0.7, tiny.START
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = w
            for _ in range(STEPS):
                x = x - ETA * (tiny.grad(x, i) + mu * (x - w))
            ends.append(x)
        w = SHARES[0] * ends[0] + SHARES[1] * ends[1]
    assert tiny.pair(tiny.run(FedProx, mu=mu).server["model"]) == pytest.approx(w, abs=1e-12)


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_by_hand(option: str) -> None:
    x, c, own = tiny.START, np.zeros(2), [np.zeros(2), np.zeros(2)]
    for _ in range(ROUNDS):
        ends, changes = [], []
        for i in (0, 1):
            y = x
            for _ in range(STEPS):
                y = y - ETA * (tiny.grad(y, i) - own[i] + c)
            new = tiny.grad(x, i) if option == "I" else own[i] - c + (x - y) / (STEPS * ETA)
            changes.append(new - own[i])
            own[i] = new
            ends.append(y)
        x, c = (ends[0] + ends[1]) / 2, c + (changes[0] + changes[1]) / 2
    state = tiny.run(Scaffold, option=option)
    assert tiny.pair(state.server["model"]) == pytest.approx(x, abs=1e-12)
    assert tiny.pair(state.server["variate"]) == pytest.approx(c, abs=1e-12)
    assert tiny.pair(state.client_states[1]["variate"]) == pytest.approx(own[1], abs=1e-12)


def test_scaffold_counts_the_whole_federation() -> None:
    from dataclasses import replace

    state = tiny.run(Scaffold, replace(tiny.PLAN, rounds=1, clients_per_round=1))
    (client,) = state.client_states
    # one of two clients took part: c moves by half of its variate
    assert tiny.pair(state.server["variate"]) == pytest.approx(tiny.pair(state.client_states[client]["variate"]) / 2)


def test_feddyn_by_hand() -> None:
    alpha, w, h, g = 0.4, tiny.START, np.zeros(2), [np.zeros(2), np.zeros(2)]
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            theta = w
            for _ in range(STEPS):
                theta = theta - ETA * (tiny.grad(theta, i) - g[i] + alpha * (theta - w))
            g[i] = g[i] - alpha * (theta - w)
            ends.append(theta)
        h = h - alpha / 2 * sum(theta - w for theta in ends)
        w = (ends[0] + ends[1]) / 2 - h / alpha
    state = tiny.run(FedDyn, alpha=alpha)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)
    assert tiny.pair(state.client_states[0]["linear"]) == pytest.approx(g[0], abs=1e-12)
