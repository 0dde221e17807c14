"""FedGate: its round is FedAvg's with equal weights, or GRP-FED's global one; its answer is the gated one."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from ecgfed.core.methods.base import Returned
from ecgfed.core.methods.fed_gate import FedGate, FedGateSettings
from ecgfed.core.methods.fedavg import FedAvgUniform
from ecgfed.core.methods.grp_fed import GrpFed
from ecgfed.core.methods.registry import methods

ADAM = {"server_optimizer": "adam", "server_lr": 0.1, "server_momentum": 0.5, "server_schedule": "cosine"}


def test_its_rounds_are_grp_feds_global_ones() -> None:
    plan = replace(tiny.PLAN, rounds=5)
    ours = tiny.run(FedGate, plan, **ADAM, q0=0.5, eta_q=0.5)
    theirs = tiny.run(GrpFed, plan, **ADAM, q0=0.5, eta_q=0.5, personalise=False)
    assert (tiny.pair(ours.server["model"]) == tiny.pair(theirs.server["model"])).all()
    assert float(ours.server["q"]) == float(theirs.server["q"])
    assert ours.client_states == theirs.client_states


def test_q_and_the_weights_by_hand() -> None:
    """Losses 1 and 3 (sigma 1), then 1 and 4 (sigma 1.5): q goes from 1 to 1 + .5 * .5 / 1.25."""
    plain = {"server_optimizer": "sgd", "server_momentum": 0.0, "server_schedule": "constant"}
    method = FedGate(tiny.TinyNet(), FedGateSettings(server_lr=1.0, q0=1.0, eta_q=0.5, **plain))  # type: ignore[arg-type]
    models = {
        "extractor.w": torch.tensor([2.0, 10.0]).reshape(2, 1, 1),
        "head.b": torch.tensor([0.0, 4.0]).reshape(2, 1),
    }

    def returned(*losses: float) -> Returned:
        loss = torch.tensor(losses, dtype=torch.float64)
        return Returned({"model": models, "loss": loss}, {}, torch.tensor([5.0, 5.0]), torch.arange(2))

    first = method.aggregate(method.server_start(tiny.TinyNet().initial(0)), returned(1.0, 3.0))
    assert tiny.pair(first["model"]) == pytest.approx([0.25 * 2 + 0.75 * 10, 0.75 * 4])
    second = method.aggregate(first, returned(1.0, 4.0))
    q = 1 + 0.5 * 0.5 / 1.25
    assert float(second["q"]) == pytest.approx(q)
    share = 4**q / (1 + 4**q)
    assert tiny.pair(second["model"]) == pytest.approx([2 + 8 * share, 4 * share])
    fallen = method.aggregate({**first, "q": torch.tensor(0.1, dtype=torch.float64)}, returned(1.0, 1.0))
    assert float(fallen["q"]) == 0  # never below: the best served would be favoured


def test_unless_asked_all_clients_count_the_same() -> None:
    """As FedAvg's mean of models does where every client has as many beats."""
    plan = replace(tiny.PLAN, rounds=5)
    ours, theirs = tiny.run(FedGate, plan, **ADAM), tiny.run(FedAvgUniform, plan, **ADAM)
    np.testing.assert_array_equal(tiny.pair(ours.server["model"]), tiny.pair(theirs.server["model"]))
    assert float(ours.server["q"]) == 0
    assert float(ours.server["effective_clients"]) == 2


def test_it_is_made_for_the_gated_answer() -> None:
    assert methods()["fed-gate"].personal == "gated"
