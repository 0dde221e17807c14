"""Events that a patient marked on the recorder, as the files of a recording state them.

EDF+ has them as free text among other annotations, DICOM as text annotations of the waveform, WFDB as notes (``"``) of
an annotation file. Of a file that holds other annotations too only texts that call themselves such an event are taken.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from ecgfed.base.errors import EcgfedError
from ecgfed.base.language import message, messages, tr_later, trn_later
from ecgfed.domain.events.patient_event import DIARY, RECORDER, PatientEvent
from ecgfed.domain.record.dicom_files import dicom_texts
from ecgfed.domain.record.edf_files import edf_texts
from ecgfed.domain.record.reader import format_of, is_edf_plus, read_annotation
from ecgfed.domain.record.recording import Recording

#: Characters of a text, and events of a file, at most.
MAX_TEXT, MAX_EVENTS = 120, 1000
#: Annotators of WFDB files that hold the events alone.
_OWN_ANNOTATORS = ("event", "evt", "diary")
_ANNOTATORS = ("atr", *_OWN_ANNOTATORS)
#: Notes on events of each source.
_OUTSIDE = {
    RECORDER: trn_later(
        "{n} patient event of {where} outside the recording: left out.",
        "{n} patient events of {where} outside the recording: left out.",
    ),
    DIARY: trn_later(
        "{n} diary entry of {where} outside the recording: left out.",
        "{n} diary entries of {where} outside the recording: left out.",
    ),
}
_FIRST = {
    RECORDER: tr_later("Patient events of {where}: the first {n} of {total} are listed."),
    DIARY: tr_later("Diary entries of {where}: the first {n} of {total} are listed."),
}
#: How a text calls itself an event that the patient marked.
_MARKER = re.compile(r"\b(?:patient|event|push.?button|button|symptoms?|diary)\b", re.IGNORECASE)
_FELT = r"(?:symptoms?|complaints?|patient events?|events?|button)"
#: What denies one: the words are taken out before ``_MARKER`` is looked for (docs/report.md has the list).
_DENIED = re.compile(
    rf"\b(?:no|without|denie[sd])\s+(?:\w+\s+)?{_FELT}\b|\b{_FELT}\s*[:=]?\s*(?:none|no|nil)\s*(?=$|[.,;])|"
    r"\bsymptom[- ]free\b",
    re.IGNORECASE,
)

#: (seconds from the start, text) of an annotation.
Timed = tuple[float, str]


@dataclass(frozen=True)
class PatientEvents:
    """The events of a recording.

    Attributes:
        events: in order of time.
        notes: what was left out or changed, one sentence each.
    """

    events: tuple[PatientEvent, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: "PatientEvents") -> "PatientEvents":
        events = sorted((*self.events, *other.events), key=lambda event: event.time_s)
        return PatientEvents(tuple(events), (*self.notes, *other.notes))


def recorded_events(recording: Recording) -> PatientEvents:
    """Return the events inside a recording's file, or in an annotation file beside it.

    A file whose annotations cannot be read has none, and a note says so: the signal can be reported all the same.
    """
    kind, events = format_of(recording.path), PatientEvents()
    if kind == "edf" and recording.path.is_file() and is_edf_plus(recording.path):
        events += _from(recording, message("the EDF+ file"), lambda: edf_texts(recording.path))
    if kind == "dicom" and recording.path.is_file():
        events += _from(recording, message("the DICOM file"), lambda: dicom_texts(recording.path))
    if kind == "wfdb":
        for annotator in _ANNOTATORS:
            if recording.path.with_name(f"{recording.path.name}.{annotator}").is_file():
                own = annotator in _OWN_ANNOTATORS
                events += _from(
                    recording,
                    message("the .{annotator} file", annotator=annotator),
                    partial(_wfdb_notes, recording, annotator),
                    every=own,
                )
    return events


def events_of(
    timed: Iterable[Timed], duration_s: float, where: str, source: str, *, every: bool = True
) -> PatientEvents:
    """Return the annotations that are events.

    Args:
        timed: the annotations.
        duration_s: length of the recording: events outside are left out, with a note.
        where: the file, for notes; not its name, which may name the patient.
        source: of the events.
        every: every text is an event, not only one that calls itself so.
    """
    wanted = [(time_s, text) for time_s, text in timed if every or _MARKER.search(_DENIED.sub("", text))]
    inside = sorted((time_s, text) for time_s, text in wanted if math.isfinite(time_s) and 0 <= time_s < duration_s)
    notes = []
    if outside := len(wanted) - len(inside):
        notes.append(messages(*_OUTSIDE[source], outside, where=where))
    if len(inside) > MAX_EVENTS:
        notes.append(message(_FIRST[source], where=where, n=MAX_EVENTS, total=len(inside)))
        inside = inside[:MAX_EVENTS]
    events = tuple(PatientEvent(time_s, _printable(text), source) for time_s, text in inside)
    changed = sum(event.text != text.strip() for event, (_, text) in zip(events, inside, strict=True))
    if changed:
        notes.append(
            messages(
                "{n} text of {where} shortened to {most} characters, or freed of control characters.",
                "{n} texts of {where} shortened to {most} characters, or freed of control characters.",
                changed,
                where=where,
                most=MAX_TEXT,
            )
        )
    return PatientEvents(events, tuple(notes))


def _printable(text: str) -> str:
    """Return a text as one line of printable characters, shortened."""
    line = "".join(character for character in " ".join(text.split()) if character.isprintable()).strip()
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def _from(recording: Recording, where: str, read: Callable[[], list[Timed]], *, every: bool = False) -> PatientEvents:
    try:
        timed = read()
    except EcgfedError as error:
        return PatientEvents(
            (), (message("Patient events of {where} are not listed: {reason}.", where=where, reason=error.reason),)
        )
    return events_of(timed, recording.duration_s, where, RECORDER, every=every)


def _wfdb_notes(recording: Recording, annotator: str) -> list[Timed]:
    """Return the notes of an annotation file; raises RecordError."""
    marks = read_annotation(recording, annotator)
    texts = marks.note or ("",) * len(marks.sample)
    notes = zip(marks.sample.tolist(), marks.symbol.tolist(), texts, strict=True)
    return [(sample / recording.fs_hz, text.strip("\0 ")) for sample, symbol, text in notes if symbol == '"']
