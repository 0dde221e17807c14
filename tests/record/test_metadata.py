"""What files state of start, age, sex and recorder, against wfdb, edfio, pydicom and the bytes written here."""

import datetime as dt
from pathlib import Path

import edfio
import hospital_files as made
import numpy as np
import pytest
import wfdb
from hospital_records import STEPS, aecg, dicom, ishne, needs_pydicom, scp, written
from record_files import edf_bytes, write_212

from ecgfed.domain.record.anonymous import anonymised
from ecgfed.domain.record.exchange import Stated
from ecgfed.domain.record.metadata import RecordingMetadata, Start, start_of_stamp
from ecgfed.domain.record.reader import open_recording, read_recording

RAMP = [[1024, 1224, 824, 2047] * 200, [0, 1, 2, 3] * 200]
DAY = dt.date(2002, 3, 2)


def test_wfdb_start_is_what_wfdb_reads(tmp_path: Path) -> None:
    signal = np.zeros((1000, 1))
    day, at = dt.date(2026, 3, 4), dt.time(9, 15, 0, 250_000)
    about = {"units": ["mV"], "sig_name": ["MLII"], "fmt": ["16"], "write_dir": str(tmp_path)}
    wfdb.wrsamp("r", 250, p_signal=signal, comments=["Age: 63 Sex: F"], base_time=at, base_date=day, **about)
    header, read = wfdb.rdheader(str(tmp_path / "r")), open_recording(tmp_path / "r", min_samples=1).metadata
    assert (read.start.date, read.start.time) == (header.base_date, header.base_time) == (day, at)
    assert (read.age, read.sex) == (63, "F")


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ("9:5:0", Start(None, dt.time(9, 5))),
        ("09:15:00 04/03/2026", Start(dt.date(2026, 3, 4), dt.time(9, 15))),
        ("00:00:00 04/03/2026", Start(dt.date(2026, 3, 4), dt.time(0))),
        ("0:0:0 0/0/0", Start()),
        ("0:00:00", Start()),
        ("25:00:00 31/02/2026", Start()),
        ("morning of/the/day", Start()),
        ("", Start()),
    ],
)
def test_wfdb_start_in_the_ways_databases_write_it(tmp_path: Path, fields: str, start: Start) -> None:
    path = write_212(tmp_path, "r", RAMP, comments=["69 M 1085 1629 x1"]).with_suffix(".hea")
    first, rest = path.read_text().split("\n", 1)
    path.write_text(f"{first} {fields}\n{rest}")
    read = read_recording(path).metadata
    assert read == RecordingMetadata(start, 69, "M")


def test_edf_plus_is_what_edfio_reads(tmp_path: Path) -> None:
    edfio.Edf(
        [edfio.EdfSignal(np.sin(np.arange(600.0)), 200, label="ECG II", physical_dimension="mV")],
        patient=edfio.Patient(code="X7", sex="F", birthdate=dt.date(1951, 5, 2), name="Quix"),
        recording=edfio.Recording(startdate=DAY, equipment_code="Recorder9"),
        starttime=dt.time(13, 14, 15),
        annotations=[edfio.EdfAnnotation(0, None, "N")],
    ).write(tmp_path / "r.edf")
    other, read = edfio.read_edf(tmp_path / "r.edf"), read_recording(tmp_path / "r.edf").metadata
    assert (read.start.date, read.start.time) == (other.startdate, other.starttime) == (DAY, dt.time(13, 14, 15))
    assert (read.sex, read.recorder, read.age) == (other.patient.sex, other.recording.equipment_code, 50)


def test_edf_dates_of_two_digits_and_those_that_say_nothing(tmp_path: Path) -> None:
    def start(date: str, clock: str) -> Start:
        raw = bytearray(edf_bytes([[[0] * 200] * 3], patient="Quix"))
        raw[88:168], raw[168:176], raw[176:184] = b" " * 80, date.encode(), clock.encode()
        return read_recording(written(tmp_path, "r.edf", bytes(raw))).metadata.start

    assert start("02.03.02", "13.14.15") == Start(DAY, dt.time(13, 14, 15))
    assert start("02.03.99", "13.14.15").date == dt.date(1999, 3, 2)
    assert start("02.03.84", "13.14.15").date == dt.date(2084, 3, 2)
    assert start("01.01.85", "13.14.15") == Start(None, dt.time(13, 14, 15))
    assert start("01.01.85", "00.00.00") == Start()


def test_hospital_formats(tmp_path: Path) -> None:
    """The patient of every file made here is a woman born on 2 May 1951, recorded on 2 March 2002 at 13:14:15."""
    at = Start(DAY, dt.time(13, 14, 15))
    muse = made.muse_text([made.muse_lead("I", STEPS[0]), made.muse_lead("II", STEPS[1])])
    files: dict[str, bytes | str] = {"r.ecg": ishne(), "r.scp": scp(), "a.xml": aecg(), "m.xml": muse}
    recorders = {"r.ecg": "digital", "r.scp": "", "a.xml": "Quixograph", "m.xml": "MAC55"}
    for name, content in files.items():
        read = read_recording(written(tmp_path, name, content)).metadata
        assert (read.start, read.age, read.sex) == (at, 50, "F"), name
        assert read.recorder == recorders[name], name


@needs_pydicom
def test_dicom_offsets_and_removed_times(tmp_path: Path) -> None:
    from pydicom import dcmread

    path = written(tmp_path, "r.dcm", made.dicom_bytes(made.dicom_group(STEPS, offset="1500")))
    read = read_recording(path).metadata
    assert (read.start.isoformat(), read.age, read.sex) == ("2002-03-02T13:14:16.500000", 50, "F")
    data = dcmread(path)
    data.TimezoneOffsetFromUTC, data.ManufacturerModelName = "+0130", "Holter 5"
    data.save_as(path)
    read = read_recording(path).metadata
    assert read.start.time is not None
    assert (read.start.time.utcoffset(), read.recorder) == (dt.timedelta(hours=1.5), "Holter 5")
    data.LongitudinalTemporalInformationModified = "REMOVED"
    data.save_as(path)
    assert not read_recording(path).metadata.start.is_known


def test_time_stamps() -> None:
    assert start_of_stamp("20260304091500.25-0500").isoformat() == "2026-03-04T09:15:00.250000-05:00"
    assert start_of_stamp("20260304").isoformat() == "2026-03-04"
    for text in ("2026", "20261304", "20260304250000", "20260304091500+9900", "0", "", "x" * 9999):
        assert not start_of_stamp(text).is_known, text


def test_later_crosses_midnight_with_and_without_a_date() -> None:
    late = dt.time(23, 59, 30)
    assert Start(DAY, late).later(60) == Start(dt.date(2002, 3, 3), dt.time(0, 0, 30))
    assert Start(None, late).later(60) == Start(None, dt.time(0, 0, 30))
    assert Start(DAY).later(60) == Start(DAY)


def test_a_start_on_the_last_day_of_all_has_no_end() -> None:
    last = Start(dt.date(9999, 12, 31), dt.time(23, 59, 59))
    assert not last.later(2).is_known
    assert last.later(0.5).date == last.date
    assert Stated(start=last).period(60) is None
    assert Stated(start=last).period(0.5) is not None


def test_tables_state_a_start_and_a_watch_states_its_own(tmp_path: Path) -> None:
    table = "# start: 2026-03-04T09:15:00\n# age: 41\nt,MLII (mV)\n" + "".join(f"{n / 100},0.1\n" for n in range(200))
    read = read_recording(written(tmp_path, "r.csv", table)).metadata
    assert (read.start.isoformat(), read.age) == ("2026-03-04T09:15:00", 41)
    facts = (
        'Name,Anna Quix\nDate of Birth,"May 2, 1951"\nRecorded Date,2026-03-04 09:15:00 +0100\nSample Rate,512 hertz\n'
    )
    watch = f"{facts}Lead,Lead I\nUnit,µV\n\n" + "0.1\n" * 600
    read = read_recording(written(tmp_path, "w.csv", watch)).metadata
    assert read == RecordingMetadata(Start(dt.date(2026, 3, 4), dt.time.fromisoformat("09:15:00+01:00")))


@needs_pydicom
def test_an_anonymised_recording_has_no_start_no_recorder_and_age_only_where_asked(tmp_path: Path) -> None:
    files = {"r.ecg": ishne(), "r.dcm": dicom(), "r.edf": edf_bytes([[[0] * 200] * 3], reserved="EDF+C")}
    for name, content in files.items():
        read = read_recording(written(tmp_path, name, content))
        assert read.metadata.start.is_known
        assert anonymised(read, None, "p1").recording.metadata == RecordingMetadata()
        assert anonymised(read, None, "p1", keep=("age",)).recording.metadata == RecordingMetadata(age=50)
