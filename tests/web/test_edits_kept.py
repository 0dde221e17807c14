"""No order of keys, undo and tabs makes a report's page lose edits, or save a file that ``report --edits`` refuses."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import driven
from conftest import synthetic_signal, write_record
from node_runtime import node_path

import ecgfed
import ecgfed.web
from ecgfed.base.safe_io import MAX_JSON_BYTES
from ecgfed.domain.labels.edits import MAX_SAMPLES, read_edits
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_writer import annotation_bytes

pytestmark = pytest.mark.browser
SYMBOLS = "N" * 40 + "VVVV" + "N" * 30 + "VV" + "N" * 20 + "NVNVNVNV" + "VVV" + "N" * 60
#: Beats that the labels lack, a pause; and those at which fibrillation begins and ends.
MISSED, AF = slice(60, 65), (90, 100)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened on the page, the saved file, and the report rebuilt of it."""
    folder = tmp_path_factory.mktemp("kept")
    record = write_record(folder, "rec", SYMBOLS, annotate=False)
    _, peaks = synthetic_signal(SYMBOLS)
    beats = [(at, symbol, "") for at, symbol in zip(peaks.tolist(), SYMBOLS, strict=True)]
    del beats[MISSED]
    beats += [(int(peaks[at]) + 5, "+", note) for at, note in zip(AF, ("(AFIB", "(N"), strict=True)]
    sample, symbol, note = zip(*sorted(beats), strict=True)
    labels = folder / "rec.ann"
    labels.write_bytes(annotation_bytes(Annotation(np.array(sample), np.array(symbol), note), 360.0))
    ecgfed.report(record, labels=labels, out=folder / "page.html")
    done = driven("edits_kept.mjs", {"page": str(folder / "page.html")}, folder, timeout_s=300)
    saved = folder / "rec-edits.json"
    rebuilt = ecgfed.report(record, labels=labels, edits=saved, out=folder / "rebuilt.html")
    return {**done, "saved": saved, "rebuilt": rebuilt}


def edits_after(told: dict[str, Any], what: str) -> list[dict[str, Any]]:
    edits: list[dict[str, Any]] = told["steps"][what]["edits"]
    return edits


def test_every_step_works_and_the_saved_file_is_read(told: dict[str, Any]) -> None:
    assert told["errors"] == []
    assert len(read_edits(told["saved"]).document["edits"]) == len(edits_after(told, "first tab again"))


def test_beats_that_were_removed_are_not_accepted(told: dict[str, Any]) -> None:
    (edit,) = edits_after(told, "removed beat accepted")
    assert (edit["edit"], edit["label"], len(edit["samples"])) == ("label", "|", 1)


def test_an_episode_has_its_own_name_again_after_undo(told: dict[str, Any]) -> None:
    renamed, accepted = edits_after(told, "renamed")[-1], edits_after(told, "accepted")[-1]
    assert renamed["label"] == told["steps"]["renamed"]["rhythm"] == "atrial flutter"
    assert told["steps"]["undone"]["rhythm"] == "AF"
    assert accepted["label"] == accepted["rhythm"] == "AF"


def test_the_keyboard_stays_in_the_editor(told: dict[str, Any]) -> None:
    assert told["steps"]["rejected by a button"]["focus"] == "edit-box"


def test_an_interval_of_a_beat_that_is_no_longer_there_is_not_decided(told: dict[str, Any]) -> None:
    assert edits_after(told, "added")[-1]["edit"] == "add"
    assert told["steps"]["pause of the added beat"]["chosen"].startswith("pause")
    assert edits_after(told, "pause decided") == edits_after(told, "no added beat")


def test_a_name_never_makes_the_stored_edits_unreadable(told: dict[str, Any]) -> None:
    before = edits_after(told, "pause decided")
    assert told["steps"]["opened anew"]["author"] == "Dr. Å. Author"
    for what in ("named", "opened anew", "not a name", "opened anew without a name"):
        assert edits_after(told, what) == before, what


def test_two_tabs_have_the_edits_of_both(told: dict[str, Any]) -> None:
    first, second = edits_after(told, "first tab"), edits_after(told, "second tab edited")
    assert second[: len(first)] == first
    assert len(second) == len(first) + 1
    assert told["steps"]["first tab again"]["message"].startswith("Another tab")


def test_stored_edits_that_cannot_be_used_are_not_thrown_away(told: dict[str, Any]) -> None:
    assert len(told["steps"]["draft refused"]["notUsed"]) == 1
    assert "cannot be used" in told["steps"]["draft refused"]["message"]


def test_texts_that_were_set_aside_are_restored_and_taken_away_by_undo(told: dict[str, Any]) -> None:
    refused, restored, undone = told["conclusions"]
    assert told["restorable"] == [False, True, False]
    assert set(restored) == {"Sinus rhythm, short runs"}
    assert "Sinus rhythm, short runs" not in refused
    assert undone == refused


def test_a_page_saves_no_more_than_is_read(tmp_path: Path) -> None:
    """A group of 100,000 beats of a day, accepted again and again, each sample on a line of its own."""
    script = tmp_path / "room.js"
    script.write_text(
        "const { hasRoom } = require(process.argv[2]);"
        "const group = { edit: 'accept', samples: Array.from({ length: 1e5 }, (_, i) => 2e7 + i) };"
        "let edits = []; while (hasRoom([...edits, group])) edits.push(group);"
        "const one = JSON.stringify({ edits: [group] }, null, 1);"
        "console.log(edits.length, edits.length * one.length);"
    )
    module = Path(ecgfed.web.__file__).with_name("edits_file.js")
    done = subprocess.run([node_path(), str(script), str(module)], capture_output=True, text=True, check=True)
    edits, size = map(int, done.stdout.split())
    assert 0 < edits * 100_000 <= MAX_SAMPLES
    assert size + 1_000_000 < MAX_JSON_BYTES
