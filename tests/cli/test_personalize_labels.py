"""``ecgfed personalize RECORD --labels FILE``: what is said, written and refused; runs go on as they did."""

import csv
import json
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import write_record
from labelled_record import SYMBOLS, answers_of, grouped_of, table_of, truth_of
from support import Command, assert_refused, exported, snapshot, trace_once

from ecgfed.exports.device.shipped import shipped_model


@pytest.fixture(scope="module", autouse=True)
def graphs_traced_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        trace_once(patch)
        yield


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("own"), "rec", SYMBOLS, seed=4)


@pytest.fixture(scope="module")
def labels(record: Path) -> Path:
    """Ten labels of a patient whose ventricular beats a person calls fusions."""
    grouped = grouped_of(record)
    truth = ["F" if symbol == "V" else symbol for symbol in truth_of(record, grouped)]
    file = record.parent / "rec-labels.csv"
    file.write_bytes(table_of(grouped, answers_of(grouped, truth, 10)))
    return file


def test_from_a_recording_to_its_own_model(ecgfed: Command, record: Path, labels: Path, tmp_path: Path) -> None:
    named = ("--out", tmp_path / "it's mine", "--patient", "Jörg M")
    said = ecgfed("personalize", record, "--labels", labels, *named)
    assert (said.code, said.err) == (0, "")
    with labels.open(newline="") as stream:
        answers = Counter(row["label"] for row in csv.DictReader(stream) if row["label"])
    counts = ", ".join(f"{symbol} {count}" for symbol, count in answers.most_common())
    assert f"Jörg M: 10 labels ({counts})." in said.out
    assert "labels held back in turn, right: groups" in said.out
    assert "In the bundle: " in said.out
    assert "expected to have a wrong label" in said.out
    assert {file.name for file in (tmp_path / "it's mine-beats").iterdir()} == {"rec.own", "rec.csv"}
    words = shlex.split(said.out.split("Next: ecgfed ")[1])  # whatever the names are
    assert words[-2:] == ["--out", "predictions"]
    assert ecgfed(*words[:-1], tmp_path / "predictions").code == 0
    with (tmp_path / "it's mine-beats" / "rec.csv").open(newline="") as stream:
        own = [row["model"] for row in csv.DictReader(stream)]
    with (tmp_path / "predictions" / "rec.csv").open(newline="") as stream:
        assert [row["symbol"] for row in csv.DictReader(stream)] == own  # the device says what the table says


def test_the_report_says_how_many_labels_a_person_gave(
    ecgfed: Command, record: Path, labels: Path, tmp_path: Path
) -> None:
    assert ecgfed("personalize", record, "--labels", labels, "--out", tmp_path / "b", "--quiet").out == ""
    for file in ("rec.own", "rec.csv"):
        out = tmp_path / f"{file}.html"
        said = ecgfed("report", record, "--labels", tmp_path / "b-beats" / file, "--out", out, "--json")
        told = json.loads(said.out)
        assert told["provisional"]
        (text,) = [one["text"] for one in told["warnings"] if one["code"] == "spread-labels"]
        assert f"Of the beats of {file}, a person labelled 10; " in text
        assert told["labelled_by"] == f"the file {file}"


def test_json_says_all_of_it(ecgfed: Command, record: Path, labels: Path, tmp_path: Path) -> None:
    given = (
        "--labels",
        labels,
        "--out",
        tmp_path / "b",
        "--beats",
        tmp_path / "own",
        "--minutes",
        1.5,
        "--patient",
        "eve",
    )
    told = json.loads(ecgfed("personalize", record, *given, "--json").out)
    assert (told["patient"], told["minutes"], told["started_from"]) == ("eve", 1.5, "ecgfed/model")
    keys = {"labels", "parts", "groups", "personal", "global", "scratch", "by_class", "lowers"}
    assert not told["held_back"] or set(told["held_back"]) - {"by_time"} == keys
    assert told["files"] == [str(tmp_path / "own" / name) for name in ("rec.own", "rec.csv")]
    assert sum(told["beats_by_source"].values()) == told["beats"]
    assert told["beats_by_source"]["model"] > 0
    assert told["expected_wrong"]["of"] + told["beats_by_source"]["model"] >= told["beats"]
    assert told["seconds"] > 0


def test_options_of_the_other_form_are_refused(
    ecgfed: Command, record: Path, labels: Path, fedavg_run: Path, tmp_path: Path
) -> None:
    before, out = snapshot(tmp_path), ("--out", tmp_path / "b")
    of_labels = ("--labels", labels)
    for given, option in (
        ((*of_labels, "--record", record), "--record"),
        ((*of_labels, "--epochs", 3), "--epochs"),
        ((*of_labels, "--class-mix", labels), "--class-mix"),
        ((*of_labels, "--cohort", tmp_path), "--cohort"),
        ((*of_labels, "--method", "x.py:X"), "--method"),
    ):
        assert_refused(ecgfed("personalize", record, *given, *out), option, "is of runs", "is a recording")
    for given, option in (
        (of_labels, "--labels"),
        (("--record", record, "--bundle", exported(fedavg_run)), "--bundle"),
        (("--record", record, "--beats", tmp_path / "x"), "--beats"),
        (("--record", record, "--peaks", "detected"), "--peaks"),
        (("--record", record, "--mains", 50), "--mains"),
        (("--record", record, "--seed", 1), "--seed"),
        (("--record", record, "--trusted", labels), "--trusted"),
        (("--record", record, "--force"), "--force"),
    ):
        assert_refused(ecgfed("personalize", fedavg_run, *given, *out), option, "is of recordings", "is a run")
    assert_refused(ecgfed("personalize", record, *out), "--labels", "is missing", "is a recording")
    assert_refused(ecgfed("personalize", tmp_path / "nowhere", "--record", record, *out), "nowhere", "is not a folder")
    assert_refused(ecgfed("personalize", tmp_path / "nowhere", *of_labels, *out), "nowhere", "does not exist")
    assert_refused(ecgfed("personalize", tmp_path, *of_labels, *out), "is a folder", "one recording")
    assert_refused(ecgfed("personalize", record, *of_labels, *out, "--personal", "gate"), "did you mean gated")
    assert_refused(
        ecgfed("personalize", record, *of_labels, *out, "--bundle", exported(fedavg_run), "--patient", "p1"), "p1"
    )
    assert_refused(ecgfed("personalize", record, *of_labels, "--out", shipped_model(), "--overwrite"), "in the package")
    assert snapshot(tmp_path) == before


def test_what_is_no_file_of_labels_or_no_folder_is_said_before_the_work(
    ecgfed: Command, record: Path, labels: Path, tmp_path: Path
) -> None:
    before, out = snapshot(tmp_path), ("--out", tmp_path / "b")
    for name, found in ((record.parent, "is no file"), (tmp_path / "none.atr", "does not exist")):
        said = ecgfed("personalize", record, "--labels", name, *out)
        assert_refused(said, name.name, found, "a file of labels", "name one with --labels")
    for folder in (labels, labels / "below"):
        said = ecgfed("personalize", record, "--labels", labels, *out, "--beats", folder)
        assert_refused(said, "--beats", "rec-labels.csv is a file", "choose another")
    assert snapshot(tmp_path) == before


def test_nothing_of_a_stranger_becomes_markup(ecgfed: Command, tmp_path: Path) -> None:
    record = write_record(tmp_path, "rec", SYMBOLS, seed=4)
    table = tmp_path / "[bold]l\x1b[31m.csv"
    table.write_text("sample,label\n5,[red]X[/red]\n")
    said = ecgfed("personalize", record, "--labels", table, "--out", tmp_path / "b")
    assert_refused(said, "label '[red]X[/red]'", "[bold]l\\x1b[31m.csv")


@pytest.mark.mitdb
def test_twenty_labels_of_a_real_record(ecgfed: Command, mitdb: Path, tmp_path: Path) -> None:
    """208 has fusions that no model knows: the groups bring them; all of it within a minute, and better than before.

    The model in the package has learned from 208: what it says is no measure of a new patient, and it is said so.
    """
    record = mitdb / "208"
    grouped = grouped_of(record)
    truth = truth_of(record, grouped)
    (tmp_path / "l.csv").write_bytes(table_of(grouped, answers_of(grouped, truth, 20)))
    started = time.process_time()
    said = ecgfed("personalize", record, "--labels", tmp_path / "l.csv", "--out", tmp_path / "b", "--json")
    assert time.process_time() - started < 60
    assert said.code == 0
    assert "trained on this very recording" in said.err
    told = json.loads(said.out)
    held = told["held_back"]
    assert held["labels"] == 20
    assert held[told["kept"]] == max(held[name] for name in ("personal", "global", "scratch"))
    with (tmp_path / "b-beats" / "208.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(grouped.all_beats.r_samples)
    rows = [rows[row] for row in grouped.rows]  # those with a signal
    right = np.array([row["symbol"] == symbol for row, symbol in zip(rows, truth, strict=True)])
    without = np.array([str(a) == b for a, b in zip(grouped.names, truth, strict=True)])
    assert right.mean() > 0.96 > without.mean()
    assert told["label_next"]
