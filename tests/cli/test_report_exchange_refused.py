"""``ecgfed report --format``: whom its files name, that they can be made again, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import hospital_files as made
import numpy as np
import pytest
from aecg_schema import schema_errors
from conftest import synthetic_signal, write_record
from hospital_records import needs_pydicom
from report_files import HL7, START, reported, table_of, write_ectopic
from support import Command, assert_refused, exported, snapshot

import ecgfed as package
from ecgfed.domain.record import aecg_writer
from ecgfed.tasks import pdf

FORMATS = "fhir,table,aecg,dicom"


@pytest.fixture(scope="module")
def ectopic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ectopic(tmp_path_factory.mktemp("ectopic"))


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
        (("--show", "name"), ("--show", "'name'", "date, age")),
        (("--start", "2026-03-04"), ("--start", "09:15:00")),
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
