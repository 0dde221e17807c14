"""Reading recordings from CSV and other text tables: leads by the columns' names, time or --fs, units never guessed."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import (
    MILLIVOLT,
    Scale,
    check_fs,
    check_samples,
    check_size,
    contradiction,
    parse_units,
    sentinels_to_nan,
)
from ecgfed.domain.record.kinds import name_without_suffix
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, requested_alias
from ecgfed.domain.record.metadata import metadata_of
from ecgfed.domain.record.recording import ReadOptions, Recording
from ecgfed.domain.record.tables import Table, clock_s, read_table

#: Names of a column of times, without their unit; of one that only counts samples.
_TIME = {"time", "t", "times", "elapsed time", "seconds", "second", "sec", "s"}
_COUNT = {"sample", "sample #", "samples", "sample number", "sample_number", "index", "n", "#", ""}
_SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3}
_SECONDS |= {"us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9, "min": 60.0}
#: Times too where a unit says so and --fs is not given: without a unit they may count anything, from any day on.
_STAMP = "timestamp"
#: A unit below the names as ``rdsamp`` writes it: ``(seconds)``, ``(mV)``.
_IN_BRACKETS = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
_NAME_TIMES = f"with {param('columns')}, as in 'time (ms),MLII (mV)'"
#: ``MLII (mV)``, ``MLII [uV]``, ``time/ms``; ``MLII_mV`` only where what follows is a unit.
_WITH_UNIT = re.compile(r"(.*?)\s*(?:\(([^()]*)\)|\[([^\[\]]*)\]|/([^/\s]+))")
_WITH_SUFFIX = re.compile(r"(.+?)_(mV|uV|\u00b5V|\u03bcV|nV|ms|us|s)")


@dataclass(frozen=True)
class _Column:
    """One column: its number, its name without the unit, and the unit written beside or below it."""

    number: int
    name: str
    unit: str

    @property
    def is_time(self) -> bool:
        return self.name.casefold() in _TIME

    @property
    def is_stamp(self) -> bool:
        return self.name.casefold() == _STAMP and self.unit != "" and self.unit in _SECONDS

    @property
    def is_count(self) -> bool:
        return self.name.casefold() in _COUNT


def _name_and_unit(text: str) -> tuple[str, str]:
    match = _WITH_UNIT.fullmatch(text) or _WITH_SUFFIX.fullmatch(text)
    if match is None:
        return text, ""
    return match[1].strip(), next((unit.strip() for unit in match.groups()[1:] if unit), "")


def _bare(unit: str) -> str:
    """Return a unit without the brackets around it."""
    match = _IN_BRACKETS.fullmatch(unit.strip())
    return (match[1] or match[2] or "").strip() if match else unit.strip()


def _columns(table: Table, how: ReadOptions) -> list[_Column]:
    """Return what each column is, from the header or ``--columns``; raises RecordError where neither says."""
    if how.columns and len(how.columns) != table.columns:
        expected = f"{len(how.columns)}, as {param('columns')} names"
        problem = f"has {count_of(table.columns, 'column')}"
        raise RecordError(table.path, problem, expected, f"correct {param('columns')}", code="contradiction")
    if not table.header and not how.columns:
        action = f"name them in order with {param('columns')} time,MLII"
        raise RecordError(table.path, "has no line with the columns' names", action=action, code="not-stated")
    columns = []
    for number, written in enumerate(table.header or how.columns):
        name, unit = _name_and_unit(written)
        below = _bare(table.units[number]) if table.units else ""
        if how.columns:
            name, unit_in_name = _name_and_unit(how.columns[number])
            unit = unit_in_name or unit
        columns.append(_Column(number, name, unit or below))
    return columns


def _time_s(table: Table, column: _Column) -> NDArray[np.float64]:
    """Return a column of times (rows,) in seconds: numbers in its unit, or clock times."""
    if clock_s(table.rows[0].split(table.separator)[column.number].strip()) is None:
        if column.unit not in _SECONDS:
            problem, expected = f"column {column.name} is in {column.unit!r}", "s, ms, us or clock times"
            raise RecordError(table.path, problem, expected, f"name its unit {_NAME_TIMES}")
        times_s: NDArray[np.float64] = table.numbers([column.number])[0] * _SECONDS[column.unit]
        return times_s
    times = [clock_s(cell) for cell in table.text(column.number)]
    for line, at in zip(table.lines, times, strict=True):
        if at is None:
            problem = f"line {line} of column {column.name} is no clock time"
            raise RecordError(table.path, problem, "mm:ss.mmm", "correct that line")
    return np.array(times, dtype=np.float64)


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


def _check_count(table: Table, column: _Column) -> None:
    """Refuse a column of sample numbers that skips or repeats one."""
    step = np.diff(table.numbers([column.number])[0])
    if len(step) and not (step == step[0]).all():
        line = table.lines[int(np.argmax(step != step[0])) + 1]
        problem = f"line {line} does not count on from the one before"
        raise RecordError(table.path, problem, f"steps of {step[0]:g}", "fill gaps with rows that hold NaN")


def _sampling_frequency(table: Table, columns: list[_Column], how: ReadOptions) -> float:
    times = [column for column in columns if column.is_time]
    for column in columns:
        if column.is_count and (column.name or not how.columns):
            _check_count(table, column)
    if not times and how.fs_hz is None:
        times = [column for column in columns if column.is_stamp]
    if not times and table.fs_hz is not None:
        check_fs(table.fs_hz, table.path, f"{table.fs_hz:g}", "correct the line that states it")
        if how.fs_hz is not None and abs(how.fs_hz / table.fs_hz - 1) > 0.01:
            raise contradiction(table.path, f"states {table.fs_hz:g} Hz", "fs_hz", f"{how.fs_hz:g}")
        return table.fs_hz
    if not times:
        if how.fs_hz is None:
            problem = f"has no column of times; it has {', '.join(table.header or how.columns)}"
            action = f"say the sampling frequency with {param('fs_hz')}, or which column holds times {_NAME_TIMES}"
            raise RecordError(table.path, problem, action=action, code="not-stated")
        check_fs(how.fs_hz, table.path, f"{how.fs_hz:g}", f"correct {param('fs_hz')}")
        return how.fs_hz
    if len(times) > 1:
        problem = f"has {count_of(len(times), 'column')} of times"
        raise RecordError(table.path, problem, "one", f"name the columns with {param('columns')}")
    fs_hz = _fs_of_times(table, _time_s(table, times[0]))
    check_fs(fs_hz, table.path, f"{fs_hz:.6g}", f"check the unit of column {times[0].name}")
    if how.fs_hz is not None and abs(how.fs_hz / fs_hz - 1) > 0.01:
        raise contradiction(table.path, f"its times say {fs_hz:.6g} Hz", "fs_hz", f"{how.fs_hz:g}")
    return fs_hz


def _scale(column: _Column, how: ReadOptions, path: Path) -> Scale:
    """Return how a lead's numbers become millivolt; raises RecordError where nothing says, or two things differ."""
    stated = parse_units(how.units, "units") if how.units else None
    if not column.unit:
        if stated is None:
            problem = f"units of lead {column.name} are not stated"
            raise RecordError(path, problem, "mV, uV or V", f"say them with {param('units')}", code="not-stated")
        return stated
    if column.unit not in MILLIVOLT:
        problem = f"lead {column.name} is in {column.unit!r}"
        raise RecordError(path, problem, "one of mV, uV, µV, V, nV", "correct the column's name")
    scale = Scale(MILLIVOLT[column.unit])
    if stated is not None and stated != scale:
        raise contradiction(path, f"lead {column.name} is in {column.unit}", "units", str(how.units))
    return scale


def read_csv(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, include_non_ecg: bool = False, how: ReadOptions
) -> Recording:
    """Read a recording from a text table, a row for each sample.

    Args:
        path: a file with comma, semicolon, tab or blanks between columns; comment lines begin with ``#`` or ``%``.
        leads: lead names in order of preference; the columns' names are the leads'.
        every_lead: read all columns that are an ECG's and whose units are voltages.
        include_non_ecg: with every lead: also what is no ECG, as far as it is a voltage.
        how: what the file leaves open: fs where it has no column of times, units where no header states them, names
            where it has no header.

    Raises:
        RecordError: rows of different lengths, a text among numbers (with its line), uneven times, nothing that says
            sampling frequency, units or names, a missing lead.
    """
    table = read_table(path)
    columns = _columns(table, how)
    present = [column for column in columns if column.name and not column.is_time and not column.is_count]
    if not present:
        raise RecordError(path, "has no column of a lead", "one beside time and sample numbers", "check its first line")
    names, units = distinct([column.name for column in present]), [column.unit for column in present]
    present = [replace(column, name=name) for column, name in zip(present, names, strict=True)]
    chosen, ecg = present[choose_lead(names, path, leads, units)], are_ecg(names)
    check_samples(len(table.rows), path)
    fs_hz = _sampling_frequency(table, columns, how)
    scales = {chosen.number: _scale(chosen, how, path)}
    skipped = []
    for column, heart in zip(present, ecg, strict=True) if every_lead else ():
        if column is chosen:
            continue
        if column.unit and column.unit not in MILLIVOLT:
            skipped.append(f"{column.name}: no voltage")
        elif not heart and not include_non_ecg:
            skipped.append(f"{column.name}: no ECG")
        else:
            scales[column.number] = _scale(column, how, path)
    read = [column for column in present if column.number in scales]
    lead_names = tuple(column.name for column in read)
    signals = table.numbers([column.number for column in read])
    notes = sentinels_to_nan(signals, lead_names)
    for row, column in zip(signals, read, strict=True):
        row -= scales[column.number].zero
        row *= scales[column.number].mv
    check_size(signals, lead_names, path)
    return Recording(
        name_without_suffix(path),
        path,
        chosen.name,
        lead_names,
        fs_hz,
        signals,
        table.comments,
        files=(path,),
        skipped=tuple(skipped),
        requested_as=requested_alias(leads, chosen.name),
        notes=notes,
        metadata=metadata_of(table.comments),
    )
