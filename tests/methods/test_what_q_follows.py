"""What drives GRP-FED's q, by hand; and the server's own step under fair methods."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from ecgfed.core.methods.afl import AflFedAvg
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.fedavg import FedAvgUniform
from ecgfed.core.methods.grp_fed import GrpFed
from ecgfed.core.methods.grp_fed_printed import PrintedSettings
from ecgfed.core.methods.loss_weighted import unevenness
from ecgfed.core.methods.losses import LossSettings, batch_loss
from ecgfed.core.methods.q_ffl import QFfl
from ecgfed.core.nets.net import Inputs

LOSSES = torch.tensor([1.0, 2.0, 3.0, 6.0, *[3.0] * 8], dtype=torch.float64)  # twelve clients, mean 3
ADAM = {"server_optimizer": "adam", "server_lr": 0.1, "server_momentum": 0.5}
PLAIN = {
    "personalise": False,
    "server_optimizer": "sgd",
    "server_lr": 1.0,
    "server_momentum": 0.0,
    "server_schedule": "constant",
    "loss_memory": 0.0,
}


def test_what_q_follows_by_hand() -> None:
    sigma = float(np.std(LOSSES.numpy()))
    assert float(unevenness(LOSSES, "spread")) == pytest.approx(sigma)
    assert float(unevenness(LOSSES, "relative")) == pytest.approx(sigma / 3)
    assert float(unevenness(LOSSES, "worst-tenth")) == pytest.approx((6 + 3) / 2 / 3)  # the worst two of twelve


def test_the_relative_spread_does_not_fall_because_all_losses_fall() -> None:
    for driver in ("relative", "worst-tenth"):
        assert float(unevenness(LOSSES / 10, driver)) == pytest.approx(float(unevenness(LOSSES, driver)))
    assert float(unevenness(LOSSES / 10, "spread")) == pytest.approx(float(unevenness(LOSSES, "spread")) / 10)


def test_q_stays_at_its_floor_and_all_weigh_the_same_there() -> None:
    """q from 0.01 follows a falling spread down to the floor 0: the mean of the models, as FedAvg without weights."""
    plan = replace(tiny.PLAN, rounds=6)
    floored = tiny.run(GrpFed, plan, **PLAIN, q0=0.0, eta_q=0.5)
    assert float(floored.server["q"]) >= 0
    free = tiny.run(GrpFed, plan, **PLAIN, q0=0.0, eta_q=0.5, q_floor=-1000.0)
    assert float(free.server["q"]) < 0  # nothing stops it
    fixed = tiny.run(GrpFed, plan, **PLAIN, q0=0.0, eta_q=0.0)
    uniform = tiny.run(FedAvgUniform, plan)
    assert tiny.pair(fixed.server["model"]) == pytest.approx(tiny.pair(uniform.server["model"]), abs=1e-12)
    assert PrintedSettings().q_floor == -1000.0  # the paper has no floor


def test_the_worst_tenth_is_of_losses_on_validation_beats() -> None:
    """Two rounds: what travels is the received model's loss there, of a client without such beats its training loss."""
    federation = replace(tiny.data(), valid_rows={0: np.array([2, 3])})  # another client's points stand in
    state = tiny.run(GrpFed, replace(tiny.PLAN, rounds=1), federation, **PLAIN, driver="worst-tenth")
    x, y = torch.tensor([[[2.0]], [[0.3]]], dtype=torch.float64), torch.tensor([0, 1])
    net, start = tiny.TinyNet(), tiny.TinyNet().initial(0)
    on_validation = float(batch_loss(net.logits(start, Inputs(x)), Batch(Inputs(x), y), LossSettings()))
    w = tiny.START
    of_training = []
    for _ in range(2):
        of_training.append(tiny.loss(w, 1))
        w = w - 0.3 * tiny.grad(w, 1)
    losses = [on_validation, float(np.mean(of_training))]
    assert float(state.server["sigma"]) == pytest.approx(max(losses) / np.mean(losses))


@pytest.mark.parametrize(("kind", "same"), [(AflFedAvg, {"lambda_lr": 0.0}), (QFfl, {"q": 0.0})])
def test_fair_methods_take_the_servers_own_step(kind: type, same: dict[str, float]) -> None:
    """Where all clients weigh the same, they are FedAvg without weights, whatever the server does then."""
    fair, plain = tiny.run(kind, **same, **ADAM), tiny.run(FedAvgUniform, **ADAM)
    assert tiny.pair(fair.server["model"]) == pytest.approx(tiny.pair(plain.server["model"]), abs=1e-9)
    without = tiny.run(kind, **same)
    assert tiny.pair(without.server["model"]) != pytest.approx(tiny.pair(fair.server["model"]), abs=1e-3)
