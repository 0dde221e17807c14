"""Two processes on one folder, and processes killed at every step: nothing is lost, nothing is mixed."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import Forks
from support import copied, snapshot

import ecgfed
from ecgfed.base import files
from ecgfed.base.errors import StorageError
from ecgfed.base.files import backup_path, recover
from ecgfed.base.locks import LockedError, locked

STARTS = 50
TOY = {"rounds": 2, "local_steps": 1, "width": 0.34, "method": "fedavg", "eval_every": 0, "batch_size": 8, "workers": 1}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as made:
        yield made


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def assert_held(said: tuple[int, str]) -> None:
    code, text = said
    assert code == 2, said
    assert re.search(r": is in use by (process \d+ on [\w.-]+ since \d{4}-.* UTC|another process); wait for it", text)


def test_one_lock_a_folder_and_it_says_who_has_it(tmp_path: Path) -> None:
    with locked(tmp_path / "out"):
        said = rf"out: is in use by process {os.getpid()} \(this one\) on .* since"
        with pytest.raises(LockedError, match=said), locked(tmp_path / "out"):
            pytest.fail("must not come this far")
        with locked(tmp_path / "other"):
            assert sorted(hidden(tmp_path)) == [".other.lock", ".out.lock"]
        (tmp_path / "link").symlink_to(tmp_path / "out")
        with pytest.raises(LockedError), locked(tmp_path / "link"):
            pytest.fail("must not come this far")
        (tmp_path / "link").unlink()
    assert list(tmp_path.iterdir()) == []


def test_some_share_a_lock_and_keep_others_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked(out, shared=True):
        with locked(out, shared=True), pytest.raises(LockedError), locked(out):
            pytest.fail("must not come this far")
        with pytest.raises(LockedError), locked(out):
            pytest.fail("must not come this far")
    with locked(out):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_in_a_folder_that_is_not_there_leaves_none(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b" / "out"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_a_lock_file_is_not_believed(tmp_path: Path) -> None:
    import fcntl

    for text in ("", "{", "[1]", json.dumps({"process": 1, "host": "\x1b[31m", "since": "x"}), "[" * 5000):
        (tmp_path / ".out.lock").write_text(text)
        with (tmp_path / ".out.lock").open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(LockedError, match="in use by another process"), locked(tmp_path / "out"):
                pytest.fail("must not come this far")
    with locked(tmp_path / "out"):  # nobody holds what a kill left
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    (tmp_path / "out").mkdir()
    (tmp_path / ".out.lock").symlink_to(tmp_path / "mine")
    with locked(tmp_path / "out"), pytest.raises(LockedError), locked(tmp_path / "out"):
        pytest.fail("must not come this far")
    (tmp_path / ".out.lock").unlink()
    os.mkfifo(tmp_path / ".out.lock")
    with locked(tmp_path / "out"):
        pass
    assert (tmp_path / "mine").read_text() == "keep"


def test_a_link_to_a_file_is_locked_where_it_will_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("keep")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "file")
    with locked(tmp_path / "link"):
        assert (tmp_path / ".link.lock").is_file()
        assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]


def test_a_disk_without_locks_locks_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import fcntl

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with locked(tmp_path / "out") as there:
        assert not there
    files.write_text(tmp_path / "a", "1")
    assert (tmp_path / "a").read_text() == "1"


def test_leftovers_go_when_their_maker_is_gone_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / ".123-0a1b2c3d.out.partial").mkdir()
    (tmp_path / ".123-0a1b2c3d.outer.partial").mkdir()  # another folder's
    with files.replacing_folder(out) as partial:
        assert sorted(hidden(tmp_path)) == sorted([partial.name, ".123-0a1b2c3d.outer.partial", ".out.lock"])
        with pytest.raises(StorageError, match="in use"), files.replacing_folder(out):
            pytest.fail("must not come this far")
        assert partial.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".123-0a1b2c3d.outer.partial", "out"]


@pytest.mark.parametrize("name", ["n" * 240, "ä" * 120])
def test_a_long_name_has_a_lock_and_a_temporary_name_too(tmp_path: Path, name: str) -> None:
    for _ in range(2):
        with files.replacing_folder(tmp_path / name, overwrite=True, markers=("a",)) as partial:
            files.write_text(partial / "a", "1")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_second_process_is_refused_and_the_first_goes_on(tmp_path: Path, forks: Forks) -> None:
    answers = forks.run(*(("make", {"out": str(tmp_path / "out"), "mark": mark}) for mark in "ab"))
    assert sorted(code for code, _ in answers) == [0, 2]
    assert len({path.read_text() for path in (tmp_path / "out").iterdir()}) == 1
    assert hidden(tmp_path) == []


def test_a_killed_holder_holds_nothing(tmp_path: Path, forks: Forks) -> None:
    ((code, _),) = forks.run(("make", {"out": str(tmp_path / "out"), "mark": "a"}), kill_at=3)
    assert code == -9
    assert ".out.lock" in hidden(tmp_path)
    assert forks.run(("make", {"out": str(tmp_path / "out"), "mark": "b"})) == [(0, "")]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("no_exchange", [False, True])
def test_a_folder_is_old_or_new_wherever_its_overwrite_is_killed(
    tmp_path: Path, forks: Forks, no_exchange: bool
) -> None:
    """kill -9 before each call that changes the disk; what is opened then is whole, and the next overwrite works."""
    out = tmp_path / "out"
    found: list[str] = []
    for step in range(200):
        forks.run(("make", {"out": str(out), "mark": "old", "overwrite": True}))
        options = {"out": str(out), "mark": "new", "overwrite": True, "no_exchange": no_exchange}
        ((code, _),) = forks.run(("make", options), kill_at=step)
        recover(out, "19.txt")
        (mark,) = {path.read_text() for path in out.iterdir()}
        assert len(list(out.iterdir())) == 20
        assert not backup_path(out).exists()
        found.append(mark)
        if code == 0:
            break
    assert found[0] == "old"
    assert found[-1] == "new"
    assert found == sorted(found, reverse=True)  # once new, it stays new
    assert len(found) > 10


def test_a_run_that_is_trained_is_left_alone_by_everybody_else(
    cohort_path: Path, fedavg_run: Path, tmp_path: Path
) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    before = snapshot(run)
    with locked(run):
        for refused in (
            lambda: ecgfed.train(cohort_path, run, resume=True, rounds=3),
            lambda: ecgfed.train(cohort_path, run, overwrite=True, **TOY),  # type: ignore[arg-type]
            lambda: ecgfed.train(cohort_path, run, **TOY),  # type: ignore[arg-type]
            lambda: ecgfed.evaluate(run, split="valid"),
        ):
            with pytest.raises(LockedError, match="is in use by process"):
                refused()
        assert snapshot(run) == before
        ecgfed.evaluate(run, split="valid", out=tmp_path / "scores", local_models=False)
        ecgfed.export(run, tmp_path / "bundle")
        assert snapshot(run) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "run", "scores"]


def test_an_aborted_overwrite_is_undone_when_the_run_is_opened(
    cohort_path: Path, fedavg_run: Path, tmp_path: Path
) -> None:
    """What a kill leaves: the old run aside, the new one begun. Neither is touched while somebody is at work."""
    old, run = copied(fedavg_run, tmp_path / ".run.replaced"), tmp_path / "run"
    run.mkdir()
    shutil.copy(old / "run.json", run / "run.json")
    with locked(run):
        assert ecgfed.open_run(run).store.rounds() == 0
        assert old.is_dir()
    assert ecgfed.open_run(run).store.rounds() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    run.rename(old)  # the kill came between two renames
    assert ecgfed.train(cohort_path, run, resume=True).store.rounds() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
@pytest.mark.parametrize("before", ["seed 0", "nothing"])
def test_a_run_is_old_or_new_wherever_its_overwrite_is_killed(
    cohort_path: Path, tmp_path: Path, forks: Forks, before: str
) -> None:
    run = tmp_path / "run"
    found = []
    old = tmp_path / "old"
    ecgfed.train(cohort_path, old, **TOY)  # type: ignore[arg-type]
    for step in range(0, 300, 1 if before == "seed 0" else 3):
        shutil.rmtree(run, ignore_errors=True)
        shutil.rmtree(backup_path(run), ignore_errors=True)
        if before == "seed 0":
            shutil.copytree(old, run)
        options = {**TOY, "rounds": 1, "cohort": str(cohort_path), "out": str(run), "seed": 1, "overwrite": True}
        ((code, _),) = forks.run(("train", options), kill_at=step)
        if before == "nothing" and not (run / "run.json").is_file():
            assert forks.run(("train", options))[0][0] == 0, step  # what is left is in nobody's way
            found.append((0, 2))
            continue
        opened = ecgfed.open_run(run)
        found.append((opened.plan.seed, opened.store.rounds()))
        if before == "seed 0":
            opened.state()
            assert found[-1] in ((0, 2), (1, 1)), step
            assert not backup_path(run).exists()
        if code == 0:
            break
    assert found[-1] == (1, 1)
    assert before == "nothing" or found[0] == (0, 2)


@pytest.mark.slow
def test_two_trainings_into_one_folder(cohort_path: Path, tmp_path: Path, forks: Forks) -> None:
    for number in range(STARTS):
        run = tmp_path / str(number)
        calls = [("train", {**TOY, "cohort": str(cohort_path), "out": str(run), "seed": seed}) for seed in (1, 2)]
        said = forks.run(*calls)
        assert sorted(code for code, _ in said) == [0, 2], said
        winner = 1 + [code for code, _ in said].index(0)
        refused = next(answer for answer in said if answer[0] == 2)
        if "is not empty" not in refused[1]:  # the second came when the first was through
            assert_held(refused)
        opened = ecgfed.open_run(run)
        assert (opened.plan.seed, opened.store.rounds()) == (winner, 2)
        opened.state()
        shutil.rmtree(run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_that_go_on_with_one_run(cohort_path: Path, tmp_path: Path, forks: Forks) -> None:
    ecgfed.train(cohort_path, tmp_path / "begun", **{**TOY, "rounds": 1})  # type: ignore[arg-type]
    ecgfed.train(cohort_path, tmp_path / "whole", **{**TOY, "rounds": 3})  # type: ignore[arg-type]
    whole = (tmp_path / "whole" / "history.jsonl").read_bytes()
    both = 0
    for number in range(STARTS):
        run = tmp_path / str(number)
        shutil.copytree(tmp_path / "begun", run)
        call = ("train", {"cohort": str(cohort_path), "out": str(run), "rounds": 3, "resume": True, "workers": 1})
        said = forks.run(call, call)
        codes = sorted(code for code, _ in said)
        assert codes in ([0, 2], [0, 0]), said  # the second may come when the first is through: nothing is left to do
        both += codes == [0, 0]
        for answer in said:
            if answer[0]:
                assert_held(answer)
        assert (run / "history.jsonl").read_bytes() == whole
        assert ecgfed.open_run(run).store.rounds() == 3
        shutil.rmtree(run)
    assert both < STARTS
    assert hidden(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_two_that_prepare_into_one_folder(records: Path, tmp_path: Path, forks: Forks, overwrite: bool) -> None:
    for number in range(STARTS):
        out = tmp_path / str(number)
        if overwrite:
            ecgfed.prepare_folder(records, out, seed=7, workers=1)
        options = {"directory": str(records), "out": str(out), "workers": 1, "overwrite": overwrite}
        said = forks.run(*(("prepare_folder", {**options, "seed": seed}) for seed in (1, 2)))
        codes = [code for code, _ in said]
        assert sorted(codes) in ([0, 2], [0, 0] if overwrite else [0, 2]), said
        cohort = ecgfed.open_cohort(out)
        if sorted(codes) == [0, 2]:
            assert cohort.meta["seed"] == 1 + codes.index(0)
        for name, digest in cohort.meta["sha256"].items():
            assert hashlib.sha256(cohort.arrays[name].tobytes()).hexdigest() == digest
        shutil.rmtree(out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_evaluates_what_another_replaces(cohort_path: Path, tmp_path: Path, forks: Forks) -> None:
    ecgfed.train(cohort_path, tmp_path / "old", **TOY)  # type: ignore[arg-type]
    for number in range(STARTS):
        run = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", run)
        new = {**TOY, "cohort": str(cohort_path), "out": str(run), "seed": 1, "rounds": 1, "overwrite": True}
        said = forks.run(("evaluate", {"run": str(run), "split": "valid", "workers": 1}), ("train", new))
        assert all(code in (0, 2) for code, _ in said), said
        assert any(code == 0 for code, _ in said), said
        opened = ecgfed.open_run(run)
        opened.state()
        assert opened.plan.seed == (1 if said[1][0] == 0 else 0)
        scores = run / "evaluation-valid" / "scores.json"
        if scores.is_file():
            assert json.loads(scores.read_text())["round"] == opened.store.rounds()
        assert not backup_path(run).exists()
        shutil.rmtree(run)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
