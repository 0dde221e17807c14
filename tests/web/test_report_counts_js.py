"""The page's counts of edited beats and Python's are the same, on random beats and on recordings."""

import base64
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENTS, write_record
from edits_files import SAVED, document_of, written
from node_runtime import node_path
from page_cells import Cells
from random_reports import (
    counts_of,
    draft_of,
    of_page,
    random_edits,
    random_events,
    random_labelled,
    random_rules,
    recording_of,
)

import ecgfed
import ecgfed.web
from ecgfed.base.language import page_language, script_data, tr
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.labels.edits import read_edits
from ecgfed.reports.drawing import reading_of
from ecgfed.reports.editing import editing_data
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.reports.recording_tables import hours_table

WEB = Path(ecgfed.web.__file__).parent
DRIVER = Path(__file__).parents[1] / "browser" / "edits.mjs"
CASES = 150
pytestmark = pytest.mark.browser


def by_script(folder: Path, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    file = folder / "given.json"
    file.write_text(json.dumps(given))
    command = [node_path(), str(DRIVER), str(WEB), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def assert_same(ours: Any, theirs: Any, where: str) -> None:
    """Equal, but for the last digits of sums of floats."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), where
        for name, value in theirs.items():
            assert_same(ours[name], value, f"{where}.{name}")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), f"{where}: {ours} {theirs}"
        for number, value in enumerate(theirs):
            assert_same(ours[number], value, f"{where}[{number}]")
    elif isinstance(theirs, float | np.floating):
        assert ours == pytest.approx(float(theirs), rel=1e-11, abs=1e-9), f"{where}: {ours} {theirs}"
    else:
        assert ours == theirs, f"{where}: {ours} {theirs}"


def test_random_edits_of_random_beats(tmp_path: Path) -> None:
    given, expected, drafts = [], [], []
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        labelled, quality = random_labelled(rng, int(rng.integers(2, 400)))
        recording, rules, edits = recording_of(quality), random_rules(rng), random_edits(rng, labelled)
        reviewed = {"by": "x", "at": SAVED} if rng.random() < 0.3 else None
        marked = random_events(rng, recording.duration_s)
        unedited = replace(reading_of(recording, {"II": quality}, labelled, rules), patient_events=marked)
        editing = editing_data(unedited, "0" * 16, "0" * 16)
        given.append({"editing": editing, "edits": edits, "reviewed": reviewed})
        empty: dict[str, Any] = dict.fromkeys(("indication", "comments", "conclusion"), "")
        ids = {"format": "ecgfed-edits", "version": 1, "recording": "0" * 16, "beats": "0" * 16}
        document = {
            **ids,
            **empty,
            "author": "x",
            "saved_at": SAVED,
            "reviewed": reviewed,
            "strips": [],
            "edits": edits,
        }
        edited = reading_of(recording, {"II": quality}, labelled, rules, edits=read_edits(written(tmp_path, document)))
        edited = replace(edited, patient_events=marked)
        expected.append(json.loads(json.dumps(counts_of(edited), default=float)))
        drafts.append(draft_of(edited))
    for seed, (answer, counts) in enumerate(zip(by_script(tmp_path, given), expected, strict=True)):
        assert_same(of_page(answer["counts"]), counts, f"case {seed}")
        assert answer["english_draft"] == drafts[seed], f"case {seed}"
    assert sum(bool(counts["ventricular"] and counts["ventricular"]["runs"]) for counts in expected) > CASES / 10
    assert sum(bool(counts["pauses"]["found"]) for counts in expected) > CASES / 10
    assert sum(bool(counts["withheld"]) for counts in expected) > CASES / 10
    assert sum(any(event["context"] for event in counts["events"]) for counts in expected) > CASES / 10


#: The caption of a table -> what the script calls it, and rows of its head that the script does not write.
CAPTIONS = {
    "Heart rate and pauses": ("rates", 1),
    "Heart rate variability": ("variability", 1),
    "Rhythms": ("rhythms", 1),
    "Counts of ectopic beats": ("ectopy", 0),
    "Beats of each class": ("classes", 0),
    "Beats hour by hour, hours counted from the start of the recording": ("hours", 0),
    "Events": ("events", 1),
}


def plain(value: Any) -> Any:
    """Texts with simple spaces, as ``Cells`` has them."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def assert_page_says(written_by_script: dict[str, Any], page: str, language: str) -> None:
    """Every number and word that the script writes is what Python wrote on the page."""
    cells = Cells(page)
    written_by_script = plain(written_by_script)
    with page_language(language):
        captions = [plain(tr(caption)) for caption in CAPTIONS]
    assert dict(map(tuple, written_by_script["short"])).items() <= cells.facts.items()
    for caption, (name, head) in zip(captions, CAPTIONS.values(), strict=True):
        ours, theirs = written_by_script[name], cells.tables.get(caption, [])[head:]
        assert len(ours) == len(theirs), name
        for our_row, their_row in zip(ours, theirs, strict=True):
            assert their_row[: len(our_row)] == our_row, name
    for sentence in written_by_script["sentences"]:
        assert sentence in cells.paragraphs


def some_edits(report: RecordingReport, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Edits of the beats of a report, most of them of neighbours."""
    editing = report.parts.data["editing"]
    sample = np.frombuffer(base64.b64decode(editing["sample"]), "<i4").tolist()
    edits: list[dict[str, Any]] = []
    for label in ("V", "|", "N", "A", None, "V", "F", None):
        at = int(rng.integers(len(sample) - 10))
        samples = sample[at : at + int(rng.integers(1, 50 if label is None else 8))]
        kind = {"edit": "accept"} if label is None else {"edit": "label", "label": label}
        edits.append({**kind, "samples": samples, "at": SAVED})
    at = int(rng.integers(len(sample) - 1))
    edits.append({"edit": "interval", "samples": sample[at : at + 2], "accepted": False, "at": SAVED})
    for rhythm in editing["rhythms"][:2]:
        entry = {"edit": "rhythm", "rhythm": rhythm["rhythm"], "samples": rhythm["samples"][0]}
        edits.append({**entry, "label": rhythm["rhythm"], "at": SAVED})
    return edits


def assert_rebuilt_page_is_the_edited_one(record: Path, folder: Path, language: str = "en", **how: Any) -> None:
    how["language"] = language
    base = ecgfed.report(record, **how)
    edits = some_edits(base, np.random.default_rng(7))
    rebuilt = ecgfed.report(record, edits=written(folder, document_of(base) | {"edits": edits}), **how)
    data = base.parts.data
    with page_language(language):
        page = {"editing": data["editing"], "clock_s": data["clock_s"], "language": script_data(), "reviewed": None}
    given = [{**page, "edits": of} for of in ([], edits)]
    for report, answer in zip((base, rebuilt), by_script(folder, given), strict=True):
        told = report.to_dict()
        counts = of_page(answer["counts"])
        for name in ("beats", "counted", "by_class", "rates", "pauses", "variability", "withheld", "to_review"):
            assert_same(counts[name], told[name], name)
        for name in ("ventricular", "supraventricular"):
            assert_same(counts[name], told[name], name)
        assert_page_says(answer["written"], report.html, language)
        assert answer["draft"] == list(report.parts.draft_on_page)
        assert answer["english_draft"] == told["conclusion"]["draft"]


@pytest.mark.parametrize("patient", ["p1", "p2", "p3"])
def test_a_page_that_is_edited_equals_the_rebuilt_one(patient: str, tmp_path: Path) -> None:
    start = "23:59:30" if patient == "p2" else None  # the recording goes on past midnight
    record = write_record(tmp_path / "records", patient, PATIENTS[patient] * 2)  # more than a resting ECG
    assert_rebuilt_page_is_the_edited_one(record, tmp_path, start=start)


def test_classes_of_low_confidence_are_to_review_in_both_tables(tmp_path: Path) -> None:
    """By these rules a single beat of low confidence is enough."""
    record = write_record(tmp_path / "records", "p1", PATIENTS["p1"] * 2)
    rules = EventRules(withheld_percent=0.1, withheld_beats=1)
    parts = ecgfed.report(record, rules=rules).parts
    assert sum(head.endswith("(to review)") for head in hours_table(parts)[0]) == sum(
        bool(row.uncertain) for row in parts.classes if row.kind not in parts.events.withheld
    )
    assert any(row.uncertain for row in parts.classes if row.kind not in parts.events.withheld)
    assert_rebuilt_page_is_the_edited_one(record, tmp_path, rules=rules)


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_a_page_in_another_language_has_the_numbers_of_the_rebuilt_one(language: str, tmp_path: Path) -> None:
    record = write_record(tmp_path / "records", "p2", PATIENTS["p2"] * 2)
    diary = tmp_path / "diary.csv"
    diary.write_text("time_s,text\n20,palpitations\n70,dizzy\n")
    how = {"start": "23:59:30", "diary": diary, "show": "notes"}
    assert_rebuilt_page_is_the_edited_one(record, tmp_path, language, **how)


@pytest.mark.mitdb
@pytest.mark.slow
@pytest.mark.parametrize("record", ["100", "106", "203", "217", "222"])
def test_real_pages_that_are_edited_equal_the_rebuilt_ones(record: str, mitdb: Path, tmp_path: Path) -> None:
    assert_rebuilt_page_is_the_edited_one(mitdb / record, tmp_path)
