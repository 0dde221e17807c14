"""A patient's diary: a table of times and what was felt or done, ``report --diary``."""

import csv
import io
from pathlib import Path

from ecgfed.base.errors import RecordError, param
from ecgfed.base.language import message
from ecgfed.base.safe_io import check_columns
from ecgfed.domain.events.patient_event import DIARY
from ecgfed.domain.record.metadata import time_of_day
from ecgfed.domain.record.patient_events import MAX_EVENTS, PatientEvents, events_of
from ecgfed.domain.record.tables import as_number, read_text

_COLUMNS = ("time_s", "time", "day", "text")
_HEADS = ({"time_s", "text"}, {"time", "text"}, {"time", "day", "text"})
_DAY_S, _MAX_DAY = 86400.0, 1000


def read_diary(path: Path, duration_s: float, start_s: float | None) -> PatientEvents:
    """Read a diary: columns ``text`` and either ``time_s`` (seconds from the start) or ``time`` (of day), with ``day``.

    ``time`` is ``9:15`` or ``09:15:30``; without ``day`` a time before the recording's start is of the next day.
    ``day`` is 1 on the day on which the recording begins, and needed where it is longer than 24 hours.

    Args:
        path: the file; comma, semicolon or tab between columns, quotes where a cell holds one of them.
        duration_s: length of the recording.
        start_s: its start in seconds from midnight; None where it is not known.

    Raises:
        RecordError: other columns, a line without a valid time, a time of day where the start is not known, too many
            entries, or none within the recording.
    """
    names, rows = _rows(path)
    if "time" in names and start_s is None:
        expected = "the start of the recording, which its file does not state"
        raise RecordError(path, "has times of day", expected, f"name it with {param('start')}, or use a column time_s")
    if "time" in names and "day" not in names and duration_s > _DAY_S:
        expected = "a column day too (1 is the day of the start): the recording is longer than 24 hours"
        raise RecordError(path, "has times of day", expected, "add it, or use a column time_s")
    timed = []
    for line, row in rows:
        if len(row) != len(names):
            problem = f"line {line} has {len(row)} cells"
            raise RecordError(path, problem, f"{len(names)}, as in its first line", "put a text with commas in quotes")
        cells = dict(zip(names, row, strict=True))
        timed.append((_time_s(path, line, cells, start_s), cells["text"]))
    read = events_of(timed, duration_s, message("the diary"), DIARY)
    if timed and not read.events:
        expected = f"0 to {duration_s:.1f} s from its start"
        raise RecordError(path, "has no entry within the recording", expected, "check that it belongs to the recording")
    return read


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the columns' names, and each row with its line; raises RecordError."""
    text = read_text(path)
    head = text.partition("\n")[0]
    delimiter = next((mark for mark in "\t;" if mark in head), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip().casefold() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise RecordError(path, f"line {reader.line_num} cannot be read ({error})", "time and text") from error
    check_columns(names, _COLUMNS, path, RecordError)
    if set(names) not in _HEADS:
        problem = f"columns {', '.join(names)[:80] or 'none'}"
        expected = "text, and time_s (seconds from the start) or time (of day, such as 09:15) with or without day"
        raise RecordError(path, problem, expected, "name the columns so in its first line")
    if len(rows) > MAX_EVENTS:
        expected = f"at most {MAX_EVENTS:,}"
        raise RecordError(path, f"has {len(rows):,} entries", expected, "check that it is the right file")
    return names, rows


def _time_s(path: Path, line: int, cells: dict[str, str], start_s: float | None) -> float:
    """Return the time of a line in seconds from the start of the recording; raises RecordError."""
    if start_s is None or "time_s" in cells:
        elapsed = as_number(cells["time_s"])
        if elapsed is None or not abs(elapsed) < 1e9:  # NaN too
            problem = f"line {line} has time_s {cells['time_s']!r:.40}"
            raise RecordError(
                path, problem, "seconds from the start of the recording, such as 512.5", "correct that line"
            )
        return elapsed
    stated = cells["time"].strip()
    at = time_of_day(stated if stated.count(":") > 1 else f"{stated}:00")
    if at is None:
        problem = f"line {line} has time {cells['time']!r:.40}"
        action = "correct that line; seconds from the start stand in a column time_s"
        raise RecordError(path, problem, "a time of day such as 09:15 or 09:15:30", action)
    seconds = 3600.0 * at.hour + 60 * at.minute + at.second + at.microsecond / 1e6 - start_s
    if "day" not in cells:
        return seconds if seconds >= 0 else seconds + _DAY_S
    day = as_number(cells["day"]) or 0.0
    if day not in range(1, _MAX_DAY + 1):
        problem = f"line {line} has day {cells['day']!r:.40}"
        raise RecordError(path, problem, "1 for the day of the start, 2 for the next one", "correct that line")
    return seconds + _DAY_S * (day - 1)
