"""``ecgfed report --format``: what other programs read of a report equals its JSON, and names nobody."""

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import hospital_files as made
import jsonschema
import numpy as np
import pytest
import wfdb
from aecg_schema import schema_errors
from conftest import synthetic_signal, write_record
from hospital_records import needs_pydicom
from record_files import write_signals
from support import Command, assert_refused, exported, snapshot

import ecgfed as package
from ecgfed.domain.record import aecg_writer
from ecgfed.domain.record.reader import read_recording
from ecgfed.tasks import pdf

FS = 360
SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "fhir" / "fhir-r4.schema.json").read_text())
VALIDATOR = jsonschema.Draft6Validator(SCHEMA)
MDC = {"N": "MDC_ECG_BEAT_NORMAL", "V": "MDC_ECG_BEAT_V_P_C"}
HL7 = "{urn:hl7-org:v3}"
START = "2026-03-04T09:15:00+01:00"


@pytest.fixture(scope="module")
def ectopic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two leads at 75/min with a run of 4 V, a couplet, and 3 s that were not recorded."""
    folder = tmp_path_factory.mktemp("ectopic")
    symbols = "N" * 30 + "VVVV" + "N" * 20 + "VV" + "N" * 44
    signal, at = synthetic_signal(symbols, seed=3)
    signals = np.stack([signal, 0.6 * signal])
    start = int(at[70]) + 60
    signals[:, start : start + 3 * FS] = np.nan
    record = write_signals(folder, "quixrecord", signals, fs_hz=FS, leads=("MLII", "V1"), adc_gain=200.0)
    recorded = (at < start) | (at > start + 3 * FS)
    wfdb.wrann("quixrecord", "atr", at[recorded], list(np.array(list(symbols))[recorded]), write_dir=str(folder))
    return record


def reported(ecgfed: Command, record: Path, out: Path, formats: str, *more: object) -> dict[str, Any]:
    said = ecgfed("report", record, "--out", out, "--format", formats, "--json", *more)
    assert said.code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer


def expected_values(told: dict[str, Any]) -> dict[str, float | None]:
    """The figures as the JSON has them, by their stable names."""
    rates, hrv = told["rates"], told["variability"]
    at = {name: None if rates[name] is None else rates[name]["value"] for name in ("lowest", "highest")}
    longest = told["pauses"]["longest"]
    values: dict[str, float | None] = {
        "duration_s": told["duration_s"],
        "usable_s": told["usable_s"][told["lead"]],
        "beats": told["beats"],
        "beats_counted": told["counted"],
        "heart_rate_mean_per_min": rates["mean"],
        "heart_rate_lowest_per_min": at["lowest"],
        "heart_rate_highest_per_min": at["highest"],
        "pauses": len(told["pauses"]["found"]),
        "longest_interval_s": None if longest is None else longest["value"],
        "nn_mean_ms": hrv["mean_nn_ms"],
        "sdnn_ms": hrv["sdnn_ms"],
        "rmssd_ms": hrv["rmssd_ms"],
        "pr_interval_ms": None,
        "qrs_duration_ms": None,
        "qt_interval_ms": None,
    }
    for kind in ("ventricular", "supraventricular"):
        counts = told[kind]
        values |= {
            f"{kind}_beats": counts and counts["total"],
            f"{kind}_percent": counts and counts["percent"],
            f"{kind}_low_confidence": counts and counts["uncertain"],
            f"{kind}_runs": counts and counts["certain_runs"],
            f"{kind}_runs_to_review": counts and counts["runs_to_review"],
        }
    for rhythm in ("bradycardia", "tachycardia"):
        values[f"{rhythm}_s"] = sum(one["seconds"] for one in told["rhythms"] if one["rhythm"] == rhythm)
    return values


def observations(bundle: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Observations by what they are called."""
    resources = [entry["resource"] for entry in bundle["entry"]]
    return {one["code"]["text"]: one for one in resources if one["resourceType"] == "Observation"}


def values_of_fhir(bundle: dict[str, Any]) -> list[float | None]:
    return [one.get("valueQuantity", {}).get("value") for one in observations(bundle).values()]


def table_of(path: Path) -> dict[str, str]:
    (row,) = csv.DictReader(io.StringIO(path.read_text()))
    return row


def number(cell: str) -> float | None:
    return float(cell) if cell else None


@pytest.mark.parametrize("by", ["labels", "model"])
def test_fhir_and_table_equal_the_json(
    ecgfed: Command, ectopic: Path, records: Path, fedavg_run: Path, tmp_path: Path, by: str
) -> None:
    labels = ("--labels", ectopic.with_suffix(".atr"))
    record, more = (ectopic, labels) if by == "labels" else (records / "p1", ("--bundle", exported(fedavg_run)))
    told = reported(ecgfed, record, tmp_path / "page.html", "fhir,table", *more)
    row = table_of(tmp_path / "page.csv")
    bundle = json.loads((tmp_path / "page.fhir.json").read_text())
    expected = expected_values(told)
    assert {name: number(row[name]) for name in expected} == expected
    # FHIR has the figures of the table in its order, then the rhythms that only some recordings have
    columns = list(row)
    figures = [number(row[name]) for name in columns[columns.index("duration_s") : columns.index("other_rhythms")]]
    assert values_of_fhir(bundle)[: len(figures)] == figures
    assert row["labels_reviewed"] == ("1" if by == "labels" else "0")
    reports = [one["resource"] for one in bundle["entry"] if one["resource"]["resourceType"] == "DiagnosticReport"]
    assert [one["status"] for one in reports] == ["final" if by == "labels" else "preliminary"]
    assert told["files"] == [str(tmp_path / f"page{end}") for end in (".html", ".fhir.json", ".csv")]


def test_fhir_is_valid_by_the_official_schema(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    labels = ("--labels", ectopic.with_suffix(".atr"), "--subject", "P-17", "--start", START)
    reported(ecgfed, ectopic, tmp_path / "page.html", "fhir", *labels)
    bundle = json.loads((tmp_path / "page.fhir.json").read_text())
    assert list(VALIDATOR.iter_errors(bundle)) == []
    (report,) = (one["resource"] for one in bundle["entry"] if one["resource"]["resourceType"] == "DiagnosticReport")
    urls = {entry["fullUrl"] for entry in bundle["entry"]}
    assert len(urls) == len(bundle["entry"])
    assert {one["reference"] for one in report["result"]} < urls
    assert report["effectivePeriod"]["start"] == START
    assert report["subject"]["identifier"]["value"] == "P-17"
    for one in observations(bundle).values():
        assert ("valueQuantity" in one) != ("dataAbsentReason" in one)
        assert one["device"]["reference"] in urls
    # the validator refuses what R4 does not allow
    for spoil in ({"status": "done"}, {"valueQuantity": {"value": "98"}}, {"madeUp": 1}):
        resource = {**next(iter(observations(bundle).values())), **spoil}
        assert list(VALIDATOR.iter_errors({**bundle, "entry": [{"resource": resource}]}))


def test_what_was_not_assessed_says_why(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    reported(ecgfed, ectopic, tmp_path / "page.html", "fhir,table", "--labels", ectopic.with_suffix(".atr"))
    of = observations(json.loads((tmp_path / "page.fhir.json").read_text()))
    absent = of["P-R Interval"]["dataAbsentReason"]
    assert (absent["coding"][0]["code"], absent["text"]) == ("unsupported", "no P wave is measured")
    assert of["P-R Interval"]["code"]["coding"][0]["code"] == "8625-6"
    row = table_of(tmp_path / "page.csv")
    assert (row["pr_interval_ms"], row["pauses"]) == ("", "0")
    assert "pr_interval_ms: no P wave is measured" in row["not_assessed"]
    assert "1 more in or beside unusable stretches" in row["remarks"]
    assert row["record_id"] == "page"
    assert "no P wave is measured" in (tmp_path / "page.html").read_text()


def test_columns_of_the_table_are_the_same_for_every_recording(
    ecgfed: Command, ectopic: Path, records: Path, fedavg_run: Path, tmp_path: Path
) -> None:
    flat = write_signals(tmp_path, "flat", np.zeros((1, 40 * FS)), fs_hz=FS, leads=("MLII",))
    bundle, headers = exported(fedavg_run), set()
    for number_of, record in enumerate((ectopic, records / "p2", flat)):
        out = tmp_path / f"{number_of}.html"
        reported(ecgfed, record, out, "table,fhir", "--bundle", bundle, "--subject", "=1+1")
        headers.add(out.with_suffix(".csv").read_text().splitlines()[0])
        assert table_of(out.with_suffix(".csv"))["record_id"] == "'=1+1"  # no formula of a spreadsheet
        assert list(VALIDATOR.iter_errors(json.loads((tmp_path / f"{number_of}.fhir.json").read_text()))) == []
    assert len(headers) == 1


def test_the_codes_of_a_day_are_those_of_24_hours() -> None:
    from types import SimpleNamespace
    from typing import cast

    from ecgfed.domain.events.rhythm import At, Pauses, Rates
    from ecgfed.reports.figures import _rates
    from ecgfed.reports.recording_parts import RecordingParts

    rates = Rates(70.0, At(50.0, 1.0, 9.0), At(90.0, 1.0, 9.0), None, None, 100)
    events = SimpleNamespace(rates=rates, pauses=Pauses((), None, 0))

    def codes(hours: float) -> list[str | None]:
        parts = cast(RecordingParts, SimpleNamespace(events=events, duration_s=3600 * hours))
        return [one.loinc and one.loinc[0] for one in list(_rates(parts))[:3]]

    assert codes(24) == ["41924-2", "8883-1", "8873-2"]
    assert codes(1) == ["103205-1", None, None]


def beats_of_aecg(root: ElementTree.Element) -> list[tuple[float, str]]:
    found = []
    for annotation in root.iter(f"{HL7}annotation"):
        code, value = annotation.find(f"{HL7}code"), annotation.find(f".//{HL7}boundary/{HL7}value")
        assert code is not None
        assert value is not None
        if "BEAT" in code.attrib["code"]:
            found.append((float(value.attrib["value"]), code.attrib["code"]))
    return found


def test_aecg_holds_signal_and_beats(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    reported(ecgfed, ectopic, tmp_path / "page.html", "aecg", "--labels", ectopic.with_suffix(".atr"))
    file = tmp_path / "page.aecg.xml"
    read, meant = read_recording(file, every_lead=True), wfdb.rdrecord(str(ectopic)).p_signal.T
    assert (read.leads, read.fs_hz) == (("MLII", "V1"), FS)
    recorded = ~np.isnan(meant)
    np.testing.assert_allclose(read.signals_mv[recorded], meant[recorded], atol=1e-6)
    root = ElementTree.fromstring(file.read_text())
    assert schema_errors(root) == []
    marks = wfdb.rdann(str(ectopic), "atr")
    found = beats_of_aecg(root)
    np.testing.assert_allclose([time for time, _ in found], marks.sample / FS, atol=1e-6)
    assert [code for _, code in found] == [MDC[symbol] for symbol in marks.symbol]
    # nothing was recorded there: the document says so of each lead
    gaps = np.flatnonzero(np.isnan(meant[0]))
    nothing = [one for one in root.iter(f"{HL7}annotation") if "NOSIGNAL" in ElementTree.tostring(one, "unicode")]
    assert len(nothing) == 2
    low, high = (nothing[0].find(f".//{HL7}{end}") for end in ("low", "high"))
    assert low is not None
    assert high is not None
    assert float(low.attrib["value"]) == pytest.approx(gaps[0] / FS, abs=1e-6)
    assert float(high.attrib["value"]) == pytest.approx((gaps[-1] + 1) / FS, abs=1e-6)


@needs_pydicom
def test_dicom_holds_signal_beats_and_figures(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    import pydicom

    told = reported(
        ecgfed,
        ectopic,
        tmp_path / "page.html",
        "dicom,table",
        "--labels",
        ectopic.with_suffix(".atr"),
        "--subject",
        "P",
    )
    read = pydicom.dcmread(tmp_path / "page.dcm")
    meant = wfdb.rdrecord(str(ectopic)).p_signal
    recorded = ~np.isnan(meant)
    np.testing.assert_allclose(read.waveform_array(0)[recorded], meant[recorded], atol=1e-9)
    assert (read.SOPClassUID.name, read.Modality, read.PatientID) == ("General ECG Waveform Storage", "ECG", "P")
    assert read.WaveformSequence[0].SamplingFrequency == FS
    marks, symbols = wfdb.rdann(str(ectopic), "atr"), {"10:8208": "N", "10:8336": "V"}
    found = {}
    for item in read.WaveformAnnotationSequence:
        if item.AnnotationGroupNumber == 1 and "ConceptNameCodeSequence" in item:
            found[symbols[item.ConceptNameCodeSequence[0].CodeValue]] = np.ravel(item.ReferencedSamplePositions)
    for symbol, positions in found.items():
        np.testing.assert_array_equal(positions - 1, marks.sample[np.array(marks.symbol) == symbol])
    row = table_of(tmp_path / "page.csv")
    measured = {
        code.get("CodeValue") or code.LongCodeValue: (float(item.NumericValue), item.MeasurementUnitsCodeSequence[0])
        for item in read.WaveformAnnotationSequence
        if "NumericValue" in item
        for code in item.ConceptNameCodeSequence
    }
    assert measured["103205-1"][0] == pytest.approx(told["rates"]["mean"])
    assert measured["103205-1"][1].CodeValue == "/min"
    assert measured["ventricular_beats"][0] == float(row["ventricular_beats"]) == told["ventricular"]["total"]
    texts = [item.UnformattedTextValue for item in read.WaveformAnnotationSequence if "UnformattedTextValue" in item]
    assert "P-R Interval: not assessed: no P wave is measured" in texts
    # the project's own reader finds the gap, too
    own = read_recording(tmp_path / "page.dcm", every_lead=True)
    assert own.leads == ("MLII", "V1")
    np.testing.assert_allclose(own.signals_mv, meant.T, atol=1e-9)


@needs_pydicom
@pytest.mark.parametrize(
    ("leads", "fs_hz", "beats", "name"),
    [
        (("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6"), 500, 15, "12-lead ECG"),
        (("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6"), 500, 60, "General ECG"),
        (("V5", "V1"), 128, 30, "Ambulatory ECG"),
    ],
)
def test_the_class_of_dicom_follows_the_recording(
    ecgfed: Command, tmp_path: Path, leads: tuple[str, ...], fs_hz: int, beats: int, name: str
) -> None:
    import pydicom

    record = write_record(tmp_path, "r", "N" * beats, leads=leads, fs_hz=fs_hz)
    reported(ecgfed, record, tmp_path / "page.html", "dicom,aecg", "--labels", record.with_suffix(".atr"))
    read = pydicom.dcmread(tmp_path / "page.dcm")
    assert read.SOPClassUID.name == f"{name} Waveform Storage"
    (group,) = read.WaveformSequence
    sources = [channel.ChannelSourceSequence[0] for channel in group.ChannelDefinitionSequence]
    assert [source.CodeMeaning for source in sources] == [f"Lead {lead}" for lead in leads]
    assert {source.CodingSchemeDesignator for source in sources} == {"MDC"}
    for file in ("page.dcm", "page.aecg.xml"):
        assert read_recording(tmp_path / file, every_lead=True).leads == leads


@pytest.fixture
def printer(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that prints a page by calling it a PDF."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "chromium"
    program.write_text(
        '#!/bin/sh\nfor last; do case "$last" in --print-to-pdf=*) out="${last#*=}";; esac; done\n'
        '{ printf "%%PDF-1.4 "; cat "${last#file://}"; } > "$out"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@needs_pydicom
def test_an_encapsulated_pdf_is_of_the_waveforms_study(
    ecgfed: Command, ectopic: Path, tmp_path: Path, printer: None
) -> None:
    import pydicom

    labels = ("--labels", ectopic.with_suffix(".atr"))
    told = reported(ecgfed, ectopic, tmp_path / "page.html", "dicom,dicom-pdf", *labels)
    assert told["files"][-1] == str(tmp_path / "page.pdf.dcm")
    read, waveform = (pydicom.dcmread(tmp_path / f"page{end}") for end in (".pdf.dcm", ".dcm"))
    assert read.SOPClassUID.name == "Encapsulated PDF Storage"
    assert read.MIMETypeOfEncapsulatedDocument == "application/pdf"
    printed = read.EncapsulatedDocument[: read.EncapsulatedDocumentLength]
    assert printed.startswith(b"%PDF-")
    assert b"ECG report" in printed
    assert b"quixrecord" not in printed.replace(b"quixrecord.atr", b"")  # the labels' file was named by the user
    assert read.StudyInstanceUID == waveform.StudyInstanceUID
    assert len({read.SeriesInstanceUID, waveform.SeriesInstanceUID, read.SOPInstanceUID, waveform.SOPInstanceUID}) == 4


FORMATS = "fhir,table,aecg,dicom"


def written_in(folder: Path) -> Iterator[bytes]:
    for path in folder.iterdir():
        if path.suffix != ".html":
            yield path.read_bytes()


@needs_pydicom
def test_no_name_and_no_time_unless_stated(ecgfed: Command, records: Path, fedavg_run: Path, tmp_path: Path) -> None:
    """A hospital's file names a patient in every field; nothing of it reaches a file that is sent on."""
    signal, _ = synthetic_signal("N" * 40, fs_hz=500, seed=1)
    steps = np.rint(signal / 0.0025).astype(int)
    channels = [
        made.dicom_channel(("2:2", "MDC", "Lead II")),
        made.dicom_channel(("", "", "Quix Anna ECG"), sensitivity="2.5"),
    ]
    data = made.dicom_bytes(made.dicom_group([steps.tolist(), steps.tolist()], channels))
    record = tmp_path / "quix-anna.dcm"
    record.write_bytes(data)
    silent, stated = tmp_path / "silent", tmp_path / "stated"
    bundle = ("--bundle", exported(fedavg_run), "--lead", "II", "--force")
    reported(ecgfed, record, silent / "page.html", FORMATS, *bundle)
    for content in written_in(silent):
        for planted in (b"quix", b"20020302", b"2002-03-02", b"1951", b"131415"):
            assert planted not in content.lower()
    reported(ecgfed, record, stated / "page.html", FORMATS, *bundle, "--subject", "Pseudonym7", "--start", START)
    for content in written_in(stated):
        assert b"Pseudonym7" in content
        assert b"2026" in content
        assert b"quix" not in content.lower()
    import pydicom

    assert pydicom.dcmread(silent / "page.dcm").PatientIdentityRemoved == "YES"
    assert pydicom.dcmread(stated / "page.dcm").AcquisitionDateTime.startswith("20260304091500")
    root = ElementTree.fromstring((stated / "page.aecg.xml").read_text())
    assert schema_errors(root) == []
    low = root.find(f"{HL7}effectiveTime/{HL7}low")
    assert low is not None
    assert low.attrib["value"] == "20260304091500.000+0100"


@needs_pydicom
def test_the_same_report_gives_the_same_bytes(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    labels = ("--labels", ectopic.with_suffix(".atr"))
    for name in ("a", "b"):
        reported(ecgfed, ectopic, tmp_path / name / "page.html", FORMATS, *labels)
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")
    reported(ecgfed, ectopic, tmp_path / "c" / "page.html", FORMATS, *labels, "--rule", "run_beats=5")
    assert (tmp_path / "c" / "page.dcm").read_bytes() != (tmp_path / "a" / "page.dcm").read_bytes()


def test_from_python(ectopic: Path, tmp_path: Path) -> None:
    report = package.report(
        ectopic, labels=ectopic.with_suffix(".atr"), out=tmp_path / "page.html", formats=["table"], subject="P-1"
    )
    assert report.files == (tmp_path / "page.html", tmp_path / "page.csv")
    assert table_of(tmp_path / "page.csv")["record_id"] == "P-1"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "fhir,hl7"), ("--format", "'hl7'", "fhir, table")),
        (("--subject", "P-1"), ("--subject", "--format")),
        (("--start", START), ("--start", "--format")),
        (("--format", "fhir", "--start", "2026-03-04T09:15:00"), ("--start", "offset")),
        (("--format", "fhir", "--start", "yesterday"), ("--start", "'yesterday'")),
        (("--format", "fhir", "--subject", "a\\b"), ("--subject", "backslash")),
        (("--format", "fhir", "--subject", "x" * 65), ("--subject", "64")),
        (("--format", "dicom-pdf"), ("--format", "chromium")),
    ],
)
def test_bad_combinations_are_one_line(
    ecgfed: Command,
    ectopic: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    labels = ("--labels", ectopic.with_suffix(".atr"))
    assert_refused(ecgfed("report", ectopic, *labels, "--out", tmp_path / "page.html", *options), *words)
    assert list(tmp_path.iterdir()) == []


def test_what_a_format_cannot_hold_is_refused(
    ecgfed: Command, ectopic: Path, fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, labels = tmp_path / "page.html", ("--labels", ectopic.with_suffix(".atr"))
    monkeypatch.setattr(aecg_writer, "MAX_ELEMENTS", 200)
    assert_refused(ecgfed("report", ectopic, *labels, "--out", out, "--format", "aecg"), "--format aecg", "200")
    monkeypatch.setattr(aecg_writer, "MAX_BYTES", 20_000)
    assert_refused(ecgfed("report", ectopic, *labels, "--out", out, "--format", "aecg"), "--format aecg", "bytes")
    assert list(tmp_path.iterdir()) == []
    out.with_suffix(".csv").write_text("somebody's")
    assert_refused(ecgfed("report", ectopic, *labels, "--out", out, "--format", "table"), "page.csv", "--overwrite")
    assert out.with_suffix(".csv").read_text() == "somebody's"
    assert_refused(ecgfed("report", fedavg_run, "--out", out, "--format", "fhir"), "--format", "a run")


@needs_pydicom
def test_dicom_refuses_a_frequency_that_it_does_not_know(ecgfed: Command, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    record = write_record(folder, "r", "N" * 20, fs_hz=2000.0)
    labels = ("--labels", record.with_suffix(".atr"))
    said = ecgfed("report", record, *labels, "--out", tmp_path / "page.html", "--format", "dicom")
    assert_refused(said, "--format dicom", "2000 Hz", "1000 Hz")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
