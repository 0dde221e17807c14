"""What the command line does around every command: usage errors, help, a reader that goes away, no room to print."""

import json
import os
import signal
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from support import ECGFED, Command, assert_refused


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("bogus",), ("'bogus'", "see 'ecgfed --help'")),
        (("train",), ("COHORT", "see 'ecgfed train --help'")),
        (("train", "cohort", "--out", "run", "--rounds", "many"), ("--rounds: 'many'; expected a whole number",)),
        (("train", "cohort", "--out", "run", "--passes=few"), ("--passes: 'few'; expected a number",)),
        (("train", "cohort", "--out", "run", "--workers", "0"), ("--workers", "1")),
        (("train", "cohort", "--out", "run", "--bogus"), ("--bogus",)),
        (("train", "cohort", "more", "--out", "run"), ("more",)),
        (("evaluate", "run", "--split"), ("--split",)),
        (("prepare", "bogus"), ("'bogus'", "see 'ecgfed prepare --help'")),
        (("--bogus",), ("--bogus",)),
    ],
)
def test_a_usage_error_is_one_line(ecgfed: Command, arguments: tuple[str, ...], fragments: tuple[str, ...]) -> None:
    assert_refused(ecgfed(*arguments), *fragments)


def test_the_program_alone_shows_what_there_is(ecgfed: Command) -> None:
    """As pip, docker and cargo do: nothing was asked for that could have gone wrong."""
    said = ecgfed()
    assert (said.code, said.err) == (0, "")
    assert said.out == ecgfed("--help").out


@pytest.mark.parametrize("group", ["prepare", "runs", "keys", "federate"])
def test_half_a_command_shows_its_help_as_an_error(ecgfed: Command, group: str) -> None:
    """A script whose second word came out empty must not go on as if the work were done."""
    said = ecgfed(group)
    assert (said.code, said.out) == (2, "")
    assert said.err == ecgfed(group, "--help").out


@pytest.mark.parametrize("command", ["train", "evaluate", "export", "predict", "inspect", "methods", "prepare", "runs"])
def test_help(ecgfed: Command, command: str) -> None:
    said = ecgfed(command, "--help")
    assert (said.code, said.err) == (0, "")
    assert f"ecgfed {command}" in said.out


def test_version(ecgfed: Command) -> None:
    assert ecgfed("--version").out == f"ecgfed {version('ecgfed')}\n"


def test_methods(ecgfed: Command) -> None:
    rows = {row["name"]: row for row in json.loads(ecgfed("methods", "--json").out)}
    assert {"fedavg", "fedavg-uniform", "local"} <= set(rows)
    assert rows["fedavg"]["settings"]["lr"]["default"] == 0.02
    assert "fedavg" in ecgfed("methods").out


def _methods_to(stdout: int) -> subprocess.CompletedProcess[str]:
    command = [ECGFED, "methods", "--json"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_room_for_what_is_printed() -> None:
    with Path("/dev/full").open("w") as full:
        said = _methods_to(full.fileno())
    assert said.returncode == 2
    assert said.stderr == "ecgfed: standard output: could not be written (No space left on device)\n"


def test_a_file_that_ends_too_soon_is_no_ctrl_d(ecgfed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser ends with "stopped" where anything raises EOFError; what nobody caught is a defect, and to be seen."""

    def ends(folder: Path) -> list[Path]:
        raise EOFError("No data left in file")

    monkeypatch.setattr("ecgfed.core.runs.summary.find_runs", ends)
    with pytest.raises(EOFError, match="No data left"):
        ecgfed("runs", "list")


def test_a_reader_that_goes_away() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        said = _methods_to(write)
    finally:
        os.close(write)
    assert said.returncode == 1
    assert said.stderr == ""


def test_ctrl_c_leaves_a_run_to_go_on_with(cohort_path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [ECGFED, "train", str(cohort_path), "--out", str(run), "--rounds", "5000", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (run / "checkpoint" / "progress.json").is_file():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("ecgfed: stopped after round ")
    assert "Traceback" not in err
    assert json.loads((run / "checkpoint" / "progress.json").read_text())["round"] >= 1
