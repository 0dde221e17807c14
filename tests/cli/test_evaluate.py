"""``ecgfed evaluate``: what it prints and writes, and one line for everything that cannot be."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from support import (
    Command,
    SavedRun,
    assert_full_disk,
    assert_refused,
    change_json,
    copied,
    other_cohort,
    run_limited,
    snapshot,
)

from ecgfed.core.evaluation.scenarios import evaluate
from ecgfed.core.runs.run import open_run

FILES = {"scores.json", "per_patient.csv", "per_class.csv", "learning_curves.png", "resampled.npz"}
SCENARIOS = ["T_g", "T_p", "T_r", "T_l", "T_p_global", "T_l_clients"]


@pytest.fixture
def run(fedavg_run: Path, tmp_path: Path) -> Path:
    """A copy of the FedAvg run, since evaluation writes into it."""
    return copied(fedavg_run, tmp_path / "run")


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def _expected(run: Path, split: int, protocol: str = "ensemble") -> dict[str, Any]:
    opened = open_run(run)
    return evaluate(opened, opened.cohort(), opened.state(), split, protocol=protocol)


def test_files_and_json(ecgfed: Command, run: Path, cohort_path: Path) -> None:
    before = set(snapshot(run))
    said = ecgfed("evaluate", run, "--json")
    assert (said.code, said.err) == (0, "")
    told = json.loads(said.out)
    folder = run / "evaluation-test"
    assert set(snapshot(run)) - before == {f"evaluation-test/{name}" for name in FILES}
    stored = json.loads((folder / "scores.json").read_text())
    assert (stored.pop("schema_version"), len(stored.pop("run_identity"))) == (2, 64)
    assert stored == {**told, "run": run.name}  # no path of this machine
    about = {"run": str(run), "method": "fedavg", "split": "test", "round": 2, "protocol": "ensemble"}
    assert {name: told[name] for name in about} == about
    expected = _expected(run, 2)
    assert list(expected["scores"]) == SCENARIOS
    assert {name: told[name] for name in expected} == expected
    patients = _rows(folder / "per_patient.csv")
    assert [row["client"] for row in patients] == ["p1", "p2", "p3", "p4"]
    assert [float(row["personal_f1"]) for row in patients] == [row["personal_f1"] for row in told["per_patient"]]
    classes = _rows(folder / "per_class.csv")
    assert [row["class"] for row in classes] == json.loads((cohort_path / "cohort.json").read_text())["classes"]
    test_beats = int((SavedRun(run, cohort_path).array["split"] == 2).sum())
    assert sum(int(row["beats"]) for row in classes) == test_beats == told["beats"]


def test_learning_curves_are_a_real_picture(ecgfed: Command, run: Path) -> None:
    assert ecgfed("evaluate", run, "--quiet").code == 0
    path = run / "evaluation-test" / "learning_curves.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    picture = imread(path)
    assert picture.shape[0] > 300
    assert picture.shape[1] > 600
    ink = (picture[..., :3].sum(-1) < 2.5).mean()
    assert 0.005 < ink < 0.5, "axes and two curves, on white"


def test_a_run_without_history_is_still_drawn(ecgfed: Command, local_run: Path, tmp_path: Path) -> None:
    run = copied(local_run, tmp_path / "run")
    (run / "history.jsonl").unlink()
    assert ecgfed("evaluate", run, "--quiet").code == 0
    assert imread(run / "evaluation-test" / "learning_curves.png").ndim == 3


def test_quiet_prints_nothing(ecgfed: Command, run: Path) -> None:
    said = ecgfed("evaluate", run, "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_tables(ecgfed: Command, run: Path) -> None:
    said = ecgfed("evaluate", run)
    scores = _expected(run, 2)["scores"]
    assert (said.code, said.err) == (0, "")
    for name in ("T_g", "T_p", "T_r", "T_l"):
        assert name in said.out
        assert f"{scores[name]:.3f}" in said.out
    assert f"Wrote {run}/evaluation-test" in said.out


def test_validation_split_global_protocol_and_another_folder(ecgfed: Command, local_run: Path, tmp_path: Path) -> None:
    before = snapshot(local_run)
    out = tmp_path / "a" / "scores"
    said = ecgfed("evaluate", local_run, "--split", "valid", "--global", "average", "--out", out, "--json")
    told = json.loads(said.out)
    assert told["scores"] == _expected(local_run, 1, "average")["scores"]
    assert (told["split"], told["protocol"]) == ("valid", "average")
    assert set(snapshot(out)) == FILES
    assert snapshot(local_run) == before


def test_scores_are_made_anew_each_time(ecgfed: Command, run: Path) -> None:
    assert ecgfed("evaluate", run, "--quiet").code == 0
    first = snapshot(run / "evaluation-test")
    (run / "evaluation-test" / "old.csv").write_text("of yesterday")
    assert ecgfed("evaluate", run, "--quiet").code == 0
    again = snapshot(run / "evaluation-test")
    assert again["scores.json"] == first["scores.json"]
    assert set(again) == FILES


def test_a_folder_of_the_user_is_never_replaced(ecgfed: Command, run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    assert_refused(ecgfed("evaluate", run, "--out", mine), "--out", "mine", "not empty", "--overwrite")
    assert snapshot(mine) == {"thesis.tex": b"years of work"}
    assert_refused(ecgfed("evaluate", run, "--out", mine / "thesis.tex"), "--out", "is a file")
    refused = ecgfed("evaluate", run, "--out", mine, "--overwrite", "--quiet")
    assert_refused(refused, "thesis.tex", "which ecgfed did not write", "nothing was removed")
    assert snapshot(mine) == {"thesis.tex": b"years of work"}
    (mine / "thesis.tex").rename(mine / "scores.json")
    assert ecgfed("evaluate", run, "--out", mine, "--overwrite", "--quiet").code == 0
    assert set(snapshot(mine)) == FILES


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--split", "train"), ("--split", "'train'", "one of test, valid")),
        (("--split", "all"), ("--split", "'all'", "one of test, valid")),
        (("--global", "vote"), ("--global", "'vote'", "ensemble, average")),
        (("--cohort", "nowhere"), ("nowhere", "is not a folder", "a cohort")),
    ],
)
def test_a_bad_option(ecgfed: Command, run: Path, options: tuple[str, ...], fragments: tuple[str, ...]) -> None:
    before = snapshot(run)
    assert_refused(ecgfed("evaluate", run, *options, "--json"), *fragments)
    assert snapshot(run) == before


def test_a_cohort_that_has_moved_is_named_with_an_option(
    ecgfed: Command, run: Path, cohort_path: Path, tmp_path: Path
) -> None:
    begun_on = json.loads((run / "run.json").read_text())["cohort"]
    change_json(run / "run.json", cohort={**begun_on, "path": "/moved/away"})
    before = snapshot(run)
    assert_refused(ecgfed("evaluate", run), "/moved/away", "--cohort")
    assert_refused(ecgfed("export", run, "--out", tmp_path / "bundle"), "/moved/away", "--cohort")
    assert_refused(ecgfed("evaluate", run, "--cohort", other_cohort(tmp_path)), "another cohort", "--cohort")
    assert snapshot(run) == before
    assert ecgfed("evaluate", run, "--cohort", cohort_path, "--quiet").code == 0
    assert json.loads((run / "evaluation-test" / "scores.json").read_text())["scores"]["T_g"] > 0


def _spoilt_checkpoint(run: Path) -> None:
    file = next((run / "checkpoint").glob("server*"))
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("spoil", "fragments"),
    [
        (shutil.rmtree, ("run", "is not a folder", "ecgfed train")),
        (lambda run: shutil.rmtree(run / "checkpoint"), ("no finished round", "--resume")),
        (lambda run: change_json(run / "run.json", schema_version=0), ("run.json", "schema version 0", "expected 1")),
        (_spoilt_checkpoint, ("server.000002.safetensors", "not the file that was saved")),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_a_run_that_cannot_be_used(
    ecgfed: Command, run: Path, tmp_path: Path, command: str, spoil: Callable[[Path], None], fragments: tuple[str, ...]
) -> None:
    spoil(run)
    before = snapshot(run)
    assert_refused(ecgfed(command, run, "--out", tmp_path / "out"), *fragments)
    assert snapshot(run) == before
    assert not (tmp_path / "out").exists()


def test_a_history_that_is_none(ecgfed: Command, run: Path) -> None:
    (run / "history.jsonl").write_text("one\ntwo\n")
    before = snapshot(run)
    assert_refused(ecgfed("evaluate", run), "history.jsonl", "line 1 is no JSON")
    assert snapshot(run) == before


@pytest.mark.parametrize(("room", "file"), [(2_000, "scores.json"), (15_000, "learning_curves.png")])
def test_a_full_disk(run: Path, room: int, file: str) -> None:
    """Full at the first file, and full at the last, after the others were written: nothing new either way."""
    before = snapshot(run)
    assert_full_disk(run_limited(room, "evaluate", run, "--json"), file)
    assert snapshot(run) == before
    assert not (run / "evaluation-test").exists()


def test_a_full_disk_keeps_the_evaluation_before(ecgfed: Command, run: Path) -> None:
    assert ecgfed("evaluate", run, "--quiet").code == 0
    before = snapshot(run)
    assert_full_disk(run_limited(2_000, "evaluate", run, "--quiet"), "scores.json")
    assert snapshot(run) == before
