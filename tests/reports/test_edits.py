"""``report --edits``: edits count as if the labels had been so, and files of strangers are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from edits_files import AUTHOR, SAVED, accept, add, document_of, interval, label, rhythm, written
from support import Command, assert_refused

import ecgfed
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.tasks.matched_labels import read_label_file

SYMBOLS = "N" * 30 + "VVVV" + "N" * 30 + "VV" + "N" * 20 + "A" + "N" * 40


def labelled_as(folder: Path, symbols: str, keep: Callable[[int], bool] = lambda at: True, note: str = "") -> Path:
    """Write labels of the synthetic recording, of some of its beats."""
    _, at = synthetic_signal(SYMBOLS)
    rows = [
        f"{sample},{symbol}," for i, (sample, symbol) in enumerate(zip(at.tolist(), symbols, strict=True)) if keep(i)
    ]
    rows += [f"{at[40]},+,({note}", f"{at[60]},+,(N"] if note else []
    path = folder / f"labels-{len(list(folder.glob('labels-*')))}.csv"
    path.write_text("\n".join(["sample,symbol,note", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("edited"), "rec", SYMBOLS)


@pytest.fixture(scope="module")
def peaks() -> list[int]:
    return list(map(int, synthetic_signal(SYMBOLS)[1]))


@pytest.fixture(scope="module")
def by_model(record: Path) -> RecordingReport:
    return ecgfed.report(record)


@pytest.fixture(scope="module")
def sound(record: Path, peaks: list[int]) -> tuple[Path, dict[str, Any]]:
    """Labels beside the recording, and a document of each kind of edit that fits them."""
    labels = labelled_as(record.parent, SYMBOLS, note="AFIB")
    edits = label("V", peaks[2]), interval(peaks[2], peaks[3], accepted=True), rhythm("AF", peaks[40], peaks[60], "")
    return labels, document_of(ecgfed.report(record, labels=labels), *edits)


def counts(report: RecordingReport) -> dict[str, Any]:
    """What of a report does not name who labelled it."""
    told = report.to_dict()
    without = {"labelled_by", "review", "excluded", "files", "notes"}
    return {name: value for name, value in told.items() if name not in without}


def test_edited_labels_count_as_labels_that_were_so(record: Path, peaks: list[int], tmp_path: Path) -> None:
    """Two V of a run become N, a beat is removed, an N becomes a V beside another class: as a file of such labels."""
    labels = labelled_as(tmp_path, SYMBOLS)
    base = ecgfed.report(record, labels=labels)
    edits = document_of(
        base, label("F", peaks[31]), label("N", peaks[31], peaks[32]), label("|", peaks[70]), label("E", peaks[5])
    )
    edited = ecgfed.report(record, labels=labels, edits=written(tmp_path, edits))
    changed = list(SYMBOLS)
    changed[31], changed[32], changed[5] = "N", "N", "E"
    expected = ecgfed.report(record, labels=labelled_as(tmp_path, "".join(changed), lambda at: at != 70))
    ours, theirs = counts(edited), counts(expected)
    assert {k: v for k, v in ours["by_class"].items() if v} == {k: v for k, v in theirs["by_class"].items() if v}
    for name in ("ventricular", "supraventricular", "variability", "rates", "pauses", "beats", "counted"):
        assert ours[name] == theirs[name], name
    assert edited.to_dict()["excluded"]["beats"]["excluded"]["removed"] == 1
    assert base.to_dict()["review"] is None
    review = edited.to_dict()["review"]
    assert (review["author"], review["beats"], review["removed"]) == (AUTHOR, 3, 1)


def test_accepted_beats_need_no_review(record: Path, by_model: RecordingReport, tmp_path: Path) -> None:
    beats = [beat["sample"] for beat in ecgfed.predict(record).to_dict()["beats"]]
    document = document_of(by_model, accept(*beats))
    told = ecgfed.report(record, edits=written(tmp_path, document)).to_dict()
    assert set(told["uncertain_by_class"].values()) == {0}
    assert told["withheld"] == {}
    assert not any(event["review"] for event in told["events"] if event["kind"].endswith("run"))
    assert told["provisional"] is True  # nobody has reviewed the report


def test_an_interval_is_rejected_and_accepted(record: Path, peaks: list[int], tmp_path: Path) -> None:
    labels = labelled_as(tmp_path, SYMBOLS, lambda at: at not in (80, 81, 82, 83))
    base = ecgfed.report(record, labels=labels)
    before = base.to_dict()["pauses"]
    assert not before["found"]  # the signal shows beats there
    assert len(before["not_confirmed"]) == 1
    gap = peaks[79], peaks[84]
    accepted = document_of(base, interval(*gap, accepted=False), interval(*gap, accepted=True))
    (pause,) = ecgfed.report(record, labels=labels, edits=written(tmp_path, accepted)).to_dict()["pauses"]["found"]
    assert pause["value"] == pytest.approx((gap[1] - gap[0]) / 360)
    rejected = document_of(base, interval(*gap, accepted=False))
    after = ecgfed.report(record, labels=labels, edits=written(tmp_path, rejected)).to_dict()["pauses"]
    assert (after["found"], after["not_confirmed"]) == ([], [])


def test_an_added_beat_counts_as_one_that_was_labelled(record: Path, peaks: list[int], tmp_path: Path) -> None:
    """As a file that has the beat: rates, runs, pauses and classes; the interval that lacked it is not unconfirmed."""
    missing = (32, 80, 81, 82, 83)  # a beat of a run, and four consecutive beats
    labels = labelled_as(tmp_path, SYMBOLS, lambda at: at not in missing)
    expected = ecgfed.report(record, labels=labelled_as(tmp_path, SYMBOLS))
    base = ecgfed.report(record, labels=labels)
    assert base.to_dict()["pauses"]["not_confirmed"]
    edits = [add(SYMBOLS[at], peaks[at]) for at in missing]
    edited = ecgfed.report(record, labels=labels, edits=written(tmp_path, document_of(base, *edits)))
    ours, theirs = counts(edited), counts(expected)
    for name in ("by_class", "ventricular", "supraventricular", "variability", "rates", "pauses", "beats", "counted"):
        assert ours[name] == theirs[name], name
    review = edited.to_dict()["review"]
    assert (review["added"], review["beats"], review["removed"]) == (5, 5, 0)
    undone = [*edits, label("|", *(peaks[at] for at in missing))]
    ours = counts(ecgfed.report(record, labels=labels, edits=written(tmp_path, document_of(base, *undone))))
    for name in ("rates", "pauses", "beats", "ventricular"):
        assert ours[name] == counts(base)[name], name


def test_an_added_beat_is_a_label_for_personalize(record: Path, peaks: list[int], tmp_path: Path) -> None:
    labels = labelled_as(tmp_path, SYMBOLS, lambda at: at != 80)
    base = ecgfed.report(record, labels=labels)
    for reviewed in (None, {"by": AUTHOR, "at": SAVED}):
        edits = document_of(base, add("V", peaks[80]), label("A", peaks[3]), reviewed=reviewed)
        page = tmp_path / "page.html"
        edited = ecgfed.report(record, labels=labels, edits=written(tmp_path, edits), out=page, overwrite=True)
        read = read_label_file(page.with_suffix(".edited"), edited.recording)
        assert read.added.tolist() == [peaks[80]]
        assert read.symbol[read.sample == peaks[80]].tolist() == ["V"]


def test_an_episode_is_accepted_renamed_and_rejected(record: Path, peaks: list[int], tmp_path: Path) -> None:
    labels = labelled_as(tmp_path, SYMBOLS, note="AFIB")
    base = ecgfed.report(record, labels=labels)
    (start, stop) = peaks[40], peaks[60]

    def rhythms(*edits: dict[str, Any]) -> dict[str, str]:
        path = written(tmp_path, document_of(base, *edits))
        told = ecgfed.report(record, labels=labels, edits=path).to_dict()
        return {row["rhythm"]: row["source"] for row in told["rhythms"]}

    assert rhythms()["AF"] == "labels"
    assert rhythms(rhythm("AF", start, stop, "AF"))["AF"] == "reviewer"
    assert "AF" not in rhythms(rhythm("AF", start, stop, ""))
    assert rhythms(rhythm("AF", start, stop, "")).keys() | {"AF"} == rhythms().keys()
    renamed = rhythms(rhythm("AF", start, stop, "atrial flutter"))
    assert renamed["atrial flutter"] == "reviewer"
    assert "AF" not in renamed


def test_the_page_says_who_reviewed_it(record: Path, by_model: RecordingReport, tmp_path: Path) -> None:
    assert "Not reviewed." in by_model.html
    texts = {"indication": "Syncope <b>", "comments": "Line one\nline two", "conclusion": "SR"}
    strips = [{"sample": 3600, "comment": "A comment"}]
    reviewed = {"by": "Dr R. Viewer", "at": SAVED}
    document = document_of(by_model, **texts, strips=strips, reviewed=reviewed)
    report = ecgfed.report(record, edits=written(tmp_path, document))
    page = report.html
    assert "Reviewed by Dr R. Viewer at 2026-03-04 09:15+01:00." in page
    assert "Syncope &lt;b&gt;" in page
    assert "line two" in page
    assert [strip.at_s for strip in report.parts.gallery if "A comment" in strip.caption] == [10.0]
    assert report.to_dict()["provisional"] is False


def test_the_command_writes_the_page_and_labels_of_the_person(
    ecgfed: Command, record: Path, peaks: list[int], tmp_path: Path
) -> None:
    """Of a report that is not reviewed only the edited beats are labels."""
    import ecgfed as package

    labels = labelled_as(tmp_path, SYMBOLS)
    base = package.report(record, labels=labels)
    document = document_of(base, label("A", peaks[3]), label("|", peaks[8]), accept(peaks[30]))
    for reviewed, expected in (
        (None, [(peaks[3], "A"), (peaks[8], "|"), (peaks[30], "V")]),
        ({"by": AUTHOR, "at": SAVED}, None),
    ):
        edits = written(tmp_path, document | {"reviewed": reviewed})
        said = ecgfed(
            "report", record, "--labels", labels, "--edits", edits, "--out", tmp_path / "page.html", "--overwrite"
        )
        assert said.code == 0, said.err
        marks = read_annotation_file(tmp_path / "page.edited", fs_hz=360)
        pairs = list(zip(marks.sample.tolist(), marks.symbol.tolist(), strict=True))
        if expected is None:
            symbols = list(SYMBOLS)
            symbols[3] = "A"
            expected = [pair for i, pair in enumerate(zip(peaks, symbols, strict=True)) if i != 8]
        assert pairs == expected
    by_wfdb = wfdb.rdann(str(tmp_path / "page"), "edited")
    assert np.array_equal(by_wfdb.sample, marks.sample)


def changed(document: dict[str, Any], where: str, value: object) -> dict[str, Any]:
    """Return a document with one value replaced; ``where`` as ``edits.0.samples``."""
    copy = json.loads(json.dumps(document))
    *path, last = [int(part) if part.isdigit() else part for part in where.split(".")]
    target = copy
    for part in path:
        target = target[part]
    target[last] = value
    return copy


@pytest.mark.parametrize(
    ("where", "value", "fragment"),
    [
        ("format", "other", "format"),
        ("version", 2, "version"),
        ("version", True, "version"),
        ("recording", "0123456789abcdef", "another recording"),
        ("recording", "g" * 16, "recording"),
        ("beats", "0123456789abcdef", "other labels"),
        ("author", "", "author"),
        ("author", "a\nb", "author"),
        ("saved_at", "2026-03-04T09:15:00", "saved_at"),
        ("reviewed", {"by": "x"}, "'at'"),
        ("indication", "x" * 10_001, "indication"),
        ("strips", [{"sample": 10**9, "comment": ""}], str(10**9)),
        ("strips", {}, "strips"),
        ("more", 1, "'more'"),
        ("edits.0.samples", [10**9], str(10**9)),
        ("edits.0.samples", [7], "sample 7"),
        ("edits.0.samples", [-1], "-1"),
        ("edits.0.samples", [1.5], "1.5"),
        ("edits.0.samples", [], "edits[0]"),
        ("edits.0.label", "X", "'X'"),
        ("edits.0.edit", "do", "'do'"),
        ("edits.0.at", "yesterday", "yesterday"),
        ("edits.1.accepted", 1, "accepted"),
        ("edits.1.samples", [5, 5], "earlier"),
        ("edits.2.samples", [5, 9], "'AF'"),
        ("edits.2.label", "torsades", "'torsades'"),
        ("edits.0", {"edit": "add", "at": SAVED, "samples": [700], "label": "|"}, "symbol of a beat"),
        ("edits", [[]], "edits[0]"),
    ],
)
def test_files_that_do_not_fit_are_refused_in_a_line(
    where: str, value: object, fragment: str, ecgfed: Command, sound: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    labels, document = sound
    path = written(tmp_path, changed(document, where, value))
    record = labels.with_name("rec")
    said = ecgfed("report", record, "--labels", labels, "--edits", path, "--out", tmp_path / "page.html")
    assert_refused(said, "edits.json", fragment)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"a": 1, "a": 2}', "\xff\xfe"])
def test_what_is_no_json_object_is_refused(text: str, ecgfed: Command, record: Path, tmp_path: Path) -> None:
    path = tmp_path / "edits.json"
    path.write_text(text, "latin-1")
    assert_refused(ecgfed("report", record, "--edits", path, "--out", tmp_path / "page.html"), "edits.json")
