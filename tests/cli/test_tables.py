"""Tables at the width of a terminal, and names from files printed as what they are: text."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ecgfed_cli.tables import Cell, key_values, table, without_zero_rows
from rich.console import Console, RenderableType
from support import ECGFED, Command
from written_run import write_run

#: What a file may call a lead, a class, a record: markup of the printer's, an emoji's code, a command to the terminal.
WILD = "[red]V1[/red] :heart: \x1b[2J\x9b31m\u202eecg"


def drawn(what: RenderableType, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False).print(what)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def rows_of(what: RenderableType, width: int) -> list[list[str]]:
    return [line.split() for line in drawn(what, width)]


def test_numbers_stand_to_the_right_and_names_to_the_left() -> None:
    rows: list[list[Cell]] = [["N", 1234567, 0.5, "12.0 s"], ["V", 8, None, "-"], ["longer", 0, float("nan"), "1.5 s"]]
    lines = drawn(table(["class", "beats", "F1", "time"], rows, width=80), 80)
    assert lines[0].split() == ["class", "beats", "F1", "time"]
    assert lines[2:] == [
        "N       1,234,567  0.500  12.0 s",
        "V               8      -       -",
        "longer          0      -   1.5 s",
    ]


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_no_line_is_longer_than_the_terminal_and_no_number_is_cut(width: int) -> None:
    columns = ["patient", "beats of the patient", "personal model's F1", "where it lies"]
    rows: list[list[Cell]] = [
        [f"patient-{n:04d}", 1000 * n, n / 7, f"runs/grp-fed-{n}/client{n}.000012"] for n in range(9)
    ]
    lines = drawn(table(columns, rows, width=width), width)
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    assert "…" not in text
    for row in rows:
        assert f"{row[1]:,}" in text
        assert f"{row[2]:.3f}" in text


def test_a_name_breaks_at_its_joints() -> None:
    lines = drawn(table(["run", "rounds"], [["runs/grp-fed-seed-17/evaluation", "12/300"]], width=30), 30)
    assert [line.split()[0] for line in lines[2:]] == ["runs/grp-fed-seed-17/", "evaluation"]
    assert lines[2].endswith("12/300")


def test_headings_give_way_before_names_do() -> None:
    lines = drawn(table(["a long heading of many words", "name"], [[1, "one-name-of-24-characters"]], width=40), 40)
    assert "one-name-of-24-characters" in lines[-1]
    assert len(lines) > 3


def test_where_there_is_no_room_each_row_is_a_list() -> None:
    columns = ["record", *(f"score{n}" for n in range(8))]
    lines = rows_of(table(columns, [["100", *range(100, 108)], ["101", *range(8)]], width=40), 40)
    assert lines[0] == ["record", "100"]
    assert lines[8] == ["score7", "107"]
    assert lines[9] == []
    assert lines[10] == ["record", "101"]


def test_facts_keep_names_whole() -> None:
    lines = drawn(key_values([("settings", "lr=0.005, " * 30), ("x", None)], width=40), 40)
    assert max(map(len, lines)) <= 40
    assert all("lr=0.005," in word for line in lines[:-1] for word in line.removeprefix("settings").split())
    assert lines[-1].split() == ["x", "-"]


def test_rows_of_zeros() -> None:
    rows: list[list[Cell]] = [["N", 5, 0], ["F", 0, 0], ["V", 0, 3], ["e", None, "0"], ["S", "-", ""]]
    assert without_zero_rows(rows) == ([["N", 5, 0], ["V", 0, 3]], ["F", "e", "S"])


def assert_plain(said: str) -> None:
    """Markup and codes stand there as they are; nothing that a terminal obeys does."""
    assert "\x1b" not in said
    assert "\x9b" not in said
    assert "\u202e" not in said
    assert "[red]V1[/red] :heart: \\x1b[2J\\x9b31m\\u202eecg" in said


@pytest.mark.parametrize("where", ["cell", "heading", "title"])
def test_a_table_prints_text(where: str, capfd: pytest.CaptureFixture[str]) -> None:
    from ecgfed_cli import output

    parts = {"cell": "x", "heading": "y", "title": "z"} | {where: WILD}
    output.console.print(output.table([parts["heading"], "n"], [[parts["cell"], 1]], title=parts["title"]))
    assert_plain(capfd.readouterr().out)


def test_lines_print_text(capfd: pytest.CaptureFixture[str]) -> None:
    from ecgfed_cli import output
    from rich.table import Table

    output.note(WILD, quiet=False)
    assert_plain(capfd.readouterr().out)
    output.note(WILD, quiet=False, json_output=True)
    output.warn(WILD)
    first, second = capfd.readouterr().err.splitlines()
    assert_plain(first)
    assert_plain(second)
    old = Table(WILD)
    old.add_row("x")
    output.console.print(old)  # a table made without our helper
    assert_plain(capfd.readouterr().out)
    output.print_json({WILD: WILD, "not a number": float("nan")})
    told = capfd.readouterr().out
    assert not set("\x1b\x9b\u202e") & set(told)
    assert json.loads(told) == {WILD: WILD, "not a number": None}


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_break_between_words_on_a_terminal_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from ecgfed_cli import output

    stream = io.StringIO()
    kind = type(output.console)
    monkeypatch.setattr(output, "console", kind(file=stream, width=20, force_terminal=terminal, color_system=None))
    path = "a/path/that-is-longer-than-the-line"
    output.note(f"Some words about {path} here", quiet=False)
    output.note("Next: ecgfed evaluate run --split valid", quiet=False)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    prose = ["Some words about", path, "here"] if terminal else [f"Some words about {path} here"]
    assert lines == [*prose, "Next: ecgfed evaluate run --split valid"]


def test_a_run_with_a_wild_name(ecgfed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    name = WILD.replace("/", "|")
    run = write_run(tmp_path / name, method=WILD)
    for command in (("list", tmp_path), ("show", run)):
        said = ecgfed("runs", *command)
        assert said.code == 0
        assert_plain(said.out)
    shutil.rmtree(run / "checkpoint")
    (run / "run.json").write_text("{")
    assert "\x1b" not in ecgfed("runs", "list", tmp_path).out
    said = ecgfed("runs", "show", run)
    assert (said.code, "\x1b" in said.err, "\u202e" in said.err) == (2, False, False)
    assert len(said.error_lines) == 1


def test_leads_with_wild_names(ecgfed: Command, tmp_path: Path) -> None:
    """Lead names come from a file's heading, here a CSV's."""
    name = WILD.replace("\x9b", "").replace("/", "|")
    rows = "".join(f"{n / 250},{0.1 * (n % 200 == 0)},{0.2 * (n % 200 == 0)}\n" for n in range(250 * 12))
    (tmp_path / "a.csv").write_text(f"time,{name},[bold]MLII\n{rows}")
    for command in (("inspect", tmp_path / "a.csv"), ("convert", tmp_path / "a.csv", "--out", tmp_path / "out")):
        said = ecgfed(*command, "--units", "mV")
        assert not set("\x1b\u202e") & set(said.out + said.err)
        assert "[bold]MLII" in said.out + said.err


def test_a_name_that_the_terminal_cannot_write(ecgfed: Command, tmp_path: Path) -> None:
    """Half a character in a file's name (surrogate escape): shown, and no error; nor with an ASCII terminal."""
    run = write_run(tmp_path / "caf\udce9-\u03bc")
    said = ecgfed("runs", "list", tmp_path)
    assert said.code == 0
    assert "caf\\udce9-\u03bc" in said.out
    assert ecgfed("runs", "show", run).code == 0


def test_an_ascii_terminal(tmp_path: Path) -> None:
    write_run(tmp_path / "\u03bc")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    said = subprocess.run([ECGFED, "runs", "list", tmp_path], capture_output=True, env=environment, check=False)
    assert said.returncode == 0, said.stderr
    assert b"\\u03bc" in said.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirected output on Windows is no UTF-8, and a name that it cannot write must not break the document."""
    from ecgfed_cli import output

    told = {"patient": "Müller \x81 심 😀"}
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    output.print_json(told)
    stream.flush()
    assert json.loads(stream.buffer.getvalue().decode(encoding)) == told  # type: ignore[attr-defined]
