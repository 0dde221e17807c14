"""Event markers of EDF+, DICOM and WFDB files, and diaries: what is an event, when, and what is refused."""

from pathlib import Path

import edfio
import hospital_files as made
import numpy as np
import pytest
import wfdb
from hospital_records import STEPS
from record_files import write_signals

from ecgfed.base.errors import RecordError
from ecgfed.domain.events.patient_event import DIARY, RECORDER, PatientEvent
from ecgfed.domain.record.diary import read_diary
from ecgfed.domain.record.patient_events import MAX_EVENTS, MAX_TEXT, recorded_events
from ecgfed.domain.record.reader import read_recording

#: 09:15:00, the start of the recordings of diaries.
MORNING_S = 9.25 * 3600


def edf_with(folder: Path, *annotations: tuple[float, str]) -> Path:
    """Write 20 s of EDF+ with annotations by edfio."""
    signal = edfio.EdfSignal(np.sin(np.arange(4000) / 9), 200, label="ECG II", physical_dimension="mV")
    notes = [edfio.EdfAnnotation(onset, None, text) for onset, text in annotations]
    edfio.Edf([signal], annotations=notes).write(folder / "rec.edf")
    return folder / "rec.edf"


def test_edf_plus_has_events_among_other_annotations(tmp_path: Path) -> None:
    path = edf_with(tmp_path, (12.5, "Patient event"), (3.25, "Event button pressed"), (5.0, "Lead off"), (6.0, "N"))
    found = recorded_events(read_recording(path))
    assert found.events == (PatientEvent(3.25, "Event button pressed"), PatientEvent(12.5, "Patient event"))
    assert found.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        *("no symptom", "No symptoms", "no complaints", "without new symptoms", "Symptoms: none", "denies symptoms."),
        *("symptom-free", "No patient event", "no event"),
    ],
)
def test_what_denies_an_event_is_none(text: str, tmp_path: Path) -> None:
    assert not recorded_events(read_recording(edf_with(tmp_path, (2.0, text)))).events


@pytest.mark.parametrize("text", ["Patient event, no symptoms", "symptom: no sleep", "Button, no pain", "symptoms"])
def test_an_event_with_a_negation_is_one(text: str, tmp_path: Path) -> None:
    found = recorded_events(read_recording(edf_with(tmp_path, (2.0, text))))
    assert found.events == (PatientEvent(2.0, text),)


def test_texts_are_bounded_printable_lines_and_a_note_says_so(tmp_path: Path) -> None:
    path = edf_with(tmp_path, (1.0, "Event \x1b[31mred\u202e"), (2.0, f"Event {'x' * 500}"), (30.0, "Event"))
    found = recorded_events(read_recording(path))
    assert [event.text for event in found.events] == ["Event [31mred", f"Event {'x' * (MAX_TEXT - 7)}…"]
    assert len(found.notes) == 2  # one outside, two texts changed


def test_too_many_events_are_cut_with_a_note(tmp_path: Path) -> None:
    path = edf_with(tmp_path, *((0.01 * number, "Event") for number in range(MAX_EVENTS + 5)))
    found = recorded_events(read_recording(path))
    assert (len(found.events), len(found.notes)) == (MAX_EVENTS, 1)


def test_notes_beside_a_wfdb_record(tmp_path: Path) -> None:
    """Of reference annotations only what calls itself an event; of a file of events every note."""
    record = write_signals(tmp_path, "rec", np.sin(np.arange(4000) / 9)[None], fs_hz=200)
    (symbols, texts), at = (['"', "N", '"'], ["MISSB", "", "patient button"]), np.array([100, 300, 1000])
    wfdb.wrann("rec", "atr", at, symbols, aux_note=texts, write_dir=str(tmp_path))
    wfdb.wrann("rec", "event", np.array([1500]), ['"'], aux_note=["dizzy"], write_dir=str(tmp_path))
    found = recorded_events(read_recording(record))
    assert found.events == (PatientEvent(5.0, "patient button"), PatientEvent(7.5, "dizzy"))


def test_a_spoiled_annotation_file_does_not_stop_a_report(tmp_path: Path) -> None:
    record = write_signals(tmp_path, "rec", np.sin(np.arange(4000) / 9)[None], fs_hz=200)
    record.with_suffix(".event").write_bytes(b"\x01")
    for name in ("rec.atr", "rec.atr.csv"):  # which of them holds the annotation is not plain
        (tmp_path / name).write_text("sample,symbol\n100,N\n")
    found = recorded_events(read_recording(record))
    assert not found.events
    assert len(found.notes) == 2
    assert not any("rec" in note.split(":")[0] or str(tmp_path) in note for note in found.notes)


def test_dicom_text_annotations(tmp_path: Path) -> None:
    """Sample positions count from 1 (PS3.3, C.10.10.1.1), offsets are milliseconds."""

    def note(text: str, place: bytes) -> bytes:
        return made.element(0x40, 0xA130, "CS", "POINT") + place + made.element(0x70, 6, "ST", text)

    at_sample, at_offset = made.element(0x40, 0xA132, "UL", 251), made.element(0x40, 0xA138, "DS", "40")
    notes = made.sequence(0x40, 0xB020, note("Patient event", at_sample), note("symptom", at_offset))
    path = tmp_path / "rec.dcm"
    path.write_bytes(made.dicom_bytes(made.dicom_group(STEPS, fs="500"), more=notes))
    found = recorded_events(read_recording(path, every_lead=True))
    assert found.events == (PatientEvent(0.04, "symptom"), PatientEvent(0.5, "Patient event"))
    assert {event.source for event in found.events} == {RECORDER}


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ('time_s,text\n512.5,dizzy\n3,"fell, got up"\n', [3.0, 512.5]),
        ("Time;Text\n9:16;dizzy\n09:20:30;fell\n", [60.0, 330.0]),
        ("time\ttext\n00:15\tpalpitations\n", [15 * 3600.0]),  # after midnight
        ("time,day,text\n09:15:01,2,x\n09:15:01,1,x\n", [1.0]),  # the other one is after the end
    ],
)
def test_times_of_a_diary(tmp_path: Path, text: str, times: list[float]) -> None:
    path = tmp_path / "diary.csv"
    path.write_text(text)
    events = read_diary(path, 20 * 3600.0, MORNING_S).events
    assert [event.time_s for event in events] == times
    assert {event.source for event in events} == {DIARY}


@pytest.mark.parametrize(
    ("text", "start_s", "duration_s", "named"),
    [
        ("when,text\n1,x\n", MORNING_S, 100.0, "when"),
        ("time,time_s,text\n9:16,60,x\n", MORNING_S, 100.0, "time_s"),
        ("time_s,day,text\n60,1,x\n", MORNING_S, 100.0, "day"),
        ("time_s,text,note\n1,x,y\n", MORNING_S, 100.0, "note"),
        ("time_s,text\nsoon,x\n", MORNING_S, 100.0, "line 2"),
        ("time_s,text\n1,x\nnan,x\n", MORNING_S, 100.0, "line 3"),
        ("time,text\n60.5,x\n", MORNING_S, 100.0, "line 2"),
        ("time,text\n25:00,x\n", MORNING_S, 100.0, "line 2"),
        ("time,day,text\n9:16,1.5,x\n", MORNING_S, 100.0, "line 2"),
        ("time_s,text\n1,x,y\n", MORNING_S, 100.0, "line 2"),
        ("time,text\n9:16,x\n", None, 100.0, "start"),
        ("time,text\n9:16,x\n", MORNING_S, 90_000.0, "day"),
        ("time_s,text\n200,x\n", MORNING_S, 100.0, "recording"),
        ("time_s,text\n" + "1,x\n" * (MAX_EVENTS + 1), MORNING_S, 100.0, "1,000"),
    ],
)
def test_a_diary_that_does_not_fit_is_refused(
    tmp_path: Path, text: str, start_s: float | None, duration_s: float, named: str
) -> None:
    path = tmp_path / "diary.csv"
    path.write_text(text)
    with pytest.raises(RecordError) as caught:
        read_diary(path, duration_s, start_s)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mark", ["\u2028", "\v", "\f", "\x85"])
def test_a_line_of_a_diary_ends_at_a_line_feed_alone(tmp_path: Path, mark: str) -> None:
    """As spreadsheets have it: they write line breaks of word processors into a cell."""
    path = tmp_path / "diary.csv"
    path.write_text(f"time_s,text\n5,stairs{mark}dizzy\n7,rest\n", encoding="utf-8")
    events = read_diary(path, 60.0, None).events
    assert [(event.time_s, event.text) for event in events] == [(5.0, "stairs dizzy"), (7.0, "rest")]


def test_a_folder_is_no_diary(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        read_diary(tmp_path, 60.0, None)
