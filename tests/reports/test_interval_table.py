"""Intervals and variability in a report: against what was drawn, and not assessed where the rhythm forbids them."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import write_signals
from waves.beats_by_rule import Beat, recorded

import ecgfed
from ecgfed.domain.events.figure import LOINC, Measurement
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.signal.quality import LeadQuality
from ecgfed.reports.drawing import reading_of
from ecgfed.reports.figures import figures, not_assessed
from ecgfed.reports.interval_table import ERRORS_MS, TITLES, HourIntervals, NormalIntervals
from ecgfed.reports.intervals import intervals_and_st
from ecgfed.reports.labelled import Labelled
from ecgfed.reports.recording_report import RecordingReport

BEATS = 120
AF = "atrial fibrillation or flutter"


def reported(
    folder: Path, rhythms: Sequence[tuple[int, str]] = (), symbols: str = "N" * BEATS, **how: object
) -> tuple[RecordingReport, np.ndarray]:
    """A report of drawn beats with a file of labels; ``rhythms``: number of a beat and the rhythm's note from it on."""
    rng = np.random.default_rng(7)
    rr_s = 0.8 + 0.03 * rng.standard_normal(len(symbols))
    recording, r_samples = recorded(Beat(), fs_hz=360.0, rr_s=rr_s)
    write_signals(folder, "r", recording.signals_mv, fs_hz=360, leads=("II",))
    marks = [(int(at), symbol, "") for at, symbol in zip(r_samples, symbols, strict=True)]
    marks += [(int(r_samples[number]) - 36, "+", f"({note}") for number, note in rhythms]
    at, symbol, notes = zip(*sorted(marks), strict=True)
    wfdb.wrann("r", "atr", np.array(at), list(symbol), aux_note=list(notes), write_dir=str(folder))
    report = ecgfed.report(folder / "r", labels=folder / "r.atr", **how)  # type: ignore[arg-type]
    assert isinstance(report, RecordingReport)
    return report, r_samples


def overall(report: RecordingReport, name: str) -> tuple[float | None, str]:
    assert report.parts.intervals is not None
    one = report.parts.intervals.overall(name)
    return one.value, one.not_assessed


def test_intervals_are_those_drawn_in_json_table_and_fhir(tmp_path: Path) -> None:
    report, _ = reported(tmp_path, out=tmp_path / "page.html", formats="table,fhir")
    drawn = {"pr_ms": 160.0, "qrs_ms": 90.0, "qt_ms": 400.0}
    told = json.loads(json.dumps(report.to_dict()))["intervals"]
    for name, length in drawn.items():
        assert told["overall"][name]["value"] == pytest.approx(length, abs=25), name
    qt, rr_s = told["overall"]["qt_ms"]["value"], 0.8
    assert told["overall"]["qtc_bazett_ms"]["value"] == pytest.approx(qt / rr_s**0.5, rel=0.01)
    assert told["overall"]["qtc_fridericia_ms"]["value"] == pytest.approx(qt / rr_s ** (1 / 3), rel=0.01)
    with (tmp_path / "page.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    resources = [entry["resource"] for entry in json.loads((tmp_path / "page.fhir.json").read_text())["entry"]]
    of_code = {one["code"]["coding"][0]["code"]: one for one in resources if one["resourceType"] == "Observation"}
    for name, code, key in (
        ("pr_interval_ms", "8625-6", "pr_ms"),
        ("qrs_duration_ms", "8633-0", "qrs_ms"),
        ("qt_interval_ms", "8634-8", "qt_ms"),
        ("qtc_bazett_ms", "qtc_bazett_ms", "qtc_bazett_ms"),
        ("qtc_fridericia_ms", "qtc_fridericia_ms", "qtc_fridericia_ms"),
    ):
        value = told["overall"][key]["value"]
        assert float(row[name]) == pytest.approx(value, abs=0.001)
        assert of_code[code]["valueQuantity"]["value"] == pytest.approx(value, abs=0.001)
        assert of_code[code]["note"]
    assert "24.0 ± 23.2" in report.html


def test_no_pr_no_qt_and_no_variability_in_fibrillation(tmp_path: Path) -> None:
    report, _ = reported(tmp_path, [(0, "AFIB")])
    for name in ("pr_ms", "qt_ms", "qtc_bazett_ms", "qtc_fridericia_ms"):
        assert overall(report, name) == (None, AF)
    assert overall(report, "qrs_ms")[0] == pytest.approx(90, abs=25)
    variability = report.parts.events.variability
    assert (variability.sdnn_ms, variability.rmssd_ms, variability.mean_nn_ms) == (None, None, None)
    assert (variability.intervals, variability.other_rhythm) == (0, BEATS - 1)
    missing = {figure.name: figure for figure in figures(report.parts) if figure.value is None}
    assert {"sdnn_ms", "rmssd_ms", "pr_interval_ms", "qt_interval_ms"} <= set(missing)
    assert "sinus rhythm" in missing["sdnn_ms"].reason
    assert dict(not_assessed(report.parts))["PR interval"] == AF


@pytest.mark.parametrize("note", ["AFIB", "AFL", "SVTA", "P", "IVR"])
def test_variability_is_of_sinus_rhythm_alone(tmp_path: Path, note: str) -> None:
    report, r_samples = reported(tmp_path, [(0, "N"), (70, note)])
    of, nn_ms = report.parts.events.variability, 1000 * np.diff(r_samples)[:69] / 360
    assert of.sdnn_ms == pytest.approx(np.std(nn_ms, ddof=1))
    assert of.rmssd_ms == pytest.approx(np.sqrt(np.mean(np.diff(nn_ms) ** 2)))
    assert of.other_rhythm == BEATS - 1 - 69


def test_beats_outside_fibrillation_are_averaged_where_there_are_enough(tmp_path: Path) -> None:
    report, _ = reported(tmp_path, [(0, "N"), (60, "AFIB")])
    assert overall(report, "pr_ms")[0] == pytest.approx(160, abs=25)
    assert report.parts.intervals is not None
    assert 50 <= report.parts.intervals.hours[0].averaged <= 60


@pytest.mark.parametrize(
    ("symbols", "reason"),
    [
        ("/" * 40, "paced rhythm"),
        ("V" * 40, "no normal beat"),
        ("N" * 2, "too few beats"),
        ("V" * 90 + "N" * 5, "too few beats"),
    ],
)
def test_why_no_interval_is_assessed(tmp_path: Path, symbols: str, reason: str) -> None:
    report, _ = reported(tmp_path, symbols=symbols)
    assert {overall(report, name) for name in TITLES} == {(None, reason)}
    assert reason in report.html


def test_the_whole_recording_has_the_median_of_its_hours() -> None:
    def hour(number: int, pr: float | None) -> HourIntervals:
        one = Measurement(pr, None if pr is None else 5.0, 100, "noise" if pr is None else "")
        return HourIntervals(3600.0 * number, 3600.0 * (number + 1), 100, dict.fromkeys(TITLES, one))

    several = NormalIntervals("II", tuple(hour(number, pr) for number, pr in enumerate((150.0, None, 190.0, 160.0))))
    whole = several.overall("pr_ms")
    assert (whole.value, whole.lowest, whole.highest, whole.hours, whole.sd) == (160.0, 150.0, 190.0, 3, None)
    assert NormalIntervals("II", (hour(0, None), hour(1, None))).overall("pr_ms").not_assessed == "noise"
    assert NormalIntervals("II", (hour(0, 150.0),)).overall("pr_ms").sd == 5.0


def test_the_errors_on_the_page_are_the_measured_ones() -> None:
    results = json.loads((Path(__file__).parents[2] / "benchmarks/delineation/results.json").read_text())
    measured = results["records"]["ecgfed"]["first lead"]
    assert {point: (measured[point]["mean"], measured[point]["sd"]) for point in ERRORS_MS} == ERRORS_MS


def test_codes_of_loinc_are_only_of_what_they_mean(tmp_path: Path) -> None:
    report, _ = reported(tmp_path)
    systems = {figure.name: figure.code[0] for figure in figures(report.parts)}
    assert systems["qt_interval_ms"] == LOINC
    assert systems["qtc_bazett_ms"] != LOINC


@pytest.mark.parametrize(("share", "assessed"), [(0.4, True), (0.6, False)])
def test_beats_of_low_confidence_have_no_intervals_no_st_level_and_no_variability(share: float, assessed: bool) -> None:
    """The beats are labelled normal; where most are not surely so, nothing is said of the average normal beat."""
    recording, r_samples = recorded(Beat(), fs_hz=360.0, rr_s=np.full(BEATS, 0.8))
    beats = np.arange(len(r_samples))
    labelled = Labelled(
        "a model", "global", r_samples.astype(np.int64), np.zeros(len(beats), np.int64), ("N",), ("N",), ("normal",),
        (Kind.NORMAL,), uncertain=beats % 10 < 10 * share,
    )  # fmt: skip
    quality = {recording.lead: LeadQuality(recording.samples, recording.fs_hz, ())}
    reading = reading_of(recording, quality, labelled, EventRules())
    intervals, st = intervals_and_st(reading)
    overall_qt = intervals.overall("qt_ms")
    assert (overall_qt.value is not None) is assessed
    assert ("low confidence" in overall_qt.not_assessed) is not assessed
    assert bool(st.levels_mv) is assessed
    assert ("low confidence" in st.reason) is not assessed
    assert (reading.events.variability.sdnn_ms is not None) is assessed
