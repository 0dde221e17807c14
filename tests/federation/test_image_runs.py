"""Every method trains on images, by worker threads and many clients at once; scores come from the right pool."""

import math
from dataclasses import replace
from pathlib import Path

import cifar_source as cs
import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from ecgfed.core.evaluation.scenarios import evaluate
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.client_round import ClientEngine
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import Inputs, net_spec
from ecgfed.core.runs.callbacks import SaveCheckpoint
from ecgfed.core.runs.run import create_run, open_run
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.split import TEST

PLAN = TrainPlan(rounds=2, local_epochs=None, local_steps=2, batch_size=8)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return open_cohort(cs.small_cohort(tmp_path_factory.mktemp("images") / "cohort", clients=3))


def made(name: str, net: str = "convnet3", norm: str | None = None, **settings: object) -> tuple[Method, TrainPlan]:
    kind = methods()[name]
    needs_norm = name == "fedbn"  # it refuses a net that has none, as this one by default
    spec = net_spec(10, "image", architecture=net, norm=norm or ("group" if needs_norm else None), width=0.125)
    method = kind(make_net(spec), make_settings(kind.settings_type, settings))
    return method, replace(PLAN, local_steps=1) if method.requirements.single_step else PLAN


def run(cohort: Cohort, method: Method, plan: TrainPlan, kind: type[ClientEngine]) -> State:
    data = training_data(cohort, rr=False)
    engine = ThreadEngine(data, plan, 1) if kind is ThreadEngine else BatchedEngine(data, plan, "cpu", 2)
    with engine:
        return train(method, data, plan, engine, initial_state(method, plan))


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_trains_and_is_scored_on_images(name: str, cohort: Cohort, tmp_path: Path) -> None:
    method, plan = made(name)
    created = create_run(tmp_path / "run", cohort, method, plan, {})
    data = training_data(cohort, rr=False)
    with ThreadEngine(data, plan, 1) as engine:
        saving = SaveCheckpoint(created.store)
        state = train(method, data, plan, engine, initial_state(method, plan), [saving])
    opened = open_run(tmp_path / "run")
    assert type(opened.net) is type(method.net)
    for path, leaf in flatten({"server": state.server, **{str(c): k for c, k in state.client_states.items()}}).items():
        assert not leaf.is_floating_point() or leaf.isfinite().all(), path
    scores = evaluate(opened, cohort, opened.state(), TEST)["scores"]
    assert all(math.isfinite(scores[name]) and 0 <= scores[name] <= 1 for name in ("T_g", "T_p", "T_r", "T_l"))


@pytest.mark.parametrize("net", ["convnet3", "resnet30"])
@pytest.mark.parametrize(
    ("name", "norm"), [("fedavg", "batch"), ("fed-rod-hyper", "group"), ("grp-fed", "group"), ("per-fedavg", "none")]
)
def test_many_clients_at_once_mean_what_one_after_the_other_means(
    name: str, norm: str, net: str, cohort: Cohort
) -> None:
    # Adam at the server divides by the size of a gradient, however small: rounding errors would be all that is compared
    method, plan = made(name, net, norm, lr=0.001, **PLAIN_MEAN)
    one, many = (run(cohort, method, plan, kind) for kind in (ThreadEngine, BatchedEngine))
    assert one.beats_used == many.beats_used
    for mine, theirs in [
        (one.server, many.server),
        *((one.client_states[c], many.client_states[c]) for c in one.client_states),
    ]:
        a, b = flatten(mine), flatten(theirs)
        assert a.keys() == b.keys()
        for path in a:
            torch.testing.assert_close(a[path], b[path], atol=1e-4, rtol=1e-3, msg=lambda m, p=path: f"{p}: {m}")


def test_learning_is_seen_in_the_scores_and_they_are_those_of_the_right_images(cohort: Cohort, tmp_path: Path) -> None:
    method, _ = made("local", norm="group", lr=0.02)
    plan = TrainPlan(rounds=12, local_epochs=1, batch_size=8)
    created = create_run(tmp_path / "run", cohort, method, plan, {})
    data = training_data(cohort, rr=False)
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan), [SaveCheckpoint(created.store)])
    result = evaluate(created, cohort, state, TEST)
    pool = np.flatnonzero(cohort.client == -1)
    assert result["beats"] == len(pool) == 60
    truth, image = cohort.label[pool], torch.from_numpy(np.array(cohort.examples[pool]))
    personal, across, ensemble = [], [], 0.0
    drawn_client, drawn_row = (np.load(cohort.path / f"test_{name}.npy") for name in ("client", "row"))
    for client in range(3):
        logits = method.net.logits(state.client_states[client]["model"], Inputs(image))
        predicted = logits.argmax(1).numpy()
        ensemble = ensemble + logits.softmax(1)
        own = drawn_row[drawn_client == client]  # the pool's rows come first, so they are its positions as well
        personal.append(f1_score(truth[own], predicted[own], average="macro"))
        across.append(f1_score(truth, predicted, average="macro"))
        assert result["per_patient"][client]["beats"] == len(own)
    scores = result["scores"]
    assert scores["T_p"] == pytest.approx(np.mean(personal))
    assert scores["T_r"] == pytest.approx(np.mean(across))
    assert scores["T_g"] == pytest.approx(f1_score(truth, ensemble.argmax(1).numpy(), average="macro"))  # type: ignore[attr-defined]
    assert scores["T_p"] > 0.3


def test_the_same_seed_gives_the_same_bits(cohort: Cohort) -> None:
    method, plan = made("grp-fed", "resnet30")
    states = [flatten(run(cohort, method, plan, ThreadEngine).server) for _ in range(2)]
    assert all(torch.equal(states[0][path], states[1][path]) for path in states[0])
