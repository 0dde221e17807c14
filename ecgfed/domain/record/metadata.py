"""What a recording's file states of its start, the patient's age and sex, and the recorder: never a name or an id."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass

#: MIT-BIH's first comment line: ``69 M 1085 1629 x1``.
_AGE_SEX = re.compile(r"\s*([0-9]{1,3}|-1) ([MF])(?: |$)")
_AGE = re.compile(r"\bage\b[^0-9A-Za-z]{0,4}([0-9]{1,3})(?![0-9.])", re.IGNORECASE)
_SEX = re.compile(r"\b(?:sex|gender)\b\W{0,4}(male|female|m|f)\b", re.IGNORECASE)
#: ``recorded date`` is the Apple Watch's; the others are this package's own.
_START = re.compile(r"\s*(start|start date|start time|recorded date)\s*:\s*(\S.*)", re.IGNORECASE)
_RECORDER = re.compile(r"(?:recorder|device): (.+)")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,]([0-9]{1,9}))?")
#: HL7's time stamp and DICOM's, to the second at least: ``20260304091500.250+0100``.
_STAMP = re.compile(r"([0-9]{8})(?:([0-9]{6})(?:\.([0-9]{1,6}))?([+-][0-9]{4})?)?")
_MUSE = re.compile(r"([0-9]{1,2})-([0-9]{1,2})-([0-9]{4})(?: (\S+))?")
_OLDEST = 130


@dataclass(frozen=True)
class Start:
    """When a recording begins, as far as its file states it.

    Attributes:
        date: the day; None where it is not known.
        time: the time of day at the recorder, with its offset from UTC where the file states one; None where not known.
    """

    date: dt.date | None = None
    time: dt.time | None = None

    @property
    def is_known(self) -> bool:
        """Whether date or time of day is known."""
        return self.date is not None or self.time is not None

    def later(self, seconds: float) -> "Start":
        """Return it so many seconds later, not known where that is no date; a date without a time of day stays."""
        if self.time is None:
            return self
        try:
            at = dt.datetime.combine(self.date or dt.date(2000, 1, 1), self.time) + dt.timedelta(seconds=seconds)
        except OverflowError:  # after the last day of the year 9999, which a file may state
            return NOT_STATED
        return Start(at.date() if self.date else None, at.timetz())

    def isoformat(self) -> str:
        """Return ``2026-03-04T09:15:00``, or what is known of it; ``""`` for nothing."""
        return "T".join(part.isoformat() for part in (self.date, self.time) if part is not None)


NOT_STATED = Start()


@dataclass(frozen=True)
class RecordingMetadata:
    """What a recording's file states beside the signal, without names, identifiers and free text.

    Attributes:
        start: when it begins.
        age: of the patient in whole years; None where not known.
        sex: ``M`` or ``F``; ``""`` where not known.
        recorder: make or model of the recorder; ``""`` where not known.
    """

    start: Start = NOT_STATED
    age: int | None = None
    sex: str = ""
    recorder: str = ""


NO_METADATA = RecordingMetadata()


def start_of(day: dt.date | None, at: dt.time | None) -> Start:
    """Return a start; midnight without a date is what writers leave who know neither."""
    return Start(day, None if day is None and at is not None and not any(at.isoformat().strip("0:.")) else at)


def time_of_day(text: str) -> dt.time | None:
    """Return a time written ``9:15:00`` or ``09:15:00.250``; None for anything else."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return None
    hours, minutes, seconds = (int(part) for part in match.groups()[:3])
    micros = int(f"{match[4] or 0:0<6}"[:6])
    return dt.time(hours, minutes, seconds, micros) if hours < 24 and minutes < 60 and seconds < 60 else None


def start_of_stamp(text: str) -> Start:
    """Return the start that HL7 and DICOM write, ``20260304091500.250+0100``; one that nothing states otherwise."""
    match = _STAMP.fullmatch(text.strip())
    if match is None:
        return NOT_STATED
    day, clock, fraction, offset = match.groups()
    try:
        if clock is None:
            return Start(dt.datetime.strptime(day, "%Y%m%d").date())
        form = "%Y%m%d%H%M%S%f%z" if offset else "%Y%m%d%H%M%S%f"
        at = dt.datetime.strptime(f"{day}{clock}{fraction or 0:0<6}{offset or ''}", form)
    except ValueError:
        return NOT_STATED
    return Start(at.date(), at.timetz())


def metadata_of(comments: Sequence[str]) -> RecordingMetadata:
    """Return what comment lines state, those of a WFDB header or a table, or this package's own of other formats."""
    first = _AGE_SEX.match(comments[0]) if comments else None
    age = int(first[1]) if first and 0 <= int(first[1]) <= _OLDEST else None
    sex, recorder = first[2] if first else "", ""
    start: dict[str, str] = {}
    for comment in comments:
        if age is None and (stated := _AGE.search(comment)) and int(stated[1]) <= _OLDEST:
            age = int(stated[1])
        if not sex and (written := _SEX.search(comment)):
            sex = written[1][0].upper()
        if at := _START.fullmatch(comment):
            start.setdefault(at[1].casefold(), at[2].strip())
        if device := _RECORDER.fullmatch(comment):
            recorder = recorder or device[1].strip()
    return RecordingMetadata(_start(start), age, sex, recorder)


def _start(stated: dict[str, str]) -> Start:
    """Return the start that fields of comments state."""
    if "start date" in stated or "start time" in stated:
        day = _iso(stated.get("start date", "")).date
        return start_of(day, time_of_day(stated.get("start time", "")))
    text = stated.get("start") or stated.get("recorded date") or ""
    if muse := _MUSE.fullmatch(text):
        day = _iso(f"{muse[3]}-{muse[1]:0>2}-{muse[2]:0>2}").date
        return start_of(day, time_of_day(muse[4] or ""))
    return start_of_stamp(text) if _STAMP.fullmatch(text) else _iso(text)


def _iso(text: str) -> Start:
    """Return what ISO 8601, with or without a blank before the offset, says: a time of day, a date, or both."""
    if at := time_of_day(text):
        return start_of(None, at)
    try:
        stated = dt.datetime.fromisoformat(re.sub(r" (?=[+-][0-9]{2}:?[0-9]{2}$)", "", text))
    except ValueError:
        return NOT_STATED
    return Start(stated.date(), stated.timetz() if len(text) > len("2026-03-04") else None)
