"""What a report cannot know is no finding: few seconds or intervals, paced beats, leads that contradict each other."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_record
from edits_files import document_of, written

import ecgfed
from ecgfed.domain.events.rhythm import Rates, RhythmEpisodes
from ecgfed.reports.conclusion import SENTENCES
from ecgfed.reports.figures import figures
from ecgfed.reports.headline import none_detected, rates_text
from ecgfed.reports.recording_report import RecordingReport


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> RecordingReport:
    record = write_record(tmp_path_factory.mktemp("short"), "rec", "N" * 12)
    return ecgfed.report(record, labels=record.with_suffix(".atr"))


def af_of(report: RecordingReport, **changed: object) -> tuple[float | None, str]:
    found = {figure.name: figure for figure in figures(replace(report.parts, **changed))}
    return found["af_percent"].value, found["af_percent"].reason


def test_fibrillation_needs_thirty_seconds(short: RecordingReport) -> None:
    assert short.parts.duration_s < 30
    assert SENTENCES["af_open"] in short.parts.draft[2]
    text = none_detected(short.parts.events, short.parts.duration_s, 100.0) or ""
    detected, _, missing = text.partition(";")
    assert "fibrillation" not in detected
    assert "fibrillation" in missing
    value, reason = af_of(short)
    assert value is None
    assert reason
    assert af_of(short, duration_s=30.0) == (0.0, "")
    marked = RhythmEpisodes("sinus rhythm", ((0.0, 5.0),), "labels")
    assert af_of(short, rhythms=(marked,)) == (0.0, "")


def test_fibrillation_is_not_zero_where_the_rhythm_is_paced(short: RecordingReport) -> None:
    paced = RhythmEpisodes("paced", ((0.0, 40.0),), "signal")
    assert af_of(short, rhythms=(paced,), duration_s=40.0)[0] is None


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
    assert stated == ["No ectopy.\n\tSigned"]
