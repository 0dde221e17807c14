"""EDF files by blocks of data records: what ``edf_files`` reads whole, read as it is asked for, the same bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.record.edf_files import ANNOTATIONS, EdfLeads, edf_comments, open_edf, to_mv
from ecgfed.record.recording import LongRecording, ReadOptions


def open_long_edf(
    path: Path, leads: tuple[str, ...], *, every_lead: bool, how: ReadOptions, least: int
) -> LongRecording | None:
    """Open an EDF file of at least ``least`` samples a lead; None for a shorter one, which is read whole.

    Raises:
        RecordError: as ``edf_files.read_edf``.
    """
    edf = open_edf(path, leads, every_lead=every_lead, how=how)
    signals = [i for i, label in enumerate(edf.layout.labels) if label != ANNOTATIONS]
    if edf.samples < least or len(signals) != len(edf.names):
        return None
    before = np.concatenate([[0], np.cumsum(edf.layout.samples)])
    columns = tuple(int(before[signals[row]]) for row in edf.rows)
    block = _Records(path, edf, columns, sum(edf.layout.samples))
    names = tuple(edf.names[row] for row in edf.rows)
    return LongRecording(
        path.stem,
        path,
        edf.names[edf.chosen],
        names,
        edf.fs_hz,
        edf.samples,
        block,
        edf_comments(path),
        files=(path,),
        left_out=edf.left_out,
        stands_for=edf.stands_for,
    )


@dataclass(frozen=True)
class _Records:
    """The data records of a file.

    Attributes:
        path: the file.
        edf: what its header says.
        columns: where in a data record the samples of each lead begin.
        width: samples of all channels in a data record.
    """

    path: Path
    edf: EdfLeads
    columns: tuple[int, ...]
    width: int

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``; NaN between data records that do not follow one another."""
        starts, many = self.edf.starts, self.edf.per_record
        out = np.full((len(rows), stop - start), np.nan)
        first = max(int(np.searchsorted(starts, start, side="right")) - 1, 0)
        last = int(np.searchsorted(starts, stop, side="left"))
        if stop <= start or last <= first:
            return out
        count = (last - first) * self.width
        offset = self.edf.layout.header_bytes + 2 * first * self.width
        data = np.fromfile(self.path, "<i2", count, offset=offset)
        if len(data) != count:
            raise RecordError(self.path, "has become shorter", "the file as it was opened", "copy it again")
        records = data.reshape(-1, self.width)
        for line, row in zip(out, rows, strict=True):
            column = self.columns[row]
            physical = to_mv(records[:, column : column + many], *self.edf.scales[row])
            _lay(line, physical, starts[first:last] - start)
        return out


def _lay(line: NDArray[np.float64], records: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
    """Lay data records into a line, each from its start on, which may lie before the line's."""
    many = records.shape[1]
    if len(starts) == 1 or (np.diff(starts) == many).all():
        records, starts, many = records.reshape(1, -1), starts[:1], records.size
    for start, samples in zip(starts.tolist(), records, strict=True):
        low, high = max(start, 0), min(start + many, len(line))
        if low < high:
            line[low:high] = samples[low - start : high - start]
