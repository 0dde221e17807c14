"""What the benchmarks share, and that every script which a page names is there and starts."""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

from ecgfed.base.errors import DivergedError, OptionError, RunError
from ecgfed.domain.cohort.cohort import open_cohort

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "benchmarks").rglob("*.md"))]
SCRIPT = re.compile(r"python (benchmarks/[a-z_0-9]+/\w+\.py)")
NAMED = sorted({name for page in PAGES for name in SCRIPT.findall(page.read_text())})
PLAN = {"method": "fedavg", "local_steps": 1, "batch_size": 16, "eval_every": 0, "workers": 1}


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import common

    return common


def history(run: Path) -> str:
    return (run / "history.jsonl").read_text()


def contents(run: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}


def test_training_goes_on_and_passes_by_what_is_finished(common: ModuleType, cohort_path: Path, tmp_path: Path) -> None:
    cohort = open_cohort(cohort_path)
    common.trained(cohort, tmp_path / "whole", rounds=2, **PLAN)
    run = common.trained(cohort, tmp_path / "run", rounds=1, **PLAN)
    assert len(history(run.path).splitlines()) == 1
    common.trained(cohort, tmp_path / "run", rounds=2, **PLAN)
    assert history(run.path) == history(tmp_path / "whole")
    before = contents(run.path)
    assert common.trained(cohort, run.path, rounds=2, **PLAN).store.rounds() == 2
    assert contents(run.path) == before


def test_a_run_that_was_begun_with_other_options_is_refused(
    common: ModuleType, cohort_path: Path, tmp_path: Path
) -> None:
    cohort = open_cohort(cohort_path)
    common.trained(cohort, tmp_path / "run", rounds=1, **PLAN)
    for other in ({"local_steps": 2}, {"method": "local"}, {"seed": 1}, {"rr": False}, {"settings": {"lr": 0.3}}):
        with pytest.raises(RunError, match="was begun with"):
            common.trained(cohort, tmp_path / "run", rounds=1, **{**PLAN, **other})


def test_scores_are_read_until_the_run_goes_on(common: ModuleType, cohort_path: Path, tmp_path: Path) -> None:
    cohort = open_cohort(cohort_path)
    run = common.trained(cohort, tmp_path / "run", rounds=1, **PLAN)
    first = common.scored(run, "valid", workers=1)
    file = run.path / "evaluation-valid" / "scores.json"
    stored = json.loads(file.read_text())
    assert (stored.pop("schema_version"), len(stored.pop("run_identity"))) == (2, 64)
    assert stored == {**first, "run": run.path.name}
    file.write_text(json.dumps({**first, "marked": True}))
    assert common.scored(run, "valid")["marked"]
    longer = common.trained(cohort, run.path, rounds=2, **PLAN)
    again = common.scored(longer, "valid", workers=1)
    assert "marked" not in again
    assert again["round"] == 2


def test_a_cohort_is_made_once_and_for_one_question(common: ModuleType, records: Path, tmp_path: Path) -> None:
    asked = {"verb": "prepare_folder", "holdout": ("p4",), "workers": 1}
    made = common.prepared(records, tmp_path / "work", **asked)
    again = common.prepared(None, tmp_path / "work", **asked)
    assert (again.fingerprint, len(again.federation)) == (made.fingerprint, 3)
    with pytest.raises(OptionError, match="was prepared with"):
        common.prepared(records, tmp_path / "work", **{**asked, "holdout": ()})
    with pytest.raises(OptionError, match="source: is missing"):
        common.prepared(None, tmp_path / "other")


def test_results_name_their_command_and_no_folder_and_no_date(
    common: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "grp_fed" / "run.py")])
    given = argparse.Namespace(
        source=Path("/a"),
        work=Path("/b"),
        results=tmp_path / "one.json",
        passes=60.0,
        seeds=[0, 1],
        only=None,
        collect=True,
        local_steps=4,
        workers=8,
        no_checkpoint=True,
        quick=False,
    )
    common.save(given, {"rows": [{"T_g": 0.5}]})
    text = given.results.read_text()
    command = "python benchmarks/grp_fed/run.py --passes 60 --seeds 0 1 --local-steps 4 --no-checkpoint"
    stored = json.loads(text)
    assert stored.pop("environment") == common.environment()
    assert stored == {"command": command, "rows": [{"T_g": 0.5}]}
    given.results = tmp_path / "two.json"
    common.save(given, {"rows": [{"T_g": 0.5}]})
    assert given.results.read_text() == text


def test_the_page_of_benchmarks_has_a_row_for_each() -> None:
    folders = {
        file.parent.name for file in (ROOT / "benchmarks").glob("*/*.py") if not file.with_name("__init__.py").is_file()
    }
    text = (ROOT / "benchmarks" / "README.md").read_text()
    assert {name for name in folders if f"\n| `{name}` | " not in text} == set()


def test_pages_name_scripts_that_are_there() -> None:
    assert len(NAMED) >= 14
    for name in NAMED:
        assert (ROOT / name).is_file(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_a_script_starts_from_any_folder(name: str, tmp_path: Path) -> None:
    if name.startswith(("benchmarks/network/", "benchmarks/beside/")):
        pytest.importorskip("flwr", reason="the script imports the network: needs Flower")
    done = subprocess.run([sys.executable, ROOT / name, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


@pytest.mark.parametrize("name", ["cost", "faults", "mitbih"])
def test_a_script_of_the_network_says_that_it_needs_flower(name: str) -> None:
    if importlib.util.find_spec("flwr") is not None:
        pytest.skip("Flower is here")
    command = [sys.executable, ROOT / "benchmarks" / "network" / f"{name}.py", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "this script needs Flower: 'make flower', then run it with .venv-flower/bin/python\n"


@pytest.mark.slow
def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "fed_rod" / "run.py"
    command = [sys.executable, script, "--source", tmp_path / "none", "--work", tmp_path, "--results", tmp_path / "r"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "none" in done.stderr


REMEMBER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from common import remembered
for number in range(20):
    remembered(Path(sys.argv[2]), f"{sys.argv[3]}/{number}", lambda: {"score": number})
"""


def test_two_scripts_at_once_lose_no_finished_run(tmp_path: Path) -> None:
    runs = tmp_path / "runs.json"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", REMEMBER, str(ROOT / "benchmarks"), str(runs), name], stdout=subprocess.DEVNULL
        )
        for name in ("one", "other")
    ]
    assert [one.wait(120) for one in both] == [0, 0]
    known = json.loads(runs.read_text())
    assert known == {f"{name}/{number}": {"score": number} for name in ("one", "other") for number in range(20)}
    assert [file.name for file in tmp_path.iterdir()] == ["runs.json"]


def test_a_finished_run_of_another_cohort_is_refused(common: ModuleType, cohort_path: Path, tmp_path: Path) -> None:
    cohort, file = open_cohort(cohort_path), tmp_path / "runs.json"
    first = common.remembered(file, "a", lambda: {"score": 1}, cohort)
    assert first == {"score": 1, "cohort": cohort.fingerprint}
    assert common.remembered(file, "a", lambda: {"score": 2}, cohort) == first
    for other in ({"score": 3, "cohort": "0" * 64}, {"score": 3}):
        file.write_text(json.dumps({"a": other}))
        with pytest.raises(RunError, match="of another cohort"):
            common.remembered(file, "a", lambda: {"score": 4}, cohort)
        assert json.loads(file.read_text()) == {"a": other}
    file.write_text("[1]")
    with pytest.raises(RunError, match="something else than finished runs"):
        common.known_runs(file)


def test_a_diverging_trial_is_a_result_and_another_error_is_none(cohort_path: Path, tmp_path: Path) -> None:
    run = load_script(ROOT / "benchmarks" / "table1" / "run.py")
    cohort, given = open_cohort(cohort_path), argparse.Namespace(known=False, prefix="")
    run.RUNS = tmp_path / "runs.json"

    def diverges() -> dict[str, object]:
        raise DivergedError("client p1 in round 1", "loss is nan")

    def broken() -> dict[str, object]:
        raise RunError(tmp_path, "lacks rounds")

    assert (
        run.known_or_made(cohort, given, "tune/Local/0/0", diverges)["stopped"] == "client p1 in round 1: loss is nan"
    )
    with pytest.raises(RunError, match="lacks rounds"):
        run.known_or_made(cohort, given, "tune/Local/1/0", broken)
    assert list(json.loads(run.RUNS.read_text())) == ["tune/Local/0/0"]
    scores = {"T_l": 0.2}
    for trial in (1, 2):
        settings = run.ROWS["Local"].trials[trial]
        run.known_or_made(cohort, given, f"tune/Local/{trial}/0", lambda s=settings: {"settings": s, "scores": scores})
    assert run.tuned(cohort, given, "Local") == run.ROWS["Local"].trials[1], "the first of those that did not diverge"
    run.known_or_made(cohort, given, "tune/FedAvg/0/0", lambda: {"settings": {"lr": 9}, "scores": scores})
    with pytest.raises(RunError, match="remove that run"):
        run.tuned(cohort, given, "FedAvg")


def test_another_split_has_folders_and_results_of_its_own(common: ModuleType, tmp_path: Path) -> None:
    """Nothing that is on the pages, of the random split of seed 0, is written over."""
    asked = {"work": tmp_path, "results": tmp_path / "results.json", "split": None, "split_seed": None}

    def of(**changed: object) -> tuple[object, ...]:
        found = common.of_split(argparse.Namespace(**{**asked, **changed}))
        return found.prepare, found.prefix, found.work.name, found.results.name

    assert of() == of(split_seed=0) == ({}, "", tmp_path.name, "results.json")
    by_time = ({"split": "chronological"}, "chronological/", "chronological", "results-chronological.json")
    assert of(split="chronological") == by_time
    assert of(split_seed=2) == ({"seed": 2}, "split-2/", "split-2", "results-split-2.json")
    with pytest.raises(OptionError, match="split-seed"):
        of(split="chronological", split_seed=2)
