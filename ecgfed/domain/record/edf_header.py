"""The headers of EDF, EDF+, BDF and BDF+: where the samples lie, what they mean, and when each data record begins.

EDF: Kemp et al., Electroencephalogr Clin Neurophysiol 82:391-393, 1992; EDF+: Kemp and Olivan, Clin Neurophysiol
114:1755-1761, 2003; https://www.edfplus.info/specs/. BDF is EDF with samples of 24 bits (BioSemi,
https://www.biosemi.com/faq/file_format.htm).
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.language import message, messages
from ecgfed.base.safe_io import open_regular
from ecgfed.base.text import count_of
from ecgfed.domain.record.kinds import BDF_VERSION, EDF_VERSION

#: The labels of channels of annotations.
ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
#: What to do about a file that is not whole, and about a header that cannot be right.
FETCH, RESTORE = "fetch or copy it again", "restore the header from its source"
_REPAIR = f"or read what is there with {param('repair=True')}"
_ONSET = re.compile(rb"([+-]\d{1,15}(?:\.\d{0,15})?)[\x14\x15]")


@dataclass(frozen=True)
class EdfLayout:
    """Where the samples lie, from the fixed fields of the header.

    Attributes:
        header_bytes: where the data records begin.
        records: how many there are.
        duration_s: the length of one.
        labels: the channels' labels, annotation channels among them.
        units: the channels' physical dimensions.
        ranges: of each channel physical minimum and maximum, digital minimum and maximum, as written.
        samples: samples of each channel in a data record.
        gaps: the file is EDF+D or BDF+D, whose data records need not follow one another.
        sample_bytes: of a sample: 2 in EDF, 3 in BDF.
        notes: what was repaired.
    """

    header_bytes: int
    records: int
    duration_s: float
    labels: tuple[str, ...]
    units: tuple[str, ...]
    ranges: tuple[tuple[str, ...], ...]
    samples: tuple[int, ...]
    gaps: bool
    sample_bytes: int
    notes: tuple[str, ...]

    @property
    def record_bytes(self) -> int:
        """Bytes of a data record."""
        return self.sample_bytes * sum(self.samples)


def text_of(raw: bytes) -> str:
    """Return a field of the header as text, UTF-8 or Latin-1."""
    try:
        return raw.decode("utf-8").strip(" \0")
    except UnicodeDecodeError:
        return raw.decode("latin-1").strip(" \0")


def number_of(text: str, path: Path, field: str, low: float, *, integer: bool = False) -> float:
    """Return the number in a field of the header.

    Args:
        text: the field.
        path: the file, for the error.
        field: what it is called.
        low: the least that it may be.
        integer: it is a whole number.

    Raises:
        RecordError: it is no number, or below ``low``; a decimal comma is named as such.
    """
    try:
        value = float(text) if re.fullmatch(r"[0-9eE.+-]+", text) else math.nan
    except ValueError:
        value = math.nan
    if low <= value < math.inf and (not integer or value == int(value)):
        return value
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text):
        point = text.replace(",", ".")
        problem = f"{field} {text!r} has a decimal comma"
        raise RecordError(path, problem, "a decimal point", f"write {point} into the header in its place")
    raise RecordError(path, f"{field} {text!r}", "a whole number" if integer else "a valid number", RESTORE)


def layout_of(path: Path, *, repair: bool = False) -> EdfLayout:
    """Read the fixed fields of the header and weigh them against the file's size.

    Args:
        path: the file.
        repair: read the whole data records that are there of a file that was cut short or never closed.

    Raises:
        RecordError: another format, fields that cannot be right, another size than the header says.
    """
    if not path.is_file():
        raise RecordError(path, "does not exist", "an EDF or BDF file", "check the path")
    size = path.stat().st_size
    with open_regular(path) as stream:
        main = stream.read(256)
        if len(main) < 256 or main[:8] not in (EDF_VERSION, BDF_VERSION):
            expected = "a header that begins with 0, or BIOSEMI"
            raise RecordError(path, "is not EDF or BDF", expected, "check that it is the right file")
        channels = int(number_of(text_of(main[252:256]), path, "number of signals", 1, integer=True))
        header_bytes = int(number_of(text_of(main[184:192]), path, "size of the header", 256, integer=True))
        if header_bytes != 256 * (channels + 1):
            problem = f"a header of {header_bytes} bytes"
            raise RecordError(path, problem, f"{256 * (channels + 1)} for {channels} signals", RESTORE)
        rest = stream.read(256 * channels)
    if len(rest) < 256 * channels:
        raise RecordError(path, "is cut short inside its header", f"{header_bytes} bytes", FETCH)

    def fields(at: int, width: int) -> tuple[str, ...]:
        first = at * channels
        return tuple(text_of(rest[first + width * i : first + width * (i + 1)]) for i in range(channels))

    labels = fields(0, 16)
    samples = tuple(
        int(number_of(text, path, f"samples a data record of {label}", 1, integer=True))
        for label, text in zip(labels, fields(216, 8), strict=True)
    )
    sample_bytes = 3 if main[:8] == BDF_VERSION else 2
    records, notes = _records(path, text_of(main[236:244]), size - header_bytes, sample_bytes * sum(samples), repair)
    return EdfLayout(
        header_bytes,
        records,
        number_of(text_of(main[244:252]), path, "length of a data record", 0),
        labels,
        fields(96, 8),
        tuple(zip(fields(104, 8), fields(112, 8), fields(120, 8), fields(128, 8), strict=True)),
        samples,
        text_of(main[192:236]).startswith(("EDF+D", "BDF+D")),
        sample_bytes,
        notes,
    )


def _records(path: Path, stated: str, size: int, record_bytes: int, repair: bool) -> tuple[int, tuple[str, ...]]:
    """Return how many data records are read, and what was repaired; raises RecordError where sizes disagree."""
    records_present, remainder = divmod(size, record_bytes)
    unclosed = stated == "-1"
    if unclosed and not repair:
        action = f"finish it with the recorder's own software, {_REPAIR}"
        raise RecordError(path, "was never closed (-1 data records)", "their number", action)
    records = records_present if unclosed else int(number_of(stated, path, "number of data records", 0, integer=True))
    if not records or not (records_present or (repair is False and not unclosed)):
        raise RecordError(path, "holds no samples", action="choose another file, or leave this one out")
    if unclosed:
        note = messages(
            "repaired: the file was never closed; its {n} whole data record was read",
            "repaired: the file was never closed; its {n} whole data records were read",
            records_present,
        )
    elif records_present < records:
        if not repair:
            problem = f"is cut short at {records_present} of {count_of(records, 'data record')}"
            raise RecordError(path, problem, action=f"{FETCH}, {_REPAIR}")
        note = message(
            "repaired: {n} of {total} data records were read; the last {missing} are missing",
            n=records_present,
            total=records,
            missing=records - records_present,
        )
    elif (records_present, remainder) == (records, 0):
        return records, ()
    elif not repair:
        problem = f"holds {count_of(records_present, 'data record')} and {remainder} bytes"
        raise RecordError(path, problem, f"{records} as its header says", f"{RESTORE}, {_REPAIR}")
    else:
        over = size - records * record_bytes
        return records, (
            message(
                "repaired: {n} bytes after the {records} data records that the header states were not read",
                n=over,
                records=records,
            ),
        )
    if remainder:
        note = message("{note}; {n} bytes of an incomplete one were left out", note=note, n=remainder)
    return min(records, records_present), (note,)


def onsets_s(path: Path, layout: EdfLayout) -> NDArray[np.float64]:
    """Return when each data record begins, in seconds after the first (EDF+, "Time keeping of data records").

    The first annotation of a data record's first annotation channel is empty and says it.

    Raises:
        RecordError: no annotation channel, or a data record that does not say it.
    """
    channel = next((i for i, label in enumerate(layout.labels) if label in ANNOTATIONS), None)
    if channel is None:
        raise RecordError(path, "is EDF+D without an annotation channel", "the times of its data records", FETCH)
    shape = (layout.records, layout.record_bytes)
    data = np.memmap(path, np.uint8, "r", offset=layout.header_bytes, shape=shape)
    first = layout.sample_bytes * sum(layout.samples[:channel])
    onsets = np.empty(layout.records)
    for number, record in enumerate(data[:, first : first + layout.sample_bytes * layout.samples[channel]]):
        match = _ONSET.match(record[:40].tobytes())
        if match is None:
            raise RecordError(path, f"data record {number + 1} does not say when it begins", "its time", FETCH)
        onsets[number] = float(match[1])
    after_first: NDArray[np.float64] = onsets - onsets[0]
    return after_first


def starts_of(path: Path, layout: EdfLayout, fs_hz: float, samples: int) -> NDArray[np.int64]:
    """Return the sample at which each data record begins; later than the one before ends where there is a gap.

    A beginning within one sample of that end is no gap: recorders round their times.
    """
    if not layout.gaps:
        return np.arange(layout.records, dtype=np.int64) * samples
    at_s = onsets_s(path, layout)
    if not (np.abs(at_s) * fs_hz < 2**53).all():
        problem = f"claims {np.abs(at_s).max():.3g} s"
        raise RecordError(path, problem, "a recording of days at most", "cut it into parts")
    starts = np.rint(at_s * fs_hz).astype(np.int64)
    end = 0
    for number, start in enumerate(starts):
        if start < end - 1:
            raise RecordError(path, f"data record {number + 1} begins before the last one ends", "an order", FETCH)
        starts[number] = end if abs(start - end) <= 1 else start
        end = int(starts[number]) + samples
    return starts
