"""What a power cut leaves: every state a disk may be in, from the calls that were made, is opened and gone on with."""

import filecmp
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from crash_disk import CrashDisk, states

import ecgfed
from ecgfed.base import files, platform
from ecgfed.base.errors import EcgfedError
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import RoundOutcome
from ecgfed.core.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines

ROUNDS, CLIENTS = 3, 3


def tree(client: int, number: int) -> dict[str, torch.Tensor]:
    return {"w": torch.full((20,), 100.0 * client + number)}


def save_rounds(disk: CrashDisk, run: Path, first: int, last: int, spill_bytes: int) -> None:
    """Train nothing: rounds that end with known numbers; odd clients take part every second round only."""
    store = CheckpointStore(run, "mine")
    state = store.load() if store.exists() else State(0, tree(-1, 0))
    saver, history = SaveCheckpoint(store, 2 if spill_bytes == 0 else 1, spill_bytes), WriteHistory(run)
    for callback in (history, saver):
        callback.on_start(state)
    for number in range(first, last + 1):
        changed = [client for client in range(CLIENTS) if client % 2 == 0 or number % 2]
        state.round, state.server = number, tree(-1, number)
        for client in changed:
            state.client_states[client], state.beats_used[client] = tree(client, number), number
        outcome = RoundOutcome(state, changed, {"round": number}, 1, last=number == last)
        for callback in (history, saver):
            callback.on_round(outcome)
        saver._writer.wait()  # type: ignore[union-attr]
        disk.promise = store.rounds()
    for callback in (history, saver):
        callback.on_end(state)


def check_run(run: Path, promise: int) -> None:
    """The last promised round, or a later one, is there whole, and the run goes on from it."""
    store = CheckpointStore(run, "mine")
    if not store.exists():
        assert promise == 0
        return
    state = store.load()
    assert state.round >= promise
    assert float(state.server["w"][0]) == -100 + state.round
    for client in range(CLIENTS):
        last = state.round if client % 2 == 0 else state.round - (state.round + 1) % 2
        assert float(state.client_states[client]["w"][0]) == 100 * client + last
    for name in (HISTORY, TIMING):
        lines = read_lines(run / name, state.round)
        assert [line["round"] for line in lines] == list(range(1, state.round + 1))
    before = state.round
    save_rounds(CrashDisk(run), run, before + 1, before + 2, 64 << 20)
    assert CheckpointStore(run, "mine").load().round == before + 2


@pytest.mark.parametrize("spill_bytes", [0, 64 << 20])
def test_a_checkpoint_survives_every_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spill_bytes: int
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "run").mkdir()
    disk = CrashDisk(tmp_path / "disk", promise=0)
    with monkeypatch.context() as patch:
        disk.watch(patch)
        save_rounds(disk, tmp_path / "disk" / "run", 1, ROUNDS, spill_bytes)
        moments = disk.finish()
    assert disk.violations == []
    assert disk.promise == ROUNDS
    count = 0
    monkeypatch.setattr(platform, "_sync", lambda *_: None)  # what the states go on to write is not the question
    for moment, root, what in states(moments, tmp_path, some=1):
        count += 1
        try:
            check_run(root / "run", moment.promise)
        except (AssertionError, EcgfedError) as problem:
            raise AssertionError(what) from problem
    assert count > 100


@pytest.mark.parametrize("lost", ["files", "folders"])
def test_the_disk_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Without the syncs of files, or of folders, states are found that cannot be gone on with."""
    (tmp_path / "disk" / "run").mkdir(parents=True)
    disk, real = CrashDisk(tmp_path / "disk", promise=0), platform._sync
    of_folder = lost == "folders"
    with monkeypatch.context() as patch:
        disk.watch(patch)
        patch.setattr(platform, "_sync", lambda path, flags: None if path.is_dir() == of_folder else real(path, flags))
        save_rounds(disk, tmp_path / "disk" / "run", 1, 2, 64 << 20)
        moments = disk.finish()
    assert disk.violations
    monkeypatch.setattr(platform, "_sync", lambda *_: None)
    failed = 0
    for moment, root, _ in states(moments, tmp_path, some=0):
        try:
            check_run(root / "run", moment.promise)
        except (AssertionError, EcgfedError):
            failed += 1
    assert failed


def make(path: Path, mark: str, **more: bool) -> None:
    """Make a folder of two files and a folder, one of which tells whether it is whole."""
    with files.replacing_folder(path, markers=("a.json",), **more) as partial:
        files.write_text(partial / "a.json", json.dumps(mark))
        (partial / "deeper").mkdir()
        for number in range(3):
            (partial / "deeper" / f"{number}.bin").write_bytes(mark.encode() * 20)


def read(path: Path) -> str:
    document = files.read_json(path / "a.json", EcgfedError)
    for number in range(3):
        assert (path / "deeper" / f"{number}.bin").read_bytes() == document.encode() * 20
    return str(document)


@pytest.mark.parametrize("system", ["exchanges", "cannot"])
def test_a_folder_is_the_old_or_the_new_one_after_every_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    make(root / "out", "old")
    disk = CrashDisk(root, promise={"old", "new"})
    with monkeypatch.context() as patch:
        disk.watch(patch)
        if system == "cannot":
            patch.setattr(files, "atomic_swap", lambda *_: False)
        make(root / "out", "new", overwrite=True)
        disk.promise = {"new"}
        moments = disk.finish()
    assert disk.violations == []
    found = set()
    for moment, state, what in states(moments, tmp_path, some=0):
        files.recover(state / "out", "a.json")
        assert (state / "out").is_dir(), what
        assert read(state / "out") in moment.promise, what
        found.add(read(state / "out"))
        make(state / "out", "next", overwrite=True)  # what was left is cleared away
        assert [part.name for part in state.iterdir()] == ["out"], what
    assert found == {"old", "new"}


@pytest.mark.parametrize("before", [None, "old"])
def test_a_file_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    if before:
        files.write_text(root / "a", before)
    disk = CrashDisk(root, promise={before, "new"})
    with monkeypatch.context() as patch:
        disk.watch(patch)
        files.write_text(root / "a", "new")
        disk.promise = {"new"}
        moments = disk.finish()
    assert disk.violations == []
    for moment, state, what in states(moments, tmp_path):
        found = (state / "a").read_text() if (state / "a").exists() else None
        assert found in moment.promise, what


def _whole(run: Path) -> dict[str, bytes]:
    names = ["history.jsonl", *(f"checkpoint/{path.name}" for path in (run / "checkpoint").iterdir())]
    return {name: (run / name).read_bytes() for name in names}


TOY = {"rounds": 3, "local_steps": 1, "width": 0.34, "method": "fedper", "eval_every": 2, "batch_size": 8}


def _train(cohort: Path, out: Path, **more: object) -> ecgfed.Run:
    return ecgfed.train(cohort, out, checkpoint_every=1, workers=1, **{**TOY, **more})  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_training_goes_on_to_the_same_end_after_a_power_cut(
    cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of ``ecgfed train``: what it has said to have saved is there, and the end is bit for bit the same."""
    _train(cohort_path, tmp_path / "whole")
    whole = _whole(tmp_path / "whole")
    (tmp_path / "disk").mkdir()
    disk = CrashDisk(tmp_path / "disk", promise=0)
    with monkeypatch.context() as patch:
        disk.watch(patch)
        _train(cohort_path, tmp_path / "disk" / "run")
        disk.promise = 3
        moments = disk.finish()
    assert disk.violations == []
    assert _whole(tmp_path / "disk" / "run") == whole
    resumed = 0
    monkeypatch.setattr(platform, "_sync", lambda *_: None)
    for number, (moment, state, what) in enumerate(states(moments, tmp_path, some=0)):
        run = state / "run"
        if not (run / "run.json").is_file():
            assert not (run / "checkpoint" / "progress.json").exists(), what
            continue
        store = CheckpointStore(run)
        assert store.rounds() >= moment.promise, what
        assert not store.exists() or store.load().round == store.rounds(), what
        if number % 6:  # every state is opened, every sixth one trained to its end
            continue
        _train(cohort_path, run, resume=True)
        assert _whole(run) == whole, what
        resumed += 1
    print(f"{resumed} states resumed")
    assert resumed > 10


@pytest.mark.slow
def test_a_replaced_run_is_the_old_or_the_new_one_after_a_power_cut(
    cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    run = tmp_path / "disk" / "run"
    _train(cohort_path, run, rounds=2)
    disk = CrashDisk(tmp_path / "disk", promise={(0, 2), (1, 1)})
    with monkeypatch.context() as patch:
        disk.watch(patch)
        _train(cohort_path, run, rounds=1, seed=1, overwrite=True)
        disk.promise = {(1, 1)}
        moments = disk.finish()
    assert disk.violations == []
    found = set()
    for moment, state, what in states(moments, tmp_path, some=0):
        opened = ecgfed.open_run(state / "run")
        opened.state()
        found.add((opened.plan.seed, opened.store.rounds()))
        assert (opened.plan.seed, opened.store.rounds()) in moment.promise, what
    assert found == {(0, 2), (1, 1)}


def _loop_mounts() -> str:
    """Return why no image can be mounted here, or nothing."""
    if os.geteuid() != 0:
        return "only root may mount an image"
    for tool in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"no {tool} here"
    return ""


@pytest.fixture
def loop_mount() -> Iterator[Callable[[Path, Path], None]]:
    """Mount an image, made ext4 where it is empty, until the test ends; skip where this machine does not allow it."""
    mounted: list[Path] = []

    def mount(image: Path, place: Path) -> None:
        with image.open("rb") as stream:
            empty = not any(stream.read(1 << 16))
        if empty:
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        done = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no loop mount here: {done.stderr.strip()}")
        mounted.append(place)

    yield mount
    for place in reversed(mounted):
        subprocess.run(["umount", place], check=True)


def _copy_at_a_moment(image: Path, copy: Path) -> None:
    """Copy an image that is being written to, as it was at one moment.

    A copy takes a while: its first blocks may be older than its last ones, which no power cut does to a disk. Two
    copies that are equal, one after the other, show the state at the end of the first.
    """
    shutil.copyfile(image, copy)
    again = copy.with_suffix(".again")
    for _ in range(200):
        shutil.copyfile(image, again)
        if filecmp.cmp(copy, again, shallow=False):
            again.unlink()
            return
        again.replace(copy)
    raise AssertionError("the image is never at rest for the time of two copies")


@pytest.mark.slow
@pytest.mark.skipif(bool(_loop_mounts()), reason=_loop_mounts() or "mounts")
def test_snapshots_of_a_live_ext4_image_are_gone_on_with(
    cohort_path: Path, tmp_path: Path, loop_mount: Callable[[Path, Path], None]
) -> None:
    """An image is copied while a run is trained on it, as a power cut would leave it: each copy goes on."""
    image, place = tmp_path / "disk.img", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as stream:
        stream.truncate(64 << 20)
    loop_mount(image, place)
    _train(cohort_path, tmp_path / "whole", rounds=8)
    copies: list[tuple[Path, int]] = []

    class Heard(ecgfed.Watch):
        def progress(self, what: str, done: int, total: int | None, about: str = "", **more: object) -> None:
            promised = CheckpointStore(place / "run").rounds()
            copy = tmp_path / f"copy{done}.img"
            _copy_at_a_moment(image, copy)
            copies.append((copy, promised))

    _train(cohort_path, place / "run", rounds=8, watch=Heard())
    assert len(copies) == 8
    for copy, promised in copies:
        there = tmp_path / copy.stem
        there.mkdir()
        loop_mount(copy, there)
        assert CheckpointStore(there / "run").rounds() >= promised
        _train(cohort_path, there / "run", rounds=8, resume=True)
        assert _whole(there / "run") == _whole(tmp_path / "whole")
    print(f"{len(copies)} of {len(copies)} snapshots resumed")
