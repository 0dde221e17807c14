"""``ecgfed train``: every error is one line, exit code 2, nothing written; a TOML file says what options say."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import (
    FEDAVG,
    PLAIN,
    Command,
    assert_full_disk,
    assert_refused,
    change_json,
    copied,
    resealed,
    run_limited,
    snapshot,
)

#: Weights grow a hundredfold a step.
WILD = ("--method", "fedavg", "--set", "lr=100", "--set", "weight_decay=1", *PLAIN, "--quiet")
#: A run of a second or less.
SMALL = (*FEDAVG, "--rounds", 2, "--batch-size", 16, "--width", 0.35, "--set", "lr=0.02", "--quiet")


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--method", "fedprox9000"), ("--method", "'fedprox9000'", "fedavg", "local")),
        (("--set", "lrr=0.1"), ("--set lrr", "no setting of this method", "lr, momentum, weight_decay")),
        (("--set", "lr=fast"), ("--set lr", "'fast'", "a number")),
        (("--set", "lr=-1"), ("--set lr", "-1", "0 to 100")),
        (("--set", "lr=nan"), ("--set lr", "nan")),
        (("--set", "momentum=1"), ("--set momentum", "1")),
        (("--set", "lr"), ("--set", "'lr'", "NAME=VALUE")),
        (("--set", "=0.1"), ("--set", "NAME=VALUE")),
        (("--rounds", 0), ("--rounds", "0", "1 or more")),
        (("--rounds", -3), ("--rounds", "-3", "1 or more")),
        (("--passes", 0), ("--passes", "0", "above 0")),
        (("--passes", "nan"), ("--passes", "nan")),
        (("--passes", "inf"), ("--passes", "inf")),
        (("--rounds", 2, "--passes", 2), ("--rounds and --passes", "one of them")),
        (("--local-epochs", 1, "--local-steps", 4), ("--local-epochs and --local-steps", "one of them")),
        (("--local-epochs", 0), ("--local-epochs", "0", "1 or more")),
        (("--local-steps", 0), ("--local-steps", "0", "1 or more")),
        (("--local-steps", 2**64), ("--local-steps", "at most 1,000,000,000")),
        (("--batch-size", 0), ("--batch-size", "0", "1 or more")),
        (("--clients-per-round", 5), ("--clients-per-round", "5", "at most 4")),
        (("--clients-per-round", 0), ("--clients-per-round", "0", "1 or more")),
        (("--seed", -1), ("--seed", "-1", "0 or more")),
        (("--net", "transformer"), ("--net", "'transformer'", "default, reference")),
        (("--norm", "layer"), ("--norm", "'layer'", "group, batch, none")),
        (("--width", 0), ("--width", "0", "0.1 to 16")),
        (("--device", "tpu"), ("--device", "'tpu'", "auto, cpu, cuda")),
        (("--config", "nowhere.toml"), ("--config", "nowhere.toml", "does not exist")),
    ],
)
def test_a_bad_option(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, options: tuple[object, ...], fragments: tuple[str, ...]
) -> None:
    assert_refused(ecgfed("train", cohort_path, "--out", tmp_path / "run", *options), *fragments)
    assert list(tmp_path.iterdir()) == []


def test_cuda_without_a_gpu(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = ecgfed("train", cohort_path, "--out", tmp_path / "run", "--device", "cuda")
    assert_refused(said, "--device", "no CUDA device here", "cpu or auto")
    assert list(tmp_path.iterdir()) == []


def _half_json(cohort: Path) -> None:
    text = (cohort / "cohort.json").read_text()
    (cohort / "cohort.json").write_text(text[: len(text) // 2])


def _cut_array(cohort: Path) -> None:
    data = (cohort / "beats.npy").read_bytes()
    (cohort / "beats.npy").write_bytes(data[:-1000])


def _other_type(cohort: Path) -> None:
    np.save(cohort / "label.npy", np.load(cohort / "label.npy").astype(np.float64))


def _label_outside(cohort: Path) -> None:
    label = np.load(cohort / "label.npy")
    label[3] = 77
    np.save(cohort / "label.npy", label)
    resealed(cohort)


def _pickle(cohort: Path) -> None:
    np.save(cohort / "flags.npy", np.array([{}] * 223, dtype=object), allow_pickle=True)


def _nothing_to_train_on(cohort: Path) -> None:
    np.save(cohort / "split.npy", np.full_like(np.load(cohort / "split.npy"), 2))
    resealed(cohort)


@pytest.mark.parametrize(
    ("spoil", "fragments"),
    [
        (shutil.rmtree, ("is not a folder", "ecgfed prepare")),
        (lambda cohort: (cohort / "cohort.json").unlink(), ("holds no cohort.json", "ecgfed prepare")),
        (_half_json, ("cohort.json", "cannot be read")),
        (lambda d: change_json(d / "cohort.json", schema_version=99), ("cohort.json", "schema version 99", "1")),
        (_cut_array, ("beats.npy", "cannot be read")),
        (lambda cohort: (cohort / "rr.npy").unlink(), ("rr.npy", "does not exist")),
        (_other_type, ("label.npy", "float64", "int16")),
        (lambda d: np.save(d / "split.npy", np.load(d / "split.npy")[:-1]), ("split.npy", "(222,)", "(223,)")),
        (_label_outside, ("label.npy", "outside the classes")),
        (_pickle, ("flags.npy", "cannot be read")),
        (_nothing_to_train_on, ("no client has a training beat",)),
    ],
)
def test_a_cohort_that_cannot_be_used(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, spoil: Any, fragments: tuple[str, ...]
) -> None:
    cohort = copied(cohort_path, tmp_path / "cohort")
    spoil(cohort)
    assert_refused(ecgfed("train", cohort, "--out", tmp_path / "run"), *fragments)
    assert not (tmp_path / "run").exists()


def test_a_taken_run_folder_is_left_as_it_is(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert_refused(ecgfed("train", cohort_path, "--out", tmp_path / "run", *SMALL), "run", "not empty", "--resume")
    assert_refused(ecgfed("train", cohort_path, "--out", tmp_path / "run/notes.txt", *SMALL), "notes.txt")
    assert snapshot(tmp_path) == {"run/notes.txt": b"mine"}


@pytest.mark.parametrize("empty_folder", [False, True])
def test_a_loss_that_is_not_finite_in_the_first_round(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, empty_folder: bool
) -> None:
    if empty_folder:
        (tmp_path / "run").mkdir()
    steps = (*WILD, "--local-steps", 60)
    said = ecgfed("train", cohort_path, "--out", tmp_path / "run", *steps)
    assert_refused(said, "in round 1", "expected a finite number", "--set lr=")
    assert re.search(r"ecgfed: client \S+ in round 1: loss is (nan|inf)", said.err)
    assert [path.name for path in tmp_path.rglob("*")] == (["run"] if empty_folder else [])


def test_a_loss_that_is_not_finite_later_keeps_the_rounds_before(
    ecgfed: Command, cohort_path: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    # weights grow a hundredfold a step: the first rounds of one step each are still finite
    steps = (*WILD, "--local-steps", 1, "--rounds", 60)
    said = ecgfed("train", cohort_path, "--out", run, *steps)
    assert_refused(said, "in round ", "finite")
    failed = int(re.findall(r"in round (\d+)", said.err)[0])
    assert failed > 1
    assert json.loads((run / "checkpoint" / "progress.json").read_text())["round"] == failed - 1


def test_a_model_that_went_too_far_in_the_last_step(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    """Every loss was finite, the model they left is not: seen by the validation split, or by evaluation later."""
    steps = (*WILD, "--local-steps", 1, "--rounds", 2)
    assert_refused(ecgfed("train", cohort_path, "--out", tmp_path / "run", *steps), "not finite", "--set lr=")
    said = ecgfed("train", cohort_path, "--out", tmp_path / "unseen", *steps, "--eval-every", 0)
    assert (said.code, said.err) == (0, "")
    assert_refused(ecgfed("evaluate", tmp_path / "unseen"), "not finite", "--set lr=")
    assert not (tmp_path / "unseen" / "evaluation-test").exists()


def test_a_full_disk_leaves_no_run(cohort_path: Path, tmp_path: Path) -> None:
    result = run_limited(50_000, "train", cohort_path, "--out", tmp_path / "run", "--rounds", 1, "--quiet")
    assert_full_disk(result, "server.000001.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("round = 3", ("unknown name 'round'", "rounds")),
        ("[plan]\nrounds = 3", ("unknown name 'plan'",)),
        ('rounds = "3"', ("rounds = '3'", "a whole number")),
        ("rounds = 2.5", ("rounds = 2.5", "a whole number")),
        ("rounds = true", ("rounds = True", "a whole number")),
        ("rr = 1", ("rr = 1", "true or false")),
        ("method = 3", ("method = 3", "text")),
        ('width = "wide"', ("width = 'wide'", "a number")),
        ("set = 3", ("set is no table",)),
        ("[set]\nlr = 'fast'", ("--set lr", "'fast'")),
        ("[set]\nlrr = 0.1", ("--set lrr",)),
        ("[set]\nlr = [0.1]", ("--set lr",)),
        ("rounds = ", ("cannot be read", "TOML")),
        ("local_epochs = 1\nlocal_steps = 2", ("--local-epochs and --local-steps",)),
        ("rounds = 0", ("rounds = 0", "1 or more")),
        ("seed = -1", ("seed = -1", "0 or more")),
    ],
)
def test_a_bad_config_file(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, text: str, fragments: tuple[str, ...]
) -> None:
    (tmp_path / "config.toml").write_text(text)
    said = ecgfed("train", cohort_path, "--out", tmp_path / "run", "--config", tmp_path / "config.toml")
    assert_refused(said, *fragments)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_config_file_that_is_no_text(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "config.toml", tmp_path):
        said = ecgfed("train", cohort_path, "--out", tmp_path / "run", "--config", path)
        assert_refused(said, "--config", "cannot be read")


CONFIG = """
method = "fedavg-uniform"
rounds = 3
local_epochs = 2
clients-per-round = 2
batch_size = 16
seed = 5
rr = false
net = "default"
norm = "batch"
width = 1
[set]
lr = 0.02
momentum = 0.5
"""
OPTIONS = (
    *("--method", "fedavg-uniform", "--rounds", 3, "--local-epochs", 2, "--clients-per-round", 2),
    *("--batch-size", 16, "--seed", 5, "--no-rr", "--net", "default", "--norm", "batch", "--width", 1),
    *("--set", "lr=0.02", "--set", "momentum=0.5"),
)


def _files(run: Path) -> dict[str, bytes]:
    """Everything a run holds but the times it took."""
    return {name: data for name, data in snapshot(run).items() if name != "timing.jsonl"}


def test_config_file_and_options_say_the_same(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    first, second = tmp_path / "by-file", tmp_path / "by-options"
    assert ecgfed("train", cohort_path, "--out", first, "--config", tmp_path / "config.toml", "--quiet").code == 0
    assert ecgfed("train", cohort_path, "--out", second, *OPTIONS, "--quiet").code == 0
    assert _files(first) == _files(second)
    assert "checkpoint/server.000003.safetensors" in _files(first)
    meta = json.loads((first / "run.json").read_text())
    assert (meta["method"], meta["plan"]["seed"], meta["net"]["norm"]) == ("fedavg-uniform", 5, "batch")
    assert (meta["settings"]["lr"], meta["settings"]["momentum"]) == (0.02, 0.5)


def test_the_command_line_wins_over_the_file(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    """Also where it says the same thing in another way: steps against the file's epochs, passes against rounds."""
    (tmp_path / "config.toml").write_text(CONFIG)
    mine = ("--seed", 7, "--rr", "--set", "lr=0.01", "--local-steps", 3, "--passes", 0.5, "--width", 0.35)
    run = tmp_path / "run"
    assert ecgfed("train", cohort_path, "--out", run, "--config", tmp_path / "config.toml", *mine, "--quiet").code == 0
    meta = json.loads((run / "run.json").read_text())
    assert (meta["plan"]["seed"], meta["net"]["rr"], meta["net"]["width"]) == (7, True, 0.35)
    assert (meta["plan"]["local_steps"], meta["plan"]["local_epochs"]) == (3, None)
    # two of four clients, 3 steps of 16 beats each: 96 of 161 training beats a round, so half a pass is one round
    assert meta["plan"]["rounds"] == 1
    assert (meta["settings"]["lr"], meta["settings"]["momentum"]) == (0.01, 0.5)
    assert meta["plan"]["clients_per_round"] == 2


@pytest.mark.parametrize("json_output", [False, True])
def test_what_training_prints(ecgfed: Command, cohort_path: Path, tmp_path: Path, json_output: bool) -> None:
    said = ecgfed("train", cohort_path, "--out", tmp_path / "run", *SMALL[:-1], *(["--json"] if json_output else []))
    assert said.code == 0
    assert said.err == ""
    last = json.loads((tmp_path / "run" / "history.jsonl").read_text().splitlines()[-1])
    if json_output:
        told = json.loads(said.out)
        assert (told["method"], told["rounds"], told["loss_mean"]) == ("fedavg", 2, last["loss_mean"])
    else:
        assert f"loss mean {last['loss_mean']:.3f}" in said.out
    again = ecgfed("train", cohort_path, "--out", tmp_path / "run2", *SMALL)
    assert (again.code, again.out, again.err) == (0, "", "")


def test_the_batched_engine_and_an_own_method_train_export_and_go_on(
    ecgfed: Command, cohort_path: Path, tmp_path: Path
) -> None:
    example = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"
    out = tmp_path / "run"
    base = ["train", cohort_path, "--out", out, "--quiet"]
    own = ["--method", f"{example}:TrimmedMean", "--set", "trim=0.2", "--engine", "batched", "--slots", "2"]
    assert ecgfed(*base, "--rounds", "1", "--local-steps", "1", *own).code == 0
    meta = json.loads((out / "run.json").read_text())
    assert meta["method"] == f"{example}:TrimmedMean"
    assert (meta["engine"], meta["slots"], meta["device"]) == ("batched", 2, "cpu")
    again = ["--method", f"{example}:TrimmedMean"]
    assert ecgfed(*base, "--rounds", "2", "--resume", *again).code == 0
    assert ecgfed("evaluate", out, "--quiet", *again).code == 0
    refused = ecgfed(*base, "--resume", "--method", "fedavg")
    assert refused.code == 2
    assert "TrimmedMean, not fedavg" in refused.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--engine", "ray"], "--engine"),
        (["--slots", "3"], "--slots"),
        (["--device", "tpu"], "--device"),
        (["--engine", "batched", "--slots", "0"], "--slots"),
        (["--method", "afl", "--local-epochs", "1"], "--local-steps"),
        (["--method", "nowhere.py:X"], "no file"),
    ],
)
def test_engines_and_methods_that_cannot_be_are_one_line(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, options: list[str], told: str
) -> None:
    done = ecgfed("train", cohort_path, "--out", tmp_path / "run", *options)
    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
