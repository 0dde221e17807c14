"""Reading the ISHNE Holter Standard Output File, version 1.0, by its published layout.

Badilini F. The ISHNE Holter Standard Output File Format. Ann Noninvasive Electrocardiol 3(3):263-266, 1998. Numbers are
little-endian: a magic word, a CRC over what follows it up to the samples, a fixed block of 512 bytes, a text of any
length, and the samples, 16 bits, lead by lead in turn. Every length is weighed against the file's size, and the CRC is
held (0 means that none was computed). The paper leaves open whether the number of samples is one lead's or all
leads', and in which order the CRC's bytes lie: recorders do both, and each can be told from the other.
"""

import binascii
import os
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.safe_io import open_regular
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MAX_SAMPLES
from ecgfed.domain.record.groups import Channel, LeadSelection, SignalGroup, age, comment_lines, day, recording_of
from ecgfed.domain.record.kinds import ISHNE_MAGIC
from ecgfed.domain.record.recording import Recording

_FIXED = 522
_MAX_TEXT = 16 << 20
_LEADS = ("", "", "X", "Y", "Z", "I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6",
          "ES", "AS", "AI")  # fmt: skip
_ABSENT, _FAULT = -9, -32768
_PACEMAKERS = ("", "pacemaker of unknown type", "single chamber unipolar", "dual chamber unipolar",
               "single chamber bipolar", "dual chamber bipolar")  # fmt: skip


class _Header(NamedTuple):
    """What the fixed block says, and the text behind it."""

    fs_hz: float
    names: tuple[str, ...]
    resolutions_nv: tuple[int, ...]
    start: int
    samples: int
    comments: tuple[str, ...]


def _shorts(raw: bytes, at: int, count: int = 1) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}h", raw, at)


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("latin-1").strip()


def _header(path: Path) -> _Header:
    """Read and weigh the header; raises RecordError."""
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            fixed = stream.read(_FIXED)
            if len(fixed) < _FIXED or not fixed.startswith(ISHNE_MAGIC):
                expected = f"a file that begins with {ISHNE_MAGIC.decode()}"
                raise RecordError(path, "is not ISHNE 1.0", expected, "check that it is the right file")
            text_bytes, samples, text_at, start = struct.unpack_from("<4i", fixed, 10)
            if not 0 <= text_bytes <= min(_MAX_TEXT, size - _FIXED) or start != _FIXED + text_bytes:
                problem = f"says that its text has {text_bytes} bytes and its samples begin at byte {start}"
                expected = "a text within the file, and the samples right behind it"
                raise RecordError(path, problem, expected, "fetch or copy it again")
            if text_bytes and text_at != _FIXED:
                raise RecordError(path, f"its text lies at byte {text_at}", f"byte {_FIXED}", "fetch or copy it again")
            text = stream.read(text_bytes)
    except FileNotFoundError:
        raise RecordError(path, "does not exist", "an ISHNE file", "check the path") from None
    _check_crc(fixed, text, path)
    leads, fs_hz = _shorts(fixed, 156)[0], float(_shorts(fixed, 272)[0])
    if fs_hz <= 0:
        raise RecordError(path, f"sampling frequency {fs_hz:g} Hz", "above 0", "fetch or export it again")
    if not 1 <= leads <= 12:
        raise RecordError(path, count_of(leads, "lead"), "1 to 12", "fetch or export it again")
    return _Header(
        fs_hz,
        _names(_shorts(fixed, 158, leads), path),
        _resolutions(_shorts(fixed, 206, leads), path),
        start,
        _samples(samples, size - start, leads, path),
        _comments(fixed, text),
    )


def _check_crc(fixed: bytes, text: bytes, path: Path) -> None:
    """Compare the CRC-CCITT over the header with the one it holds; raises RecordError."""
    stated_crc = int.from_bytes(fixed[8:10], "little")
    counted = binascii.crc_hqx(fixed[10:] + text, 0xFFFF)
    if stated_crc and stated_crc not in (counted, _swapped(counted)):
        raise RecordError(
            path, f"checksum {stated_crc:#06x} of the header", f"{counted:#06x}", "fetch or copy it again"
        )


def _swapped(number: int) -> int:
    return (number & 0xFF) << 8 | number >> 8


def _names(codes: tuple[int, ...], path: Path) -> tuple[str, ...]:
    if _ABSENT in codes:
        position = codes.index(_ABSENT) + 1
        problem = f"lead {position} of {len(codes)} is marked as absent"
        raise RecordError(path, problem, "leads that were recorded", "choose another file, or leave this one out")
    known = [_LEADS[code] if 0 <= code < len(_LEADS) else "" for code in codes]
    return tuple(name or f"channel {number}" for number, name in enumerate(known, 1))


def _resolutions(steps_nv: tuple[int, ...], path: Path) -> tuple[int, ...]:
    for number, step in enumerate(steps_nv, 1):
        if step <= 0:
            problem = f"lead {number} has a step of {step} nV"
            raise RecordError(path, problem, "a step above 0", "fetch or export it again")
    return steps_nv


def _samples(claimed: int, size: int, leads: int, path: Path) -> int:
    """Return the samples of each lead, as the file's size and its header agree on them; raises RecordError."""
    frames, remainder = divmod(size, 2 * leads)
    if remainder == 0 and frames <= MAX_SAMPLES and claimed in (frames, frames * leads):
        return frames
    problem = f"holds {count_of(frames, 'sample')} of {count_of(leads, 'lead')}" + (
        f" and {remainder} bytes" if remainder else ""
    )
    raise RecordError(path, problem, f"{claimed} as its header says", "fetch or copy it again")


def _comments(fixed: bytes, text: bytes) -> tuple[str, ...]:
    """Return what the header says of patient and recording."""
    born, began, hours = (_shorts(fixed, at, 3) for at in (132, 138, 150))
    birthday, first = day(*born[::-1]), day(*began[::-1])
    pacemaker = _shorts(fixed, 230)[0]
    return comment_lines(
        {
            "patient name": f"{_text(fixed[28:68])} {_text(fixed[68:108])}",
            "patient id": _text(fixed[108:128]),
            "sex": {1: "M", 2: "F"}.get(_shorts(fixed, 128)[0], ""),
            "age": age(birthday, first),
            "birth date": birthday.isoformat() if birthday else "",
            "start date": first.isoformat() if first else "",
            "start time": "{:02d}:{:02d}:{:02d}".format(*hours) if first else "",
            "pacemaker": _PACEMAKERS[pacemaker] if 0 < pacemaker < len(_PACEMAKERS) else "",
            "recorder": _text(fixed[232:272]),
            "proprietary": _text(fixed[274:354]),
            "copyright": _text(fixed[354:434]),
            "text": _text(text),
        }
    )


def read_ishne(path: Path, selection: LeadSelection) -> Recording:
    """Read a Holter recording; -32768, which marks a fault of a lead, as NaN.

    Raises:
        RecordError: another format or version, a checksum that disagrees, any size but the header's, leads that are
            absent or without a step, a missing lead.
    """
    header = _header(path)
    leads = len(header.names)
    with open_regular(path) as stream:
        stream.seek(header.start)
        raw = stream.read(2 * leads * header.samples)
    if len(raw) != 2 * leads * header.samples:
        raise RecordError(path, "ends early", f"{count_of(header.samples, 'sample')} a lead", "fetch or copy it again")
    frames = np.frombuffer(raw, "<i2").reshape(header.samples, leads)

    def signal(lead: int) -> NDArray[np.float64]:
        steps = frames[:, lead].astype(np.float64)
        steps[steps == _FAULT] = np.nan
        return steps * float(header.resolutions_nv[lead])

    channels = tuple(Channel(name, "nV", lambda lead=lead: signal(lead)) for lead, name in enumerate(header.names))  # type: ignore[misc]
    return recording_of(path, [SignalGroup(header.fs_hz, header.samples, 0, channels)], selection, header.comments)


def ishne_comments(path: Path) -> tuple[str, ...]:
    """Return what the header says of patient and recording, as comment lines; raises RecordError."""
    return _header(path).comments
