"""The samples of WFDB signal files as they are stored, in every format of signal(5) but the compressed ones.

The wfdb package reads the header anew for each segment it is asked for, fails on format 61, and takes a length from
the header alone; the formats need no more than shifts, so they are decoded here. FLAC (508, 516, 524) is left to wfdb.
Format: signal(5), https://physionet.org/physiotools/wag/.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError

#: How the bytes of a format with whole bytes a sample are taken.
_TYPES = {"8": "i1", "16": "<i2", "61": ">i2", "160": "<u2", "80": "u1", "32": "<i4"}
#: Samples that are packed together, and the bytes they take.
_PACKED = {"24": (1, 3), "212": (2, 3), "310": (3, 4), "311": (3, 4)}
#: Formats that are decoded here.
FORMATS = frozenset({*_TYPES, *_PACKED})


def samples_in(fmt: str, size: int) -> int:
    """Return how many samples ``size`` bytes hold, those of the last, incomplete group among them."""
    if fmt in _TYPES:
        return size // np.dtype(_TYPES[fmt]).itemsize
    count, width = _PACKED[fmt]
    groups, remainder = divmod(size, width)
    return groups * count + (
        remainder // 2 if count > 1 else 0
    )  # the first sample of a group lies in its first two bytes


@dataclass(frozen=True)
class SignalFile:
    """One file of samples.

    Attributes:
        path: the file.
        fmt: of signal(5), one of ``FORMATS``.
        offset: bytes before the first sample.
        width: samples of all its signals in a frame.
    """

    path: Path
    fmt: str
    offset: int
    width: int

    @property
    def frame_count(self) -> int:
        """Whole frames in the file."""
        return samples_in(self.fmt, max(self.path.stat().st_size - self.offset, 0)) // self.width

    def frames(self, start: int, stop: int) -> NDArray[Any]:
        """Return frames ``start`` to ``stop`` as they are stored, (frames, width); of format 8 the differences.

        Raises:
            RecordError: the file ends before.
        """
        first, count = start * self.width, (stop - start) * self.width
        if self.fmt in _TYPES:
            size = np.dtype(_TYPES[self.fmt]).itemsize
            samples = self._bytes(size * first, size * count).view(_TYPES[self.fmt])
        else:
            group, size = _PACKED[self.fmt]
            low, high = first // group, -(-(first + count) // group)
            data = self._bytes(size * low, size * (high - low), spare=size - 2 if group > 1 else 0)
            samples = _UNPACK[self.fmt](data.reshape(-1, size))[first - low * group :][:count]
        if self.fmt == "160":
            samples = samples.astype(np.int32) - 2**15
        elif self.fmt == "80":
            samples = samples.astype(np.int16) - 2**7
        return samples.reshape(-1, self.width)

    def _bytes(self, at: int, count: int, spare: int = 0) -> NDArray[np.uint8]:
        """Return bytes of the file; of the last ``spare`` ones some may not be there, and are 0 then."""
        data = np.fromfile(self.path, np.uint8, count, offset=self.offset + at)
        if len(data) < count - spare:
            raise RecordError(self.path, "has become shorter", "the record as it was opened", "copy it again")
        return np.pad(data, (0, count - len(data))) if len(data) < count else data


def _signed(values: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return unsigned numbers of some bits as two's complement."""
    signed: NDArray[Any] = (values ^ 1 << bits - 1) - (1 << bits - 1)
    return signed


def _unpack_24(three: NDArray[np.uint8]) -> NDArray[Any]:
    wide = three.astype(np.int32)
    return _signed(wide[:, 0] | wide[:, 1] << 8 | wide[:, 2] << 16, 24)


def _unpack_212(three: NDArray[np.uint8]) -> NDArray[Any]:
    """Two samples of 12 bits in three bytes."""
    wide = three.astype(np.int16)
    out = np.empty((len(wide), 2), np.int16)
    out[:, 0] = wide[:, 0] | (wide[:, 1] & 0x0F) << 8
    out[:, 1] = wide[:, 2] | (wide[:, 1] & 0xF0) << 4
    return _signed(out.ravel(), 12)


def _unpack_310(four: NDArray[np.uint8]) -> NDArray[Any]:
    """Three samples of 10 bits in two words: bits 1 to 10 of each, and the upper five bits of both."""
    words = np.ascontiguousarray(four).view("<u2").astype(np.int16).reshape(-1, 2)
    first, second = words[:, 0], words[:, 1]
    out = np.empty((len(words), 3), np.int16)
    out[:, 0], out[:, 1] = first >> 1 & 0x3FF, second >> 1 & 0x3FF
    out[:, 2] = (first >> 11 & 0x1F) | (second >> 11 & 0x1F) << 5
    return _signed(out.ravel(), 10)


def _unpack_311(four: NDArray[np.uint8]) -> NDArray[Any]:
    """Three samples of 10 bits in the lower 30 bits of four bytes."""
    words = np.ascontiguousarray(four).view("<u4").ravel()
    out = np.stack([words >> shift & 0x3FF for shift in (0, 10, 20)], axis=1).astype(np.int16)
    return _signed(out.ravel(), 10)


_UNPACK = {"24": _unpack_24, "212": _unpack_212, "310": _unpack_310, "311": _unpack_311}
