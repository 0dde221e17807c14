"""``ecgfed runs list`` and ``ecgfed runs show``."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support import Command, assert_refused, copied

from ecgfed.core.federation.progress import ProgressCallback, TrainingProgress
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import RoundOutcome
from ecgfed.core.runs.tensorboard import WriteTensorBoard


@pytest.fixture
def folder(cohort_path: Path, fedavg_run: Path, ecgfed: Command, tmp_path: Path) -> Path:
    """Three runs and something else: a finished one, one that was begun for more rounds, one that is spoilt."""
    runs = tmp_path / "runs"
    copied(fedavg_run, runs / "a" / "finished")
    shutil.copytree(cohort_path, runs / "cohort")
    shutil.copytree(fedavg_run, runs / ".hidden")
    command = ("train", cohort_path, "--method", "local", "--rounds", 2, "--local-steps", 1, "--width", 0.35, "--quiet")
    assert ecgfed(*command, "--eval-every", 1, "--out", runs / "b").code == 0
    meta = json.loads((runs / "b" / "run.json").read_text())
    meta["plan"]["rounds"] = 9
    (runs / "b" / "run.json").write_text(json.dumps(meta))
    copied(fedavg_run, runs / "spoilt")
    (runs / "spoilt" / "checkpoint" / "progress.json").write_text("{")
    return runs


def test_list(ecgfed: Command, folder: Path) -> None:
    rows = json.loads(ecgfed("runs", "list", folder, "--json").out)
    assert [Path(row["run"]).relative_to(folder).as_posix() for row in rows] == ["a/finished", "b", "spoilt"]
    first, second, third = rows
    assert (first["method"], first["rounds_done"], first["rounds"], first["state"]) == ("fedavg", 2, 2, "finished")
    assert first["passes"] == pytest.approx(2.0)
    assert first["valid_T_p"] is None  # its training scored nothing
    assert (second["method"], second["rounds_done"], second["rounds"]) == ("local", 2, 9)
    assert second["state"] == "unfinished"
    last = json.loads((folder / "b" / "history.jsonl").read_text().splitlines()[-1])
    assert second["valid_T_p"] == last["valid_T_p"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", second["saved"])
    assert third["state"] == "unreadable"
    assert "progress.json" in third["problem"]
    said = ecgfed("runs", "list", folder)
    assert (said.code, said.err) == (0, "")
    for fragment in ("a/finished", "2/2", "2/9", f"{last['valid_T_p']:.3f}", "unfinished", "unreadable"):
        assert fragment in said.out


def test_list_where_there_is_none(ecgfed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ecgfed("runs", "list").out == "No runs below '.'.\n"
    assert json.loads(ecgfed("runs", "list", tmp_path, "--json").out) == []
    assert_refused(ecgfed("runs", "list", tmp_path / "nowhere"), "DIR", "nowhere is not a folder")


def test_a_run_without_a_finished_round(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    shutil.rmtree(run / "checkpoint")
    (row,) = json.loads(ecgfed("runs", "list", tmp_path, "--json").out)
    assert (row["rounds_done"], row["passes"], row["saved"], row["state"]) == (0, 0.0, None, "unfinished")
    assert ecgfed("runs", "show", run).code == 0


def test_show(ecgfed: Command, folder: Path) -> None:
    about = json.loads(ecgfed("runs", "show", folder / "b", "--json").out)
    meta = json.loads((folder / "b" / "run.json").read_text())
    assert {name: about[name] for name in ("settings", "plan", "net")} == {
        name: meta[name] for name in ("settings", "plan", "net")
    }
    assert about["cohort"]["clients"] == 4
    assert about["cohort"]["fingerprint"] == meta["cohort"]["fingerprint"]
    assert list(about["valid"]) == ["1", "2"]
    timing = [json.loads(line) for line in (folder / "b" / "timing.jsonl").read_text().splitlines()]
    owner, split = (np.load(folder / "cohort" / f"{name}.npy") for name in ("client", "split"))
    one_step = sum(min(16, int(n)) for n in np.bincount(owner[split == 0]))
    assert [line["examples"] for line in timing] == [one_step, one_step]
    seconds = [line["seconds"] for line in timing]
    assert about["speed"]["rounds_timed"] == 2
    assert about["speed"]["seconds_a_round"] == pytest.approx(sum(seconds) / 2)
    assert about["speed"]["samples_per_s"] == pytest.approx(sum(line["examples"] for line in timing) / sum(seconds))
    said = ecgfed("runs", "show", folder / "b")
    assert (said.code, said.err) == (0, "")
    words = " ".join(said.out.split())  # a long path folds its line anywhere
    for fragment in ("lr=0.02", "rounds=9", "4 clients", "2 of 9", "samples/s", "valid, round 2"):
        assert fragment in words


def test_show_tells_the_scores_of_an_evaluation(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    scores = json.loads(ecgfed("evaluate", run, "--json").out)["scores"]
    about = json.loads(ecgfed("runs", "show", run, "--json").out)
    assert about["evaluations"] == {"test": {"round": 2, **scores}}
    assert f"T_g {scores['T_g']:.3f}" in ecgfed("runs", "show", run).out
    assert ecgfed("evaluate", run, "--leave-out", "poor-quality", "--quiet").code == 0
    about = json.loads(ecgfed("runs", "show", run, "--json").out)
    assert set(about["evaluations"]) == {"test", "test-without-poor-quality"}


def test_quiet_prints_nothing(ecgfed: Command, fedavg_run: Path) -> None:
    for command in (("methods",), ("runs", "list", fedavg_run.parent), ("runs", "show", fedavg_run)):
        said = ecgfed(*command, "--quiet")
        assert (said.code, said.out, said.err) == (0, "", "")
        assert json.loads(ecgfed(*command, "--quiet", "--json").out)


def test_timing_of_an_earlier_version_has_no_beats(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    (run / "timing.jsonl").write_text('{"round": 1, "seconds": 0.5}\n{"round": 2, "seconds": 1.5}\n')
    speed = json.loads(ecgfed("runs", "show", run, "--json").out)["speed"]
    assert (speed["seconds_a_round"], speed["samples_per_s"]) == (1.0, None)
    assert "1.00 s a round (median of 2), - samples/s" in ecgfed("runs", "show", run).out


def test_show_refuses(ecgfed: Command, folder: Path, tmp_path: Path) -> None:
    assert_refused(ecgfed("runs", "show", tmp_path / "nowhere"), "is not a folder", "a run")
    assert_refused(ecgfed("runs", "show", folder / "cohort"), "holds no run.json")
    assert_refused(ecgfed("runs", "show", folder / "spoilt"), "progress.json", "cannot be read")


def test_speed_by_hand() -> None:
    """Rounds of 2 s with 100 beats, then of 4 s with 500; over the last two rounds only."""
    now = [10.0]
    told: list[TrainingProgress] = []
    report = ProgressCallback(10, told.append, window=2, clock=lambda: now[0])
    state = State(4, {})
    report.on_start(state)
    for seconds, beats in ((2.0, 100), (2.0, 100), (4.0, 500)):
        now[0] += seconds
        state.round += 1
        report.on_round(RoundOutcome(state, [], {}, beats, last=False))
    assert [(p.round, p.rounds) for p in told] == [(5, 10), (6, 10), (7, 10)]
    assert (told[0].rounds_per_s, told[0].samples_per_s, told[0].remaining_s) == (0.5, 50.0, 10.0)
    assert (told[2].rounds_per_s, told[2].samples_per_s) == (pytest.approx(2 / 6), pytest.approx(600 / 6))
    assert told[2].remaining_s == pytest.approx(9.0)


def test_tensorboard_that_is_not_installed(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    said = ecgfed("train", cohort_path, "--out", tmp_path / "run", "--tensorboard", tmp_path / "tb")
    assert_refused(said, "--tensorboard", "not installed", "ecgfed[tensorboard]")
    assert list(tmp_path.iterdir()) == []


def test_what_tensorboard_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the package, which CI does not install; see also the test below."""
    written: list[tuple[object, ...]] = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            written.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            written.append(("closed",))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    callback, state = WriteTensorBoard(tmp_path / "tb"), State(4, {})
    callback.on_start(state)
    state.round = 5
    record = {"round": 5, "loss_mean": 0.5, "worst_client": 3, "clients": [1, 2], "losses": {"loss": [0.1]}, "q": 1.0}
    callback.on_round(RoundOutcome(state, [], record, 10, last=True))
    callback.on_end(state)
    assert written == [(str(tmp_path / "tb"), 5), ("loss_mean", 0.5, 5), ("q", 1.0, 5), ("closed",)]


def test_tensorboard_reads_what_was_written(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    options = ("--rounds", 3, "--local-steps", 1, "--width", 0.35, "--quiet", "--tensorboard", tmp_path / "tb")
    assert ecgfed("train", cohort_path, "--out", tmp_path / "run", *options).code == 0
    events = accumulator.EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    lines = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    found = [(event.step, event.value) for event in events.Scalars("loss_mean")]
    assert found == [(line["round"], pytest.approx(line["loss_mean"])) for line in lines]
