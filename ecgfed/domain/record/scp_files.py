"""Reading SCP-ECG (EN 1064 / ISO 11073-91064), versions 1 and 2: rhythm data whole, as differences, Huffman coded.

A record is a checksum and its size, then sections of bytes, each with a checksum, its number and its size; section 0
says where they lie. Every checksum is held. Section 3 names the leads, section 6 holds the signal, section 2 its codes.
Where the reference beat was subtracted (section 3 says so), section 5 holds it and section 4 where: it is added back. A
signal that was sampled more coarsely between the beats ("bimodal") is refused: it does not come back as it was
recorded. So is version 3's section 12.
"""

import binascii
import struct
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.safe_io import read_bounded
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MAX_SAMPLES
from ecgfed.domain.record.groups import (
    Channel,
    LeadSelection,
    SignalGroup,
    age,
    comment_lines,
    day,
    recording_of,
    rounded_fs,
)
from ecgfed.domain.record.lead_names import SCP_LEADS
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.scp_huffman import Code, decode, table_of

#: A section of signals holds at most 65,535 bytes for each of at most 255 leads.
MAX_BYTES = 64 << 20
_HEADER = 16
#: Fields of section 1 whose texts are told (tag -> name); the others that are told are numbers and days.
_TEXTS = {
    0: "last name", 1: "first name", 2: "patient id", 3: "second last name", 13: "diagnosis", 14: "device",
    15: "analysing device", 16: "institution", 18: "department", 20: "referring physician",
    21: "confirming physician", 22: "technician", 23: "room", 30: "text", 31: "sequence", 35: "history",
}  # fmt: skip
_AGE_YEARS = {1: 1.0, 2: 1 / 12, 3: 7 / 365.25, 4: 1 / 365.25, 5: 1 / 8766}


class _Lead(NamedTuple):
    name: str
    start: int
    samples: int


def _sections(path: Path) -> dict[int, bytes]:
    """Return the bodies of the sections by their number, their sizes and checksums held; raises RecordError."""
    data = read_bounded(path, MAX_BYTES, RecordError)
    if len(data) < 6 + _HEADER or data[8:10] != b"\0\0":
        problem = "is not SCP-ECG"
        raise RecordError(path, problem, "a record that begins with section 0", "check that it is the right file")
    stated_crc, size = struct.unpack_from("<HI", data)
    if size != len(data):
        raise RecordError(path, f"has {len(data)} bytes", f"{size} as it says itself", "fetch or copy it again")
    if stated_crc != binascii.crc_hqx(data[2:], 0xFFFF):
        raise RecordError(path, "its checksum disagrees", "the CRC that it holds", "fetch or copy it again")
    pointers = _section(data, 0, 6, struct.unpack_from("<I", data, 10)[0], path)
    sections = {}
    for at in range(0, len(pointers) - 9, 10):
        number, length, index = struct.unpack_from("<HII", pointers, at)
        if number and length and number < 1024:
            if number in sections:
                raise RecordError(path, f"section {number} is there twice", "one", "fetch or export it again")
            sections[number] = _section(data, number, index - 1, length, path)
    return sections


def _section(data: bytes, number: int, start: int, length: int, path: Path) -> bytes:
    """Return the body of one section; those of a maker (12 and above) are passed by unread."""
    if start < 6 or length < _HEADER or start + length > len(data):
        problem = f"section {number} of {length} bytes at byte {start + 1}"
        raise RecordError(path, problem, f"sections within {len(data)} bytes", "fetch or copy it again")
    if number > 11:
        return b""
    section = data[start : start + length]
    stated_crc, stated_number, size = struct.unpack_from("<HHI", section)
    if (stated_number, size) != (number, length):
        problem = f"section {stated_number} of {size} bytes"
        raise RecordError(path, problem, f"section {number} of {length}, as section 0 says", "fetch or export it again")
    if stated_crc != binascii.crc_hqx(section[2:], 0xFFFF):
        raise RecordError(path, f"the checksum of section {number} disagrees", "its CRC", "fetch or copy it again")
    return section[_HEADER:]


def _leads(body: bytes, path: Path) -> list[_Lead]:
    """Read section 3: which leads there are and from which sample to which; raises RecordError."""
    if len(body) < 2 or not body[0] or len(body) < 2 + 9 * body[0]:
        count = body[0] if body else 0
        problem = f"section 3 of {len(body)} bytes for {count_of(count, 'lead')}"
        raise RecordError(path, problem, "9 bytes for each", "fetch or export it again")
    leads = []
    for at in range(2, 2 + 9 * body[0], 9):
        first, last, code = struct.unpack_from("<IIB", body, at)
        if not 1 <= first <= last or last - first >= MAX_SAMPLES:
            problem = f"has a lead from sample {first} to {last}"
            raise RecordError(path, problem, "an end after its beginning", "fetch or export it again")
        leads.append(_Lead(SCP_LEADS.get(code, f"lead code {code}"), first, last - first + 1))
    return leads


def _groups(sections: dict[int, bytes], path: Path) -> list[SignalGroup]:
    """Return the leads, those that have the same first and last sample in one group; raises RecordError."""
    if 6 not in sections or 3 not in sections:
        missing = "no section 3 (leads)" if 6 in sections else "no section 6 (rhythm)"
        raise RecordError(path, f"has {missing}", "a recorded signal", "export it as version 2 with its rhythm data")
    leads, codes = _leads(sections[3], path), _codes(sections.get(2), path)
    rhythm = _coded(sections[6], 6, leads, codes, path)
    if sections[6][5]:
        problem = "its signal was sampled more coarsely between the beats (bimodal compression)"
        raise RecordError(path, problem, "a signal as it was recorded", "export it without bimodal compression")
    subtracted = sections[3][1] & 1
    beats: Sequence[_Beat | None] = [None] * len(leads)
    if subtracted:
        beats = _reference(sections, leads, rhythm, codes, path)
    together: dict[tuple[int, int], list[Channel]] = {}
    for number, (lead, beat) in enumerate(zip(leads, beats, strict=True)):
        part = _Part(rhythm, number, lead, beat)
        together.setdefault((lead.start, lead.samples), []).append(Channel(lead.name, "nV", part.read))
    fs_hz = rounded_fs(1e6 / rhythm.step_us)
    return [SignalGroup(fs_hz, samples, start, tuple(channels)) for (start, samples), channels in together.items()]


class _Coded(NamedTuple):
    """Section 5 or 6: the bytes of each lead, and what makes numbers of them."""

    step_nv: int
    step_us: int
    differences: int
    parts: tuple[bytes, ...]
    codes: tuple[Code, ...] | None
    path: Path

    def values(self, number: int, samples: int, name: str) -> NDArray[np.int64]:
        """Return (samples,) numbers of 16 bits of one lead; raises RecordError."""
        data = self.parts[number]
        if self.codes is None:
            if len(data) not in (2 * samples, 2 * samples + 1):
                problem = f"lead {name} of {len(data)} bytes"
                expected = f"{2 * samples} for {count_of(samples, 'sample')}"
                raise RecordError(self.path, problem, expected, "fetch or copy it again")
            values = np.frombuffer(data, "<i2", samples).astype(np.int64)
        else:
            try:
                values = decode(data, samples, self.codes)
            except ValueError as error:
                raise RecordError(self.path, f"lead {name}: {error}", "its signal", "fetch or copy it again") from None
        return summed(values, self.differences)


def _coded(body: bytes, section: int, leads: list[_Lead], codes: tuple[Code, ...] | None, path: Path) -> _Coded:
    """Read section 5 or 6: steps, and the bytes of each lead; raises RecordError."""
    data_at = 6 + 2 * len(leads)
    if len(body) < data_at:
        problem = f"section {section} of {len(body)} bytes for {count_of(len(leads), 'lead')}"
        raise RecordError(path, problem, "the size of each", "fetch or export it again")
    step_nv, step_us, differences = struct.unpack_from("<HHB", body)
    if not step_nv or not step_us or differences > 2:
        problem = f"a step of {step_nv} nV, {step_us} us a sample, differences of order {differences}"
        raise RecordError(path, problem, "a step and a time above 0, and order 0 to 2", "fetch or export it again")
    sizes = struct.unpack_from(f"<{len(leads)}H", body, 6)
    if data_at + sum(sizes) > len(body):
        problem = f"section {section} claims {sum(sizes)} bytes of signals"
        raise RecordError(path, problem, f"at most {len(body) - data_at}", "fetch or copy it again")
    ends = np.cumsum([data_at, *sizes]).tolist()
    parts = tuple(body[start:stop] for start, stop in pairwise(ends))
    return _Coded(step_nv, step_us, differences, parts, codes, path)


class _Zone(NamedTuple):
    """Where a reference beat was subtracted: first and last sample of the recording, and the beat's fiducial point."""

    first: int
    fiducial: int
    last: int


class _Beat(NamedTuple):
    """The reference beat of one lead, (samples,) nanovolt; its fiducial sample, counted from 1; where it belongs."""

    signal_nv: NDArray[np.float64]
    fiducial: int
    zones: tuple[_Zone, ...]


def _reference(
    sections: dict[int, bytes], leads: list[_Lead], rhythm: _Coded, codes: tuple[Code, ...] | None, path: Path
) -> list[_Beat]:
    """Read sections 4 and 5: the reference beat of each lead, and where it was subtracted (EN 1064, 5.7 and 5.8).

    Raises:
        RecordError: one of them is missing or cut short, another sampling frequency than the rhythm's, zones outside
            the reference beat.
    """
    missing = next((number for number in (4, 5) if number not in sections), None)
    if missing:
        problem = f"its reference beat was subtracted, and section {missing} is not there"
        raise RecordError(path, problem, "sections 4 and 5", "export it without compression of beats")
    locations, coded = sections[4], _coded(sections[5], 5, leads, codes, path)
    if len(locations) < 6:
        raise RecordError(path, f"section 4 of {len(locations)} bytes", "at least 6", "fetch or copy it again")
    length_ms, fiducial, count = struct.unpack_from("<HHH", locations)
    if coded.step_us != rhythm.step_us:
        problem = f"its reference beat has {coded.step_us} us a sample"
        raise RecordError(path, problem, f"{rhythm.step_us}, as its rhythm", "export it without compression of beats")
    samples = length_ms * 1000 // coded.step_us
    if len(locations) < 6 + 14 * count or not 1 <= fiducial <= samples:
        problem = (
            f"section 4 of {len(locations)} bytes for {count_of(count, 'beat')}, fiducial point {fiducial} of {samples}"
        )
        raise RecordError(path, problem, "14 bytes for each beat, and a point within it", "fetch or copy it again")
    zones = []
    for at in range(6, 6 + 14 * count, 14):
        kind, first, point, last = struct.unpack_from("<HIII", locations, at)
        if kind or not first:  # only beats of type 0 were subtracted
            continue
        zone = _Zone(first, point, last)
        if not (first <= last and first - point + fiducial >= 1 and last - point + fiducial <= samples):
            problem = f"a reference beat of {samples} samples subtracted from sample {first} to {last}, around {point}"
            raise RecordError(path, problem, "samples of the reference beat", "fetch or export it again")
        zones.append(zone)
    beats = []
    for number, lead in enumerate(leads):
        steps = coded.values(number, samples, f"{lead.name}, reference beat")
        beats.append(_Beat(steps.astype(np.float64) * coded.step_nv, fiducial, tuple(zones)))
    return beats


def _codes(body: bytes | None, path: Path) -> tuple[Code, ...] | None:
    if body is None:
        return None
    try:
        return table_of(body)
    except ValueError as problem:
        raise RecordError(path, f"section 2: {problem}", "one Huffman table", "export it without compression") from None


class _Part(NamedTuple):
    """One lead: its bytes, and the reference beat that was subtracted from it, if any."""

    coded: _Coded
    number: int
    lead: _Lead
    beat: _Beat | None

    def read(self) -> NDArray[np.float64]:
        """Return (samples,) float64 in nanovolt; raises RecordError."""
        steps = self.coded.values(self.number, self.lead.samples, self.lead.name)
        signal_nv: NDArray[np.float64] = steps.astype(np.float64) * self.coded.step_nv
        for zone in self.beat.zones if self.beat else ():
            # a zone counts samples of the recording from 1, a lead may begin later or end before
            first = max(zone.first, self.lead.start)
            last = min(zone.last, self.lead.start + self.lead.samples - 1)
            if first <= last and self.beat:
                shift = self.beat.fiducial - zone.fiducial - 1
                start = first - self.lead.start
                signal_nv[start : start + last - first + 1] += self.beat.signal_nv[first + shift : last + shift + 1]
        return signal_nv


def summed(values: NDArray[np.int64], differences: int) -> NDArray[np.int64]:
    """Return the samples of first or second differences, whose first one or two values are samples themselves.

    They are numbers of 16 bits, so sums of a damaged file stay within them.
    """
    if differences == 2 and len(values) > 1:
        steps = np.concatenate([values[1:2] - values[:1], values[2:]])
        values = np.concatenate([values[:1], np.cumsum(steps)])
    samples: NDArray[np.int64] = np.cumsum(values) if differences else values
    return samples.astype(np.int16).astype(np.int64)


def _tags(body: bytes) -> dict[int, bytes]:
    """Return the fields of section 1, as far as they can be read."""
    tags: dict[int, bytes] = {}
    at = 0
    while at + 3 <= len(body) and body[at] != 255:
        length = int.from_bytes(body[at + 1 : at + 3], "little")
        tags.setdefault(body[at], body[at + 3 : at + 3 + length])
        at += 3 + length
    return tags


def _comments(body: bytes) -> tuple[str, ...]:
    """Return what section 1 says of patient and recording, as far as it can be read."""
    tags = _tags(body)
    born, began = (_day(tags.get(tag, b"")) for tag in (5, 25))
    years = age(born, began)
    if not years and len(stated := tags.get(4, b"")) >= 3 and stated[2] in _AGE_YEARS:
        years = str(int(int.from_bytes(stated[:2], "little") * _AGE_YEARS[stated[2]]))
    hours = tags.get(26, b"")
    fields = {name: _text(tags.get(tag, b"")) for tag, name in _TEXTS.items()}
    fields |= {
        "sex": {b"\1": "M", b"\2": "F"}.get(tags.get(8, b"")[:1], ""),
        "age": years,
        "birth date": born.isoformat() if born else "",
        "start date": began.isoformat() if began else "",
        "start time": "{:02d}:{:02d}:{:02d}".format(*hours[:3]) if len(hours) >= 3 else "",
    }
    return comment_lines(fields)


def _day(raw: bytes) -> date | None:
    return day(int.from_bytes(raw[:2], "little"), raw[2], raw[3]) if len(raw) >= 4 else None


def _text(raw: bytes) -> str:
    """Return a text up to its end mark; of a device, which is a record of numbers and texts, what can be printed."""
    text = raw.replace(b"\0", b" ")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        decoded = text.decode("latin-1")
    return "".join(mark for mark in decoded if mark.isprintable())


def read_scp(path: Path, selection: LeadSelection) -> Recording:
    """Read the rhythm data of an SCP-ECG record.

    Raises:
        RecordError: another format, any size or checksum but its own, no signal, bimodal compression, a subtracted
            reference beat that cannot be added back, codes that change the table, a missing lead.
    """
    sections = _sections(path)
    described = sections.get(1, b"")
    recorder = _text(_tags(described).get(14, b"")[8:14]).strip()  # the model, behind numbers and codes
    return recording_of(path, _groups(sections, path), selection, _comments(described), recorder)


def scp_comments(path: Path) -> tuple[str, ...]:
    """Return what a record says of patient and recording, as comment lines; raises RecordError."""
    return _comments(_sections(path).get(1, b""))
