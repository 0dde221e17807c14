"""What older versions wrote still opens and means the same (``prepare demo``, ``train``, ``export``, ``predict``).

Of 0.1 a run of GRP-FED; of 0.2 one of FedGate, which then weighed patients by loss, and a bundle with int8 forms.
"""

import csv
import json
import shutil
from pathlib import Path

import pytest
from support import Command

from ecgfed.core.runs.run import open_run
from ecgfed.core.runs.summary import describe_run
from ecgfed.device import open_bundle
from ecgfed.domain.cohort.cohort import open_cohort

DATA = Path(__file__).parent / "data"


@pytest.fixture(params=["0.1", "0.2"])
def kept(request: pytest.FixtureRequest) -> Path:
    """What a version wrote."""
    return DATA / f"version-{request.param}"


@pytest.fixture
def old(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "old"))


def test_an_old_cohort_opens(kept: Path) -> None:
    cohort = open_cohort(kept / "cohort")
    assert (cohort.leads, len(cohort.label), len(cohort.clients)) == (("MLII",), 247, 3)


def test_an_old_run_is_scored_as_it_was(ecgfed: Command, kept: Path, old: Path) -> None:
    """The net of 0.1 says ``plan``; its checkpoint belongs to it still."""
    run = open_run(old / "run")
    assert (run.net.spec.architecture, run.net.spec.width) == ("default", 0.34)
    said = ecgfed("evaluate", old / "run", "--cohort", old / "cohort", "--json")
    assert said.code == 0, said.err
    then = json.loads((kept / "run" / "evaluation-test" / "scores.json").read_text())
    assert json.loads(said.out)["scores"] == pytest.approx(then["scores"], abs=1e-6)


def test_an_old_run_tells_its_speed() -> None:
    """``timing.jsonl`` says ``beats`` there."""
    run = DATA / "version-0.1" / "run"
    timing = [json.loads(line) for line in (run / "timing.jsonl").read_text().splitlines()]
    speed = sum(line["beats"] for line in timing) / sum(line["seconds"] for line in timing)
    assert describe_run(run).speed.samples_per_s == pytest.approx(speed)


def test_an_old_run_goes_on(ecgfed: Command, old: Path) -> None:
    said = ecgfed("train", old / "cohort", "--out", old / "run", "--resume", "--rounds", 3, "--quiet")
    assert said.code == 0, said.err
    assert open_run(old / "run").store.rounds() == 3


def test_a_run_keeps_the_settings_of_its_day() -> None:
    """FedGate's defaults became other ones after 0.2 (docs/decisions/0054)."""
    settings = open_run(DATA / "version-0.2" / "run").meta["settings"]
    assert (settings["q0"], settings["eta_q"]) == (1.0, 0.5)


def test_an_old_bundle_predicts_what_it_did(ecgfed: Command, kept: Path, tmp_path: Path) -> None:
    assert open_bundle(kept / "bundle").leads == ("MLII",)
    record = kept / "recording" / "demo01"
    said = ecgfed("predict", kept / "bundle", record, "--patient", "demo01", "--out", tmp_path / "now", "--quiet")
    assert said.code == 0, said.err
    then, now = (
        [(row["sample"], row["class"]) for row in csv.DictReader(file.open())]
        for file in (kept / "predictions.csv", tmp_path / "now" / "demo01.csv")
    )
    assert len(then) > 60
    assert now == then
