"""What inspect, predict and report make of a paced recording."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from paced_recordings import paced_recording
from support import Recorder

import ecgfed
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.record.recording import Recording
from ecgfed.reports.figures import figures
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.tasks.predict import RecordingPredictions


def predicted(recording: Recording | Path) -> RecordingPredictions:
    return ecgfed.predict(recording, progress=Recorder())


def reported(recording: Recording | Path, **options: Any) -> RecordingReport:
    return ecgfed.report(recording, progress=Recorder(), **options)


@pytest.fixture(scope="module")
def whole() -> Recording:
    return paced_recording(360.0, slice(None))[0]


@pytest.fixture(scope="module")
def episode() -> Recording:
    return paced_recording(360.0, slice(40, 65))[0]


@pytest.fixture(scope="module")
def unpaced() -> Recording:
    return paced_recording(360.0, slice(None), height_mv=0)[0]


def test_inspect_reports_the_evidence(whole: Recording, episode: Recording, unpaced: Recording) -> None:
    [finding] = [one for one in ecgfed.inspect_recording(whole).findings if one.kind == "paced"]
    assert finding.evidence["from"] == "signal"
    assert finding.evidence["paced"] is True
    assert finding.evidence["paced_beats"] > 90
    [finding] = [one for one in ecgfed.inspect_recording(episode).findings if one.kind == "paced"]
    assert finding.evidence["paced"] is False
    assert [one["beats"] for one in finding.evidence["episodes"]] == [finding.evidence["paced_beats"]]
    assert "paced" not in {one.kind for one in ecgfed.inspect_recording(unpaced).findings}


def test_predict_writes_paced_beats_alike_everywhere(whole: Recording, tmp_path: Path) -> None:
    found = predicted(whole)
    assert [one.code for one in found.warnings if one.severe].count("paced") == 1
    found.save(tmp_path)
    data = json.loads((tmp_path / "wide.json").read_text())
    symbols = [beat["symbol"] for beat in data["beats"]]
    assert symbols.count("/") == data["pacing"]["paced_beats"] == found.summary([])["pacing"]["paced_beats"] > 90
    assert {beat["class"] for beat in data["beats"] if beat["symbol"] == "/"} == {"Q"}
    assert found.counts["Q"] >= symbols.count("/")
    assert all(beat["probability"] > 0.5 for beat in data["beats"] if beat["symbol"] == "/")
    marks = wfdb.rdann(str(tmp_path / "wide"), "ecgfed")
    assert marks.symbol == symbols
    assert {note for symbol, note in zip(marks.symbol, marks.aux_note, strict=True) if symbol == "/"} == {"Q"}
    rows = (tmp_path / "wide.csv").read_text().splitlines()
    column = rows[0].split(",").index("symbol")
    assert [row.split(",")[column] for row in rows[1:]] == symbols


def test_a_label_map_without_paced_beats(whole: Recording) -> None:
    found = predicted(whole)
    labels = LabelMap("own", found.classes, {name: name for name in found.classes})
    other = replace(found, labels=labels)
    np.testing.assert_array_equal(other.symbols == "/", found.symbols == "/")


def test_nothing_changes_without_pacing(unpaced: Recording) -> None:
    found = predicted(unpaced)
    assert "pacing" not in found.metadata
    assert "paced" not in {one.code for one in found.warnings}
    assert found.to_dict() == replace(found, pacing=None).to_dict()
    np.testing.assert_array_equal(found.label, found.probability.argmax(1))


def test_a_report_withholds_ectopy_of_a_paced_record(whole: Recording) -> None:
    report = reported(whole).to_dict()
    assert (report["ventricular"], report["supraventricular"]) == (None, None)
    assert all("paced" in reason for reason in report["withheld"].values())
    assert set(report["withheld"]) == {"ventricular", "supraventricular"}
    [rhythm] = report["rhythms"]
    assert (rhythm["rhythm"], rhythm["source"]) == ("paced", "signal")
    assert rhythm["seconds"] > 85
    assert report["by_class"]["/"] > 90
    overall = report["intervals"]["overall"].values()
    assert {(one["value"], one["not_assessed"]) for one in overall} == {(None, "paced rhythm")}


def test_a_report_of_an_episode_counts_the_rest(episode: Recording) -> None:
    found = reported(episode)
    report = found.to_dict()
    assert not any("paced" in reason for reason in report["withheld"].values())
    [rhythm] = report["rhythms"]
    assert rhythm["seconds"] == pytest.approx(22, abs=4)
    assert report["by_class"]["/"] == predicted(episode).metadata["pacing"]["paced_beats"]
    assert "paced" in {one["code"] for one in report["warnings"]}
    assert "paced" in found.html
    of = {figure.name: figure for figure in figures(found.parts)}
    assert "paced" in of["sdnn_ms"].remark + of["sdnn_ms"].reason


@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["107", "217"])
def test_mit_bih_without_its_annotation(mitdb: Path, tmp_path: Path, record: str) -> None:
    """Signal alone: the header says nothing of pacing, and the reports counted 549 and 333 ventricular beats."""
    shutil.copy(mitdb / f"{record}.dat", tmp_path)
    header = (mitdb / f"{record}.hea").read_text().splitlines()
    (tmp_path / f"{record}.hea").write_text("\n".join(line for line in header if not line.startswith("#")) + "\n")
    report = reported(tmp_path / record).to_dict()
    assert (report["ventricular"], report["supraventricular"]) == (None, None)
    [rhythm] = [one for one in report["rhythms"] if one["rhythm"] == "paced"]
    assert rhythm["seconds"] > 1500
    assert report["by_class"]["/"] > 1700
