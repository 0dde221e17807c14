"""A report's page is edited in headless Chromium, and the report rebuilt from the saved edits has the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from browser_driver import driven
from conftest import synthetic_signal, write_record
from page_cells import Cells

import ecgfed
from ecgfed.domain.labels.edits import read_edits
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.tasks.matched_labels import read_label_file

pytestmark = pytest.mark.browser
SYMBOLS = "N" * 40 + "VVVV" + "N" * 30 + "VV" + "N" * 20 + "NVNVNVNV" + "VVV" + "N" * 60
#: The beat that the labels lack; it is added on the page.
MISSED = 60
#: Tables whose every number the page counts again.
COUNTED = (
    "Heart rate and pauses",
    "Heart rate variability",
    "Counts of ectopic beats",
    "Beats of each class",
    "Beats hour by hour, hours counted from the start of the recording",
)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("edit"), "rec", SYMBOLS)


@pytest.fixture(scope="module")
def told(record: Path) -> dict[str, Any]:
    """What happened when the page was edited, and the report rebuilt of what it saved."""
    folder = record.parent
    _, peaks = synthetic_signal(SYMBOLS)
    rows = [f"{at},{symbol}" for at, symbol in zip(peaks.tolist(), SYMBOLS, strict=True) if at != peaks[MISSED]]
    labels = folder / "labels.csv"
    labels.write_text("\n".join(["sample,symbol", *rows]) + "\n")
    ecgfed.report(record, labels=labels, out=folder / "page.html")
    apart = int(peaks[MISSED] - peaks[MISSED - 1]) / 360
    adding = {"missed_s": int(peaks[MISSED]) / 360, "apart_s": apart}
    done = driven("edit_page.mjs", {"page": str(folder / "page.html"), "adding": adding}, folder, timeout_s=300)
    saved = folder / "rec-edits.json"
    how = {"labels": labels, "edits": saved}
    return {**done, "file": saved, "rebuilt": ecgfed.report(record, out=folder / "rebuilt.html", **how)}


def step_of(told: dict[str, Any], what: str, number: int = 0) -> dict[str, Any]:
    step: dict[str, Any] = [step for step in told["steps"] if step["what"] == what][number]
    return step


def test_keys_edit_and_counts_follow(told: dict[str, Any]) -> None:
    name = "Ventricular ectopic beats"
    assert told["errors"] == []
    before = step_of(told, "opened")["facts"][name]
    assert before.startswith("13 ")
    assert step_of(told, "-")["facts"][name].startswith("9 ")
    assert step_of(told, "u")["facts"][name] == before
    assert step_of(told, "X")["facts"]["Beats"] != step_of(told, "opened")["facts"]["Beats"]
    assert step_of(told, "undone and redone")["facts"] == step_of(told, "Enter", 1)["facts"]


def test_a_missed_beat_is_added(told: dict[str, Any]) -> None:
    _, peaks = synthetic_signal(SYMBOLS)
    missed = int(peaks[MISSED])
    facts = step_of(told, "opened")["facts"]
    assert step_of(told, "place")["chosen"].startswith("No beat at ")
    cursor = step_of(told, "place")["message"]
    assert step_of(told, "ArrowRight", -1)["message"] != cursor
    assert step_of(told, "ArrowLeft", -1)["message"] == cursor
    assert "no beat here" in step_of(told, "Enter", -1)["message"]
    near = step_of(told, "N", -1)
    assert "200 ms" in near["message"]
    assert near["facts"]["Beats"] == step_of(told, "place")["facts"]["Beats"]
    added, undone, again = (step_of(told, "added"), step_of(told, "u", -1), step_of(told, "added again"))
    assert added["chosen"].startswith("Beat V at ")
    assert added["facts"] == again["facts"]
    assert undone["facts"] == near["facts"]
    assert facts["Pauses"] != added["facts"]["Pauses"]
    edits = read_edits(told["file"])
    (sample,) = [edit.samples[0] for edit in edits.of_beats if edit.added]
    assert abs(sample - missed) <= 3  # the click was 40 ms away


def test_a_draft_follows_the_beats_and_an_accepted_conclusion_stays(told: dict[str, Any]) -> None:
    steps = {step["what"]: step for step in told["conclusion"]}
    draft, accepted, removed = steps["draft"], steps["accepted"], steps["a beat removed"]
    assert (draft["text"], draft["field"]) == (draft["field"], accepted["text"])
    assert draft["note"].startswith("Draft")
    assert not accepted["note"].startswith("Draft")
    assert (accepted["older"], removed["older"], steps["undone"]["older"]) == (False, True, False)
    assert removed["text"] == accepted["text"] != removed["now"]
    assert steps["not accepted"] == {**draft, "what": "not accepted"}
    assert steps["emptied"] == {**draft, "what": "emptied"}
    assert steps["typed"]["text"] == "Runs of <b>VT</b>"
    saved = read_edits(told["file"])
    assert saved.conclusion_draft == "\n".join(told["rebuilt"].parts.draft)
    assert not told["rebuilt"].parts.conclusion_is_older


def test_the_page_says_who_reviewed_it(told: dict[str, Any]) -> None:
    assert step_of(told, "opened")["review"].startswith("Not reviewed.")
    assert "name" in told["unnamed"]
    assert step_of(told, "signed")["review"].startswith("Reviewed by Dr A. Author at 20")


def test_printed_sheets_have_the_intended_use_and_who_reviewed(told: dict[str, Any]) -> None:
    assert len(told["footers"]) == 2  # the page's own, and one that follows the edits
    assert "reviewed by Dr A. Author" in told["footers"][-1]
    assert told["rebuilt"].parts.intended_use in told["footers"][-1]


def test_a_page_that_is_only_read_leaves_no_draft(told: dict[str, Any]) -> None:
    """It would be newer than the edits of a report that is made later."""
    assert told["drafts"] == 0


def test_a_page_that_is_closed_loses_nothing(told: dict[str, Any]) -> None:
    assert told["tablesAnew"] == told["tables"]
    assert step_of(told, "opened anew")["facts"] == step_of(told, "signed")["facts"]


def test_the_rebuilt_report_has_the_numbers_of_the_page(told: dict[str, Any]) -> None:
    rebuilt: RecordingReport = told["rebuilt"]
    cells = Cells(rebuilt.html)
    assert step_of(told, "signed")["facts"].items() <= cells.facts.items()
    for caption in COUNTED:
        assert told["tables"][caption] == cells.tables[caption], caption
    events = [row[:6] for row in told["tables"]["Events"][1:]]
    assert events == [row[:6] for row in cells.tables["Events"][1:]]
    edits = read_edits(told["file"])
    assert (edits.indication, edits.conclusion) == ("Syncope", "Runs of <b>VT</b>")
    assert list(edits.strips.values()) == ["Look here"]
    assert edits.reviewed is not None
    assert "Runs of &lt;b&gt;VT&lt;/b&gt;" in rebuilt.html
    assert any("Look here" in strip.caption for strip in rebuilt.parts.gallery)


def test_the_labels_are_read_for_a_personal_model(told: dict[str, Any], record: Path) -> None:
    rebuilt: RecordingReport = told["rebuilt"]
    labels = read_label_file(record.with_name("rebuilt.edited"), rebuilt.recording)
    assert len(labels.sample) == rebuilt.to_dict()["beats"]  # the report is reviewed


def test_editing_is_reached_by_everybody(told: dict[str, Any]) -> None:
    assert told["axe"] == []
    assert told["width"] == 320


def test_the_page_of_edits_goes_on_from_them(told: dict[str, Any], record: Path, tmp_path: Path) -> None:
    """The rebuilt page has the edits: opened, it shows what Python wrote, and can be edited on."""
    folder = tmp_path / "again"
    folder.mkdir()
    given = {"page": str(record.with_name("rebuilt.html")), "name": " II"}
    done = driven("edit_page.mjs", given, folder, timeout_s=300)
    assert done["errors"] == []
    assert step_of(done, "opened")["facts"] == step_of(told, "signed")["facts"]
    (saved,) = folder.glob("*-edits.json")
    first, second = (json.loads(path.read_text())["edits"] for path in (told["file"], saved))
    assert second[: len(first)] == first
    assert len(second) > len(first)
