"""What the words of a WFDB annotation file say, before the wfdb package reads its marks.

wfdb stops at the first half of a truncated file without a word, leaves the file's own time resolution to its caller,
and never ends where the notes at the beginning are none that it knows. Format: annot(5),
https://physionet.org/physiotools/wag/.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.text import shortened

#: The symbol of each code of annot(5) that stands for a mark.
SYMBOLS = dict(enumerate("NLRaVFJASEj/Q~", 1)) | dict(enumerate('sT*D"=pB^t+u?![]en@xf()r', 18)) | {16: "|"}
#: Codes of annot(5): a note, a wait of 32 bits, a text; those from 60 on qualify the mark before.
_NOTE, _SKIP, _NUM, _SUBTYPE, _CHANNEL, _AUX = 22, 59, 60, 61, 62, 63
#: The note at the beginning that says how many samples a second the file counts, and others that wfdb knows.
_RESOLUTION = b"## time resolution: "
_DEFINITIONS = (b"## annotation type definitions", b"## end of definitions")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?")
#: What a file may count a second: whole seconds to nanoseconds.
_MIN_RESOLUTION, _MAX_RESOLUTION = 1.0, 1e9


class Walked(NamedTuple):
    """What an annotation file's words say.

    Attributes:
        complete: it has its end mark.
        last: the sample at which its last whole mark stands, as the file counts; None without any.
        resolution: how many samples a second it says that it counts, as written; None where it does not.
        unknown: a ``## `` note at the beginning that wfdb does not know, at which it would never end; or ``""``.
    """

    complete: bool
    last: int | None
    resolution: str | None
    unknown: str


def walk(raw: bytes) -> Walked:
    """Go through an annotation file, word by word.

    The end mark is a 16-bit zero where a mark could begin; zeros also occur inside text and long intervals. The time
    resolution is in one of the notes at sample 0 that stand before every mark.
    """
    at, time, last, complete = 0, 0, None, False
    marks, notes_at_0, leading = 0, 0, True
    resolution: str | None = None
    unknown: tuple[int, bytes] | None = None  # number of its mark, and its text
    while at + 2 <= len(raw):
        word = int.from_bytes(raw[at : at + 2], "little")
        code, number = word >> 10, word & 0x3FF
        at += 2
        if word == 0:
            complete = True
            break
        if code == _SKIP:  # high half first
            high, low = raw[at : at + 2], raw[at + 2 : at + 4]
            time += int.from_bytes(high, "little", signed=True) * 65536 + int.from_bytes(low, "little")
            at += 4
        elif code == _AUX:  # text follows, padded to an even length
            text = raw[at : at + number]
            if text.startswith(b"## ") and text not in _DEFINITIONS:
                if leading and resolution is None and text.startswith(_RESOLUTION):
                    resolution = text[len(_RESOLUTION) :].decode("latin-1").rstrip("\0 ")
                else:
                    unknown = unknown or (marks - 1, text)
            at += number + number % 2
        elif code < _SKIP:
            time += number
            last, marks = time, marks + 1
            notes_at_0 += code == _NOTE and time == 0
            leading = leading and time == 0 and code in (0, _NOTE)
    # wfdb looks at as many of the first texts as there are notes at sample 0
    stuck = unknown[1].decode("latin-1") if unknown and unknown[0] < notes_at_0 else ""
    return Walked(complete, last, resolution, stuck)


class PlainMarks(NamedTuple):
    """The marks of an annotation file, in the file's order.

    Attributes:
        sample: as the file counts.
        symbol: of annot(5).
        note: without the padding.
        subtype: -128 to 127, 0 where none is said.
    """

    sample: list[int]
    symbol: list[str]
    note: list[str]
    subtype: list[int]


def plain_marks(raw: bytes) -> PlainMarks | None:
    """Return the marks of a whole annotation file as wfdb would read them, None where that may be in another way.

    So no wfdb package is imported for most files. One is plain where its marks are of annot(5)'s own codes, each
    qualified at most once by each word, no text begins with ``##``, and the end mark is the file's end.
    """
    marks, at, time = PlainMarks([], [], [], []), 0, 0
    qualified: set[int] = set()
    while word := int.from_bytes(raw[at : at + 2], "little"):
        code, number = word >> 10, word & 0x3FF
        at += 2
        if code in SYMBOLS:
            time += number
            marks.sample.append(time)
            marks.symbol.append(SYMBOLS[code])
            marks.note.append("")
            marks.subtype.append(0)
            qualified = set()
        elif code == _SKIP and at + 4 <= len(raw):  # high half first
            high, low = raw[at : at + 2], raw[at + 2 : at + 4]
            time += int.from_bytes(high, "little", signed=True) * 65536 + int.from_bytes(low, "little")
            at += 4
            qualified = {_NUM, _SUBTYPE, _CHANNEL, _AUX}  # after a wait comes a mark
        elif _NUM <= code <= _AUX and marks.sample and code not in qualified:
            qualified.add(code)
            if code == _SUBTYPE:
                marks.subtype[-1] = (number + 128) % 256 - 128  # the low byte counts
            elif code == _AUX:
                text = raw[at : at + number]
                if number > 255 or len(text) < number or text.startswith(b"##"):
                    return None
                marks.note[-1] = text.decode("latin-1").rstrip("\0")
                at += number + number % 2
        else:
            return None
    return marks if at + 2 == len(raw) else None  # wfdb reads on after an end mark


def check_notes(walked: Walked, path: Path) -> float | None:
    """Return the samples a second that a file says it counts, or None; raises RecordError where that is no number."""
    if walked.unknown:
        problem = f"begins with the note {shortened(walked.unknown, 40)!r}"
        raise RecordError(path, problem, "notes of the WFDB library after '## '", "write the note without '##'")
    if walked.resolution is None:
        return None
    resolution = float(walked.resolution) if _NUMBER.fullmatch(walked.resolution) else 0.0
    if not _MIN_RESOLUTION <= resolution <= _MAX_RESOLUTION:
        problem, expected = shortened(walked.resolution, 40), f"{_MIN_RESOLUTION:g} to {_MAX_RESOLUTION:g} a second"
        raise RecordError(path, f"has the time resolution {problem!r}", expected, "fetch or write it again")
    return resolution


def in_samples_of(fs_hz: float, resolution: float, marks: NDArray[np.int64], samples: int | None) -> NDArray[np.int64]:
    """Return marks that a file counts at its own time resolution as samples of the recording, the nearest each.

    The WFDB library does the same. A mark that lies inside the recording stays inside.

    Args:
        fs_hz: the recording's sampling frequency.
        resolution: samples a second, as the file counts.
        marks: (marks,) int64, as the file counts.
        samples: length of the recording, or None.
    """
    if resolution == fs_hz:
        return marks
    exact = marks * (fs_hz / resolution)
    nearest: NDArray[np.int64] = np.floor(exact + 0.5).astype(np.int64)
    if samples is not None:
        nearest[exact < samples] = np.minimum(nearest[exact < samples], samples - 1)
    return nearest
