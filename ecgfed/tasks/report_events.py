"""The patient's events of a report: markers in the recording's files, and a diary."""

from dataclasses import replace
from pathlib import Path

from ecgfed.domain.record.diary import read_diary
from ecgfed.domain.record.metadata import Start
from ecgfed.domain.record.patient_events import PatientEvents, recorded_events
from ecgfed.domain.record.recording import Recording
from ecgfed.reports.recording_warnings import start_s
from ecgfed.tasks.report_patient import Shown


def patient_events_of(recording: Recording, diary: Path | str | None, shown: Shown, start: Start) -> PatientEvents:
    """Return the events, without their texts unless ``show`` has ``notes``: they may name somebody.

    Args:
        recording: the recording.
        diary: a table of times and texts; None for none.
        shown: what the report may state.
        start: when the recording begins, for a diary's times of day.

    Raises:
        RecordError: a diary that cannot be used.
    """
    events = recorded_events(recording)
    if diary is not None:
        events += read_diary(Path(diary), recording.duration_s, start_s(start))
    if "notes" in shown.names:
        return events
    return replace(events, events=tuple(replace(event, text="") for event in events.events))
