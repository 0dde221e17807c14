"""Labels that a person gave: read from every file they come in, given to beats, refused in one line."""

import re
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import write_record
from labelled_record import SYMBOLS, answers_of, grouped_of, table_of, truth_of

import ecgfed as package
from ecgfed.base.errors import EcgfedError, RecordError
from ecgfed.domain.labels.edits import ADDED
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.tasks.grouped import GroupedBeats
from ecgfed.tasks.matched_labels import match_labels, read_label_file

HEAD = "recording,sample,time_s,label,beats,source\n"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("own"), "rec", SYMBOLS, seed=4)


@pytest.fixture(scope="module")
def grouped(record: Path) -> GroupedBeats:
    return grouped_of(record)


def given(text: str | bytes, folder: Path, name: str = "labels.csv") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def refused(path: Path, grouped: GroupedBeats) -> str:
    with pytest.raises(EcgfedError) as problem:
        match_labels(read_label_file(path, grouped.beats.recording), path, grouped, None)
    assert "\n" not in problem.value.line
    assert path.name in problem.value.line
    return problem.value.line


def test_the_pages_table_is_given_to_its_beats(record: Path, grouped: GroupedBeats, tmp_path: Path) -> None:
    truth = truth_of(record, grouped)
    label = answers_of(grouped, truth, 12)
    assert set(label.values()) >= {"N", "V"}
    file = given(table_of(grouped, label), tmp_path)
    found = match_labels(read_label_file(file, grouped.beats.recording), file, grouped, None)
    assert (found.label, found.unmatched, found.past_minutes) == (dict(sorted(label.items())), 0, 0)
    assert found.counts == {s: list(label.values()).count(s) for s in found.counts}


def test_an_annotation_and_a_table_of_marks_are_read_as_the_report_reads_them(
    record: Path, grouped: GroupedBeats, tmp_path: Path
) -> None:
    """Every beat is marked: each has its own label."""
    truth = truth_of(record, grouped)
    marks = wfdb.rdann(str(record), "atr")
    rows = "".join(f"{at};{symbol}\n" for at, symbol in zip(marks.sample, marks.symbol, strict=True))
    for file in (record.with_suffix(".atr"), given(f"sample;symbol\n{rows}", tmp_path, "marks.csv")):
        found = match_labels(read_label_file(file, grouped.beats.recording), file, grouped, None)
        assert found.label == dict(enumerate(truth))


def test_a_label_goes_to_the_peak_within_150_ms(grouped: GroupedBeats, tmp_path: Path) -> None:
    at = grouped.beats.r_samples
    rows = [
        f"{at[beat] + shift},N"
        for beat, shift in [(3, 54), (5, -54), (8, 0), (20, 5), *((b, 0) for b in range(30, 50))]
    ]
    file = given("sample,label\n" + "\n".join([*rows, f"{(at[60] + at[61]) // 2},V"]), tmp_path)
    found = match_labels(read_label_file(file, grouped.beats.recording), file, grouped, None)
    assert set(found.label) == {3, 5, 8, 20, *range(30, 50)}
    assert found.unmatched == 1


def test_an_added_beat_is_an_r_peak(record: Path, grouped: GroupedBeats, tmp_path: Path) -> None:
    """A beat that no detector finds has its label; one that lies at a detected beat is that beat."""
    at = grouped.beats.r_samples
    gap = (int(at[20]) + int(at[21])) // 2
    sample = np.array([*at[:20].tolist(), gap, int(at[30]) + 3], np.int64)
    note = ("",) * 20 + (ADDED, ADDED)
    marks = Annotation(sample, np.array(["N"] * 20 + ["V", "V"]), note)
    file = given(annotation_bytes(marks, grouped.beats.recording.fs_hz), tmp_path, "page.edited")
    labels = read_label_file(file, grouped.beats.recording)
    assert labels.added.tolist() == [gap, int(at[30]) + 3]
    both = grouped_of(record, added=labels.added)
    assert both.all_beats.r_samples.tolist() == sorted([*grouped.all_beats.r_samples.tolist(), gap])
    found = match_labels(labels, file, both, None)
    assert found.unmatched == 0
    samples = both.beats.r_samples
    labelled = {int(samples[beat]): symbol for beat, symbol in found.label.items()}
    labelled |= {int(both.all_beats.r_samples[beat]): symbol for beat, symbol in found.without_signal.items()}
    assert {sample for sample, symbol in labelled.items() if symbol == "V"} == {gap, int(at[30])}


def test_a_beat_that_was_removed_and_added_beside_its_place_has_one_label(
    record: Path, grouped: GroupedBeats, tmp_path: Path
) -> None:
    at = grouped.beats.r_samples.tolist()
    sample = np.array([at[5], at[30], at[30] + 5], np.int64)
    marks = Annotation(sample, np.array(["N", "|", "V"]), ("", "", ADDED))
    file = given(annotation_bytes(marks, grouped.beats.recording.fs_hz), tmp_path, "page.edited")
    labels = read_label_file(file, grouped.beats.recording)
    found = match_labels(labels, file, grouped_of(record, added=labels.added), None)
    assert (found.label, found.unmatched) == ({5: "N", 30: "V"}, 0)


def test_no_beat_where_the_detector_finds_none_is_no_fault(grouped: GroupedBeats, tmp_path: Path) -> None:
    at = grouped.beats.r_samples
    between = (at[60] + at[61]) // 2
    file = given(f"sample,label\n{at[2]},N\n{between},|\n{at[9]},|\n", tmp_path)
    found = match_labels(read_label_file(file, grouped.beats.recording), file, grouped, None)
    assert (found.label, found.unmatched) == ({2: "N", 9: "|"}, 0)


def test_labels_past_the_first_minutes_do_not_count(record: Path, tmp_path: Path) -> None:
    grouped = grouped_of(record, minutes=1.0)
    at = grouped.beats.r_samples
    rows = "".join(f"{one},N\n" for one in at.tolist())
    file = given(f"sample,label\n{rows}", tmp_path)
    found = match_labels(read_label_file(file, grouped.beats.recording), file, grouped, 1.0)
    assert set(found.label) == set(np.flatnonzero(at < 60 * 360).tolist())
    assert found.past_minutes == int((at >= 60 * 360).sum())
    late = given(f"sample,label\n{at[-1]},N\n", tmp_path)
    with pytest.raises(RecordError, match="says of no beat what it is in the first 1 minute"):
        match_labels(read_label_file(late, grouped.beats.recording), late, grouped, 1.0)


def test_labels_of_another_recording_are_refused(record: Path, grouped: GroupedBeats, tmp_path: Path) -> None:
    label = answers_of(grouped, truth_of(record, grouped), 8)
    mine = given(table_of(grouped, label, "0123456789abcdef"), tmp_path)
    assert "labels of another recording (0123456789abcdef)" in refused(mine, grouped)
    other = write_record(tmp_path, "other", "N" * 150, seed=9)
    marks = other.with_suffix(".atr")
    assert "lie at no beat of rec" in refused(marks, grouped)
    elsewhere = grouped_of(other)
    nameless = given(table_of(elsewhere, answers_of(elsewhere, ["N"] * 150, 20), ""), tmp_path)
    assert "lie at no beat of rec" in refused(nameless, grouped)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no label|columns none|no columns"),
        (HEAD + f",{10**14},,N,,\n", "0 to .*, the recording's length"),
        (HEAD + ",100,,?,,\n", "no beat|what it is"),
        ("sample,name\n5,N\n", "columns sample, name"),
    ],
)
def test_tables_that_cannot_be_used_are_one_line(grouped: GroupedBeats, tmp_path: Path, text: str, said: str) -> None:
    """Of a recording; what no table may hold: ``labels/test_table_of_labels.py``."""
    assert re.search(said, refused(given(text, tmp_path), grouped))


def test_what_is_no_table_and_no_annotation(grouped: GroupedBeats, tmp_path: Path) -> None:
    for name in ("labels.csv", "labels.atr"):
        refused(given(b"\x00\xff\xfe" * 500, tmp_path, name), grouped)
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", grouped)
    refused(tmp_path / "nowhere.csv", grouped)
    refused(tmp_path / "nowhere.atr", grouped)


def test_a_models_labels_are_no_persons(record: Path, grouped: GroupedBeats, tmp_path: Path) -> None:
    for file in package.predict(record).save(tmp_path)[:2]:
        assert "a model's labels, which nobody has reviewed" in refused(file, grouped)
