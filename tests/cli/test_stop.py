"""Ctrl-C and SIGTERM while a run trains: a process of its own, as a person or a cluster would stop it."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
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
#: Exit code, stdout and stderr.
Ended = tuple[int, str, str]
BOTH_SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@pytest.fixture(scope="module")
def whole(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    subprocess.run([ECGFED, "train", cohort_path, "--out", out, *OPTIONS, "--quiet"], check=True)
    return out


def interrupted(number: int, command: Sequence[str | Path], out: Path, at_work: Callable[[], bool]) -> Ended:
    """Send a signal to a command while it is at work; return how it ended.

    It is frozen first, to be sure that it is at work: on a busy machine it may have ended since it was looked at. Then
    it starts anew.
    """
    for _ in range(10):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not at_work():
            time.sleep(0.005)
        process.send_signal(signal.SIGSTOP)
        if process.poll() is None:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        caught = process.poll() is None and at_work()
        if caught:
            process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=300)
        if caught:
            return process.returncode, *said
        assert process.returncode == 0, said
        shutil.rmtree(out)
    raise AssertionError("it always ended before it could be stopped")


def interrupted_training(number: int, cohort: Path, run: Path, *options: str) -> Ended:
    """Send a signal to a training that has finished its first round, and whose last one has not begun."""

    def at_work() -> bool:
        history = run / "history.jsonl"
        return history.is_file() and 1 <= len(history.read_text().splitlines()) < ROUNDS - 1

    return interrupted(number, [ECGFED, "train", cohort, "--out", run, *OPTIONS, *options], run, at_work)


def assert_only_said(out: str, rounds: int) -> None:
    """Before it ends, a training says on stdout what it will do and how long that takes, and nothing more."""
    first, *more = out.splitlines()
    assert f"{rounds} rounds of " in first
    assert len(more) <= 1
    assert all(line.startswith("About ") for line in more)


def files(run: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(run).items() if name != "timing.jsonl"}


@BOTH_SIGNALS
def test_the_round_is_finished_and_saved_and_the_run_goes_on_to_the_same_end(
    cohort_path: Path, whole: Path, tmp_path: Path, number: int, code: int
) -> None:
    run = tmp_path / "the run"
    returned, out, err = interrupted_training(number, cohort_path, run)
    assert returned == code, (out, err)
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
    code, out, err = interrupted_training(signal.SIGINT, cohort_path, tmp_path / "run", "--quiet", "--json")
    assert (code, out, err.count("\n")) == (130, "", 1)
    assert "--resume" in err


def test_a_second_one_stops_at_once(cohort_path: Path, whole: Path, tmp_path: Path) -> None:
    """The round would take hours; the checkpoint before it stays and the run goes on from there."""
    long = ("--local-steps", "200000", "--checkpoint-every", "1")
    run = tmp_path / "run"
    command = [ECGFED, "train", str(cohort_path), "--out", str(run), *OPTIONS, *long]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (run / "checkpoint").is_dir():  # made as the first round begins
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "once more stops at once" in process.stderr.readline()  # two that come before it is noticed are one
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
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


#: A command that runs the lines put in its place; ``interrupt`` sends the signal and waits for it.
COMMAND = """
import os, sys, time
import ecgfed_cli.main as command
from ecgfed_cli import stop

def wait():
    for _ in range(3000):
        time.sleep(0.01)

def interrupt():
    os.kill(os.getpid(), int(sys.argv[1]))
    wait()

class Finaliser:
    def __del__(self):
        interrupt()

def app(**options):
{}

command.app = app
command.main()
"""
#: As torch's exporter does.
ERROR_OF_ITS_OWN = """
try:
    interrupt()
except KeyboardInterrupt:
    raise RuntimeError("please report this") from None
"""
#: As mpmath does while it is imported; what follows would go on.
SWALLOWED = """
try:
    interrupt()
except:
    pass
wait()
print("went on")
"""
#: The last thing a command does.
SWALLOWED_AT_THE_END = """
try:
    interrupt()
except:
    pass
"""
#: Python itself swallows it; its import system has such functions.
IN_A_FINALISER = """
Finaliser()
wait()
print("went on")
"""


def of_command(lines: str, number: int) -> Ended:
    program = COMMAND.format(textwrap.indent(lines, "    "))
    ended = subprocess.run([sys.executable, "-c", program, str(int(number))], capture_output=True, text=True)
    return ended.returncode, ended.stdout, ended.stderr


@BOTH_SIGNALS
@pytest.mark.parametrize(
    "lines",
    [ERROR_OF_ITS_OWN, SWALLOWED, SWALLOWED_AT_THE_END, IN_A_FINALISER],
    ids=["an error of its own", "swallowed", "swallowed at the end", "in a finaliser"],
)
def test_what_a_library_makes_of_an_interruption_is_not_shown(lines: str, number: int, code: int) -> None:
    assert of_command(lines, number) == (code, "", "ecgfed: stopped\n")


#: ``timeout`` sends it to the command and to its process group; what is half made is taken away all the same.
TWICE = """
stop._TWICE_S = 1e9
try:
    interrupt()
finally:
    os.kill(os.getpid(), int(sys.argv[1]))
    print("tidied")
"""


@BOTH_SIGNALS
def test_a_signal_that_comes_twice_is_one(number: int, code: int) -> None:
    assert of_command(TWICE, number) == (code, "tidied\n", "ecgfed: stopped\n")


#: As ``ecgfed label --serve`` does, which goes on until Ctrl-C.
REGULAR_END = """
with stop.interrupted_once():
    try:
        interrupt()
    except KeyboardInterrupt:
        pass
print("done")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_ends_by_an_interruption_ends_as_usual(number: int) -> None:
    assert of_command(REGULAR_END, number) == (0, "done\n", "")


@BOTH_SIGNALS
def test_an_export_that_is_stopped_leaves_nothing(fedavg_run: Path, tmp_path: Path, number: int, code: int) -> None:
    bundle = tmp_path / "bundle"

    def folders() -> list[Path]:
        return [part for part in tmp_path.iterdir() if part.is_dir()]

    def at_work() -> bool:
        return bool(folders()) and not bundle.exists()

    returned, out, err = interrupted(number, [ECGFED, "export", fedavg_run, "--out", bundle], bundle, at_work)
    assert (returned, err.splitlines()[-1:]) == (code, ["ecgfed: stopped"]), (out, err)
    assert "Traceback" not in err
    assert not folders()
