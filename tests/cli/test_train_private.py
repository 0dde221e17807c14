"""``ecgfed train --aggregation`` and ``--dp-clip``: what is recorded, told, resumed and refused."""

import json
import math
import stat
from pathlib import Path
from typing import Any

import pytest
from support import PLAIN, Command, assert_refused, copied

from ecgfed.core.privacy.accountant import DELTA, epsilon_of

SMALL = ("--method", "fedavg", "--local-steps", 2, "--batch-size", 16, "--width", 0.35, "--eval-every", 0, *PLAIN)
NOISED = ("--dp-clip", 0.5, "--dp-noise", 2)


def lines_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def plan_of(run: Path) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((run / "run.json").read_text())["plan"]
    return plan


def model_of(run: Path) -> bytes:
    (file,) = (run / "checkpoint").glob("server*")
    return file.read_bytes()


def test_the_mean_is_the_default_and_recorded(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    for name, more in (("plain", ()), ("mean", ("--aggregation", "mean"))):
        assert ecgfed("train", cohort_path, *SMALL, "--rounds", 2, "--out", tmp_path / name, *more).code == 0
    assert model_of(tmp_path / "plain") == model_of(tmp_path / "mean")
    assert lines_of(tmp_path / "plain") == lines_of(tmp_path / "mean")
    assert plan_of(tmp_path / "plain")["aggregation"] == "mean"
    assert "epsilon" not in lines_of(tmp_path / "plain")[-1]
    assert not (tmp_path / "plain" / "noise.key").exists()


@pytest.mark.parametrize("word", ["median", "trimmed-mean:0.3", "norm-bound", "norm-bound:0.01"])
def test_a_robust_aggregation_is_told_recorded_and_resumed(
    word: str, ecgfed: Command, cohort_path: Path, tmp_path: Path
) -> None:
    how = ("train", cohort_path, *SMALL, "--aggregation", word, "--rounds")
    said = ecgfed(*how, 3, "--out", tmp_path / "whole")
    assert said.code == 0
    assert f"Aggregation by {word}" in " ".join(said.out.split())
    assert plan_of(tmp_path / "whole")["aggregation"] == word
    assert ecgfed(*how, 1, "--out", tmp_path / "run", "--quiet").code == 0
    assert ecgfed("train", cohort_path, "--resume", "--rounds", 3, "--out", tmp_path / "run", "--quiet").code == 0
    assert model_of(tmp_path / "run") == model_of(tmp_path / "whole")
    assert ecgfed("train", cohort_path, *SMALL, "--rounds", 3, "--out", tmp_path / "mean", "--quiet").code == 0
    assert model_of(tmp_path / "mean") != model_of(tmp_path / "whole")
    refused = ecgfed("train", cohort_path, "--resume", "--aggregation", "mean", "--out", tmp_path / "run")
    assert_refused(refused, "was begun with aggregation", "leave --aggregation out")


@pytest.mark.parametrize("engine", ["threads", "batched"])
@pytest.mark.parametrize("at", ["server", "patient"])
def test_noise_epsilon_and_the_key(engine: str, at: str, ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    how = ("train", cohort_path, *SMALL, *NOISED, "--dp-at", at, "--engine", engine, "--rounds")
    said = ecgfed(*how, 3, "--out", tmp_path / "whole")
    assert said.code == 0, said.err
    epsilon = epsilon_of(2.0, 3)
    told = " ".join(said.out.split())
    assert f"Differential privacy: epsilon {epsilon:.3g} at delta {DELTA:g} for one patient" in told
    assert ("not the server" in told) == (at == "server")
    assert [line["epsilon"] for line in lines_of(tmp_path / "whole")] == [epsilon_of(2.0, t) for t in (1, 2, 3)]
    key = tmp_path / "whole" / "noise.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(bytes.fromhex(key.read_text())) == 32
    # another run of the same seed has other noise; a run that goes on has its own
    assert ecgfed(*how, 1, "--out", tmp_path / "run", "--quiet").code == 0
    half = copied(tmp_path / "run", tmp_path / "half")
    for run in (tmp_path / "run", half):
        assert ecgfed("train", cohort_path, "--resume", "--rounds", 3, "--out", run, "--quiet").code == 0
    assert model_of(tmp_path / "run") == model_of(half)
    assert model_of(tmp_path / "run") != model_of(tmp_path / "whole")
    (tmp_path / "half" / "noise.key").write_text("not hex\n")
    assert_refused(
        ecgfed("train", cohort_path, "--resume", "--rounds", 4, "--out", half), "noise.key", "32 bytes in hex"
    )


def test_clipped_without_noise_is_no_privacy_and_says_so(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    how = ("train", cohort_path, *SMALL, "--dp-clip", 0.5, "--rounds", 1, "--out")
    said = ecgfed(*how, tmp_path / "run")
    assert said.code == 0
    assert "Differential privacy: none" in " ".join(said.out.split())
    last = json.loads(ecgfed(*how, tmp_path / "again", "--json").out)
    assert "epsilon" not in last
    assert math.isfinite(last["loss_mean"])


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--aggregation", "krum"), ("--aggregation", "'krum'", "median, trimmed-mean")),
        (("--aggregation", "trimmed-mean:0.5"), ("--aggregation", "below 0.5")),
        (("--dp-noise", 1), ("--dp-noise", "without --dp-clip")),
        (("--dp-clip", "nan"), ("--dp-clip", "nan")),
        (("--dp-clip", -1), ("--dp-clip", "0 or more")),
        (("--dp-clip", 1, "--dp-at", "site"), ("--dp-at", "simulation", "ecgfed federate")),
        (("--dp-clip", 1, "--dp-at", "moon"), ("--dp-at", "server, patient, site")),
        (("--dp-clip", 1, "--norm", "batch"), ("--dp-clip", "batch norm")),
        (("--dp-clip", 1, "--aggregation", "median"), ("--aggregation", "measured for the mean")),
        (("--method", "q-ffl", "--aggregation", "median"), ("--aggregation", "q-ffl", "no weighted mean")),
        (("--method", "local", "--dp-clip", 1), ("--dp-clip", "local", "no weighted mean")),
        (("--method", "fedfomo", "--dp-clip", 1), ("--dp-clip", "fedfomo", "no weighted mean")),
    ],
)
def test_what_cannot_be_is_one_line(
    options: tuple[object, ...], fragments: tuple[str, ...], ecgfed: Command, cohort_path: Path, tmp_path: Path
) -> None:
    given = ("--method", "fedavg", *options) if "--method" not in options else options
    assert_refused(ecgfed("train", cohort_path, *given, "--out", tmp_path / "run"), *fragments)
    assert not (tmp_path / "run").exists()


def test_a_file_says_the_same(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    config = tmp_path / "wish.toml"
    config.write_text(
        'method = "fedavg"\nrounds = 1\nlocal_steps = 1\ndp_clip = 1\ndp_noise = 0.5\ndp-at = "patient"\n'
    )
    assert ecgfed("train", cohort_path, "--config", config, "--out", tmp_path / "run", "--quiet").code == 0
    plan = plan_of(tmp_path / "run")
    assert (plan["dp_clip"], plan["dp_noise"], plan["dp_at"]) == (1.0, 0.5, "patient")


def test_methods_say_whether_they_fit(ecgfed: Command) -> None:
    assert "--aggregation and --dp-clip fit" in ecgfed("methods", "scaffold").out
    assert "--aggregation and --dp-clip do not fit" in ecgfed("methods", "q-ffl").out
    assert "--secure-aggregation fits" in ecgfed("methods", "scaffold").out
    assert (
        "--secure-aggregation does not fit: the server needs of each client: its loss"
        in ecgfed("methods", "grp-fed").out
    )
    assert json.loads(ecgfed("methods", "mtl", "--json").out)["averages"] is True
    assert json.loads(ecgfed("methods", "mtl", "--set", "relation=learned", "--json").out)["averages"] is False
