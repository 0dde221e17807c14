"""Scores per site of a joined cohort, against scikit-learn and by hand, and where they are shown."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Said, write_record
from sklearn.metrics import f1_score

import ecgfed
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.federation.data import training_data
from ecgfed.core.runs.compare import compare_runs
from ecgfed.domain.cohort.split import TEST

SITES = {"north": {"a": "NNNV" * 12, "b": "NNVN" * 10}, "south": {"c": "NNNA" * 12, "d": "N" * 40, "e": "NNVA" * 9}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two sites, evaluated on the test split."""
    folder = tmp_path_factory.mktemp("sites")
    for number, (site, records) in enumerate(SITES.items()):
        for seed, (name, symbols) in enumerate(records.items()):
            write_record(folder / f"{site}-in", name, symbols, seed=10 * number + seed, leads=(("MLII", "V5")[number],))
        how: dict[str, Any] = {"leads": ("MLII", "V5"), "classes": "aami5", "workers": 1}
        ecgfed.prepare_folder(folder / f"{site}-in", folder / site, **how)
    ecgfed.join_cohorts([folder / site for site in SITES], folder / "both")
    for name in ("run", "other"):
        ecgfed.train(
            folder / "both", folder / name, method="grp-fed", rounds=2, local_steps=2, workers=1, seed=len(name)
        )
        ecgfed.evaluate(folder / name, workers=1)
    return folder / "run"


def test_a_sites_scores_are_those_of_its_beats_and_patients(run: Path) -> None:
    result = json.loads((run / "evaluation-test" / "scores.json").read_text())
    cohort = ecgfed.open_cohort(run.parent / "both")
    opened = ecgfed.open_run(run)
    state = opened.state()
    states = (opened.client_state(state, client.index) for client in cohort.federation)
    rows = cohort.pool(TEST)
    predictor = Predictor(opened.net, training_data(cohort, rr=opened.net.spec.rr), rows, 1)
    predicted = predictor.labels(opened.method.global_model(state.server, states, "ensemble"))
    patients = {row["client"]: row for row in result["per_patient"]}
    assert [(row["client"], row["site"]) for row in result["per_patient"]] == [
        (name, site) for site, records in SITES.items() for name in records
    ]
    for row in result["per_site"]:
        mine = np.isin(cohort.client[rows], [client.index for client in cohort.sites[row["site"]]])
        truth, answers = cohort.label[rows][mine], predicted[mine]
        assert row["beats"] == mine.sum()
        assert row["global_f1"] == pytest.approx(f1_score(truth, answers, average="macro"))
        by_class = f1_score(truth, answers, average=None, labels=range(5), zero_division=0)
        shown = set(truth.tolist()) | set(answers.tolist())
        for number, name in enumerate(cohort.classes):
            expected = by_class[number] if number in shown else None
            assert row[f"global_f1_{name}"] == (None if expected is None else pytest.approx(expected))
        own = {name: patients[name]["personal_f1"] for name in SITES[row["site"]]}
        assert row["personal_f1"] == pytest.approx(np.mean(list(own.values())))
        assert row["worst_f1"] == min(own.values()) == own[row["worst_patient"]]
    table = list(csv.DictReader((run / "evaluation-test" / "per_site.csv").open()))
    assert [row["site"] for row in table] == list(SITES)


def test_commands_and_pages_know_a_patients_site(ecgfed: Callable[..., Said], run: Path, tmp_path: Path) -> None:
    said = ecgfed("evaluate", run, "--all", "--workers", 1, "--out", tmp_path / "e")
    assert said.code == 0, said.err
    assert "Worst site is " in said.out
    assert all(word in said.out for word in ("per site", "SVEB F1", "VEB F1"))
    patients = said.out.partition("per patient, worst first")[2]
    assert all(patients.count(f" {site} ") == len(records) for site, records in SITES.items())
    comparison = compare_runs([run, run.parent / "other"])
    stored = json.loads((run / "evaluation-test" / "scores.json").read_text())["per_site"]
    expected = {row["site"]: {"personal": row["personal_f1"], "global": row["global_f1"]} for row in stored}
    assert comparison.runs[0].sites == comparison.as_json()["runs"][0]["sites"] == expected
    said = ecgfed("runs", "compare", run, run.parent / "other")
    worst = min(row["personal_f1"] for row in stored)
    (line,) = [line for line in said.out.splitlines() if line.startswith("worst site, own model")]
    assert line.split()[-2] == f"{worst:.3f}"
    assert ecgfed("report", run, "--out", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    section = page.partition('id="sites"')[2].partition("</section>")[0]
    first = min(stored, key=lambda row: row["personal_f1"])
    assert f"<td>{first['global_f1']:.3f}</td>" in section
    assert section.index(f">{first['site']}<") == min(section.index(f">{site}<") for site in SITES)


def test_training_names_the_leads(ecgfed: Callable[..., Said], run: Path, tmp_path: Path) -> None:
    said = ecgfed("train", run.parent / "both", "--rounds", 1, "--workers", 1, "--out", tmp_path / "r")
    assert "Leads of different names are trained on together: V5 (3 patients), MLII (2)." in said.out + said.err
