"""Tables of labels that a person gave to beats: saved by the labelling page, read by ``personalize``."""

import codecs
import csv
import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ecgfed.base.errors import RecordError
from ecgfed.base.safe_io import check_columns, read_bounded
from ecgfed.domain.record.annotations import TIME_TOLERANCE_S
from ecgfed.domain.record.tables import as_number

#: Columns of a table that ``label`` writes; ``sample`` and ``label`` are required.
COLUMNS = ("recording", "sample", "time_s", "label", "beats", "source")
#: Allowed labels: the WFDB symbols of beats, ``|`` for no beat, ``?`` for a beat that the person cannot classify.
NO_BEAT, CANNOT_TELL = "|", "?"
SYMBOLS = frozenset("NLRBAaJSVrFejnE/fQ") | {NO_BEAT, CANNOT_TELL}
#: Maximum size of a table in bytes.
MAX_BYTES = 50_000_000
SOURCES = ("clinician", "merged", "confirmed")
#: Magic numbers of spreadsheet files: .xlsx and .ods are archives, .xls is a compound file.
_SPREADSHEET = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
#: Lines allowed before the header: empty rows, comments, and the line that states the separator for spreadsheets.
_BEFORE = re.compile(r'[\s,;]*$|"?#|"?sep=.[\s"]*$', re.IGNORECASE)


@dataclass(frozen=True)
class UserLabel:
    """A label given by a person.

    Attributes:
        sample: sample number of the R peak.
        label: a symbol of ``SYMBOLS``.
        beats: number of beats that it is propagated to, 0 if unknown.
        source: ``clinician``; ``confirmed`` if the person confirmed the label; ``merged`` if the person merged its
            group with another.
        recording: id of the recording, ``""`` if unknown.
        time_s: time of the R peak in seconds as a table has it; None if unknown. Not written: ``sample`` is the place.
    """

    sample: int
    label: str
    beats: int = 0
    source: str = "clinician"
    recording: str = ""
    time_s: float | None = field(default=None, compare=False)


def label_table(labels: Iterable[UserLabel], fs_hz: float) -> bytes:
    """Return a CSV table of labels, sorted by time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for label in sorted(labels, key=lambda row: row.sample):
        time_s = f"{label.sample / fs_hz:.3f}"
        writer.writerow((label.recording, label.sample, time_s, label.label, label.beats, label.source))
    return text.getvalue().encode()


def table_text(path: Path) -> str:
    """Return the text of a table in UTF-8, or in UTF-16 with a byte order mark (the Unicode text of spreadsheets).

    Raises:
        RecordError: it cannot be read, or is a spreadsheet file.
    """
    data = read_bounded(path, MAX_BYTES, RecordError, path)
    if data.startswith(_SPREADSHEET):
        raise RecordError(path, "is a spreadsheet file", "a CSV table of labels", "save it as CSV (UTF-8)")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not a text file ({error})"
        raise RecordError(path, problem, "a CSV table of labels", "save it as CSV (UTF-8)") from None


def column_names(path: Path) -> list[str]:
    """Return the column names of a table in lower case; an empty list if the header cannot be read.

    Raises:
        RecordError: as ``table_text``.
    """
    first = next(iter(_from_names_on(table_text(path))[0]), "")
    try:
        return [name.strip().casefold() for name in next(csv.reader([first], delimiter=_separator(first)), [])]
    except csv.Error:  # an unterminated cell: reported when the table is read
        return []


def read_user_labels(path: Path, fs_hz: float | None = None) -> list[UserLabel]:
    """Read a table with at least the columns ``sample`` and ``label``; return the labels sorted by time.

    Args:
        path: the file.
        fs_hz: sampling frequency of the recording, for comparing a column ``time_s`` with ``sample`` to within
            ``TIME_TOLERANCE_S``. None skips the comparison.

    Raises:
        RecordError: it cannot be read, lacks a column, or has an unknown symbol, two labels for one sample, or a time
            that differs from its sample's.
    """
    lines, before = _from_names_on(table_text(path))
    rows = csv.DictReader(lines, strict=True, delimiter=_separator(next(iter(lines), "")))
    labels: dict[int, UserLabel] = {}
    try:
        names = [(name or "").strip().casefold() for name in rows.fieldnames or ()]
        if not {"sample", "label"} <= set(names):
            present = ", ".join(names)[:100] or "none"
            raise RecordError(path, f"has the columns {present}", "sample and label among them, as the page saves them")
        check_columns(names, COLUMNS, path, RecordError)
        rows.fieldnames = names
        for row in rows:
            if not any(isinstance(cell, str) and cell.strip() for cell in row.values()):
                continue  # an empty row of a spreadsheet
            label = _user_label(path, before + rows.line_num, row)
            if fs_hz is not None:
                _check_time(path, before + rows.line_num, row, label.sample, fs_hz)
            if label.sample in labels and labels[label.sample].label != label.label:
                both = f"sample {label.sample} is {labels[label.sample].label} and {label.label}"
                raise RecordError(path, both, "one label for a beat", "remove one of the lines")
            labels[label.sample] = label
    except csv.Error as problem:
        unreadable = f"line {before + rows.line_num} cannot be read ({problem})"
        raise RecordError(path, unreadable, "a CSV table of labels") from None
    if not labels:
        raise RecordError(path, "holds no label", "one line for each labelled beat", "label some beats first")
    return [labels[sample] for sample in sorted(labels)]


def _check_time(path: Path, line: int, row: dict[str, str | None], sample: int, fs_hz: float) -> None:
    """Refuse a line whose time differs from its sample's; raises RecordError. Times that are no numbers are ignored."""
    time_s = _time_of(row)
    if time_s is None:
        return
    if not abs(time_s - sample / fs_hz) <= max(TIME_TOLERANCE_S, 2 / fs_hz):
        cell = (row.get("time_s") or "").strip()
        problem = f"line {line}: sample {sample} is {sample / fs_hz:.3f} s at {fs_hz:g} Hz, and time_s is {cell}"
        raise RecordError(path, problem, "the same moment", "correct one of them, or delete the column time_s")


def _time_of(row: dict[str, str | None]) -> float | None:
    """Return the time of a row in seconds, None where it has no number."""
    cell = (row.get("time_s") or "").strip()
    time_s = as_number(cell) if as_number(cell) is not None else as_number(cell, ",")
    return None if time_s is None or math.isnan(time_s) else time_s


def _from_names_on(text: str) -> tuple[list[str], int]:
    """Return the lines of a table, with any system's ends, from the header on, and the number of lines before it."""
    lines = list(io.StringIO(text, newline=None))
    before = next((number for number, line in enumerate(lines) if not _BEFORE.match(line)), len(lines))
    return lines[before:], before


def _separator(first: str) -> str:
    """Return the separator of a header: spreadsheets of some countries write semicolons or tabs."""
    return next((mark for mark in "\t;" if mark in first), ",")


def _user_label(path: Path, line: int, row: dict[str, str | None]) -> UserLabel:
    """Return the label in a row; raises RecordError with the line number."""
    where = f"line {line}"
    sample, label = (row.get("sample") or "").strip(), (row.get("label") or "").strip()
    sample = sample.removesuffix(".0").removesuffix(",0")  # a spreadsheet may store it as a decimal number
    if not (sample.isascii() and sample.isdigit()) or len(sample) > 15:
        raise RecordError(path, f"{where}: sample {sample!r:.40}", "a whole number of samples, 0 or more")
    if label not in SYMBOLS:
        raise RecordError(path, f"{where}: label {label!r:.40}", f"one of {' '.join(sorted(SYMBOLS))}")
    beats = (row.get("beats") or "").strip()
    if beats and (not (beats.isascii() and beats.isdigit()) or len(beats) > 15):
        raise RecordError(path, f"{where}: beats {beats!r:.40}", "a whole number")
    source = (row.get("source") or "").strip() or SOURCES[0]
    if source not in SOURCES:
        raise RecordError(path, f"{where}: source {source!r:.40}", " or ".join(SOURCES))
    recording = (row.get("recording") or "").strip()
    time_s = _time_of(row)
    finite = time_s if time_s is not None and math.isfinite(time_s) else None
    return UserLabel(int(sample), label, int(beats or 0), source, recording[:64], finite)
