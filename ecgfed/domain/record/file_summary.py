"""What a file states of its recording, and all that it leaves open, at once: for a form, and for one line of errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.csv_files import open_table
from ecgfed.domain.record.leads import are_ecg
from ecgfed.domain.record.numpy_files import stated_array
from ecgfed.domain.record.reader import format_of, named_errors, open_every_lead
from ecgfed.domain.record.recording import ReadOptions, Recording, read_options


@dataclass(frozen=True)
class FileSummary:
    """What a file states, and what it leaves open.

    Attributes:
        path: the file.
        format: a key of ``FORMATS``.
        leads: names of the leads that may be chosen; numbered where the file does not name its columns.
        columns: the columns of a table, or the leads of an array, as the file has them; empty for other formats.
        units: of the leads as the file states them, ``""`` where it does not; mV for formats that always state them.
        fs_hz: sampling frequency, or None.
        samples: of each lead.
        start: date and time of day of the first sample, each or both (ISO 8601); ``""`` where the file states neither.
        missing: an error for each thing that has to be stated; ``parameter`` is the field of ``ReadOptions``.
        notes: what was inferred or repaired.
        recording: the recording with every lead; None while anything is missing.
    """

    path: Path
    format: str
    leads: tuple[str, ...]
    columns: tuple[str, ...]
    units: tuple[str, ...]
    fs_hz: float | None
    samples: int
    start: str
    missing: tuple[RecordError, ...]
    notes: tuple[str, ...]
    recording: Recording | None

    @property
    def duration_s(self) -> float | None:
        """Length in seconds, None without a sampling frequency."""
        return None if self.fs_hz is None else self.samples / self.fs_hz


def file_summary(path: Path | str, *, how: ReadOptions | None = None, leads: Sequence[str] = ()) -> FileSummary:
    """Return what a file states, and all that it leaves open.

    Args:
        path: as of ``read_recording``.
        how: what is stated beside the file.
        leads: names of leads in order of preference for the lead in use; default the file's first ECG.

    Raises:
        RecordError: the file cannot be used, whatever is stated beside it.
        OptionError: units in ``how`` that are none.
    """
    path, how = Path(path), read_options(how)
    kind = format_of(path)
    with named_errors(path):
        columns: tuple[str, ...] = ()
        units: tuple[str, ...] = ()
        if kind == "csv":
            table = open_table(path, how)
            heart = [column for column, is_ecg in zip(table.leads, table.ecg, strict=True) if is_ecg]
            names, units = tuple(column.name for column in heart), tuple(column.unit for column in heart)
            columns = table.table.header or tuple(f"column {n + 1}" for n in range(table.table.columns))
            if table.missing:
                samples = len(table.table.rows)
                return FileSummary(
                    path, kind, names, columns, units, table.fs_hz, samples, "", table.missing, table.notes, None
                )
        elif kind == "numpy":
            array = stated_array(path, how)
            columns = array.leads
            names = tuple(name for name, is_ecg in zip(columns, are_ecg(columns), strict=True) if is_ecg)
            units = ("",) * len(names)
            if array.missing:
                return FileSummary(
                    path, kind, names, columns, units, array.fs_hz, array.samples, "", array.missing, (), None
                )
        recording = open_every_lead(path, tuple(leads), how=how)
        names = tuple(name for name, is_ecg in zip(recording.leads, are_ecg(recording.leads), strict=True) if is_ecg)
        return FileSummary(
            path,
            kind,
            names or recording.leads,
            columns,
            units or ("mV",) * len(names or recording.leads),
            recording.fs_hz,
            recording.samples,
            recording.metadata.start.isoformat(),
            (),
            recording.notes,
            recording,
        )
