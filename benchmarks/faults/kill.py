"""kill -9 a training at random moments, go on with --resume, and count the ends that are bit-equal to an unkilled run.

    python benchmarks/faults/kill.py --kills 50 --method grp-fed
    python benchmarks/faults/kill.py --kills 50 --method fedavg

``ecgfed train`` on the demo cohort (made here unless ``--cohort`` names one), a checkpoint after every round. A third
of the kills come at a random moment, a third while a file of a checkpoint is being written (its temporary name is
there), a third while a checkpoint is half written (files that ``progress.json`` does not name). A run that reaches its
end is compared, file by file (timing.jsonl apart), with the run that was never killed, and a new one begins, until
all kills are done; the last one goes on to its end. Prints one JSON object; exit code 1 where an end differs.

The command line is the question here: what is killed is the process of ``ecgfed train``, its checkpoints and all. Each
session is forked from a process that has imported torch, so that fifty take minutes.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch  # noqa: F401  imported before the forks; nothing is computed here, so no thread is lost to them

MOMENTS = ("at a random moment", "while a file was written", "while a checkpoint was written")
OPTIONS = {
    "grp-fed": ("--set", "personal_start=0.2")  # the patients' own parts appear along the way
}


def start(cohort: Path, run: Path, options: list[str]) -> int:
    """Fork a session of ``ecgfed train`` and return its process id."""
    resume = ["--resume"] if (run / "run.json").is_file() else []
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        sys.argv = ["ecgfed", "train", str(cohort), "--out", str(run), *options, *resume]
        from ecgfed_cli.main import main

        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os._exit(code)


def ended(pid: int) -> bool:
    """Whether a session is over; raises RuntimeError where it failed by itself."""
    found, status = os.waitpid(pid, os.WNOHANG)
    if found and os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"a session ended with {os.waitstatus_to_exitcode(status)}")
    return bool(found)


def state(run: Path) -> tuple[bool, bool, int]:
    """Return whether temporary files are there, whether files no index names are, and the checkpoint's round."""
    folder = run / "checkpoint"
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return False, False, 0
    try:
        index = json.loads((folder / "progress.json").read_text())
    except FileNotFoundError:
        index = {"round": 0, "files": {}}
    named = {entry["name"] for entry in index["files"].values()}
    partial = {name for name in names if name.endswith(".partial")}
    return bool(partial), bool(names - partial - named - {"progress.json"}), index["round"]


def wait_for(moment: str, pid: int, run: Path, rng: random.Random, seconds: float) -> bool:
    """Wait until the session is at such a moment; False where it came to its end first."""
    begun = state(run)[2]
    while state(run)[2] == begun:  # at least one checkpoint of its own, so that every session gets on
        if ended(pid):
            return False
        time.sleep(0.002)
    until = time.monotonic() + rng.uniform(0, seconds)
    while time.monotonic() < until:
        if ended(pid):
            return False
        time.sleep(0.001)
    while moment != MOMENTS[0]:
        if ended(pid):
            return False
        if moment == MOMENTS[1] and state(run)[0]:
            return True
        if moment == MOMENTS[2] and state(run)[1]:
            return True
    return True


def files(run: Path) -> dict[str, bytes]:
    """Everything a run holds but the times it took."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and path.name != "timing.jsonl"
    }


def finish(pid: int) -> None:
    while not ended(pid):
        time.sleep(0.01)


def measure(work: Path, cohort: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Kill, go on, compare; return the counts."""
    rng = random.Random(options.seed)
    train = [
        "--method",
        options.method,
        "--rounds",
        str(options.rounds),
        "--local-steps",
        "1",
        "--batch-size",
        "16",
        "--width",
        "0.5",
        "--eval-every",
        "7",
        "--checkpoint-every",
        "1",
        "--workers",
        "2",
        "--quiet",
        *OPTIONS.get(options.method, ()),
    ]
    finish(start(cohort, work / "whole", train))
    whole = files(work / "whole")
    kills: Counter[str] = Counter()
    left: Counter[str] = Counter()
    ends = equal = rounds_lost = 0
    run = work / "killed"
    while True:
        pid = start(cohort, run, train)
        done = sum(kills.values())
        if done < options.kills and wait_for(MOMENTS[done % 3], pid, run, rng, options.seconds):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            kills[MOMENTS[done % 3]] += 1
            partial, unnamed, saved = state(run)
            lines = (run / "history.jsonl").read_text().count("\n")
            rounds_lost += lines - saved
            left["a half-written file"] += partial
            left["files that no index names"] += unnamed
            left["a history ahead of the checkpoint"] += lines > saved
            continue
        if done == options.kills:
            finish(pid)
        ends += 1
        equal += files(run) == whole
        if done == options.kills:
            break
        shutil.rmtree(run)
    return {
        "method": options.method,
        "rounds": options.rounds,
        "kills": sum(kills.values()),
        "killed": dict(kills),
        "found_after_the_kill": dict(left),
        "rounds_trained_again": rounds_lost,
        "ends": ends,
        "bit_equal": equal,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--method", default="grp-fed")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1.0, help="longest wait after a session's first checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cohort", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        cohort = options.cohort or work / "cohort"
        if options.cohort is None:
            made = ["prepare", "demo", "--out", cohort, "--records", work / "r", "--minutes", "2", "--quiet"]
            subprocess.run([sys.executable, "-m", "ecgfed_cli.main", *map(str, made)], check=True)
        result = measure(work, cohort, options)
    print(json.dumps(result, indent=1))
    raise SystemExit(result["bit_equal"] != result["ends"])


if __name__ == "__main__":
    main()
