"""FedBABU by hand on two clients of two parameters: the extractor moves, the head does not."""

import numpy as np
import pytest
import tiny

from ecgfed.core.methods.fedbabu import FedBabu

ETA, STEPS, ROUNDS = 0.3, 2, 2
SHARES = (2 / 5, 3 / 5)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.1)])
def test_fedbabu_by_hand(momentum: float, decay: float) -> None:
    w, b = tiny.START
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x, v = w, 0.0
            for _ in range(STEPS):
                v = momentum * v + tiny.grad(np.array([x, b]), i)[0] + decay * x
                x = x - ETA * v
            ends.append(x)
        w = SHARES[0] * ends[0] + SHARES[1] * ends[1]
    state = tiny.run(FedBabu, momentum=momentum, weight_decay=decay)
    assert tiny.pair(state.server["model"]) == pytest.approx([w, b], abs=1e-12)
    for i in (0, 1):
        assert float(state.client_states[i]["head"]["head.b"]) == b


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_servers_step_leaves_the_head(optimizer: str) -> None:
    state = tiny.run(FedBabu, server_optimizer=optimizer, server_momentum=0.9, server_lr=0.5)
    w, b = tiny.pair(state.server["model"])
    assert w != tiny.START[0]
    assert b == tiny.START[1]
