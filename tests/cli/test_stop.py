"""Ctrl-C and SIGTERM while a run trains: a process of its own, as a person or a cluster would stop it."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import ECGFED, snapshot

ROUNDS = 40
OPTIONS = (
    "--method",
    "local",
    "--rounds",
    str(ROUNDS),
    "--local-steps",
    "2",
    "--batch-size",
    "16",
    "--width",
    "0.35",
    "--eval-every",
    "6",
    "--checkpoint-every",
    "7",
)


@pytest.fixture(scope="module")
def whole(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    subprocess.run([ECGFED, "train", cohort_path, "--out", out, *OPTIONS, "--quiet"], check=True)
    return out


def begun(cohort: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """A training that has finished its first round and has most of them to go."""
    command = [ECGFED, "train", str(cohort), "--out", str(out), *OPTIONS, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not (out / "history.jsonl").is_file():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    return process


def assert_only_said(out: str, rounds: int) -> None:
    """Before it ends, a training says on stdout what it will do and how long that takes, and nothing more."""
    first, *more = out.splitlines()
    assert f"{rounds} rounds of " in first
    assert len(more) <= 1
    assert all(line.startswith("About ") for line in more)


def files(run: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(run).items() if name != "timing.jsonl"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_round_is_finished_and_saved_and_the_run_goes_on_to_the_same_end(
    cohort_path: Path, whole: Path, tmp_path: Path, number: int, code: int
) -> None:
    run = tmp_path / "the run"
    process = begun(cohort_path, run)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, (out, err)
    assert_only_said(out, ROUNDS)
    first, last = err.splitlines()
    assert "finished and saved first; once more stops at once" in first
    rounds = json.loads((run / "checkpoint" / "progress.json").read_text())["round"]
    assert 1 <= rounds < ROUNDS
    assert len((run / "history.jsonl").read_text().splitlines()) == rounds
    expected = f"ecgfed: stopped after round {rounds} of {ROUNDS}, saved; go on with: ecgfed train {cohort_path} --out"
    assert last == f"{expected} '{run}' --resume"
    again = last.partition("go on with: ")[2].replace("ecgfed", f"'{ECGFED}'", 1)
    subprocess.run(again + " --checkpoint-every 7 --quiet", shell=True, check=True)
    assert files(run) == files(whole)


def test_quiet_says_one_line(cohort_path: Path, tmp_path: Path) -> None:
    process = begun(cohort_path, tmp_path / "run", "--quiet", "--json")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err.count("\n")) == (130, "", 1)
    assert "--resume" in err


def test_a_second_one_stops_at_once(cohort_path: Path, whole: Path, tmp_path: Path) -> None:
    """The round would take minutes; the checkpoint before it stays and the run goes on from there."""
    long = ("--local-steps", "200000", "--checkpoint-every", "1")
    run = tmp_path / "run"
    command = [ECGFED, "train", str(cohort_path), "--out", str(run), *OPTIONS, *long]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (run / "checkpoint").is_dir():  # made as the first round begins
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    since = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - since < 30  # the round would take hours
    assert process.returncode == 130
    assert_only_said(out, ROUNDS)
    assert "stopped at once" in err
    assert "Traceback" not in err


def test_a_terminal_shows_the_speed_and_the_time_left(cohort_path: Path, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    command = [ECGFED, "train", str(cohort_path), "--out", str(tmp_path / "run"), *OPTIONS]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert process.wait() == 0
    text = shown.decode(errors="replace")
    assert f"/{ROUNDS}" in text
    assert "rounds/s" in text
    assert "samples/s, loss mean" in text
    assert "0:00:0" in text


#: A library that catches an interruption and ends with an error of its own, as torch's exporter does.
SWALLOWED = """
import os, sys, time
import ecgfed_cli.main as command

def app(**options):
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(30)
    except KeyboardInterrupt:
        raise RuntimeError("please report this") from None

command.app = app
command.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_a_library_makes_of_an_interruption_is_not_shown(number: int, code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", SWALLOWED, str(int(number))], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "ecgfed: stopped\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_export_that_is_stopped_leaves_nothing(fedavg_run: Path, tmp_path: Path, number: int, code: int) -> None:
    command = [ECGFED, "export", str(fedavg_run), "--out", str(tmp_path / "bundle")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not [part for part in tmp_path.iterdir() if part.is_dir()]:  # the bundle that is being made
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err.splitlines()[-1]) == (code, "ecgfed: stopped"), (out, err)
    assert "Traceback" not in err
    assert not [part for part in tmp_path.iterdir() if part.is_dir()]
