"""What a report cannot know is no finding: few seconds or intervals, paced beats, leads that contradict each other."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import write_record
from edits_files import document_of, written
from page_cells import Cells
from signal_rhythms import joined, recording

import ecgfed
from ecgfed.domain.events.rhythm import Rates
from ecgfed.domain.events.rhythm_episodes import REVIEWER, RhythmEpisodes
from ecgfed.reports.conclusion import SENTENCES
from ecgfed.reports.figures import figures
from ecgfed.reports.folder_index import RecordingRow, cells_of
from ecgfed.reports.headline import rates_text
from ecgfed.reports.recording_report import RecordingReport


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> RecordingReport:
    record = write_record(tmp_path_factory.mktemp("short"), "rec", "N" * 12)
    return ecgfed.report(record, labels=record.with_suffix(".atr"))


def af_of(report: RecordingReport, **changed: object) -> tuple[float | None, str]:
    found = {figure.name: figure for figure in figures(replace(report.parts, **changed))}
    return found["af_percent"].value, found["af_percent"].reason


@pytest.mark.parametrize("atrial", [True, False])
@pytest.mark.parametrize("seconds", [8.9, 12.0, 25.0, 40.0, 90.0])
def test_a_report_states_what_the_detector_judged(seconds: float, atrial: bool) -> None:
    """Strips of 9 to 61 s are judged as a whole (decision 0077), and state nothing of other times; shorter ones not."""
    report = ecgfed.report(joined(300.0, (seconds, atrial))[0])
    figure = {of.name: of for of in figures(report.parts)}["af_percent"]
    text = " ".join((*report.parts.draft, Cells(report.html).facts["Rhythm"]))
    if seconds < 9:
        assert report.parts.fibrillation_from_s is None
        assert SENTENCES["af_open"] in text
        assert (figure.value, bool(figure.reason)) == (None, True)
        assert "or flutter or" not in text
    elif atrial:
        (certainty,) = report.to_dict()["rhythms"][0]["certainty"]
        assert figure.value == pytest.approx(100, abs=15)
        assert f"certainty {certainty:.0%}: to be reviewed" in text
        assert "not assessed." not in report.parts.draft[2].replace("AV block", "")
    else:
        assert figure.value == 0
        assert text.count("No atrial fibrillation ") == 1
        assert text.count(f"{seconds:.0f} s") == (2 if seconds <= 61 else 0)
        assert ("none excluded before or after" in text) == ("nothing is known" in figure.remark) == (seconds <= 61)


@pytest.mark.parametrize(("seconds", "atrial"), [(8.9, False), (40.0, True), (40.0, False)])
def test_the_index_of_a_folder_is_no_surer_than_the_report(seconds: float, atrial: bool) -> None:
    row = RecordingRow.of(ecgfed.report(joined(300.0, (seconds, atrial))[0]).parts, "a", "a.html")
    text = str(cells_of(row)[4][0])
    assert row.rhythms_to_review == list(row.rhythms) * atrial
    assert text.count("(to review)") == len(row.rhythms_to_review) == atrial
    assert ("not assessed" in text) == (seconds < 9)
    assert ("no atrial fibrillation or flutter" in text) == (seconds > 9 and not atrial)


def test_the_index_adds_a_rhythm_of_the_signal_and_of_the_reviewer(short: RecordingReport) -> None:
    """10 s at a certainty of 90%, 7.5 s at 40%, which are possible ones, and 4 s and 1 s that a reviewer accepted."""
    of_signal = RhythmEpisodes("AF or flutter", ((0.0, 10.0), (20.0, 27.5)), "signal", (0.9, 0.4))
    accepted = RhythmEpisodes("AF or flutter", ((12.0, 16.0), (30.0, 31.0)), REVIEWER)
    row = RecordingRow.of(replace(short.parts, rhythms=(of_signal, accepted)), "a", "a.html")
    assert row.rhythms == {"AF or flutter": 15.0, "possible AF or flutter": 7.5}
    assert row.rhythms_to_review == ["AF or flutter", "possible AF or flutter"]


@pytest.mark.parametrize("seconds", [20.0, 100.0])
def test_fibrillation_is_not_excluded_where_no_window_was_judged(seconds: float) -> None:
    """White noise and no signal: the detector scores no window, however long it lasts."""
    noise = np.random.default_rng(0).normal(0, 0.3, (1, int(300 * seconds)))
    noise[:, ::3] = np.nan
    report = ecgfed.report(recording(noise, 300.0))
    assert report.parts.fibrillation_from_s is None
    assert SENTENCES["af_open"] in report.parts.draft[2]
    assert {of.name: of for of in figures(report.parts)}["af_percent"].value is None


def test_fibrillation_is_not_zero_where_the_rhythm_is_paced(short: RecordingReport) -> None:
    paced = RhythmEpisodes("paced", ((0.0, 40.0),), "signal")
    assert af_of(short, rhythms=(paced,), duration_s=40.0, fibrillation_from_s=30.0)[0] is None


def test_a_mean_of_one_interval_is_no_heart_rate(tmp_path: Path) -> None:
    record = write_record(tmp_path, "rec", "NN")
    report = ecgfed.report(record, labels=record.with_suffix(".atr"))
    assert report.parts.events.rates.intervals == 1
    assert SENTENCES["rate_few"] in report.parts.draft[0]
    assert "1 interval" in (rates_text(report.parts.events.rates) or "")
    mean = next(figure for figure in figures(report.parts) if figure.name == "heart_rate_mean_per_min")
    assert "1 interval" in mean.remark
    assert rates_text(Rates(70.2, None, None, None, None, 3)) == "70/min"


def test_blanks_are_no_conclusion_and_fhir_has_no_control_characters(short: RecordingReport, tmp_path: Path) -> None:
    record, labels = short.recording.path, short.recording.path.with_suffix(".atr")
    blank = written(tmp_path, document_of(short, conclusion=" \n\t"))
    assert ecgfed.report(record, labels=labels, edits=blank).to_dict()["conclusion"]["text"] is None
    text = "No\x07 ectopy.\n\tSigned"
    edits = written(tmp_path, document_of(short, conclusion=text))
    ecgfed.report(record, labels=labels, edits=edits, out=tmp_path / "page.html", formats="fhir")
    entries = json.loads((tmp_path / "page.fhir.json").read_text(encoding="utf-8"))["entry"]
    stated = [entry["resource"]["conclusion"] for entry in entries if "conclusion" in entry["resource"]]
    assert stated == [r"No\x07 ectopy." "\n\tSigned"]
