"""``label --second``: the beats of a first reader, asked blinded; the answers are what ``agreement`` takes."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import driven
from conftest import synthetic_signal, write_record
from support import Command, assert_refused

from ecgfed.base.errors import OptionError
from ecgfed.domain.labels.edits import ADDED
from ecgfed.domain.labels.user_labels import UserLabel, label_table, read_user_labels
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.tasks.grouped import recording_id
from ecgfed.tasks.second_reader import second_reader_page

SYMBOLS = "N" * 30 + "NNVNNNANNV" * 5 + "N" * 30
#: Beats that the first reader labelled, and his labels.
FIRST = {3: "N", 32: "V", 36: "A", 39: "F", 41: "|", 50: "?", 62: "a", 80: "L"}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("second"), "rec", SYMBOLS)


@pytest.fixture(scope="module")
def first(record: Path) -> Path:
    _, at = synthetic_signal(SYMBOLS)
    name = recording_id(open_recording(record, ("MLII",), every_lead=True))
    labels = [UserLabel(int(at[beat]), label, 40, recording=name) for beat, label in FIRST.items()]
    path = record.with_name("first.csv")
    path.write_bytes(label_table(labels, 360.0))
    return path


def asked_of(page: str) -> list[int]:
    return [point["sample"] for point in data_of(page)["points"].values()]


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="page-data">(.*?)</script>', page)
    data: dict[str, Any] = json.loads(text)
    return data


def test_the_page_asks_the_first_readers_beats_in_a_seeded_order(record: Path, first: Path) -> None:
    samples = [label.sample for label in read_user_labels(first)]
    orders = [asked_of(second_reader_page(record, first, seed=seed).html) for seed in (0, 0, 1)]
    assert all(sorted(order) == samples for order in orders)
    assert orders[0] == orders[1] != orders[2]
    assert samples not in orders


def test_nothing_of_the_first_reader_or_of_a_model_is_in_the_page(record: Path, first: Path, tmp_path: Path) -> None:
    """Other labels of the same beats give the same page, byte for byte."""
    rows = read_user_labels(first)
    others = [UserLabel(row.sample, "N", 3, "confirmed", row.recording) for row in rows]
    other = tmp_path / "other.csv"
    other.write_bytes(label_table(others, 360.0))
    page = second_reader_page(record, first, reader="AB").html
    assert page == second_reader_page(record, other, reader="AB").html
    data = data_of(page)
    assert {key for group in data["groups"] for key in group} == {"parent", "size", "beat"}
    assert all(point["at"] == [] for point in data["points"].values())
    assert data["pictures"] == {}
    assert "first.csv" not in page


def test_the_command_names_both_files_after_the_reader(
    ecgfed: Command, record: Path, first: Path, tmp_path: Path
) -> None:
    said = ecgfed("label", record, "--out", tmp_path, "--second", first, "--reader", "AB", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert (told["count"], told["reader"]) == (len(FIRST), "AB")
    assert told["files"] == [str(tmp_path / "rec-label-AB.html")]
    assert Path(told["labels_file"]).name == "rec-labels-AB.csv"
    assert_refused(ecgfed("label", record, "--out", tmp_path, "--second", first, "--reader", "AB"), "rec-label-AB.html")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--second", "first.csv", "--count", 5), "--count"),
        (("--second", "first.csv", "--minutes", 1), "--minutes"),
        (("--second", "first.csv", "--force"), "--force"),
        (("--second", "first.csv", "--reader", "a/b"), "--reader"),
        (("--reader", "AB"), "--second"),
        (("--second", "none.csv"), "none.csv"),
        (("--second", "stranger.csv"), "another recording"),
        (("--second", "shifted.csv"), "lie at no beat"),
    ],
)
def test_what_does_not_fit_is_refused(
    options: tuple[object, ...], fragment: str, ecgfed: Command, record: Path, first: Path, tmp_path: Path
) -> None:
    folder, rows = first.parent, read_user_labels(first)
    stranger = [UserLabel(row.sample, row.label, recording="ab" * 8) for row in rows]
    shifted = [UserLabel(row.sample + 130, row.label) for row in rows]
    for name, labels in (("stranger", stranger), ("shifted", shifted)):
        (folder / f"{name}.csv").write_bytes(label_table(labels, 360.0))
    given = [folder / option if str(option).endswith(".csv") else option for option in options]
    assert_refused(ecgfed("label", record, "--out", tmp_path / "out", *given), fragment)
    assert not (tmp_path / "out").exists()


def test_a_second_reader_has_another_name_than_the_first(record: Path, first: Path, tmp_path: Path) -> None:
    """Otherwise the answers would be written over the first reader's, or be taken for them."""
    named = tmp_path / "rec-labels-AB.csv"
    named.write_bytes(first.read_bytes())
    for reader in ("AB", "ab"):
        with pytest.raises(OptionError, match="another person"):
            second_reader_page(record, named, tmp_path, reader=reader, overwrite=True)
    assert named.read_bytes() == first.read_bytes()


def test_beats_that_the_first_reader_added_are_asked_too(record: Path, tmp_path: Path) -> None:
    """No detector finds them: they are no sign of another recording."""
    _, at = synthetic_signal(SYMBOLS)
    sample = [int(at[3]), int(at[6]), (int(at[8]) + int(at[9])) // 2]
    file = tmp_path / "page.edited"
    marks = Annotation(np.array(sample), np.array(["N", "N", "V"]), ("", "", ADDED))
    file.write_bytes(annotation_bytes(marks, 360.0))
    assert sorted(asked_of(second_reader_page(record, file).html)) == sample


@pytest.mark.browser
def test_a_second_reader_answers_and_agreement_compares(
    ecgfed: Command, record: Path, first: Path, tmp_path: Path
) -> None:
    """The first reader's answers are in the same browser, and stay out of the page."""
    page = second_reader_page(record, first, tmp_path, reader="AB")
    answers = ["N", "V", "A", "V", "x", "N", "A", "L"]
    order = asked_of(page.html)
    by_sample = dict(zip(sorted(order), answers, strict=True))
    given = {"page": str(page.files[0]), "recording": page.data["recording"], "keys": [by_sample[at] for at in order]}
    done = driven("second.mjs", given, tmp_path, timeout_s=120)
    assert done["errors"] == []
    assert done["opened"]["title"] == "Question 1: what is this beat?"
    assert done["opened"]["answered"] == 0
    assert done["axe"] == []
    assert done["width"] <= 390
    saved = tmp_path / "saved" / done["file"]
    assert saved.name == "rec-labels-AB.csv"
    labels = read_user_labels(saved)
    assert [row.label for row in labels] == [{"x": "|"}.get(answer, answer) for answer in answers]
    assert {row.recording for row in labels} == {page.data["recording"]}
    compared = json.loads(ecgfed("agreement", first, saved, "--json").out)
    assert (compared["only_first"], compared["only_second"], compared["cannot_tell"]) == (0, 0, 1)
    assert [(row["first"], row["second"]) for row in compared["disagreements"]] == [("F", "V"), ("a", "A")]
    samples = np.array([row["sample"] for row in compared["disagreements"]])
    assert [row["time_s"] for row in compared["disagreements"]] == pytest.approx(samples / 360, abs=0.001)
    printed = ecgfed("agreement", first, saved)
    assert printed.code == 0
    assert str(samples[0]) in printed.out
