"""Reading recordings from CSV and other text tables: leads by the columns' names, time or --fs, units never guessed."""

from dataclasses import dataclass, replace
from pathlib import Path

from ecgfed.base.errors import RecordError, param
from ecgfed.base.language import messages
from ecgfed.base.text import shortened
from ecgfed.domain.record.checks import (
    MILLIVOLT,
    Scale,
    check_size,
    check_stated,
    contradiction,
    parse_units,
    sentinels_to_nan,
)
from ecgfed.domain.record.kinds import name_without_suffix
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, requested_alias
from ecgfed.domain.record.metadata import metadata_of
from ecgfed.domain.record.recording import ReadOptions, Recording
from ecgfed.domain.record.table_columns import Column, table_columns
from ecgfed.domain.record.tables import Table, read_table


@dataclass(frozen=True)
class OpenTable:
    """A table and what its columns are, before anything is missed.

    Attributes:
        table: the table.
        leads: the columns that may be leads, under names of which no two are the same.
        ecg: whether each of them may be taken for an ECG.
        fs_hz: sampling frequency; None where nothing states it.
        missing: all that is not stated, with every ECG's units.
        unnamed: the columns' names are not stated either; the leads are numbered.
        notes: what was inferred.
    """

    table: Table
    leads: tuple[Column, ...]
    ecg: tuple[bool, ...]
    fs_hz: float | None
    missing: tuple[RecordError, ...]
    unnamed: bool
    notes: tuple[str, ...]


def open_table(path: Path, how: ReadOptions) -> OpenTable:
    """Return a table and all that it leaves open; raises RecordError for what is wrong with it."""
    table = read_table(path)
    columns = table_columns(table, how)
    names = distinct([column.name for column in columns.leads])
    leads = tuple(replace(column, name=name) for column, name in zip(columns.leads, names, strict=True))
    ecg = tuple(are_ecg(names, [column.unit for column in leads]))
    unnamed = not (table.header or how.columns)
    of_leads = [column.name for column, heart in zip(leads, ecg, strict=True) if heart and not column.unit]
    missing = (*columns.missing, *_unstated_units([] if how.units else of_leads, path))
    return OpenTable(table, leads, ecg, columns.fs_hz, missing, unnamed, columns.notes)


def _unstated_units(leads: list[str], path: Path) -> list[RecordError]:
    if not leads:
        return []
    names = shortened(", ".join(leads), 200)
    problem = messages(
        "units of lead {names} are not stated", "units of leads {names} are not stated", len(leads), names=names
    )
    action = f"state the units with {param('units')}"
    return [RecordError(path, problem, "mV, uV or V", action, code="not-stated")]


def _scale(column: Column, how: ReadOptions, path: Path) -> Scale:
    """Return how a lead's numbers become millivolt; raises RecordError for no voltage, or a contradiction."""
    stated = parse_units(how.units, "units") if how.units else None
    if not column.unit and stated is not None:
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
    opened = open_table(path, how)
    table, present = opened.table, opened.leads
    if opened.unnamed:
        check_stated(opened.missing)
    names, units = [column.name for column in present], [column.unit for column in present]
    chosen = present[choose_lead(names, path, leads, units)]
    scales: dict[Column, Scale] = {}
    skipped, without_units = [], []
    for column, is_ecg in zip(present, are_ecg(names), strict=True):
        if column is not chosen and not every_lead:
            continue
        if column is not chosen and column.unit and column.unit not in MILLIVOLT:
            skipped.append(f"{column.name}: no voltage")
        elif column is not chosen and not is_ecg and not include_non_ecg:
            skipped.append(f"{column.name}: no ECG")
        elif not column.unit and not how.units:
            without_units.append(column.name)
        else:
            scales[column] = _scale(column, how, path)
    missing = [problem for problem in opened.missing if problem.parameter != "units"]
    check_stated([*missing, *_unstated_units(without_units, path)])
    assert opened.fs_hz is not None
    lead_names = tuple(column.name for column in scales)
    signals = table.numbers([column.number for column in scales])
    notes = (*opened.notes, *sentinels_to_nan(signals, lead_names))
    for row, scale in zip(signals, scales.values(), strict=True):
        row -= scale.zero
        row *= scale.mv
    check_size(signals, lead_names, path)
    return Recording(
        name_without_suffix(path),
        path,
        chosen.name,
        lead_names,
        opened.fs_hz,
        signals,
        table.comments,
        files=(path,),
        skipped=tuple(skipped),
        requested_as=requested_alias(leads, chosen.name),
        notes=notes,
        metadata=metadata_of(table.comments),
    )
