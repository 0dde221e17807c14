"""``make demo``: what it says it wrote is there and works, twice; and what stops it says why in one line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import wfdb

ROOT = Path(__file__).parent.parent


def demo(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py", "--out", "made"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wrong(annotation: Path, record: str, asked: set[int]) -> tuple[int, int]:
    """Beats whose symbol is not that of the nearest annotated beat, of those that no label was asked for."""
    truth, found = wfdb.rdann(record, "atr"), wfdb.rdann(str(annotation), "ecgfed")
    beats = [
        (symbol, truth.symbol[int(np.abs(truth.sample - sample).argmin())])
        for sample, symbol in zip(found.sample, found.symbol, strict=True)
        if sample not in asked
    ]
    return sum(ours != theirs for ours, theirs in beats), len(beats)


@pytest.mark.slow
def test_the_demo_runs_twice_and_its_summary_is_true(tmp_path: Path) -> None:
    first, second = demo(tmp_path), demo(tmp_path)
    assert "--overwrite" not in first
    summary = first[first.index("\nReport ") :]
    assert (
        second[second.index("\nReport ") :].splitlines()[:-1] == summary.splitlines()[:-1]
    )  # the same but for seconds
    (page,) = re.findall(r"^Report +(\S+)", summary, re.MULTILINE)
    assert (tmp_path / page).read_text().startswith("<!DOCTYPE html>")
    graphs = re.findall(r"\S+\.onnx", summary)
    assert len(graphs) == 2
    for graph in graphs:
        onnxruntime.InferenceSession(str(tmp_path / graph))
    (table,) = re.findall(r"^Predictions +(\S+)\.csv", summary, re.MULTILINE)
    for suffix in (".csv", ".json", ".png", ".ecgfed"):
        assert (tmp_path / table).with_suffix(suffix).is_file()
    rows = (tmp_path / "made" / "labels" / "demo04-labels.csv").read_text().splitlines()[1:]
    asked = {int(row.split(",")[1]) for row in rows}
    assert len(asked) == 20
    record = str(tmp_path / "made" / "records" / "demo04")
    for model, folder in (("Model for everybody", "global"), ("Personal model", "personal")):
        ((bad, of),) = re.findall(rf"^{model}: +(\d+) of (\d+) beats", summary, re.MULTILINE)
        assert (int(bad), int(of)) == wrong(tmp_path / "made" / f"predictions-{folder}" / "demo04", record, asked)


@pytest.mark.slow
def test_the_demo_replaces_nothing_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "made" / "records").mkdir(parents=True)
    own = tmp_path / "made" / "records" / "mine.dat"
    own.write_bytes(b"x")
    command = [sys.executable, ROOT / "examples" / "demo.py", "--out", "made"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, own.read_bytes()) == (2, b"x")
    (line,) = done.stderr.splitlines()
    assert "records" in line


def make(target: str, folder: Path, **variables: object) -> tuple[int, list[str]]:
    """Run make in an environment of its own; return its exit code and its standard error without make's own lines."""
    settings = [f"{name}={value}" for name, value in variables.items()]
    done = subprocess.run(
        ["make", f"VENV={folder / 'venv'}", *settings, target],
        cwd=ROOT, capture_output=True, text=True,
        env={**{key: value for key, value in os.environ.items() if not key.startswith("PIP_")}, "PIP_NO_INDEX": "1"},
    )  # fmt: skip
    return done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("make")]


@pytest.mark.parametrize(("python", "said"), [("old", "is older"), ("no-such-python", "there is no")])
def test_an_old_python_or_none_is_refused_in_one_line(tmp_path: Path, python: str, said: str) -> None:
    (tmp_path / "old").write_text("#!/bin/sh\nexit 1\n")  # what `sys.exit(sys.version_info < (3, 11))` gives there
    (tmp_path / "old").chmod(0o755)
    code, (line,) = make("demo", tmp_path, PYTHON=tmp_path / python)
    assert code == 2
    assert "needs Python 3.11" in line
    assert said in line
    assert not (tmp_path / "venv").exists()


@pytest.mark.slow
def test_without_a_network_the_last_line_says_what_to_do(tmp_path: Path) -> None:
    code, lines = make("demo", tmp_path, PYTHON=sys.executable)
    assert code == 2
    assert "PIP_INDEX_URL" in lines[-1]
