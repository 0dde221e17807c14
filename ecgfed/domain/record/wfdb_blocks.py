"""WFDB records by blocks: what ``wfdb_files`` reads whole, read as it is asked for, the same bits.

The wfdb package reads the header anew for each stretch it is asked for, which takes longer than an hour's samples; so
they are decoded by ``wfdb_decode``. Format 8, which holds differences, and FLAC stay with the whole reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.leads import choose_lead, requested_alias
from ecgfed.domain.record.recording import LongRecording, ReadOptions, spans
from ecgfed.domain.record.wfdb_decode import SignalFile
from ecgfed.domain.record.wfdb_files import channels_to_read, signal_names
from ecgfed.domain.record.wfdb_header import frame_of, header_path, is_multi_segment, lead_fs, read_header, record_base
from ecgfed.domain.record.wfdb_signal import LeadSteps, check_stated_sum, settle, signal_file, signal_files

#: Frames that are read at once when a whole file is checked.
_CHECKED = 1 << 18


def open_wfdb(
    path: Path, leads: tuple[str, ...], *, every_lead: bool, how: ReadOptions, min_samples: int
) -> LongRecording | None:
    """Open a WFDB record of at least ``min_samples`` samples, its lengths and checksums verified.

    Args:
        path: as ``wfdb_files.read_recording`` takes it.
        leads: see there.
        every_lead: see there.
        how: see there.
        min_samples: a shorter record is left to the whole reader.

    Returns:
        None where the whole reader has to do it: a short record, another format, or anything unusual.

    Raises:
        RecordError: as the whole reader.
    """
    base = record_base(path)
    header = read_header(base)
    if is_multi_segment(header):
        return None
    names = signal_names(header)
    chosen = choose_lead(names, base, leads, header.units)
    channels, skipped = channels_to_read(header, base, chosen, every_lead=every_lead)
    frame = frame_of(header, chosen)
    fs_hz = lead_fs(header, base, frame)
    notes = settle(header, base, channels, how)
    block = _channels(header, base, channels) if header.sig_len * frame >= min_samples else None
    if block is None:
        return None
    _check_sums(header, base, channels, block)
    return LongRecording(
        base.name,
        base,
        names[chosen],
        tuple(names[channel] for channel in channels),
        fs_hz,
        int(header.sig_len) * frame,
        block,
        tuple(header.comments or ()),
        (header_path(base), *signal_files(header, base, channels)),
        skipped,
        requested_alias(leads, names[chosen]),
        notes,
    )


@dataclass(frozen=True)
class _Channels:
    """Some channels of a record of one segment.

    Attributes:
        files: the files they lie in.
        file: of each channel, which of them.
        columns: of each channel, where in a frame its samples lie.
        steps: of each channel, how they become millivolt; all have the same number of samples in a frame.
        frames: length of the record in frames.
    """

    files: tuple[SignalFile, ...]
    file: tuple[int, ...]
    columns: tuple[slice, ...]
    steps: tuple[LeadSteps, ...]
    frames: int

    def digital(self, start: int, stop: int, rows: Sequence[int]) -> list[NDArray[Any]]:
        """Return frames ``start`` to ``stop`` of some channels as they are stored; raises RecordError."""
        frames = {number: self.files[number].frames(start, stop) for number in {self.file[row] for row in rows}}
        return [frames[self.file[row]][:, self.columns[row]].ravel() for row in rows]

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``; samples are a lead's own, several in each frame."""
        if any(self.steps[row].skew for row in rows):
            return np.concatenate([self._skewed(start, stop, row) for row in rows])
        return self._in_mv(start, stop, rows)

    def _in_mv(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        out, frame = np.empty((len(rows), stop - start)), self.steps[0].frame
        first = start // frame
        for line, row, digital in zip(out, rows, self.digital(first, -(-stop // frame), rows), strict=True):
            line[:] = self.steps[row].to_mv(digital[start - first * frame :][: stop - start])
        return out

    def _skewed(self, start: int, stop: int, row: int) -> NDArray[np.float64]:
        """Return a block of a lead that lags: what was recorded later, and nothing at its end."""
        skew, samples = self.steps[row].skew, self.frames * self.steps[row].frame
        first, last = min(start + skew, samples), min(stop + skew, samples)
        out = np.full((1, stop - start), np.nan)
        out[:, : last - first] = self._in_mv(first, last, [row])
        return out


def _channels(header: Any, base: Path, channels: list[int]) -> _Channels | None:
    """Say where some channels lie; None where one of them cannot be read from anywhere but the beginning."""
    signal_files = [signal_file(header, base, channel) for channel in channels]
    if any(located is None or located[0].fmt == "8" for located in signal_files):
        return None
    present = [located for located in signal_files if located is not None]
    files = tuple(dict.fromkeys(file for file, _ in present))
    return _Channels(
        files,
        tuple(files.index(file) for file, _ in present),
        tuple(columns for _, columns in present),
        tuple(LeadSteps.of(header, base, channel) for channel in channels),
        int(header.sig_len),
    )


def _check_sums(header: Any, base: Path, channels: list[int], block: _Channels) -> None:
    """Verify the header's checksums over the whole file, a stretch at a time; raises RecordError."""
    stated = [row for row, channel in enumerate(channels) if header.checksum[channel] is not None]
    totals = np.zeros(len(stated), np.int64)
    for start, stop in spans(block.frames, _CHECKED) if stated else ():
        totals += [int(samples.sum(dtype=np.int64)) for samples in block.digital(start, stop, stated)]
    for row, total in zip(stated, totals.tolist(), strict=True):
        check_stated_sum(header, base, channels[row], total)
