"""A batch of predictions that is killed goes on with ``--resume``, and ends as one that was not."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Said, write_record
from forked import Forks
from support import assert_refused, change_manifest, copied, exported, snapshot

import ecgfed as front
from ecgfed.base.errors import OptionError
from ecgfed.base.locks import locked
from ecgfed.tasks import batch_work as module
from ecgfed.tasks.batch_state import STATE
from ecgfed.tasks.predict import ENDINGS
from ecgfed.tasks.progress import ProgressReporter


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as made:
        yield made


@pytest.fixture
def batch(records: Path, fedavg_run: Path, tmp_path: Path) -> dict[str, Any]:
    """Three recordings, one of them in a sub-folder, and a broken one: what a call of them is given."""
    root = tmp_path / "in"
    for name, to in (("p1", root), ("p2", root / "day"), ("p3", root)):
        to.mkdir(parents=True, exist_ok=True)
        for end in ("hea", "dat", "atr"):
            (to / f"{name}.{end}").write_bytes((records / f"{name}.{end}").read_bytes())
    (root / "broken.edf").write_bytes(b"0       ")
    return {"records": str(root), "out": str(tmp_path / "out"), "bundle": str(exported(fedavg_run))}


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the recordings that a batch reads, one after the other."""
    names: list[str] = []
    real = module.predict

    def counted(**options: Any) -> front.Predictions:
        names.append(Path(options["recording"]).name)
        return real(**options)

    monkeypatch.setattr(module, "predict", counted)
    return names


class StopsAfter(ProgressReporter):
    """Somebody presses Ctrl-C after so many recordings."""

    def __init__(self, many: int) -> None:
        self.many = many

    def update(self, what: str, completed: int, *more: object, **others: object) -> None:
        if what == "recordings" and completed == self.many:
            raise KeyboardInterrupt


def stopped(batch: dict[str, Any], after: int = 3, **more: Any) -> None:
    """Begin a batch, and stop it: the broken recording comes first, p2 second, p1 third."""
    with pytest.raises(KeyboardInterrupt):
        front.predict_batch(**batch, **more, progress=StopsAfter(after))


def test_a_batch_goes_on_where_it_was_stopped(batch: dict[str, Any], predicted: list[str]) -> None:
    out = Path(batch["out"])
    whole = front.predict_batch(**batch)
    assert predicted == ["broken.edf", "p2", "p1", "p3"]
    expected = snapshot(out)
    assert STATE not in expected
    shutil.rmtree(out)
    stopped(batch)
    assert set(snapshot(out)) == set(expected) - {
        "predictions.summary.json",
        *(f"p3.{ending}" for ending in ENDINGS),
    } | {STATE}
    predicted.clear()
    again = front.predict_batch(**batch, resume=True)
    assert predicted == ["broken.edf", "p3"], "what failed is tried again"
    assert snapshot(out) == expected
    assert again.to_dict() == whole.to_dict()


def test_what_has_changed_is_done_again(batch: dict[str, Any], records: Path, predicted: list[str]) -> None:
    """A signal, an annotation that came, predictions that somebody wrote into, a line that was cut off."""
    root, out = Path(batch["records"]), Path(batch["out"])
    (root / "p1.atr").unlink()
    write_record(root, "p1", "NV" * 30, seed=9, annotate=False)
    stopped(batch, 4)
    held = (out / STATE).read_bytes()
    assert [json.loads(line).get("file") for line in held.splitlines()] == [None, "day/p2", "p1", "p3"]

    def again() -> list[str]:
        (out / STATE).write_bytes(held)
        predicted.clear()
        front.predict_batch(**batch, resume=True)
        return predicted[1:]

    assert again() == []
    (out / "p3.csv").write_text("mine")
    assert again() == ["p3"]
    (out / "day" / "p2.json").unlink()
    assert again() == ["p2"]
    (root / "p1.atr").write_bytes((records / "p1.atr").read_bytes())
    assert again() == ["p1"]
    for end in ("hea", "dat"):
        (root / f"p1.{end}").write_bytes((records / f"p1.{end}").read_bytes())
    assert again() == ["p1"]
    shutil.copytree(out, out.with_name("kept"))
    whole = held
    for theirs in (b'"grave_warnings": ["<b>"], "was": ', b'"grave_warnings": [7], "was": '):
        held = whole.replace(b'"grave_warnings": ', theirs)  # a code that nobody knows
        assert again() == ["p2", "p1", "p3"]
    held = whole.replace(b'"lead": ', b'"led": ')
    assert again() == ["p2", "p1", "p3"]
    held = whole[:-30]
    assert again() == ["p1", "p3"]
    held = held.replace(b'"beats": ', b'"beat": ')
    assert again() == ["p2", "p1", "p3"]
    assert snapshot(out) == snapshot(out.with_name("kept"))


@pytest.mark.parametrize("kind", ["endless", "loop", "pipe", "sparse"])
def test_predictions_that_are_no_file_of_ours_are_done_again(
    batch: dict[str, Any], predicted: list[str], kind: str
) -> None:
    """An endless device was hashed for ever, a link to itself was a traceback."""
    file = Path(batch["out"]) / "p3.csv"
    stopped(batch, 4)
    expected = file.read_bytes()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "sparse":
        with file.open("wb") as stream:
            stream.truncate(1 << 40)
    else:
        file.symlink_to("/dev/zero" if kind == "endless" else file.name)
    predicted.clear()
    front.predict_batch(**batch, resume=True)
    assert predicted == ["broken.edf", "p3"]
    assert not file.is_symlink()
    assert file.read_bytes() == expected


@pytest.mark.parametrize("option", ["--resume", "--overwrite"])
def test_what_is_finished_is_no_link_out_of_the_folder(
    ecgfed: Callable[..., Said], batch: dict[str, Any], tmp_path: Path, option: str
) -> None:
    stopped(batch)
    out = Path(batch["out"])
    away = (out / STATE).rename(tmp_path / "away.jsonl")
    (out / STATE).symlink_to(away)
    before, theirs = snapshot(out), away.read_bytes()
    said = ecgfed("predict", batch["records"], "--bundle", batch["bundle"], "--out", out, option)
    assert_refused(said, STATE, "is a link out of its folder", "put a copy in its place")
    assert (snapshot(out), away.read_bytes()) == (before, theirs)


def test_a_prediction_that_is_a_link_is_done_again(batch: dict[str, Any], predicted: list[str], tmp_path: Path) -> None:
    stopped(batch, 4)
    file = Path(batch["out"]) / "p3.csv"
    away = file.rename(tmp_path / "away.csv")
    file.symlink_to(away)
    predicted.clear()
    front.predict_batch(**batch, resume=True)
    assert predicted == ["broken.edf", "p3"]
    assert not file.is_symlink()


def test_what_cannot_be_gone_on_with_is_one_line(
    ecgfed: Callable[..., Said], batch: dict[str, Any], tmp_path: Path
) -> None:
    out = Path(batch["out"])
    call = ("predict", batch["records"], "--bundle", batch["bundle"], "--out", out)
    assert_refused(ecgfed(*call, "--resume"), "--resume: ", "holds no unfinished batch", "leave --resume out")
    assert not out.exists()
    assert_refused(ecgfed("predict", f"{batch['records']}/p1", *call[2:], "--resume"), "--resume: ", "is one recording")
    stopped(batch)
    before = snapshot(out)
    assert_refused(ecgfed(*call), "--out: ", "holds an unfinished batch", "--resume", "--overwrite")
    assert_refused(ecgfed(*call, "--resume", "--overwrite"), "--resume and --overwrite: both given")
    for option, said in (
        (("--lead", "V1"), 'was started with --lead none, not ["V1"]'),
        (("--patient", "p1"), 'was started with --patient none, not "p1"'),
        (("--peaks", "annotated"), 'was started with --peaks "detected", not "annotated"'),
        (("--detector", "xqrs"), "was started with --detector "),
        (("--strip-at", "3"), "was started with --strip false, not true"),
        (("--fs", "360"), "was started with --fs none, not 360.0"),
        (("--force",), "was started with --force false, not true"),
    ):
        assert_refused(ecgfed(*call, *option, "--resume"), f"--resume: {out} {said}", "pass --overwrite to start again")
    moved = copied(Path(batch["bundle"]), tmp_path / "moved" / Path(batch["bundle"]).name)
    change_manifest(moved, settings={})
    assert_refused(
        ecgfed(*call[:2], "--bundle", moved, *call[4:], "--resume"), "was started with another bundle of this name"
    )
    with locked(out):
        for option in (("--resume",), ("--overwrite",)):
            assert_refused(ecgfed(*call, *option), f"{out}: is in use by process")
    assert snapshot(out) == before
    (out / STATE).write_bytes(b"{}\n")
    with pytest.raises(OptionError, match=r"is damaged; .* pass overwrite=True to start again"):
        front.predict_batch(**batch, resume=True)
    said = ecgfed(*call, "--overwrite", "--quiet")
    assert said.code == 1
    assert not (out / STATE).exists()


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_it_ends_the_same(batch: dict[str, Any], forks: Forks, every: int) -> None:
    """A kill before one of the calls that change a disk."""
    out = Path(batch["out"])
    front.predict_batch(**batch)
    expected = snapshot(out)
    shutil.rmtree(out)
    step, killed = 0, 0
    while True:
        ((code, said),) = forks.run(("predict_batch", batch), kill_at=step)
        if code == 0:
            break
        assert code == -9, said
        killed += 1
        begun = (out / STATE).exists()
        front.predict_batch(**batch, resume=begun, overwrite=not begun)
        found = snapshot(out)
        assert found == expected, (step, set(found) ^ set(expected))
        shutil.rmtree(out)
        step += every
    assert snapshot(out) == expected
    assert killed > 3
