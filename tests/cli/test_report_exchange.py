"""``ecgfed report --format``: what other programs read of a report equals its JSON, and names nobody."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
import wfdb
from aecg_schema import schema_errors
from conftest import write_record
from hospital_records import needs_pydicom
from record_files import write_signals
from report_files import (
    FS,
    HL7,
    START,
    expected_values,
    number,
    observations,
    reported,
    table_of,
    values_of_fhir,
    write_ectopic,
)
from support import Command, exported

from ecgfed.domain.record.reader import read_recording

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "fhir" / "fhir-r4.schema.json").read_text())
VALIDATOR = jsonschema.Draft6Validator(SCHEMA)
MDC = {"N": "MDC_ECG_BEAT_NORMAL", "V": "MDC_ECG_BEAT_V_P_C"}


@pytest.fixture(scope="module")
def ectopic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ectopic(tmp_path_factory.mktemp("ectopic"))


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
    assert row["labels_reviewed"] == "0"  # nobody has signed the report
    reports = [one["resource"] for one in bundle["entry"] if one["resource"]["resourceType"] == "DiagnosticReport"]
    assert [one["status"] for one in reports] == ["preliminary"]
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
    assert (absent["coding"][0]["code"], absent["text"]) == ("unknown", "no P wave")
    assert of["P-R Interval"]["code"]["coding"][0]["code"] == "8625-6"
    row = table_of(tmp_path / "page.csv")
    assert (row["pr_interval_ms"], row["pauses"]) == ("", "0")
    assert "pr_interval_ms: no P wave" in row["not_assessed"]
    assert "1 more in or beside unusable stretches" in row["remarks"]
    assert row["record_id"] == "page"
    assert "not assessed: no P wave" in (tmp_path / "page.html").read_text()


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
    assert "P-R Interval: not assessed: no P wave" in texts
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
def test_the_page_inside_a_dicom_file_names_no_channel_that_was_left_out(
    ecgfed: Command, tmp_path: Path, printer: None
) -> None:
    import pydicom

    record = write_signals(tmp_path, "r", np.zeros((2, 40 * FS)), fs_hz=FS, leads=("MLII", "Doe John 1931"))
    reported(ecgfed, record, tmp_path / "page.html", "dicom-pdf")
    printed = pydicom.dcmread(tmp_path / "page.pdf.dcm").EncapsulatedDocument
    assert "Doe John" in (tmp_path / "page.html").read_text()
    assert b"Doe" not in printed
    assert b"1 channel<" in printed


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
