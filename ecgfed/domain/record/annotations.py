"""Annotations whatever their file: in order of time, inside the recording; and annotations as CSV."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import RecordError
from ecgfed.base.language import messages
from ecgfed.base.safe_io import check_columns
from ecgfed.domain.record.recording import BEAT_SYMBOLS, Annotation
from ecgfed.domain.record.tables import MAX_COLUMNS, as_number, lines_of, read_text

#: Every symbol of annot(5) that is no beat: rhythm, noise, flutter, waves, notes.
OTHER_SYMBOLS = frozenset("~|+\"!*Ds=pt@()^u[]x'`")
_RIGHT_FILE = "check that it is the right file"
#: Marks at most so long after a recording's end are left out and counted: programs that annotate round times, or put
#: a last mark behind the last sample (SVDB's record 860). A mark further on means another recording.
END_TOLERANCE_S = 1.0
#: What a table's times may differ from its sample numbers, which they state again: times are often rounded.
TIME_TOLERANCE_S = 0.01
SAMPLE_COLUMNS, TIME_COLUMNS = ("sample", "sample #", "sample number"), ("time_s", "time (s)", "seconds", "time")
SYMBOL_COLUMNS, NOTE_COLUMNS = ("symbol", "type", "annotation"), ("note", "aux", "aux_note")


def make_annotation(
    sample: Any,
    symbol: Any,
    note: Sequence[str],
    path: Path,
    samples: int | None = None,
    *,
    subtype: Any = None,
    fs_hz: float | None = None,
) -> Annotation:
    """Put marks in order of time; leave out those at most ``END_TOLERANCE_S`` after the end.

    Args:
        sample: of each mark.
        symbol: of each mark.
        note: of each mark, or none.
        path: the file, for the error.
        samples: length of the recording; None for not known.
        subtype: of each mark, or None.
        fs_hz: sampling frequency, for the tolerance; None allows none.

    Raises:
        RecordError: a mark before the beginning, or so long after the end that it is another recording's.
    """
    try:
        at, of = np.asarray(sample, dtype=np.int64), np.asarray(symbol, dtype=np.str_)
    except OverflowError:
        huge = max(sample, key=abs)
        raise RecordError(path, f"has a mark at sample {float(huge):.3g}", "a recording's", _RIGHT_FILE) from None
    order = np.argsort(at, kind="stable")
    at, of = at[order], of[order]
    last = len(at) if samples is None else int(np.searchsorted(at, samples))
    reach = (samples or 0) + round(END_TOLERANCE_S * (fs_hz or 0))
    if len(at) and (at[0] < 0 or (samples is not None and at[-1] >= max(reach, samples))):
        problem = f"has a mark at sample {at[0] if at[0] < 0 else at[-1]}"
        expected = "no number below 0" if samples is None else f"0 to {samples - 1}, the recording's length"
        raise RecordError(path, problem, expected, "check that the annotation belongs to this record")
    keep = order[:last]
    kinds = None if subtype is None else np.asarray(subtype, dtype=np.int64)[keep]
    notes = tuple(note[i] for i in keep) if any(note) else ()
    return Annotation(at[:last], of[:last], notes, kinds, tuple(of[last:].tolist()))


def before_end(annotation: Annotation, samples: int) -> Annotation:
    """Return an annotation without its marks at or after the end of a recording that was cut short."""
    last = int(np.searchsorted(annotation.sample, samples))
    return replace(
        annotation,
        sample=annotation.sample[:last],
        symbol=annotation.symbol[:last],
        note=annotation.note[:last],
        subtype=None if annotation.subtype is None else annotation.subtype[:last],
        beyond_end=(*annotation.symbol[last:].tolist(), *annotation.beyond_end),
    )


def end_note(annotation: Annotation) -> str:
    """Return what was left out of an annotation at the recording's end, as a sentence without full stop, or ``""``."""
    if not annotation.beyond_end:
        return ""
    symbols = ", ".join(f"{count} {symbol}" for symbol, count in sorted(Counter(annotation.beyond_end).items()))
    return messages(
        "{n} annotation at or after the recording's end left out ({symbols})",
        "{n} annotations at or after the recording's end left out ({symbols})",
        len(annotation.beyond_end),
        symbols=symbols,
    )


def _column(names: list[str], known: tuple[str, ...]) -> int | None:
    folded = [name.strip().casefold() for name in names]
    return next((folded.index(name) for name in known if name in folded), None)


def read_csv_annotation(path: Path, fs_hz: float, *, samples: int | None = None) -> Annotation:
    """Read marks from a table with columns ``sample`` or ``time_s`` (seconds), ``symbol`` and, if it likes, ``note``.

    Args:
        path: the file; comma, semicolon or tab between columns, quotes where a cell holds one of them.
        fs_hz: the recording's sampling frequency, for times.
        samples: length of the recording; a mark past it is refused.

    Raises:
        RecordError: a missing column, a cell that is no number or no WFDB symbol (with its line), a mark outside.
    """
    text = [f"{line}\n" for line in lines_of(read_text(path)) if not line.startswith("#")]
    delimiter = next((mark for mark in "\t;" if text and mark in text[0]), ",")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        names = next(reader, [])
        if len(names) > MAX_COLUMNS:
            raise RecordError(path, f"has more than {MAX_COLUMNS:,} columns", "columns of marks", _RIGHT_FILE)
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        problem = f"line {reader.line_num} cannot be read ({error})"
        raise RecordError(path, problem, "columns of marks", _RIGHT_FILE) from error
    check_columns(names, (*SAMPLE_COLUMNS, *TIME_COLUMNS, *SYMBOL_COLUMNS, *NOTE_COLUMNS), path, RecordError)
    at, time = _column(names, SAMPLE_COLUMNS), _column(names, TIME_COLUMNS)
    of, note = _column(names, SYMBOL_COLUMNS), _column(names, NOTE_COLUMNS)
    if (at is None and time is None) or of is None:
        problem = f"columns {', '.join(names) or 'none'}"
        raise RecordError(path, problem, "sample or time_s, and symbol", "name the columns in its first line")
    short = next((line for line, row in rows if len(row) != len(names)), None)
    if short is not None:
        expected = f"{len(names)}, as in its first line"
        raise RecordError(path, f"line {short} has another number of columns", expected, "correct that line")
    decimal = "." if delimiter == "," else ","
    where = [_sample(row, at, time, fs_hz, decimal) for _, row in rows]
    times = [_sample(row, None, time, fs_hz, decimal) for _, row in rows] if None not in (at, time) else where
    for (line, row), sample, again in zip(rows, where, times, strict=True):
        if sample is None:
            problem = f"line {line} has no valid sample number or time"
            raise RecordError(path, problem, "one mark in each line", "correct or delete that line")
        if again is not None and abs(again - sample) > max(2, TIME_TOLERANCE_S * fs_hz):
            problem = f"line {line} has sample {sample} and a time that is sample {again} at {fs_hz:g} Hz"
            raise RecordError(path, problem, "the same moment", "correct one of them, or delete one of the two columns")
        if row[of].strip() not in BEAT_SYMBOLS | OTHER_SYMBOLS:
            problem = f"line {line} has symbol {row[of]!r}"
            raise RecordError(path, problem, "a WFDB symbol such as N, V, A or +", "correct that line")
    notes = [row[note].strip() for _, row in rows] if note is not None else [""]
    return make_annotation(where, [row[of].strip() for _, row in rows], notes, path, samples, fs_hz=fs_hz)


def _sample(row: list[str], at: int | None, time: int | None, fs_hz: float, decimal: str) -> int | None:
    """Return the sample a row stands for, or None where it says none."""
    cell = row[at if at is not None else time or 0]
    value = as_number(cell) if as_number(cell) is not None else as_number(cell, decimal)
    if value is None or not abs(value) < 2**53:  # NaN too
        return None
    if at is None:
        return round(value * fs_hz)
    return int(value) if value == int(value) else None
