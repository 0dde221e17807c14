"""How far a command is, where there is no terminal: a line now and then, by a clock of the test's own."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from ecgfed_cli import output
from ecgfed_cli.output import progress_bar
from ecgfed_cli.progress import EVERY_S, LineProgress
from rich.console import Console


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said() -> list[str]:
    return []


def test_a_line_every_half_minute_and_one_at_the_end(clock: Clock, said: list[str]) -> None:
    """100 records, one a second: after 30 s 30 are done, one a second, and 70 s are left."""
    with LineProgress(said.append, clock) as progress:
        task = progress.add_task("records", total=100, about="")
        for number in range(1, 101):
            clock.now += 1
            progress.update(task, advance=1, about=f"p{number}")
    assert said == [
        "records: 30 of 100, 1.0/s, 70.0 s left, p30",
        "records: 60 of 100, 1.0/s, 40.0 s left, p60",
        "records: 90 of 100, 1.0/s, 10.0 s left, p90",
        "records: 100 of 100 in 100.0 s",
    ]


def test_what_is_done_at_once_says_nothing(clock: Clock, said: list[str]) -> None:
    with LineProgress(said.append, clock) as progress:
        task = progress.add_task("records", total=3, about="")
        for _ in range(3):
            clock.now += EVERY_S / 3 - 0.1
            progress.advance(task)
    assert said == []


def test_a_session_that_goes_on_counts_its_own_steps_only(clock: Clock, said: list[str]) -> None:
    """Rounds 200 to 205 of 210 in 50 s: 10 s each, 50 s left; 205 rounds in 50 s would be another rate."""
    with LineProgress(said.append, clock) as progress:
        task = progress.add_task("grp-fed", total=210, completed=200, about="")
        clock.now += 50
        progress.update(task, completed=205)
    assert said[0] == "grp-fed: 205 of 210, 10.0 s each, 50.0 s left"


def test_a_task_that_knows_better_is_believed(clock: Clock, said: list[str]) -> None:
    with LineProgress(said.append, clock) as progress:
        task = progress.add_task("grp-fed", total=400, about="", rate="")
        clock.now += 31
        progress.update(task, completed=100, rate="3.2 rounds/s", left_s=605.0, about="loss 0.3")
    assert said[0] == "grp-fed: 100 of 400, 3.2 rounds/s, 10 min 05 s left, loss 0.3"


def test_a_total_that_nobody_knows_yet(clock: Clock, said: list[str]) -> None:
    with LineProgress(said.append, clock) as progress:
        task = progress.add_task("download", total=None, about="")
        clock.now += 40
        progress.update(task, completed=20)
        clock.now += 40
        progress.update(task, completed=40, total=1000)
    assert said == [
        "download: 20, 2.0 s each",
        "download: 40 of 1,000, 2.0 s each, 32 min 00 s left",
        "download: 40 of 1,000 in 80.0 s",
    ]


def test_no_last_line_after_an_error(clock: Clock, said: list[str]) -> None:
    def work() -> None:
        with LineProgress(said.append, clock) as progress:
            task = progress.add_task("records", total=4, about="")
            clock.now += 31
            progress.advance(task)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert len(said) == 1


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A stderr of its own that is no terminal, and a line at every step."""
    stream = io.StringIO()
    monkeypatch.setattr(output, "stderr", type(output.stderr)(file=stream, width=80))
    monkeypatch.setattr("ecgfed_cli.progress.EVERY_S", 0.0)
    return stream


def test_the_commands_bar_says_lines_where_there_is_no_terminal(no_terminal: io.StringIO) -> None:
    with progress_bar(quiet=False) as bar:
        bar.update(bar.add_task("records", total=2, about=""), advance=1, about="[bold]x\x1b[31m" + "y" * 80)
    first, *_ = no_terminal.getvalue().splitlines()
    assert first.startswith("ecgfed: records: 1 of 2, ")
    assert first.endswith("[bold]x\\x1b[31m" + "y" * 80)  # plain, on one line


def test_quiet_says_nothing(no_terminal: io.StringIO) -> None:
    with progress_bar(quiet=True) as bar:
        bar.update(bar.add_task("records", total=2, about=""), advance=1)
    assert no_terminal.getvalue() == ""


def test_a_forced_colour_makes_no_terminal(no_terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI systems set FORCE_COLOR; a bar drawn into a log is unreadable."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(file=no_terminal).is_terminal
    with progress_bar(quiet=False) as bar:
        assert isinstance(bar, LineProgress)


def test_a_terminal_gets_a_bar() -> None:
    code = """
from ecgfed_cli.output import progress_bar
with progress_bar(False) as bar:
    bar.update(bar.add_task("records", total=2, about=""), advance=1, about="100[bold]" + "x" * 200)
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, env=environment)
    os.close(theirs)
    drawn = b""
    while part := _read(ours):
        drawn += part
    os.close(ours)
    assert process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn.decode())
    (line,) = {line for line in re.split(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n]", plain) if " 1/2 " in line}
    assert line.startswith("records ━")
    assert "100[bold]xxx" in line
    assert len(line) == 80  # one line, whatever the record is called
    assert "ecgfed: records:" not in line


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other side is closed
        return b""
