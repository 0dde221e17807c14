"""What the columns of a table are: leads, times, sample numbers; and the sampling frequency that its times state."""

import math
import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.language import message, tr_later
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MAX_FS_HZ, MIN_FS_HZ, check_fs, check_samples, contradiction
from ecgfed.domain.record.lead_names import folded, is_another_signal, is_named_ecg, known_lead
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.domain.record.tables import Table, as_number, clock_s

#: Names of a column of times, without their unit; of one that only counts samples.
_TIME = {"time", "t", "times", "elapsed time", "seconds", "second", "sec", "s"}
_COUNT = {"sample", "sample #", "samples", "sample number", "sample_number", "index", "n", "#", ""}
_SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3}
_SECONDS |= {"us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9, "min": 60.0}
#: Clocks of a device, which may be uneven: times where --fs is not given. Some state their unit by their name.
_UNIT_OF_NAME = dict.fromkeys(("millis", "milliseconds", "millisecond", "msec", "msecs", "ms"), "ms")
_UNIT_OF_NAME |= dict.fromkeys(("micros", "microseconds", "microsecond", "usec", "usecs", "us"), "us")
_STAMP = {"timestamp", "timestamps", "elapsed", "elapsed_time", "uptime", "clock", *_UNIT_OF_NAME}
#: Names that ``is_another_signal`` knows too, and that are none of a signal.
_OF_TIME = re.compile(r"time|count|sample|^t$")
#: Units of a column that does not state its own, of which one at most gives a sampling frequency of an ECG.
_INFERRED = ("s", "ms", "us", "ns")
#: Rows from which on a column that rises evenly is one of times or of sample numbers, whatever its name; how many of
#: them are looked at before all are; and the least share of its steps within half of the usual step.
_MIN_ROWS, _FIRST_ROWS, _EVEN_SHARE = 20, 200, 0.9
#: A unit below the names as ``rdsamp`` writes it: ``(seconds)``, ``(mV)``.
_IN_BRACKETS = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
_NAME_TIMES = f"with {param('columns')}, as in 'time (ms),MLII (mV)'"
#: ``MLII (mV)``, ``MLII [uV]``, ``time/ms``; ``MLII_mV`` only where what follows is a unit.
_WITH_UNIT = re.compile(r"(.*?)\s*(?:\(([^()]*)\)|\[([^\[\]]*)\]|/([^/\s]+))")
_WITH_SUFFIX = re.compile(r"(.+?)_(mV|uV|\u00b5V|\u03bcV|nV|ms|us|s)")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        number: its place, from 0.
        name: its name without the unit.
        unit: the unit beside or below its name, or ``""``.
        rising: its numbers rise evenly from row to row, as no ECG does.
    """

    number: int
    name: str
    unit: str
    rising: bool = False

    @property
    def is_time(self) -> bool:
        """Whether its name says that it holds times."""
        return self.name.casefold() in _TIME

    @property
    def is_stamp(self) -> bool:
        """Whether it holds times of a device's clock, which ``fs_hz`` may replace."""
        name = self.name.casefold()
        return (name in _STAMP or self.rising) and self.unit in _SECONDS

    @property
    def is_count(self) -> bool:
        """Whether its name says that it counts samples."""
        return self.name.casefold() in _COUNT

    @property
    def may_be_lead(self) -> bool:
        """Whether it may be a lead: it has a name, and is none of times and sample numbers."""
        return bool(self.name) and not (self.is_time or self.is_count or self.rising or self.name.casefold() in _STAMP)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        leads: those that may be leads, in order.
        fs_hz: sampling frequency; None where nothing states it.
        missing: what the table leaves open: names of columns, sampling frequency.
        notes: what was inferred, a sentence each without a full stop.
    """

    leads: tuple[Column, ...]
    fs_hz: float | None
    missing: tuple[RecordError, ...]
    notes: tuple[str, ...] = ()


def table_columns(table: Table, how: ReadOptions) -> TableColumns:
    """Return what each column of a table is, and all that the table leaves open.

    Raises:
        RecordError: a column of times or of sample numbers that cannot be one, a contradiction to ``how``.
    """
    columns, missing = _columns(table, how)
    if not how.columns and table.columns > 1:
        columns = [replace(column, rising=_rises(table, column)) for column in columns]
    leads = tuple(column for column in columns if column.may_be_lead)
    if not leads:
        expected = "one beside time and sample numbers"
        raise RecordError(table.path, "has no column of a lead", expected, "check its first line")
    check_samples(len(table.rows), table.path)
    try:
        fs_hz, notes = _sampling_frequency(table, columns, how)
    except RecordError as problem:
        if problem.code != "not-stated":
            raise
        return TableColumns(leads, None, (*missing, problem))
    return TableColumns(leads, fs_hz, tuple(missing), notes)


def _name_and_unit(text: str) -> tuple[str, str]:
    match = _WITH_UNIT.fullmatch(text) or _WITH_SUFFIX.fullmatch(text)
    if match is None:
        return text, _UNIT_OF_NAME.get(text.casefold(), "")
    return match[1].strip(), next((unit.strip() for unit in match.groups()[1:] if unit), "")


def _bare(unit: str) -> str:
    """Return a unit without the brackets around it."""
    match = _IN_BRACKETS.fullmatch(unit.strip())
    return (match[1] or match[2] or "").strip() if match else unit.strip()


def _columns(table: Table, how: ReadOptions) -> tuple[list[Column], list[RecordError]]:
    """Return the columns by the header or ``--columns``, numbered where neither names them, which is missing then."""
    if how.columns and len(how.columns) != table.columns:
        expected = f"{len(how.columns)}, as {param('columns')} names"
        problem = f"has {count_of(table.columns, 'column')}"
        raise RecordError(table.path, problem, expected, f"correct {param('columns')}", code="contradiction")
    missing = []
    written = table.header or how.columns
    if not written:
        action = f"name them in order with {param('columns')} time,MLII"
        missing = [
            RecordError(table.path, tr_later("has no line with the columns' names"), action=action, code="not-stated")
        ]
        written = tuple(f"column {number + 1}" for number in range(table.columns))
    columns = []
    for number, text in enumerate(written):
        name, unit = _name_and_unit(text)
        below = _bare(table.units[number]) if table.units else ""
        if how.columns:
            name, unit_in_name = _name_and_unit(how.columns[number])
            unit = unit_in_name or unit
        columns.append(Column(number, name, unit or below))
    return columns, missing


def _rises(table: Table, column: Column) -> bool:
    """Return whether a column that is not named as a signal rises evenly: times or sample numbers by another name."""
    other = is_another_signal(column.name) and not _OF_TIME.search(column.name.casefold())
    signal = is_named_ecg(column.name) or known_lead(folded(column.name)) or other
    if column.is_time or column.is_count or signal or len(table.rows) < _MIN_ROWS:
        return False
    first = [as_number(row.split(table.separator)[column.number], table.decimal) for row in table.rows[:_FIRST_ROWS]]
    if any(number is None for number in first) or not _is_even(np.array(first, dtype=np.float64)):
        return False
    try:
        return _is_even(table.numbers([column.number])[0])
    except RecordError:  # a text further below
        return False


def _is_even(numbers: NDArray[np.float64]) -> bool:
    steps = np.diff(numbers)
    if not (steps > 0).all():  # not with NaN either
        return False
    usual = np.median(steps)
    return bool((np.abs(steps - usual) <= usual / 2).mean() >= _EVEN_SHARE)


def _time_s(table: Table, column: Column) -> tuple[NDArray[np.float64], str]:
    """Return a column of times (rows,) in seconds, and the unit that was inferred, or ``""``.

    They are numbers in the column's unit, or clock times. Without a unit they are seconds where these give a sampling
    frequency of an ECG, else in the one unit that does.
    """
    if clock_s(table.rows[0].split(table.separator)[column.number].strip()) is None:
        if column.unit not in _SECONDS:
            problem, expected = f"column {column.name} is in {column.unit!r}", "s, ms, us or clock times"
            raise RecordError(table.path, problem, expected, f"name its unit {_NAME_TIMES}")
        numbers: NDArray[np.float64] = table.numbers([column.number])[0]
        unit = "" if column.unit else _inferred_unit(numbers)
        return numbers * _SECONDS[column.unit or unit], "" if unit == "s" else unit
    times = [clock_s(cell) for cell in table.text(column.number)]
    for line, at in zip(table.lines, times, strict=True):
        if at is None:
            problem = f"line {line} of column {column.name} is no clock time"
            raise RecordError(table.path, problem, "mm:ss.mmm", "correct that line")
    return np.array(times, dtype=np.float64), ""


def _inferred_unit(numbers: NDArray[np.float64]) -> str:
    """Return the unit in which times give a sampling frequency of an ECG, ``""`` for none."""
    step = float(numbers[-1] - numbers[0]) / max(len(numbers) - 1, 1)
    slowest, fastest = 1 / MIN_FS_HZ, 1 / MAX_FS_HZ
    return next((unit for unit in _INFERRED if fastest <= step * _SECONDS[unit] <= slowest), "")


def _fs_of_times(table: Table, times_s: NDArray[np.float64]) -> float:
    """Return the sampling frequency of a column of times, which must step evenly to half a step.

    Times are often written with few digits (1 ms at 360 Hz), so the whole column decides; the nearest whole number of
    Hz is taken where it explains every time as well.
    """
    bad = ~np.isfinite(times_s)
    if bad.any():
        problem = f"line {table.lines[int(np.argmax(bad))]} has no time"
        raise RecordError(table.path, problem, "a time for each sample", "correct or delete that line")
    if len(times_s) < 2 or not times_s[-1] > times_s[0]:
        raise RecordError(table.path, "its times do not rise", "at least two samples, in order of time", "sort it")
    grid = np.arange(len(times_s))
    fs_hz = (len(times_s) - 1) / float(times_s[-1] - times_s[0])

    def off(rate: float) -> NDArray[np.float64]:
        away: NDArray[np.float64] = np.abs((times_s - times_s[0]) * rate - grid)
        return away

    uneven = (off(fs_hz) > 0.5) | np.append(False, np.diff(times_s) < 0)
    if uneven.any():
        usual_s = float(np.median(np.diff(times_s)))
        steps = np.abs(np.diff(times_s) - usual_s)
        at = int(np.argmax(steps)) + 1
        raise RecordError(
            table.path,
            f"times are not even: line {table.lines[at]} is {times_s[at] - times_s[at - 1]:.6g} s after the one before",
            f"{usual_s:.6g} s",
            "resample it, and fill gaps with rows that hold NaN",
        )
    rounded = float(round(fs_hz))
    return rounded if rounded and (off(rounded) <= 0.5).all() else fs_hz


def _check_count(table: Table, column: Column) -> None:
    """Refuse a column of sample numbers that skips or repeats one."""
    step = np.diff(table.numbers([column.number])[0])
    if len(step) and not (step == step[0]).all():
        line = table.lines[int(np.argmax(step != step[0])) + 1]
        problem = f"line {line} breaks the count of samples"
        raise RecordError(table.path, problem, f"steps of {step[0]:g}", "fill gaps with rows that hold NaN")


def _sampling_frequency(table: Table, columns: list[Column], how: ReadOptions) -> tuple[float, tuple[str, ...]]:
    """Return the sampling frequency in Hz, and notes on what was inferred; raises RecordError."""
    times = [column for column in columns if column.is_time]
    for column in columns:
        if column.is_count and (column.name or not how.columns):
            _check_count(table, column)
    if not times and how.fs_hz is None:
        times = [column for column in columns if column.is_stamp and not _counts(table, column)][:1]
    if not times and table.fs_hz is not None:
        check_fs(table.fs_hz, table.path, f"{table.fs_hz:g}", "correct the line that states it")
        if how.fs_hz is not None and abs(how.fs_hz / table.fs_hz - 1) > 0.01:
            raise contradiction(table.path, f"states {table.fs_hz:g} Hz", "fs_hz", f"{how.fs_hz:g}")
        return table.fs_hz, ()
    if not times:
        if how.fs_hz is None:
            problem = message("has no column of times; it has {names}", names=", ".join(c.name or "-" for c in columns))
            action = f"say the sampling frequency with {param('fs_hz')}, or which column holds times {_NAME_TIMES}"
            raise RecordError(table.path, problem, action=action, code="not-stated")
        check_fs(how.fs_hz, table.path, f"{how.fs_hz:g}", f"correct {param('fs_hz')}")
        return how.fs_hz, ()
    if len(times) > 1:
        raise RecordError(
            table.path,
            f"has {count_of(len(times), 'column')} of times",
            "one",
            f"name the columns with {param('columns')}",
        )
    column = times[0]
    times_s, inferred = _time_s(table, column)
    fs_hz = _fs_of_times(table, times_s)
    check_fs(fs_hz, table.path, f"{fs_hz:.6g}", f"check the unit of column {column.name}")
    if how.fs_hz is not None and abs(how.fs_hz / fs_hz - 1) > 0.01:
        raise contradiction(table.path, f"its times say {fs_hz:.6g} Hz", "fs_hz", f"{how.fs_hz:g}")
    if inferred or (column.rising and not column.unit):
        return fs_hz, (
            message(
                "column {name} was taken for times in {unit}, which give {fs_hz:.6g} Hz",
                name=column.name,
                unit=inferred or "s",
                fs_hz=fs_hz,
            ),
        )
    return fs_hz, ()


def _counts(table: Table, column: Column) -> bool:
    """Return whether a column without a unit may count samples, since it rises by one from row to row, or is text."""
    if column.unit:
        return False
    first = [as_number(row.split(table.separator)[column.number], table.decimal) for row in table.rows[:_FIRST_ROWS]]
    numbers = [math.nan if number is None else number for number in first]
    return not np.isfinite(numbers).all() or bool((np.diff(numbers) == 1).all())
