"""WFDB records by blocks: what ``wfdb_files`` reads whole, read as it is asked for, the same bits.

The wfdb package reads the header anew for each stretch it is asked for, which takes longer than an hour's samples; so
the formats of signal(5) that need no more than shifts are decoded here. Others (8 holds differences, 310 and 311 are
rare, FLAC is compressed) stay with the whole reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.record.leads import choose_lead, other_name
from ecgfed.record.recording import LongRecording, spans
from ecgfed.record.wfdb_files import channels_to_read, signal_names
from ecgfed.record.wfdb_header import header_path, is_multi_segment, read_header, record_base, units_of
from ecgfed.record.wfdb_signal import Steps, check_length, check_stated_sum, signal_files

#: Formats that are decoded here, each with how its bytes are taken.
_TYPES = {"16": "<i2", "160": "<u2", "80": "u1", "24": "u1", "32": "<i4", "212": "u1"}
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
    names = signal_names(header)
    chosen = choose_lead(names, base, leads, units_of(header, base))
    if is_multi_segment(header):
        return None
    channels, left_out = channels_to_read(header, base, chosen, every_lead=every_lead)
    for channel in channels:
        check_length(header, base, channel)
    block = _channels(header, base, channels)
    if block is None:
        return None
    _check_sums(header, base, channels, block)
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
        left_out,
        other_name(leads, names[chosen]),
    )


@dataclass(frozen=True)
class _SignalFile:
    """One file of samples.

    Attributes:
        path: the file.
        fmt: of signal(5).
        offset: bytes before the first sample.
        width: samples of all its signals in a frame.
    """

    path: Path
    fmt: str
    offset: int
    width: int

    def frames(self, start: int, stop: int) -> NDArray[Any]:
        """Return frames ``start`` to ``stop`` as they are stored, (frames, width); raises RecordError."""
        first, count = start * self.width, (stop - start) * self.width
        if self.fmt == "212":
            even = first // 2 * 2
            samples = _pairs(self._bytes(even // 2 * 3, -(-(first + count) // 2) * 3 - even // 2 * 3, spare=1))
            return samples[first - even :][:count].reshape(-1, self.width)
        if self.fmt == "24":
            three = self._bytes(3 * first, 3 * count).reshape(-1, 3).astype(np.int32)
            steps = three[:, 0] | three[:, 1] << 8 | three[:, 2] << 16
            return ((steps ^ 2**23) - 2**23).reshape(-1, self.width)
        size = np.dtype(_TYPES[self.fmt]).itemsize
        data = self._bytes(size * first, size * count).view(_TYPES[self.fmt])
        if self.fmt == "160":
            data = data.astype(np.int32) - 2**15
        elif self.fmt == "80":
            data = data.astype(np.int16) - 2**7
        return data.reshape(-1, self.width)

    def _bytes(self, at: int, count: int, spare: int = 0) -> NDArray[np.uint8]:
        """Return bytes of the file; of the last ``spare`` ones some may not be there, and are 0 then."""
        found = np.fromfile(self.path, np.uint8, count, offset=self.offset + at)
        if len(found) < count - spare:
            raise RecordError(self.path, "has become shorter", "the record as it was opened", "copy it again")
        return np.pad(found, (0, count - len(found))) if len(found) < count else found


def _pairs(data: NDArray[np.uint8]) -> NDArray[np.int16]:
    """Return two samples of 12 bits for each three bytes."""
    three = data.reshape(-1, 3).astype(np.int16)
    out = np.empty((len(three), 2), np.int16)
    out[:, 0] = three[:, 0] | (three[:, 1] & 0x0F) << 8
    out[:, 1] = three[:, 2] | (three[:, 1] & 0xF0) << 4
    return ((out ^ 2**11) - 2**11).ravel()


@dataclass(frozen=True)
class _Channels:
    """Some channels of a record of one segment.

    Attributes:
        files: the files they lie in.
        file: of each channel, which of them.
        columns: of each channel, where in a frame its samples lie.
        steps: of each channel, how they become millivolt.
        frames: length of the record.
    """

    files: tuple[_SignalFile, ...]
    file: tuple[int, ...]
    columns: tuple[slice, ...]
    steps: tuple[Steps, ...]
    frames: int

    def digital(self, start: int, stop: int, rows: Sequence[int]) -> list[NDArray[Any]]:
        """Return frames ``start`` to ``stop`` of some channels as they are stored; raises RecordError."""
        held = {number: self.files[number].frames(start, stop) for number in {self.file[row] for row in rows}}
        return [held[self.file[row]][:, self.columns[row]].ravel() for row in rows]

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``."""
        if any(self.steps[row].skew for row in rows):
            return np.concatenate([self._skewed(start, stop, row) for row in rows])
        return self._in_mv(start, stop, rows)

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


def _channels(header: Any, base: Path, channels: list[int]) -> _Channels | None:
    """Say where some channels lie; None where a file is not of one format that is decoded here."""
    names = list(dict.fromkeys(header.file_name[channel] for channel in channels))
    files, columns = [], {}
    for name in names:
        together = [i for i, other in enumerate(header.file_name) if other == name]
        formats = {(str(header.fmt[i]), header.byte_offset[i] or 0) for i in together}
        width = 0
        for i in together:
            frame = header.samps_per_frame[i] or 1
            columns[i] = slice(width, width + frame)
            width += frame
        (fmt, offset), *others = formats
        if others or fmt not in _TYPES:
            return None
        files.append(_SignalFile(base.parent / name, fmt, offset, width))
    return _Channels(
        tuple(files),
        tuple(names.index(header.file_name[channel]) for channel in channels),
        tuple(columns[channel] for channel in channels),
        tuple(Steps.of(header, base, channel) for channel in channels),
        int(header.sig_len),
    )


def _check_sums(header: Any, base: Path, channels: list[int], block: _Channels) -> None:
    """Verify the header's checksums over the whole file, a stretch at a time; raises RecordError."""
    stated = [row for row, channel in enumerate(channels) if header.checksum[channel] is not None]
    totals = np.zeros(len(stated), np.int64)
    for start, stop in spans(block.frames, _CHECKED) if stated else ():
        totals += [int(one.sum(dtype=np.int64)) for one in block.digital(start, stop, stated)]
    for row, total in zip(stated, totals.tolist(), strict=True):
        check_stated_sum(header, base, channels[row], total)
