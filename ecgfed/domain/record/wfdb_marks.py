"""The marks of a WFDB annotation file.

The wfdb package stops at the first half of a truncated file without a word, leaves the file's own time resolution to
its caller, drops comments at sample 0, and never ends where the notes at the beginning are none that it knows. Format:
annot(5), https://physionet.org/physiotools/wag/.
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
#: Codes of annot(5): a note, a wait of 32 bits, a subtype, a text; those from 60 on qualify the mark before.
_NOTE, _SKIP, _SUBTYPE, _AUX = 22, 59, 61, 63
#: Notes at the beginning: how many samples a second the file counts, and where definitions of codes begin and end.
_RESOLUTION = "## time resolution: "
_DEFINITIONS = ("## annotation type definitions", "## end of definitions")
_DEFINITION = re.compile(r"(?P<code>[0-9]{1,2}) (?P<symbol>\S+)")
_AGAIN = "fetch or copy it again"
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?")
#: What a file may count a second: whole seconds to nanoseconds.
_MIN_RESOLUTION, _MAX_RESOLUTION = 1.0, 1e9


class Marks(NamedTuple):
    """The marks of an annotation file, in the file's order.

    Attributes:
        sample: as the file counts.
        symbol: of annot(5), or as the file defines it; ``[42]`` for a code without any.
        note: without the padding.
        subtype: -128 to 127, 0 where none is stated.
        resolution: samples a second that the file counts; None where it does not state them.
    """

    sample: list[int]
    symbol: list[str]
    note: list[str]
    subtype: list[int]
    resolution: float | None = None


def read_marks(raw: bytes, path: Path) -> Marks:
    """Read an annotation file, word by word.

    The end mark is a 16-bit zero where a mark could begin; zeros also occur inside text and long intervals. The notes
    at sample 0 before every mark may state the time resolution and define codes; they are no marks.

    Args:
        raw: the file.
        path: for errors.

    Raises:
        RecordError: no end mark (truncated), data behind it, a text before the first mark, an unknown ``## `` note at
            the beginning, a time resolution that is no number.
    """
    codes, samples, notes, subtypes = [], [], [], []
    at, time, complete = 0, 0, False
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
        elif code < _SKIP:
            time += number
            codes.append(code)
            samples.append(time)
            notes.append("")
            subtypes.append(0)
        elif not codes:
            raise RecordError(path, "begins with what belongs to a mark", "WFDB annotations", _AGAIN)
        elif code == _SUBTYPE:
            subtypes[-1] = (number + 128) % 256 - 128  # the low byte counts
        elif code == _AUX:  # text follows, padded to an even length
            notes[-1] = raw[at : at + number].decode("latin-1").rstrip("\0")
            at += number + number % 2
    if not complete:
        where = f"its last whole mark is at sample {samples[-1]}" if samples else "no mark can be read"
        raise RecordError(path, f"is cut short: {where}, and no end mark follows", action=_AGAIN)
    if raw[at:].strip(b"\0"):
        raise RecordError(path, "holds data after its end mark", "an annotation file alone", _AGAIN)
    first, resolution, symbols = _definitions(codes, samples, notes, path)
    rows = [row for row in range(first, len(codes)) if codes[row]]  # code 0 is a wait
    return Marks(
        [samples[row] for row in rows],
        [symbols.get(codes[row], f"[{codes[row]}]") for row in rows],
        [notes[row] for row in rows],
        [subtypes[row] for row in rows],
        resolution,
    )


def _definitions(
    codes: list[int], samples: list[int], notes: list[str], path: Path
) -> tuple[int, float | None, dict[int, str]]:
    """Return the number of entries that are notes about the file, the time resolution and the symbol of each code."""
    first, resolution, symbols, inside = 0, None, dict(SYMBOLS), False
    for first, (code, sample, note) in enumerate([*zip(codes, samples, notes, strict=True), (1, 0, "")]):  # noqa: B007
        if code == 0:
            continue
        if code != _NOTE or sample or not (inside or note.startswith("## ")):
            break
        if note.startswith(_RESOLUTION) and resolution is None:
            resolution = _resolution(note.removeprefix(_RESOLUTION).rstrip(), path)
        elif note in _DEFINITIONS:
            inside = note == _DEFINITIONS[0]
        elif inside and (definition := _DEFINITION.match(note)):
            symbols[int(definition["code"])] = definition["symbol"]
        else:
            problem = f"begins with the note {shortened(note, 40)!r}"
            raise RecordError(path, problem, "notes of the WFDB library after '## '", "write the note without '##'")
    return first, resolution, symbols


def _resolution(written: str, path: Path) -> float:
    resolution = float(written) if _NUMBER.fullmatch(written) else 0.0
    if not _MIN_RESOLUTION <= resolution <= _MAX_RESOLUTION:
        problem, expected = shortened(written, 40), f"{_MIN_RESOLUTION:g} to {_MAX_RESOLUTION:g} a second"
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
