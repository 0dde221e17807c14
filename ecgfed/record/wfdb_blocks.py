"""WFDB records by blocks: what ``wfdb_files`` reads whole, read as it is asked for, the same bits.

The wfdb package decodes each block. Formats whose samples cannot be read from their middle (8, which holds differences,
and FLAC) stay with the whole reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.record.checks import check_samples, choose_lead
from ecgfed.record.recording import LongRecording, spans
from ecgfed.record.wfdb_header import header_path, is_multi_segment, read_header, record_base, unit, voltages
from ecgfed.record.wfdb_signal import Steps, check_length, check_stated_sum, signal_files

#: Formats of which any stretch can be read.
FORMATS = frozenset({"16", "24", "32", "61", "80", "160", "212", "310", "311"})
#: Frames that are read at once when a whole file is checked; even, as pairs of format 212 are.
_CHECKED = 1 << 18


def open_wfdb(path: Path, leads: tuple[str, ...], *, every_lead: bool, least: int) -> LongRecording | None:
    """Open a WFDB record of at least ``least`` samples, its lengths and checksums verified.

    Args:
        path: as ``wfdb_files.read_recording`` takes it.
        leads: see there.
        every_lead: see there.
        least: a shorter record is left to the whole reader.

    Returns:
        None where the whole reader has to do it: a short record, another format, or anything unusual.

    Raises:
        RecordError: as the whole reader.
    """
    base = record_base(path)
    header = read_header(base)
    if not header.sig_len or header.sig_len < least:
        return None
    chosen = choose_lead([str(name) for name in header.sig_name], base, leads)
    if is_multi_segment(header):
        return None
    check_samples(header.sig_len, header_path(base))
    unit(header, base, chosen)
    channels = voltages(header, base) if every_lead else [chosen]
    if not {str(header.fmt[channel]) for channel in channels} <= FORMATS:
        return None
    for channel in channels:
        check_length(header, base, channel)
    block = Channels(base, tuple(channels), tuple(Steps.of(header, base, c) for c in channels), int(header.sig_len))
    _check_sums(header, base, block)
    names = [str(name) for name in header.sig_name]
    return LongRecording(
        base.name,
        base,
        names[chosen],
        tuple(names[channel] for channel in channels),
        float(header.fs),
        int(header.sig_len),
        block,
        tuple(header.comments or ()),
        (header_path(base), *signal_files(header, base, channels)),
        tuple(f"{names[c]}: no voltage" for c in range(header.n_sig) if every_lead and c not in channels),
    )


@dataclass(frozen=True)
class Channels:
    """Some channels of a record of one segment.

    Attributes:
        base: the record's path without suffix.
        channels: their numbers.
        steps: how each becomes millivolt.
        frames: length of the record.
    """

    base: Path
    channels: tuple[int, ...]
    steps: tuple[Steps, ...]
    frames: int

    def digital(self, start: int, stop: int, rows: Sequence[int]) -> list[Any]:
        """Return frames ``start`` to ``stop`` as they are stored; raises RecordError."""
        import wfdb

        if stop <= start:
            return [np.empty(0, np.int64) for _ in rows]
        try:
            read = wfdb.rdrecord(
                str(self.base),
                sampfrom=start,
                sampto=stop,
                channels=[self.channels[row] for row in rows],
                physical=False,
                smooth_frames=False,
                ignore_skew=True,
            )
        except Exception as problem:  # wfdb raises ValueError, IndexError and others for broken files
            raise RecordError(
                self.base,
                f"cannot be read ({type(problem).__name__}: {problem})",
                "the WFDB record as it was opened",
                "fetch or copy it again",
            ) from problem
        return list(read.e_d_signal)

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``."""
        if not any(self.steps[row].skew for row in rows):
            return self._in_mv(start, stop, rows)
        return np.concatenate([self._skewed(start, stop, row) for row in rows])

    def _in_mv(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        out = np.empty((len(rows), stop - start))
        for line, row, digital in zip(out, rows, self.digital(start, stop, rows), strict=True):
            line[:] = self.steps[row].to_mv(digital)
        return out

    def _skewed(self, start: int, stop: int, row: int) -> NDArray[np.float64]:
        """Return a block of a lead that lags: what was recorded later, and nothing at its end."""
        skew = self.steps[row].skew
        first, last = min(start + skew, self.frames), min(stop + skew, self.frames)
        out = np.full((1, stop - start), np.nan)
        out[:, : last - first] = self._in_mv(first, last, [row])
        return out


def _check_sums(header: Any, base: Path, block: Channels) -> None:
    """Verify the header's checksums over the whole file, a stretch at a time; raises RecordError."""
    stated = [row for row, channel in enumerate(block.channels) if header.checksum[channel] is not None]
    totals = np.zeros(len(stated), np.int64)
    for start, stop in spans(block.frames, _CHECKED) if stated else ():
        totals += [int(one.sum(dtype=np.int64)) for one in block.digital(start, stop, stated)]
    for row, total in zip(stated, totals.tolist(), strict=True):
        check_stated_sum(header, base, block.channels[row], total)
