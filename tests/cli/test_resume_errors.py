"""``ecgfed train --resume``: what cannot be gone on with is one line, exit code 2, and the run stays as it is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from full_disk import gets_full
from support import (
    FEDAVG,
    Command,
    assert_full_disk,
    assert_refused,
    change_json,
    copied,
    other_cohort,
    run_limited,
    snapshot,
)


@pytest.fixture
def run(fedavg_run: Path, tmp_path: Path) -> Path:
    """A copy of the FedAvg run, two rounds of one epoch, batch 16, lr 0.02, rr on."""
    return copied(fedavg_run, tmp_path / "run")


def _server_file(run: Path) -> Path:
    name = json.loads((run / "checkpoint" / "progress.json").read_text())["files"]["server"]["name"]
    return run / "checkpoint" / name


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--method", "local"), ("begun with method fedavg, not local", "leave --method out")),
        (("--local-epochs", 2), ("begun with local_epochs 1, not 2", "leave --local-epochs out")),
        (("--local-steps", 2), ("begun with local_steps None, not 2",)),
        (("--clients-per-round", 2), ("clients_per_round", "leave --clients-per-round out")),
        (("--batch-size", 64), ("begun with batch_size 16, not 64",)),
        (("--seed", 1), ("begun with seed 0, not 1",)),
        (("--no-rr",), ("begun with rr True, not False",)),
        (("--norm", "batch"), ("begun with norm group, not batch",)),
        (("--width", 2), ("begun with width 1.0, not 2.0",)),
        (("--net", "reference"), ("begun with net default, not reference",)),
        (("--set", "lr=0.5"), ("begun with lr=0.02, not 0.5", "leave --set lr out")),
        (("--set", "lr=fast"), ("--set lr", "'fast'", "a number")),
        (("--set", "power=2"), ("--set power", "no setting of this method")),
        (("--rounds", 1), ("2 finished rounds", "--rounds 2 or more")),
        (("--rounds", 0), ("--rounds", "1 or more")),
        (("--rounds", 2**64), ("--rounds", "at most 1,000,000,000")),
        (("--passes", "inf"), ("--passes", "inf")),
        (("--rounds", 3, "--passes", 3), ("--rounds and --passes",)),
        (("--device", "tpu"), ("--device", "'tpu'")),
    ],
)
def test_a_contradicting_option(
    ecgfed: Command, cohort_path: Path, run: Path, options: tuple[object, ...], fragments: tuple[str, ...]
) -> None:
    before = snapshot(run)
    assert_refused(ecgfed("train", cohort_path, "--out", run, "--resume", *options), *fragments)
    assert snapshot(run) == before


def test_cuda_without_a_gpu(ecgfed: Command, cohort_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert_refused(ecgfed("train", cohort_path, "--out", run, "--resume", "--device", "cuda"), "no CUDA device here")


def test_another_cohort(ecgfed: Command, run: Path, tmp_path: Path) -> None:
    before = snapshot(run)
    said = ecgfed("train", other_cohort(tmp_path), "--out", run, "--resume", "--rounds", 5)
    assert_refused(said, "another cohort", "other-cohort")
    assert snapshot(run) == before


def test_a_cohort_changed_in_place(ecgfed: Command, cohort_path: Path, fedavg_run: Path, tmp_path: Path) -> None:
    cohort, run = copied(cohort_path, tmp_path / "cohort"), copied(fedavg_run, tmp_path / "run")
    beats = np.load(cohort / "beats.npy")
    beats[7, 0, 100] += 0.5
    np.save(cohort / "beats.npy", beats)
    before = snapshot(run)
    said = ecgfed("train", cohort, "--out", run, "--resume", "--rounds", 3)
    assert_refused(said, "beats.npy", "has changed since", "prepare the cohort again")
    assert snapshot(run) == before


def test_another_runs_checkpoint(ecgfed: Command, cohort_path: Path, run: Path, tmp_path: Path) -> None:
    """The same method, net and cohort with another learning rate: every file is whole, and none is this run's."""
    other = tmp_path / "other"
    options = (*FEDAVG, "--rounds", 2, "--batch-size", 16, "--eval-every", 0, "--quiet")
    assert ecgfed("train", cohort_path, "--out", other, *options, "--set", "lr=0.01").code == 0
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(other / "checkpoint", run / "checkpoint")
    before = snapshot(run)
    for command in (
        ("train", cohort_path, "--out", run, "--resume", "--rounds", 4, "--quiet"),
        ("evaluate", run),
        ("export", run, "--out", tmp_path / "bundle"),
    ):
        assert_refused(ecgfed(*command), "checkpoint", "of another run", "put this run's own back")
    assert snapshot(run) == before
    # a run begun alike in every way is the same run: its checkpoint is this run's
    twin = tmp_path / "twin"
    assert ecgfed("train", cohort_path, "--out", twin, *options, "--set", "lr=0.02").code == 0
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(twin / "checkpoint", run / "checkpoint")
    assert ecgfed("train", cohort_path, "--out", run, "--resume", "--rounds", 3, "--quiet").code == 0


def _flip_a_clients_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "fragment"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes and is not the file"),
        (Path.unlink, "No such file"),
        (_flip_a_clients_bit, "SHA-256"),
        (lambda path: path.write_bytes(path.with_name("client0.000002.safetensors").read_bytes()), "SHA-256"),
    ],
)
def test_a_clients_file_that_was_spoilt(
    ecgfed: Command, cohort_path: Path, local_run: Path, tmp_path: Path, spoil: Callable[[Path], None], fragment: str
) -> None:
    run = copied(local_run, tmp_path / "run")
    spoil(run / "checkpoint" / "client2.000002.safetensors")
    before = snapshot(run)
    more = ("train", cohort_path, "--out", run, "--resume", "--rounds", 3, "--quiet")
    for command in (more, ("evaluate", run)):
        assert_refused(ecgfed(*command), "client2.000002.safetensors", fragment, "train again")
    assert snapshot(run) == before  # run.json too, which would have said 3 rounds


@pytest.mark.parametrize("every", [1, 3])
def test_a_disk_that_gets_full_keeps_the_last_checkpoint(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """No space for the n-th file: one line, the checkpoint before it, and a run that goes on to the same end."""
    options = (
        "train",
        cohort_path,
        "--method",
        "local",
        "--rounds",
        8,
        "--local-steps",
        1,
        "--batch-size",
        16,
        "--width",
        0.35,
        "--eval-every",
        3,
        "--checkpoint-every",
        every,
        "--quiet",
        "--out",
    )
    assert ecgfed(*options, tmp_path / "whole").code == 0
    gets_full(monkeypatch, after=19 if every == 1 else 8, counted=".safetensors.partial")
    said = ecgfed(*options, tmp_path / "run")
    monkeypatch.undo()
    assert_refused(said, ".safetensors: could not be written", "No space left on device")
    index = json.loads((tmp_path / "run" / "checkpoint" / "progress.json").read_text())
    assert index["round"] == 3  # four clients and the server: the fourth round, or the sixth, did not fit
    said = ecgfed(*options, tmp_path / "run", "--resume")
    assert (said.code, said.err) == (0, "")
    one, two = (snapshot(tmp_path / name) for name in ("whole", "run"))
    assert {n: d for n, d in one.items() if n != "timing.jsonl"} == {
        n: d for n, d in two.items() if n != "timing.jsonl"
    }


def test_a_file_size_limit_while_a_run_goes_on(cohort_path: Path, run: Path) -> None:
    before = snapshot(run / "checkpoint")
    result = run_limited(50_000, "train", cohort_path, "--out", run, "--resume", "--rounds", 4, "--quiet")
    assert_full_disk(result, "server.000003.safetensors")
    assert snapshot(run / "checkpoint") == before


def test_no_run_at_all(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    assert_refused(ecgfed("train", cohort_path, "--out", tmp_path / "run", "--resume"), "is not a folder", "a run")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("keep")
    assert_refused(ecgfed("train", cohort_path, "--out", tmp_path / "folder", "--resume"), "holds no run.json")
    assert snapshot(tmp_path) == {"folder/mine": b"keep"}


def _flip_a_bit(run: Path) -> None:
    data = bytearray(_server_file(run).read_bytes())
    data[-1000] ^= 4
    _server_file(run).write_bytes(data)


def _cut_a_file(run: Path) -> None:
    _server_file(run).write_bytes(_server_file(run).read_bytes()[:500])


def _half_index(run: Path) -> None:
    (run / "checkpoint" / "progress.json").write_text('{"round": 2, ')


def _history_of_no_round(run: Path) -> None:
    whole = (run / "history.jsonl").read_text()
    assert '"round": 1,' in whole
    (run / "history.jsonl").write_text(whole.replace('"round": 1,', '"round": NaN,'))


def _broken_history(run: Path) -> None:
    first, second = (run / "history.jsonl").read_text().splitlines()
    (run / "history.jsonl").write_text(f"{first[:30]}\n{second}\n")


@pytest.mark.parametrize(
    ("spoil", "fragments"),
    [
        (_flip_a_bit, ("server.000002.safetensors", "SHA-256")),
        (lambda run: _server_file(run).unlink(), ("server.000002.safetensors", "No such file")),
        (_cut_a_file, ("server.000002.safetensors", "has 500 bytes", "not the file that was saved")),
        (_half_index, ("progress.json", "cannot be read")),
        (lambda run: (run / "checkpoint" / "progress.json").write_text("{}"), ("progress.json", "lacks")),
        (lambda run: change_json(run / "run.json", schema_version=7), ("run.json", "schema version 7", "expected 1")),
        (lambda run: (run / "run.json").write_text("[]"), ("run.json", "schema version None")),
        (lambda run: change_json(run / "run.json", method="fedprox9000"), ("run.json", "fedprox9000")),
        (lambda run: change_json(run / "run.json", plan={"rounds": "many"}), ("run.json", "cannot be used")),
        (lambda run: (run / "history.jsonl").unlink(), ("history.jsonl", "lacks rounds", "2 lines")),
        (_broken_history, ("history.jsonl", "line 1")),
        (_history_of_no_round, ("history.jsonl", "line 1")),
    ],
)
def test_a_run_that_was_spoilt(
    ecgfed: Command, cohort_path: Path, run: Path, spoil: Callable[[Path], None], fragments: tuple[str, ...]
) -> None:
    spoil(run)
    before = snapshot(run)
    for more in ((), ("--rounds", 3)):
        assert_refused(ecgfed("train", cohort_path, "--out", run, "--resume", "--quiet", *more), *fragments)
        assert snapshot(run) == before


def test_a_half_line_at_the_end_of_the_history_is_what_a_kill_leaves(
    ecgfed: Command, cohort_path: Path, run: Path
) -> None:
    whole = (run / "history.jsonl").read_text()
    (run / "history.jsonl").write_text(whole + '{"round": 3, "loss_me')
    assert ecgfed("train", cohort_path, "--out", run, "--resume", "--rounds", 3, "--quiet").code == 0
    lines = (run / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2, 3]
    assert lines[:2] == whole.splitlines()


@pytest.mark.parametrize("more", [("--rounds", 4), ("--passes", 4)])
def test_more_rounds_than_were_asked_for(
    ecgfed: Command, cohort_path: Path, run: Path, tmp_path: Path, more: tuple[object, ...]
) -> None:
    """Two rounds and two more are four rounds; of one epoch each, so four passes are four rounds too."""
    said = ecgfed("train", cohort_path, "--out", run, "--resume", *more)
    assert (said.code, said.err) == (0, "")
    assert "Going on after round 2" in said.out
    whole = tmp_path / "whole"
    begun = (*FEDAVG, "--rounds", 4, "--batch-size", 16, "--set", "lr=0.02", "--eval-every", 0, "--quiet")
    assert ecgfed("train", cohort_path, "--out", whole, *begun).code == 0
    for name in ("checkpoint/server.000004.safetensors", "history.jsonl"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_the_options_it_was_begun_with_may_be_repeated(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    """The same command line with --resume behind it, which is what somebody types after a kill."""
    options = (
        *FEDAVG,
        *("--passes", 2, "--batch-size", 16, "--width", 0.35, "--set", "lr=0.02", "--device", "cpu"),
        "--quiet",
    )
    assert ecgfed("train", cohort_path, "--out", tmp_path / "run", *options).code == 0
    before = snapshot(tmp_path)
    said = ecgfed("train", cohort_path, "--out", tmp_path / "run", *options, "--resume")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert snapshot(tmp_path) == before
