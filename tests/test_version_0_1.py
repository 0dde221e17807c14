"""What version 0.1 wrote still opens and means the same (``prepare demo``, ``train``, ``export``, ``predict``)."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from support import Command

from ecgfed.cohort.cohort import open_cohort
from ecgfed.device import open_bundle
from ecgfed.runs.run import open_run
from ecgfed.runs.summary import describe_run

OLD = Path(__file__).parent / "data" / "version-0.1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def test_an_old_cohort_opens() -> None:
    cohort = open_cohort(OLD / "cohort")
    assert (cohort.leads, len(cohort.label), len(cohort.clients)) == (("MLII",), 247, 3)


def test_an_old_run_is_scored_as_it_was(ecgfed: Command, old: Path) -> None:
    """Its net says ``plan``; its checkpoint belongs to it still."""
    run = open_run(old / "run")
    assert (run.net.spec.architecture, run.net.spec.width) == ("default", 0.34)
    said = ecgfed("evaluate", old / "run", "--cohort", old / "cohort", "--json")
    assert said.code == 0, said.err
    then = json.loads((OLD / "run" / "evaluation-test" / "scores.json").read_text())
    assert json.loads(said.out)["scores"] == pytest.approx(then["scores"], abs=1e-6)


def test_an_old_run_tells_its_speed() -> None:
    """``timing.jsonl`` says ``beats`` there."""
    timing = [json.loads(line) for line in (OLD / "run" / "timing.jsonl").read_text().splitlines()]
    speed = sum(line["beats"] for line in timing) / sum(line["seconds"] for line in timing)
    assert describe_run(OLD / "run").speed.samples_per_s == pytest.approx(speed)


def test_an_old_run_goes_on(ecgfed: Command, old: Path) -> None:
    said = ecgfed("train", old / "cohort", "--out", old / "run", "--resume", "--rounds", 3, "--quiet")
    assert said.code == 0, said.err
    assert open_run(old / "run").store.rounds() == 3


def test_an_old_bundle_predicts_what_it_did(ecgfed: Command, tmp_path: Path) -> None:
    assert open_bundle(OLD / "bundle").leads == ("MLII",)
    record = OLD / "recording" / "demo01"
    said = ecgfed("predict", OLD / "bundle", record, "--patient", "demo01", "--out", tmp_path / "now", "--quiet")
    assert said.code == 0, said.err
    then, now = (
        [(row["sample"], row["class"]) for row in csv.DictReader(file.open())]
        for file in (OLD / "predictions.csv", tmp_path / "now" / "demo01.csv")
    )
    assert len(then) > 60
    assert now == then
