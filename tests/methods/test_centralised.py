"""Centralised training by hand on the beats of two clients together, and what it is refused for."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny
from support import Command, assert_refused

import ecgfed as package
from ecgfed.base.errors import OptionError
from ecgfed.core.federation.plan import TrainPlan, check_requirements
from ecgfed.core.methods.centralised import Centralised

ETA, MOMENTUM = 0.3, 0.8


def pooled_gradient(model: np.ndarray) -> np.ndarray:
    """Mean over all five points of (p - y)(x, 1)."""
    x, y = (np.concatenate([points[k] for points in tiny.POINTS]) for k in (0, 1))
    p = 1 / (1 + np.exp(-(model[0] * x + model[1])))
    return np.array([np.mean((p - y) * x), np.mean(p - y)])


@pytest.mark.parametrize(("rounds", "steps"), [(2, 3), (6, 1)])
def test_rounds_make_no_difference(rounds: int, steps: int) -> None:
    w, v = tiny.START, np.zeros(2)
    for _ in range(6):
        v = MOMENTUM * v + pooled_gradient(w)
        w = w - ETA * v
    data = tiny.data().for_method(Centralised(tiny.TinyNet(), None))  # type: ignore[arg-type]
    state = tiny.run(Centralised, replace(tiny.PLAN, rounds=rounds, local_steps=steps), data, momentum=MOMENTUM)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)
    assert sorted(state.client_states) == [0]


def test_pooled_beats_are_those_of_all_labelled_clients() -> None:
    data = replace(tiny.data(), excluded={1: np.array([True, False])}, most_per_class=1, valid_rows={1: np.arange(2)})
    both, labelled = replace(data, excluded={}).pooled(), data.pooled()
    assert both.clients.tolist() == [0]
    assert both.rows[0].tolist() == [0, 1, 2, 3, 4]
    assert both.most_per_class == 2
    assert labelled.rows[0].tolist() == [0, 1]
    assert (labelled.most_per_class, labelled.excluded) == (1, {})
    assert both.valid_rows.keys() == {1}


def test_train_pools_the_beats_and_says_so(cohort_path: Path, tmp_path: Path, ecgfed: Command) -> None:
    arguments = ("train", cohort_path, "--method", "centralised", "--local-steps", "2")
    said = ecgfed(*arguments, "--rounds", "2", "--out", tmp_path / "run")
    assert said.code == 0
    assert "not federated" in said.out + said.err
    run = package.open_run(tmp_path / "run")
    assert run.state().beats_used.keys() == {0}
    assert 0 <= package.evaluate(run, workers=1).T_g <= 1
    one, two = ecgfed(*arguments, "--passes", "1", "--out", tmp_path / "pass"), package.open_cohort(cohort_path)
    assert one.code == 0
    beats, each = sum(len(two.training_rows(client)) for client in two.federation), 2 * 16
    assert package.open_run(tmp_path / "pass").plan.rounds == round(beats / each)


def test_what_it_is_refused_for(cohort_path: Path, tmp_path: Path, ecgfed: Command) -> None:
    with pytest.raises(OptionError, match="dp_clip"):
        check_requirements(Centralised.requirements, TrainPlan(2, None, 1, dp_clip=1.0, dp_noise=1.0), 1)
    from ecgfed.network.config import FederationConfig

    with pytest.raises(OptionError, match="centralised, for which beats would leave their site"):
        FederationConfig(3, "centralised", rounds=1)
    said = ecgfed("train", cohort_path, "--method", "centralised", "--clients-per-round", "2", "--out", tmp_path / "r")
    assert_refused(said, "clients-per-round")
