"""AUROC, AUPRC and functions of one's own against scikit-learn, on made-up probabilities and on a real run."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    log_loss,
    roc_auc_score,
)

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.core.evaluation.metrics import BUILT_IN, auprc, auroc, measure, resolve_metrics
from ecgfed.core.evaluation.result import Scores

REFERENCE = {"auroc": roc_auc_score, "auprc": average_precision_score}
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def by_class(name: str, truth: Ints, probabilities: Floats) -> NDArray[np.float64]:
    """Each class by scikit-learn; NaN for a class without beats, or with all."""
    values = np.full(probabilities.shape[1], np.nan)
    for number in range(probabilities.shape[1]):
        positive = truth == number
        if 0 < positive.sum() < len(truth):
            values[number] = REFERENCE[name](positive, probabilities[:, number])
    return values


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 6), st.sampled_from([2, 100]))
def test_against_scikit_learn(seed: int, count: int, classes: int, levels: int) -> None:
    """With ties: of 2 levels most scores are equal."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, count)
    probabilities = (rng.integers(0, levels, (count, classes)) / levels).astype(np.float32)
    for name, metric in BUILT_IN.items():
        np.testing.assert_allclose(metric(truth, probabilities), by_class(name, truth, probabilities), atol=1e-6)


def test_a_class_with_all_beats_or_none_has_no_value() -> None:
    truth, probabilities = np.zeros(5, np.int64), np.full((5, 3), 1 / 3, np.float32)
    for metric in (auroc, auprc):
        assert np.isnan(metric(truth, probabilities)).all()
    assert measure({"auroc": auroc}, truth, probabilities)["auroc"].value is None


def entropy(truth: Ints, probabilities: Floats) -> float:
    return float(log_loss(truth, probabilities.astype(np.float64), labels=range(probabilities.shape[1])))


def only_two(truth: Ints, probabilities: Floats) -> float | None:
    return None if len(np.unique(truth)) < 2 else 2.0


@pytest.fixture(scope="module")
def scored(local_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Scores:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = {"auroc": "auroc", "auprc": "auprc", "loss": entropy, "two": only_two}
        return ecgfed.evaluate(local_run, metrics=metrics, out=tmp_path_factory.mktemp("scored") / "scores")


@pytest.mark.filterwarnings("ignore:The y_prob values")  # float32
def test_of_a_run(scored: Scores) -> None:
    """From the predictions, which another test holds to the checkpoint."""
    (result,), columns = scored.results, scored.predictions
    patients = {row["client"]: row for row in result["per_patient"]}
    order = np.argsort(columns["row"])
    pool: dict[str, Any] = {name: values[order] for name, values in columns.items()}
    for name in ("auroc", "auprc"):
        expected = by_class(name, pool["truth"], pool["global_probability"])
        summary = result["metrics"][name]
        assert summary["global"] == pytest.approx(np.nanmean(expected))
        assert summary["absent"] == [of for of, value in zip(scored.classes, expected, strict=True) if np.isnan(value)]
        of_class = np.array([np.nan if row[name] is None else row[name] for row in result["per_class"]])
        np.testing.assert_allclose(of_class, expected, atol=1e-6)
        means = []
        for client, row in patients.items():
            mine = columns["client"] == client
            own = by_class(name, columns["truth"][mine], columns["personal_probability"][mine])
            absent = [of for of, value in zip(scored.classes, own, strict=True) if np.isnan(value)]
            assert row[f"{name}_absent"].split() == absent
            if len(absent) == len(own):
                assert row[f"personal_{name}"] is None
                assert client in summary["undefined"]
            else:
                means.append(float(np.nanmean(own)))
                assert row[f"personal_{name}"] == pytest.approx(means[-1], abs=1e-6)
        assert summary["personal"] == pytest.approx(np.mean(means), abs=1e-6)
        assert summary["patients"] == len(means) == len(patients) - len(summary["undefined"])
    assert result["metrics"]["loss"]["global"] == pytest.approx(entropy(pool["truth"], pool["global_probability"]))
    single = [client for client, row in patients.items() if row["classes"] < 2]
    assert result["metrics"]["two"]["undefined"] == single
    assert scored.mean("metrics", "auroc", "global") == result["metrics"]["auroc"]["global"]


def test_the_predictions_are_what_was_scored(scored: Scores) -> None:
    columns, classes = scored.predictions, len(scored.classes)
    for model, matrix in (("global", scored.confusion), ("personal", scored.confusion_personal)):
        assert (columns[model] == columns[f"{model}_probability"].argmax(1)).all()
        assert (confusion_matrix(columns["truth"], columns[model], labels=range(classes)) == matrix).all()
    f1 = scored.per_patient["personal_f1"]
    for client, value in zip(scored.per_patient["client"], f1, strict=True):
        mine = columns["client"] == client
        expected = f1_score(columns["truth"][mine], columns["personal"][mine], average="macro", zero_division=0)
        assert value == pytest.approx(expected)


def test_predictions_lead_back_to_the_cohort(scored: Scores, cohort_path: Path) -> None:
    columns, cohort = scored.predictions, ecgfed.open_cohort(cohort_path)
    assert (cohort.label[columns["row"]] == columns["truth"]).all()
    assert [cohort.clients[number].id for number in cohort.client[columns["row"]]] == columns["client"].tolist()
    assert (columns["sample"] == cohort.sample[columns["row"]]).all()
    records = cohort.meta["records"]
    for name, time_s, row in zip(columns["record"], columns["time_s"], columns["row"], strict=True):
        record = records[cohort.record[row]]
        assert (name, time_s) == (record["name"], pytest.approx(cohort.sample[row] / record["fs_hz"]))


@pytest.mark.filterwarnings("ignore::ecgfed.EcgfedWarning")
def test_a_metric_that_is_not_defined_has_the_mean_nan(local_run: Path, tmp_path: Path) -> None:
    metrics = {"nothing": lambda truth, probabilities: None}
    scores = ecgfed.evaluate(local_run, metrics=metrics, out=tmp_path / "scores")
    assert np.isnan(scores.mean("metrics", "nothing", "global"))


def test_frames(scored: Scores) -> None:
    frame = scored.to_pandas("predictions")
    assert isinstance(frame, pd.DataFrame)
    probabilities = frame[[f"global_probability_{name}" for name in scored.classes]].to_numpy()
    assert (probabilities.argmax(1) == frame["global"]).all()
    by_patient = frame.groupby("client")[["truth", "personal"]].apply(lambda f: (f.truth == f.personal).mean())
    patients = scored.to_pandas("per_patient").set_index("client")
    pd.testing.assert_series_equal(
        by_patient.sort_index(), patients["personal_accuracy"].sort_index(), check_names=False
    )
    matrix = scored.to_pandas("confusion")
    assert list(matrix.index) == list(matrix.columns) == list(scored.classes)
    assert matrix.to_numpy().sum() == scored.results[0]["beats"]
    counts = scored.to_pandas("per_class").set_index("class")
    assert (counts["beats"] == matrix.sum(axis=1)).all()
    with pytest.raises(OptionError, match="one of per_patient"):
        scored.to_pandas("per_site")


def test_several_seeds_are_below_each_other(cohort_path: Path, tmp_path: Path) -> None:
    short: dict[str, Any] = {"method": "fedavg", "rounds": 1, "local_steps": 1, "width": 0.34, "eval_every": 0}
    ecgfed.train_seeds(cohort_path, [0, 1], tmp_path / "seeds", **short)
    scores = ecgfed.evaluate(tmp_path / "seeds", split="valid", metrics=["auroc"])
    frame = scores.to_pandas("per_patient")
    assert frame["run"].unique().tolist() == ["seed-0", "seed-1"]
    single = [ecgfed.evaluate(tmp_path / "seeds" / f"seed-{seed}", split="valid") for seed in (0, 1)]
    assert (scores.confusion == single[0].confusion + single[1].confusion).all()
    assert len(scores.predictions["row"]) == sum(len(one.predictions["row"]) for one in single)


def test_scores_of_a_file_have_no_predictions(scored: Scores) -> None:
    stored = Scores(json.loads(json.dumps(scored.results)))
    assert stored.per_patient["personal_f1"].tolist() == scored.per_patient["personal_f1"].tolist()
    with pytest.raises(OptionError, match="not stored with scores"):
        _ = stored.predictions


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("aurok", "did you mean auroc"),
        ({"x": 5}, "a function of truth"),
        ({"f1": balanced_accuracy_score}, "cannot be a column"),
        ({"a b": auroc}, "cannot be a column"),
    ],
)
def test_what_is_no_metric(wrong: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        resolve_metrics(wrong)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda truth, p: p, r"returned shape \(2, 3\); expected a number, or \(3,\)"),
        (lambda truth, p: 1 / 0, "fails with ZeroDivisionError"),
        (lambda truth, p: "good", "fails with ValueError"),
        (lambda truth, p: np.inf, "returned infinity"),
    ],
)
def test_a_function_that_fails_is_named(function: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        measure({"mine": function}, np.array([0, 1]), np.full((2, 3), 1 / 3, np.float32))
    assert caught.value.parameter == "metrics"


def test_on_the_command_line(local_run: Path, tmp_path: Path, ecgfed: Any) -> None:
    command = ("evaluate", str(local_run), "--metrics", "auroc,auprc", "--out", str(tmp_path / "scores"))
    text = ecgfed(*command).out
    assert "auroc" in text
    result = json.loads(ecgfed(*command, "--json", "--overwrite").out)
    assert set(result["metrics"]) == {"auroc", "auprc"}
    assert "auroc_absent" in (tmp_path / "scores" / "per_patient.csv").read_text().splitlines()[0]


def test_a_metric_that_writes_into_its_arguments_changes_no_other_score(local_run: Path, tmp_path: Path) -> None:
    def clipped(truth: Ints, probabilities: Floats) -> float:
        probabilities[:], truth[:] = 0.5, 0
        return 0.0

    metrics: dict[str, Any] = {"clipped": clipped, "auroc": "auroc"}
    scores, alone = (
        ecgfed.evaluate(local_run, metrics=each, out=tmp_path / name)
        for name, each in (("both", metrics), ("alone", ["auroc"]))
    )
    assert scores.each("metrics", "auroc", "global") == alone.each("metrics", "auroc", "global")
    for name, column in alone.predictions.items():
        np.testing.assert_array_equal(scores.predictions[name], column)
