"""Reports of twelve leads, and of recordings of at most a minute."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pydicom
import pytest
from browser_driver import driven, opened
from record_files import write_leads
from twelve_lead_records import FS_HZ, dipole_leads, write_twelve

import ecgfed
from ecgfed.domain.record.twelve_leads import STANDARD_LEADS
from ecgfed.reports.recording_report import RecordingReport

SCHEMA = Path(__file__).parents[1] / "data" / "fhir" / "fhir-r4.schema.json"
HOLTER = ("Heart rate variability", "Beats hour by hour", "timeline-slider", "burden", "Slowest minute", "Busiest hour")
ROWS = {"I": 0, "aVR": 0, "V1": 0, "V4": 0, "II": 1, "aVL": 1, "V2": 1, "V5": 1, "III": 2, "aVF": 2, "V3": 2, "V6": 2}
COLUMNS = {name: number // 3 for number, name in enumerate(STANDARD_LEADS)}


def labels(path: Path, seconds: float = 10.0, ectopic: tuple[int, ...] = ()) -> Path:
    """The beats of ``dipole_leads`` as a table."""
    at = np.round(np.arange(0.35, seconds, 60 / 66) * FS_HZ).astype(int)
    rows = [f"{sample},{'V' if number in ectopic else 'N'}" for number, sample in enumerate(at.tolist())]
    path.write_text("\n".join(["sample,symbol", *rows]) + "\n")
    return path


def reported(folder: Path, leads: dict[str, np.ndarray], name: str = "ecg", **how: Any) -> RecordingReport:
    record = write_twelve(folder, name, leads)
    seconds = len(next(iter(leads.values()))) / FS_HZ
    ectopic = how.pop("ectopic", ())
    report = ecgfed.report(record, labels=labels(folder / f"{name}.csv", seconds, ectopic), **how)
    assert isinstance(report, RecordingReport)
    return report


def body(report: RecordingReport) -> str:
    """The page without its styles, scripts and data."""
    return re.sub(r"<(style|script)\b.*?</\1>", "", report.html, flags=re.DOTALL)


def findings(report: RecordingReport) -> dict[str, str]:
    short = re.search(r'id="short".*?</section>', report.html, re.DOTALL)
    assert short is not None
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", short[0]))


@pytest.fixture(scope="module")
def resting(tmp_path_factory: pytest.TempPathFactory) -> RecordingReport:
    folder = tmp_path_factory.mktemp("resting")
    return reported(folder, dipole_leads(-45, p_deg=60), out=folder / "page.html", pdf=False)


def test_a_resting_ecg_has_its_findings_and_no_table_of_a_holter_report(resting: RecordingReport) -> None:
    found = findings(resting)
    assert found["Heart rate"].startswith("66/min")
    assert found["QRS axis"] == "\N{MINUS SIGN}45°, left axis deviation"
    assert abs(int(found["P axis"].rstrip("°")) - 60) < 10
    assert found["Ventricular ectopic beats"] == "none detected"
    assert "regular" in found["Rhythm"]
    assert "irregular" not in found["Rhythm"]
    for name, expected, within in (("PR", 185, 30), ("QRS", 80, 30), ("QT", 430, 40)):
        assert abs(float(found[name].split()[0]) - expected) < within, name
    qt, bazett, fridericia = (float(found[name].split()[0]) for name in ("QT", "QTc Bazett", "QTc Fridericia"))
    rr_s = 60 / 66
    assert bazett == pytest.approx(qt / rr_s ** (1 / 2), abs=1.5)
    assert fridericia == pytest.approx(qt / rr_s ** (1 / 3), abs=1.5)
    assert not [text for text in HOLTER if text in body(resting)]
    assert "data-at=" not in resting.html.split("<script")[0]  # there is no line for a time to lead to


def test_ectopic_beats_of_a_resting_ecg_are_counted_without_a_share(tmp_path: Path) -> None:
    found = findings(reported(tmp_path, dipole_leads(), ectopic=(4, 7)))
    assert found["Ventricular ectopic beats"] == "2"


def test_the_axis_is_in_the_json(resting: RecordingReport) -> None:
    twelve = resting.to_dict()["twelve_leads"]
    assert twelve["qrs_axis_deg"]["value"] == pytest.approx(-45, abs=2)
    assert twelve["derived"] == []
    assert twelve["averaged"] >= 8


def test_no_axis_where_the_limb_leads_contradict_each_other(tmp_path: Path) -> None:
    """With I inverted the formula still gives an axis, a plausible and wrong one."""
    leads = dipole_leads()
    found = findings(reported(tmp_path, {**leads, "I": -leads["I"]}))
    assert found["QRS axis"] == "not assessed: the limb leads do not agree"


def test_a_sheet_states_how_much_it_shows(tmp_path: Path) -> None:
    seconds = 6
    leads = {name: signal[: round(seconds * FS_HZ)] for name, signal in dipole_leads().items()}
    assert f"below, {seconds} s of II" in body(reported(tmp_path, leads))


def test_derived_leads_are_named(tmp_path: Path) -> None:
    eight = {name: signal for name, signal in dipole_leads().items() if name in ("I", "II") or name[0] == "V"}
    report = reported(tmp_path, eight)
    assert "III, aVR, aVL, aVF are not stored, but derived from I and II." in report.html
    assert report.to_dict()["twelve_leads"]["qrs_axis_deg"]["value"] == pytest.approx(50, abs=3)


def test_one_lead_of_ten_seconds_has_the_short_form_with_that_lead(tmp_path: Path) -> None:
    report = reported(tmp_path, {"II": dipole_leads()["II"]})
    assert {"Heart rate", "PR", "QTc Fridericia"} <= set(findings(report))
    assert "QRS axis" not in findings(report)
    assert report.to_dict()["twelve_leads"] is None
    assert not [text for text in HOLTER if text in body(report)]
    assert 'data-strip="0"' in report.html


def test_leads_that_do_not_agree_are_a_warning(tmp_path: Path) -> None:
    leads = dipole_leads()
    report = reported(tmp_path, {**leads, "II": leads["III"], "III": leads["II"]})
    assert "limb-leads" in dict(report.parts.warnings)
    three = reported(tmp_path, {name: leads[name] for name in ("I", "II")} | {"III": -leads["III"]}, "three")
    assert "III is not II - I" in dict(three.parts.warnings)["limb-leads"]  # without chest leads too
    assert "limb-leads" not in dict(reported(tmp_path, leads, "whole").parts.warnings)


def test_a_longer_recording_has_both_the_holter_report_and_the_sheet(tmp_path: Path) -> None:
    leads = dipole_leads(seconds=80)
    for signal in leads.values():
        signal[: round(20 * FS_HZ)] = np.nan
    report = reported(tmp_path, leads)
    assert "Heart rate variability" in report.html
    assert 'id="twelve-sheet"' in report.html
    assert report.parts.twelve is not None
    assert report.parts.twelve.start_s >= 19.5  # where the beats of the average are
    assert "data-twelve=" in report.html


def test_two_leads_have_no_sheet(tmp_path: Path) -> None:
    leads = dipole_leads(seconds=65)
    record = write_leads(tmp_path, "two", {name: leads[name] for name in ("II", "V1")}, fs_hz=FS_HZ)
    report = ecgfed.report(record, labels=labels(tmp_path / "two.csv", 65))
    assert isinstance(report, RecordingReport)
    assert report.parts.twelve is None
    assert 'id="twelve-sheet"' not in report.html


@pytest.fixture(scope="module")
def used(resting: RecordingReport, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("used")
    return driven("twelve.mjs", {"page": str(resting.files[0])}, folder, timeout_s=120)


@pytest.mark.browser
def test_every_lead_is_in_its_place_at_its_scale(used: dict[str, Any]) -> None:
    assert used["errors"] == []
    sheet = used["sheet"]
    *twelve, rhythm = sheet["names"]
    assert rhythm[0] == "II"
    assert {name for name, _, _ in twelve} == set(STANDARD_LEADS)
    heights = sorted({round(y, 1) for name, _, y in twelve if name in ("I", "II", "III")})
    assert len(heights) == 3
    for name, x, y in twelve:
        assert x == pytest.approx(16 + COLUMNS[name] * 2.5 * 25), name
        assert round(y, 1) == heights[ROWS[name]], name
    assert rhythm[2] > heights[2]
    assert sheet["wide"] == pytest.approx(15 + 10 * 25, abs=0.1)  # 25 mm a second at 100%
    assert sheet["wide"] == pytest.approx(sheet["view"][0], abs=0.1)  # a unit of the drawing is a millimetre
    assert len(sheet["pulses"]) == 4
    for pulse in sheet["pulses"]:  # 1 mV is 10 mm, 0.2 s are 5 mm
        assert re.search(r"v-10h5v10", pulse)
    assert used["scale"] == "25 mm/s, 10 mm/mV"


@pytest.mark.browser
def test_cabrera_begins_with_avl_and_inverts_avr(used: dict[str, Any]) -> None:
    names = [name for name, _, _ in used["cabrera"]["names"]]
    assert names[:12] == ["aVL", "II", "V1", "V4", "I", "aVF", "V2", "V5", "-aVR", "III", "V3", "V6"]


@pytest.mark.browser
def test_each_lead_has_its_average_beat_with_its_points(used: dict[str, Any]) -> None:
    assert [panel["name"] for panel in used["averages"]] == list(STANDARD_LEADS)
    assert {panel["points"] for panel in used["averages"]} == {4}


@pytest.mark.browser
def test_a_beat_is_edited_on_the_sheet(used: dict[str, Any]) -> None:
    assert used["chosen"] == "Beat N at 0:04.0"
    assert used["sheet"]["labels"].count("V") == 0
    assert used["relabelled"].count("V") == 1
    assert {"short", "strips", "beats-of-leads"} <= set(used["older"])
    assert used["opened"].count("V6") == 1


@pytest.mark.browser
def test_it_prints_on_two_sheets_and_is_accessible(resting: RecordingReport, tmp_path: Path) -> None:
    seen = opened(resting.files[0], tmp_path)
    assert seen["errors"] == []
    assert seen["axe"] == {"desktop": [], "phone": []}
    assert seen["widths"] == {"desktop": 1280, "phone": 390, "small": 320}
    assert seen["unreachable"] == 0
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", seen["pdf"])
    assert 1 <= len(boxes) <= 2
    assert {(round(float(width) / 72 * 25.4), round(float(height) / 72 * 25.4)) for width, height in boxes} == {
        (297, 210)
    }


@pytest.mark.browser
def test_the_printed_sheet_is_true_to_scale(used: dict[str, Any]) -> None:
    assert used["printed_scale"] == "25 mm/s, 10 mm/mV"
    assert used["printed"]["wide"] == pytest.approx(265, abs=0.1)
    assert used["printed"]["high"] <= 120


def renamed(leads: dict[str, np.ndarray], **names: str) -> dict[str, np.ndarray]:
    return {names.get(name, name): signal for name, signal in leads.items()}


def test_iec_names_have_a_sheet_by_einthovens_and_goldbergers_equations(tmp_path: Path) -> None:
    """C1 to C6 are V1 to V6; R, L and F may be aVR or a potential, so the limb leads follow from I and II."""
    chest = {f"V{number}": f"C{number}" for number in range(1, 7)}
    iec = renamed(dipole_leads(20), aVR="R", aVL="L", aVF="F", **chest)
    report = reported(tmp_path, iec)
    assert report.parts.twelve is not None
    assert set(report.parts.twelve.derived) == {"aVR", "aVL", "aVF"}
    assert report.to_dict()["twelve_leads"]["qrs_axis_deg"]["value"] == pytest.approx(20, abs=3)
    assert "no-twelve-leads" not in dict(report.parts.notes)


@pytest.mark.parametrize("lead", ["I", "II", "III", "V3"])
def test_why_there_is_no_sheet_is_on_the_page(lead: str, tmp_path: Path) -> None:
    """Two leads of a name are ambiguous, and one that is missing cannot be derived; III alone can."""
    leads = dipole_leads()
    header = write_twelve(tmp_path, "twice", leads).with_suffix(".hea")
    text = header.read_text()
    header.write_text(re.sub(rf" {'V4' if lead == 'V3' else 'aVF'}$", f" {lead}", text, flags=re.MULTILINE))
    how: dict[str, Any] = {"leads": "#2"} if lead == "II" else {}
    twice = ecgfed.report(header.with_suffix(""), **how)
    assert isinstance(twice, RecordingReport)
    assert (twice.parts.twelve is None) == (lead != "III")
    missing = reported(tmp_path, {name: signal for name, signal in leads.items() if name != "V6"}, "missing")
    for report, reason in ((twice, f"2 leads are named {lead}"), (missing, "no lead is named V6.")):
        if report.parts.twelve is None:
            assert reason in dict(report.parts.notes)["no-twelve-leads"]
            assert reason in report.html


def test_few_leads_are_no_twelve(tmp_path: Path) -> None:
    leads = dipole_leads()
    report = reported(tmp_path, {name: leads[name] for name in ("I", "II", "V1", "V5")})
    assert "no-twelve-leads" not in dict(report.parts.notes)


@pytest.mark.parametrize("flat", ["II", "I", "V2"])
def test_a_flat_lead_is_named_and_never_the_one_that_is_read(flat: str, tmp_path: Path) -> None:
    leads = dipole_leads()
    leads[flat] = np.zeros_like(leads[flat])
    record = write_twelve(tmp_path, "flat", leads)
    beats = labels(tmp_path / "flat.csv")
    for how in ({}, {"labels": beats}):
        report = ecgfed.report(record, **how)
        assert isinstance(report, RecordingReport)
        assert report.parts.lead == ("I" if flat == "II" else "II")
        assert report.parts.events.counted >= 10
        assert f"{flat} (flat)" in dict(report.parts.warnings)["unusable-leads"]
        assert ("is read in its place" in dict(report.parts.warnings).get("file", "")) == (flat == "II")
    assert ecgfed.report(record, leads=flat, labels=beats).parts.lead == flat  # a lead that is named is read


def test_axes_and_the_lead_of_the_intervals_are_in_the_files_for_other_programs(tmp_path: Path) -> None:
    """The dipole's direction, by the schema of FHIR R4; the lead's name is no person's, so it is stated."""
    reported(tmp_path, dipole_leads(-45, p_deg=60), out=tmp_path / "page.html", formats="fhir,table,dicom")
    bundle = json.loads((tmp_path / "page.fhir.json").read_text())
    assert list(jsonschema.Draft6Validator(json.loads(SCHEMA.read_text())).iter_errors(bundle)) == []
    resources = [entry["resource"] for entry in bundle["entry"]]
    of = {one["code"]["text"]: one for one in resources if one["resourceType"] == "Observation"}
    (row,) = csv.DictReader((tmp_path / "page.csv").read_text().splitlines())
    dicom = pydicom.dcmread(tmp_path / "page.dcm")
    texts = [
        str(note.UnformattedTextValue) for note in dicom.WaveformAnnotationSequence if "UnformattedTextValue" in note
    ]
    for title, name, code, degrees in (
        ("QRS axis", "qrs_axis_deg", "8632-2", -45),
        ("P axis", "p_axis_deg", "p_axis_deg", 60),
        ("T axis", "t_axis_deg", "t_axis_deg", 40),
    ):
        quantity = of[title]["valueQuantity"]
        assert (quantity["code"], quantity["value"]) == ("deg", pytest.approx(degrees, abs=10))
        assert of[title]["code"]["coding"][0]["code"] == code
        assert float(row[name]) == quantity["value"]
        assert any(text.startswith(f"{title}: ") for text in texts)
    for title in ("P-R Interval", "QRS duration", "Q-T interval"):
        assert "in II alone" in of[title]["note"][0]["text"]
    assert "in II alone" in row["remarks"]
    one_lead = reported(
        tmp_path, {"Smith": dipole_leads()["II"]}, "one", out=tmp_path / "other.html", formats="fhir,table"
    )
    assert one_lead.parts.intervals is not None
    files = [(tmp_path / f"other{end}").read_text() for end in (".fhir.json", ".csv")]
    assert not any("Smith" in text for text in files)
    (row,) = csv.DictReader(files[1].splitlines())
    assert (row["qrs_axis_deg"], "qrs_axis_deg" in row["not_assessed"]) == ("", True)
