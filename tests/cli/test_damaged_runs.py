"""Run folders damaged in every way: a row of the list or one line, never a traceback, and the other runs are listed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import Command, assert_refused
from written_run import write_run, write_scores

DEEP = "[" * 100_000 + "]" * 100_000
Damage = Callable[[Path], object]


def _text(file: str, text: str) -> Damage:
    return lambda run: (run / file).write_text(text)


def _bytes(file: str, data: bytes) -> Damage:
    return lambda run: (run / file).write_bytes(data)


def _cut(file: str, part: float) -> Damage:
    def cut(run: Path) -> None:
        data = (run / file).read_bytes()
        (run / file).write_bytes(data[: int(len(data) * part)])

    return cut


def _set(file: str, *path: str | int, value: Any) -> Damage:
    def change(run: Path) -> None:
        lines = file.endswith("l")
        text = (run / file).read_text()
        document: Any = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        told = "".join(json.dumps(line) + "\n" for line in document) if lines else json.dumps(document)
        (run / file).write_text(told)

    return change


def _folder(file: str) -> Damage:
    def replace(run: Path) -> None:
        (run / file).unlink()
        (run / file).mkdir()

    return replace


PROGRESS, SCORES = "checkpoint/progress.json", "evaluation-test/scores.json"
#: Each is seen by 'runs list', and by 'runs show' and 'runs compare' too.
LISTED: dict[str, Damage] = {
    "run.json is empty": _text("run.json", ""),
    "run.json is cut": _cut("run.json", 0.5),
    "run.json is a list": _text("run.json", "[1, 2]"),
    "run.json is deep": _text("run.json", DEEP),
    "run.json is no text": _bytes("run.json", b"\xff\xfe\x00\x01"),
    "run.json of another version": _set("run.json", "schema_version", value=99),
    "run.json without a method": _set("run.json", "method", value=None),
    "a method that is a list": _set("run.json", "method", value=["fedavg"]),
    "settings that are text": _set("run.json", "settings", value="lr=1"),
    "settings within settings": _set("run.json", "settings", "lr", value={"a": {"b": 1}}),
    "a plan that is a list": _set("run.json", "plan", value=[4]),
    "rounds as text": _set("run.json", "plan", "rounds", value="4"),
    "rounds that are true": _set("run.json", "plan", "rounds", value=True),
    "half a round": _set("run.json", "plan", "rounds", value=1.5),
    "no cohort": _set("run.json", "cohort", value={}),
    "a fingerprint that is a number": _set("run.json", "cohort", "fingerprint", value=7),
    "clients that are a number": _set("run.json", "clients", value=12),
    "progress.json is cut": _cut(PROGRESS, 0.5),
    "progress.json is a list": _text(PROGRESS, "[]"),
    "progress.json is deep": _text(PROGRESS, DEEP),
    "a finished round as text": _set(PROGRESS, "round", value="4"),
    "round -1": _set(PROGRESS, "round", value=-1),
    "a round of too many digits": _text(PROGRESS, '{"round": 1' + "0" * 5000 + "}"),
    "the checkpoint of another run": _set(PROGRESS, "run", value="0" * 64),
    "a broken line in the history": lambda run: (run / "history.jsonl").write_text('{"round": 1\n{"round": 2}\n'),
    "a line that is a number": _text("history.jsonl", "5\n6\n7\n8\n"),
    "a line without a round": _set("history.jsonl", 1, value={"passes": 1.0}),
    "a round that is null": _set("history.jsonl", 1, "round", value=None),
    "passes as text": _set("history.jsonl", 3, "passes", value="1.0"),
    "a score as text": _set("history.jsonl", 2, "valid_T_g", value="0.3"),
    "a score that is a list": _set("history.jsonl", 2, "valid_T_g", value=[0.3]),
    "a number too large": _set("history.jsonl", 3, "passes", value=10**400),
    "the history is no text": _bytes("history.jsonl", b"\xff\xff\n\xff\n"),
    "the history is deep": lambda run: (run / "history.jsonl").write_text(DEEP + "\n" + DEEP + "\n"),
}
#: Each is seen by 'runs show' and 'report'.
SHOWN: dict[str, Damage] = {
    "seconds as text": _set("timing.jsonl", 1, "seconds", value="0.5"),
    "examples that are a list": _set("timing.jsonl", 1, "examples", value=[100]),
    "no seconds": _set("timing.jsonl", 1, value={"round": 2}),
    "a broken line in the timing": lambda run: (run / "timing.jsonl").write_text("{\n{}\n"),
    "a loss as text": _set("history.jsonl", 3, "loss_mean", value="much"),
}
#: Each is seen by 'runs show' and 'runs compare'.
SCORED: dict[str, Damage] = {
    "scores.json is cut": _cut(SCORES, 0.7),
    "scores.json is a number": _text(SCORES, "1"),
    "scores.json is deep": _text(SCORES, DEEP),
    "no scores": _set(SCORES, "scores", value=None),
    "T_g as text": _set(SCORES, "scores", "T_g", value="0.5"),
    "patients that are no objects": _set(SCORES, "per_patient", value=[1, 2]),
    "a patient without a name": _set(SCORES, "per_patient", 0, "client", value=None),
    "a patient's F1 as text": _set(SCORES, "per_patient", 0, "personal_f1", value="good"),
    "classes that are an object": _set(SCORES, "per_class", value={"N": 1}),
    "beats as a share": _set(SCORES, "per_class", 0, "beats", value=0.5),
    "a round that is true": _set(SCORES, "round", value=True),
}


def _whole(folder: Path) -> Path:
    run = write_run(folder)
    write_scores(run, {"T_g": 0.5, "T_p": 0.5}, {"p1": (0.5, 0.5)}, classes={"N": (10, 10, 0.9)})
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three whole runs, the second of which a test damages."""
    for name in ("a", "b", "c"):
        _whole(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("damage", LISTED.values(), ids=LISTED)
def test_the_list_goes_on(ecgfed: Command, folder: Path, damage: Damage) -> None:
    damage(folder / "b")
    said = ecgfed("runs", "list", folder, "--json")
    assert (said.code, said.err) == (0, "")
    rows = json.loads(said.out)
    assert [Path(row["run"]).name for row in rows] == ["a", "b", "c"]
    assert [row["state"] for row in rows] == ["finished", "unreadable", "finished"]
    assert str(folder / "b") in rows[1]["problem"]
    assert len(rows[1]["problem"]) < 600
    printed = ecgfed("runs", "list", folder)
    assert (printed.code, printed.err) == (0, "")
    assert "unreadable" in printed.out
    assert rows[1]["problem"] in printed.out
    assert_refused(ecgfed("runs", "show", folder / "b"), str(folder / "b"))
    assert_refused(ecgfed("runs", "compare", folder / "a", folder / "b"), str(folder / "b"))
    assert_refused(ecgfed("report", folder / "b", "--out", folder / "page.html"), str(folder / "b"))


@pytest.mark.parametrize("damage", SHOWN.values(), ids=SHOWN)
def test_what_only_show_reads(ecgfed: Command, folder: Path, damage: Damage) -> None:
    damage(folder / "b")
    assert_refused(ecgfed("runs", "show", folder / "b"), str(folder / "b"))
    assert [row["state"] for row in json.loads(ecgfed("runs", "list", folder, "--json").out)] == ["finished"] * 3
    assert_refused(ecgfed("report", folder / "b", "--out", folder / "page.html"), str(folder / "b"))
    page = folder / "compared.html"
    assert ecgfed("runs", "compare", folder / "a", folder / "b", "--out", page).code == 0


@pytest.mark.parametrize("damage", SCORED.values(), ids=SCORED)
def test_damaged_scores(ecgfed: Command, folder: Path, damage: Damage) -> None:
    damage(folder / "b")
    again = f"ecgfed evaluate {folder / 'b'} --split test"
    for command in (("show", folder / "b"), ("compare", folder / "a", folder / "b")):
        said = ecgfed("runs", *command)
        assert_refused(said, "scores.json")
        assert again in said.err or "cannot be read as JSON" in said.err
    assert_refused(ecgfed("report", folder / "b", "--out", folder / "page.html"), "scores.json")
    assert not (folder / "page.html").exists()
    assert [row["state"] for row in json.loads(ecgfed("runs", "list", folder, "--json").out)] == ["finished"] * 3


@pytest.mark.parametrize("file", ["history.jsonl", "timing.jsonl", SCORES, PROGRESS])
def test_a_folder_in_place_of_a_file_counts_as_none(ecgfed: Command, folder: Path, file: str) -> None:
    _folder(file)(folder / "b")
    assert ecgfed("runs", "show", folder / "b").code == 0
    assert len(json.loads(ecgfed("runs", "list", folder, "--json").out)) == 3


def test_a_history_that_lacks_its_lines_has_no_passes(ecgfed: Command, folder: Path) -> None:
    (folder / "b" / "history.jsonl").unlink()
    _, row, _ = json.loads(ecgfed("runs", "list", folder, "--json").out)
    assert (row["rounds_done"], row["passes"], row["valid_T_g"]) == (4, None, None)
    assert "4 of 4, - passes" in ecgfed("runs", "show", folder / "b").out


def test_numbers_that_are_none_are_null(ecgfed: Command, folder: Path) -> None:
    """Python writes NaN into JSON, which is none; no script should meet it."""
    _set("history.jsonl", 3, "valid_T_g", value=float("nan"))(folder / "b")
    said = ecgfed("runs", "list", folder, "--json")
    assert json.loads(said.out, parse_constant=pytest.fail)[1]["valid_T_g"] is None
    assert ecgfed("runs", "list", folder).code == 0


def test_what_is_no_run_does_not_make_code_run(ecgfed: Command, folder: Path) -> None:
    """A method may lie in a file; listing, showing and comparing do not open it."""
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Mine: ...\n")
    _set("run.json", "method", value=f"{folder}/evil.py:Mine")(folder / "b")
    _set("run.json", "schema_version", value=1)(folder / "b")
    for command in (("list", folder), ("show", folder / "b"), ("compare", folder / "a", folder / "b")):
        assert ecgfed("runs", *command).code == 0
    assert not (folder / "ran").exists()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(data=st.data())
def test_any_value_anywhere(ecgfed: Command, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Some entry of some file replaced by anything: exit code 0 or one line, whatever it is."""
    folder = tmp_path_factory.mktemp("any")
    run = _whole(folder / "run")
    other = _whole(folder / "other")
    file = data.draw(st.sampled_from(["run.json", "history.jsonl", "timing.jsonl", PROGRESS, SCORES]))
    path: list[str | int] = [data.draw(st.integers(0, 3))] if file.endswith("l") else []
    text = (run / file).read_text()
    inner: Any = json.loads(text) if not path else json.loads(text.splitlines()[0])
    while isinstance(inner, dict | list) and inner and (not path or path[-1] is not None):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        path.append(key)
        inner = inner[key]
        if data.draw(st.booleans()):
            break
    _set(file, *path, value=data.draw(values))(run)
    assert ecgfed("runs", "list", folder).code == 0
    pages = folder / "run.html", folder / "compared.html"
    for command in (
        ("runs", "show", run),
        ("runs", "compare", other, run, "--out", pages[1]),
        ("runs", "show", run, "--json"),
        ("report", run, "--out", pages[0], "--json"),
    ):
        said = ecgfed(*command)
        if said.code:
            assert_refused(said)
        elif command[-1] == "--json":
            json.loads(said.out, parse_constant=pytest.fail)
    for page in pages:
        assert not page.exists() or re.search(r'"[^"]*\b(?:nan|inf)\b[^"]*"', page.read_text()) is None
