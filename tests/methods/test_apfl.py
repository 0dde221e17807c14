"""APFL by hand on two clients of two parameters."""

import numpy as np
import pytest
import tiny

from ecgfed.core.methods.apfl import Apfl, ApflSettings

ETA, STEPS, ROUNDS = 0.3, 2, 2
SHARES = (2 / 5, 3 / 5)


@pytest.mark.parametrize("adaptive", [True, False])
def test_apfl_by_hand(adaptive: bool) -> None:
    w, v, alpha = tiny.START, [tiny.START, tiny.START], [0.7, 0.7]
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = w
            for step in range(STEPS):
                bar = alpha[i] * v[i] + (1 - alpha[i]) * x
                g = tiny.grad(bar, i)
                towards = float(np.dot(v[i] - x, g))
                x = x - ETA * tiny.grad(x, i)
                v[i] = v[i] - ETA * alpha[i] * g
                if adaptive and step == 0:
                    alpha[i] = min(max(alpha[i] - ETA * towards, 0.0), 1.0)
            ends.append(x)
        w = SHARES[0] * ends[0] + SHARES[1] * ends[1]
    state = tiny.run(Apfl, alpha=0.7, adaptive=adaptive)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)
    method = Apfl(tiny.TinyNet(), ApflSettings())  # type: ignore[arg-type]
    for i in (0, 1):
        assert float(state.client_states[i]["alpha"]) == pytest.approx(alpha[i], abs=1e-12)
        (stage,) = method.personal_model(state.server, state.client_states[i]).stages
        assert tiny.pair(stage.params) == pytest.approx(alpha[i] * v[i] + (1 - alpha[i]) * w, abs=1e-12)
    assert (alpha[0] != 0.7) == adaptive


def test_alpha_stays_between_0_and_1() -> None:
    state = tiny.run(Apfl, lr=50.0, alpha=0.9)
    assert all(0 <= float(state.client_states[i]["alpha"]) <= 1 for i in (0, 1))
