"""kill -9 at random moments, then --resume: the end is the end of a run that was never killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ECGFED = str(Path(sys.executable).with_name("ecgfed"))
KILLS = 4


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_a_killed_run_resumed_ends_bit_equal(cohort_path: Path, tmp_path: Path, method: str) -> None:
    options = [
        "train", str(cohort_path), "--method", method, "--rounds", "60", "--local-steps", "2", "--batch-size", "16",
        "--width", "0.35", "--eval-every", "7", "--quiet",
    ]  # fmt: skip
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([ECGFED, *options, "--out", str(whole)], check=True)
    moment = random.Random(method)
    hits = 0
    command = [ECGFED, *options, "--out", str(killed)]
    for _ in range(KILLS):
        resume = ["--resume"] if (killed / "run.json").is_file() else []
        process = subprocess.Popen([*command, *resume])
        while process.poll() is None and not (killed / "checkpoint" / "progress.json").is_file():
            time.sleep(0.01)
        time.sleep(moment.uniform(0.0, 0.5) + (2.0 if resume else 0.0))  # two seconds to import torch
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            hits += 1
        process.wait()
    subprocess.run([*command, "--resume"], check=True)
    assert hits >= 1
    for name in ("history.jsonl", "checkpoint/progress.json"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes()
    files = sorted(path.name for path in (whole / "checkpoint").iterdir())
    assert files == sorted(path.name for path in (killed / "checkpoint").iterdir())
    for name in files:
        assert (whole / "checkpoint" / name).read_bytes() == (killed / "checkpoint" / name).read_bytes()
