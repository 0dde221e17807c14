"""MTL and FedFomo by hand on two clients of two parameters; what is sent to whom."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Returned
from ecgfed.core.methods.fedfomo import FedFomo, FedFomoSettings, mixed
from ecgfed.core.methods.lg_fedavg import LgFedAvg, LgFedAvgSettings
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.mtl import RIDGE, Mtl, MtlSettings, learned_relation
from ecgfed.core.runs.callbacks import SaveCheckpoint
from ecgfed.core.runs.checkpoint import CheckpointStore

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
        assert tiny.pair(state.client_states[i]["model"]) == pytest.approx(w[i], abs=1e-12)
    assert tiny.pair(state.server["mean"]) == pytest.approx((w[0] + w[1]) / 2, abs=1e-12)


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
        assert tiny.pair(state.client_states[i]["model"]) == pytest.approx(w[i], abs=1e-10)


def test_fedfomos_mixture_by_hand() -> None:
    own = {"w": torch.tensor([0.0, 0.0])}
    others = [{"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([0.0, 1.0])}, {"w": torch.tensor([2.0, 0.0])}]
    losses = [torch.tensor(value) for value in (0.5, 0.8, 1.4)]
    new, raw = mixed(own, others, torch.tensor(1.0), losses)
    assert raw.tolist() == pytest.approx([0.5 / 5, 0.2 / 1, -0.4 / 2])
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
        assert tiny.pair(state.client_states[i]["model"]) == pytest.approx(w[i], abs=1e-12)  # type: ignore[attr-defined]
        assert float(state.server["affinity"][i, 1 - i]) != 0.0  # type: ignore[attr-defined]


def test_fedfomo_without_validation_beats_is_local() -> None:
    state, _ = _run(tiny.PLAN, {})
    local = tiny.run(Local)
    for i in (0, 1):
        found = tiny.pair(state.client_states[i]["model"])  # type: ignore[attr-defined]
        assert found == pytest.approx(tiny.pair(local.client_states[i]["model"]), abs=1e-14)


def _server(round_number: int) -> dict[str, Any]:
    """Eight clients' models, told apart by their numbers; what client 2 thinks of them."""
    affinity = torch.zeros(8, 8, dtype=torch.float64)
    affinity[2] = torch.tensor([0.0, 5, 1, 0, 4, 0, 3, 0])
    models = {str(client): {"w": torch.tensor([float(client)])} for client in range(8)}
    return {"models": models, "affinity": affinity, "round": torch.tensor(round_number - 1), "seed": torch.tensor(3)}


def _offered(method: FedFomo, server: dict[str, Any], client: int) -> list[int]:
    sent = method.server_message(server, client)["models"]
    return [int(sent[place]["w"]) for place in sorted(sent, key=int)]


def test_candidates_are_those_of_highest_affinity_or_random_ones_and_no_more_travel() -> None:
    greedy = FedFomo(tiny.TinyNet(), FedFomoSettings(candidates=3))  # type: ignore[arg-type]
    assert _offered(greedy, _server(40), 2) == [1, 4, 6]  # epsilon has fallen to 0 by round 40
    assert _offered(greedy, _server(40), 99) == [0, 1, 2]  # a newcomer, of whom nothing is known
    always = FedFomo(tiny.TinyNet(), FedFomoSettings(candidates=3, epsilon=1.0))  # type: ignore[arg-type]
    draws = {client: _offered(always, _server(1), client) for client in range(8)}
    assert len({tuple(draw) for draw in draws.values()}) > 3
    assert draws == {client: _offered(always, _server(1), client) for client in range(8)}
    assert all(len(set(draw)) == 3 and client not in draw for client, draw in draws.items())
    assert _offered(always, _server(2), 0) != draws[0]  # another round, another draw


def test_a_large_seed_draws_too() -> None:
    server = {**_server(1), "seed": torch.tensor(2**63 - 1)}
    always = FedFomo(tiny.TinyNet(), FedFomoSettings(candidates=3, epsilon=1.0))  # type: ignore[arg-type]
    assert len(set(_offered(always, server, 0))) == 3


def test_the_server_adds_what_a_client_says_to_the_affinity_of_what_it_was_sent() -> None:
    """Section 3.3: p_i <- p_i + w_i, for the models that client i was offered, in their order."""
    method = FedFomo(tiny.TinyNet(), FedFomoSettings(candidates=2))  # type: ignore[arg-type]
    server = _server(40)
    gain = torch.tensor([[0.5, -0.25], [0.0, 0.0]], dtype=torch.float64)
    tree = {"model": {"w": torch.tensor([[2.5], [9.0]])}, "gain": gain}
    clients = torch.tensor([2, 9])  # the second one is new: matrix and models grow
    returned = Returned(tree, {}, torch.ones(2).double(), clients, round=40, seed=3)
    after = method.aggregate(server, returned)
    assert after["affinity"].shape == (10, 10)
    assert after["affinity"][2].tolist() == [0, 5.5, 1, 0, 3.75, 0, 3, 0, 0, 0]
    assert server["affinity"][2, 1] == 5.0  # what was is left alone
    assert (float(after["models"]["2"]["w"]), float(after["models"]["9"]["w"])) == (2.5, 9.0)
    assert (int(after["round"]), int(after["seed"])) == (40, 3)


def test_fedfomo_goes_on_from_a_checkpoint_with_the_draws_it_would_have_made(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 12)
    points = tuple((x[2 * k : 2 * k + 2], np.array([k % 2, 1])) for k in range(6))
    data = tiny.data(points)
    data = replace(data, valid_rows=data.rows)
    settings = FedFomoSettings(lr=ETA, momentum=0.0, candidates=1, epsilon=0.6, epsilon_decay=0.0)
    method, plan = FedFomo(tiny.TinyNet(), settings), replace(tiny.PLAN, rounds=5, seed=8)  # type: ignore[arg-type]
    with ThreadEngine(data, plan, 1) as engine:
        whole = train(method, data, plan, engine, initial_state(method, plan))
        for _ in range(5):
            store = CheckpointStore(tmp_path)
            state = store.load() if store.exists() else initial_state(method, plan)
            train(method, data, plan, engine, state, [SaveCheckpoint(store)], should_stop=lambda: True)
    loaded = CheckpointStore(tmp_path).load()
    one, two = flatten(loaded.server), flatten(whole.server)
    assert all(torch.equal(one[path], two[path]) for path in two)
    other = train_with_seed(method, data, replace(plan, seed=9))
    assert not torch.equal(other["affinity"], whole.server["affinity"])


def train_with_seed(method: FedFomo, data: TrainingData, plan: TrainPlan) -> dict[str, Any]:
    with ThreadEngine(data, plan, 1) as engine:
        return train(method, data, plan, engine, initial_state(method, plan)).server


def test_mtl_sends_a_client_its_own_row_of_the_relation_and_a_newcomer_the_mean() -> None:
    method = Mtl(tiny.TinyNet(), MtlSettings(relation="learned"))  # type: ignore[arg-type]
    rng = np.random.default_rng(2)
    models = {c: {"a": torch.tensor(rng.normal(size=3)), "b": torch.tensor(rng.normal(size=2))} for c in (0, 3, 11)}
    server = {"mean": {}, "models": {str(c): models[c] for c in (11, 0, 3)}}  # as a checkpoint may have them
    columns = torch.stack([torch.cat([models[c]["a"], models[c]["b"]]) for c in (0, 3, 11)])
    omega = learned_relation(columns)
    sent = method.server_message(server, 3)
    assert sent["others"]["a"].numpy() == pytest.approx((omega[1, 0] * columns[0] + omega[1, 2] * columns[2])[:3])
    assert float(sent["own"]) == float(omega[1, 1])
    assert method.server_message(server, 4).keys() == {"mean"}


def test_lg_fedavg_sends_a_patient_with_an_extractor_the_head_alone() -> None:
    method = LgFedAvg(tiny.TinyNet(), LgFedAvgSettings())  # type: ignore[arg-type]
    net = tiny.TinyNet().initial(0)
    assert method.server_message({"model": net}, 1).keys() == {"model"}
    returned = Returned({"head": {"head.b": torch.ones(2, 1)}}, {}, torch.ones(2).double(), torch.tensor([1, 4]))
    server = method.aggregate({"model": net, "personal": torch.tensor([4, 7])}, returned)
    assert server["personal"].tolist() == [1, 4, 7]
    assert {client: list(method.server_message(server, client)) for client in (0, 1, 7)} == {
        0: ["model"],
        1: ["head"],
        7: ["head"],
    }
