"""The global model on patients who took no part, against scikit-learn on their beats."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score
from support import Command, assert_refused

import ecgfed
from ecgfed import evaluate_held_out, prepare_demo, train
from ecgfed.base.errors import CohortError, EcgfedError

QUICK = {"method": "fedavg", "rounds": 2, "local_steps": 2, "workers": 1}


def test_all_beats_of_those_left_out_are_scored(tmp_path: Path) -> None:
    cohort = ecgfed.prepare_demo(tmp_path / "c", patients=5, minutes=1, workers=1)
    without = ecgfed.resplit_cohort(cohort, tmp_path / "w", holdout=["demo02", "demo05"])
    run = ecgfed.train(without, tmp_path / "run", **QUICK)
    scores = ecgfed.evaluate_held_out(run, workers=1)
    # the same model scored as if they had taken part: their beats of the three splits
    rows = np.concatenate([np.flatnonzero(without.client == i) for i in (1, 4)])
    state = run.state()
    model = run.method.global_model(state.server, iter(()), "ensemble")
    from ecgfed.core.evaluation.predict import Predictor
    from ecgfed.core.federation.data import training_data

    labels = Predictor(run.net, training_data(without, rr=run.net.spec.rr), rows, 1).labels(model)
    truth = without.label[rows]
    assert scores.T_g == pytest.approx(f1_score(truth, labels, average="macro"))
    each = [
        f1_score(truth[without.client[rows] == i], labels[without.client[rows] == i], average="macro") for i in (1, 4)
    ]
    assert scores.mean("T_p_global") == pytest.approx(np.mean(each))
    assert scores.results[0]["beats"] == len(rows)
    ends = scores.interval("T_p_global")
    assert ends == pytest.approx((min(each), max(each)))  # of two patients a draw is one of them in half of all draws
    stored = json.loads((run.path / "held-out.json").read_text())
    assert stored["scores"] == scores.results[0]["scores"]


def test_nobody_left_out_is_refused(tmp_path: Path) -> None:
    cohort = ecgfed.prepare_demo(tmp_path / "c", patients=2, minutes=0.5, workers=1)
    run = ecgfed.train(cohort, tmp_path / "run", **QUICK)
    with pytest.raises(CohortError, match="holds nobody out"):
        ecgfed.evaluate_held_out(run)
    assert not (run.path / "held-out.json").exists()
    assert issubclass(CohortError, EcgfedError)


@pytest.mark.parametrize("option", [("--split", "valid"), ("--no-local-models",), ("--all",), ("--metrics", "auroc")])
def test_the_command_refuses_what_these_patients_do_not_have(
    option: tuple[str, ...], ecgfed: Command, fedavg_run: Path
) -> None:
    assert_refused(ecgfed("evaluate", fedavg_run, "--held-out", *option), option[0], "--held-out")


def test_the_command_prints_the_same_scores(ecgfed: Command, tmp_path: Path) -> None:
    made = prepare_demo(tmp_path / "c", patients=4, minutes=1, holdout=["demo01", "demo02"], workers=1)
    run = train(made, tmp_path / "run", **QUICK)
    reply = ecgfed("evaluate", run.path, "--held-out", "--json")
    assert json.loads(reply.out)["scores"] == evaluate_held_out(run).results[0]["scores"]
    assert "2 patients" in " ".join(ecgfed("evaluate", run.path, "--held-out").out.split())
