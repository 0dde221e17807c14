"""Mutations that know the heads of recordings (WFDB, EDF) and WFDB annotation."""

import re
from pathlib import Path
from random import Random

from .plain import EXTREMES, NAMES, Mutation, encoded, put

_FILES = ("../bait/r.dat", "/dev/zero", "/etc/passwd", "../../../../../../../../etc/passwd", "~", "-", "r.hea", ".", "",
          "r.dat r.dat", "\x1b[31m.dat", "pipe", "x" * 300, "http://127.0.0.1:9/x.dat", "../run/run.json")  # fmt: skip
_FORMATS = ("0", "1", "8", "9", "16", "24", "32", "61", "80", "160", "212", "310", "311", "508", "524", "999",
            "-16", "16x2",
            "16x0", "16x1000000000", "16:5", "16:-5", "16+100", "16+1000000000000", "212x-1", "16+-9", "1e2",
            "²")  # fmt: skip


def header(path: Path, rng: Random) -> str:
    """Change one field of a WFDB header."""
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    number = rng.randrange(min(len(lines), 4))
    words = lines[number].split(" ")
    column = rng.randrange(len(words))
    kind = rng.choice(("number", "part", "part", "name", "file", "format", "drop", "more", "comment"))
    new = rng.choice(EXTREMES)
    if kind == "part":  # one number of a field such as 200(1024)/mV
        parts = list(re.finditer(r"\d+", words[column]))
        if parts:
            found = rng.choice(parts)
            words[column] = words[column][: found.start()] + new + words[column][found.end() :]
        else:
            words[column] = new
    elif kind == "number":
        words[column] = new
    elif kind == "name":
        new = words[column] = rng.choice(NAMES)
    elif kind == "file":
        new = words[0] = rng.choice(_FILES)
    elif kind == "format":
        new = rng.choice(_FORMATS)
        words[min(1, len(words) - 1)] = new
    elif kind == "drop":
        del words[column:]
    elif kind == "more":
        words.insert(column, new)
    else:
        new = rng.choice(("# \x1b[31m", "#", "# [/b]", "# " + "x" * 200_000, "\n" * 50_000, "\0"))
        lines.insert(number, new)
        words = lines[number].split(" ")
    lines[number] = " ".join(words)
    put(path, ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    return f"line {number + 1} word {column + 1}: {kind}, {new[:30]!r}"


#: name -> offset and width, in the first 256 bytes of EDF
_MAIN = {"version": (0, 8), "patient": (8, 80), "recording": (88, 80), "date": (168, 8), "time": (176, 8),
                     "bytes": (184, 8),
         "reserved": (192, 44), "records": (236, 8), "duration": (244, 8), "channels": (252, 4)}  # fmt: skip
_WIDTHS = (("label", 16), ("transducer", 80), ("unit", 8), ("physical min", 8), ("physical max", 8), ("digital min", 8),
           ("digital max", 8), ("filters", 80), ("samples", 8), ("reserved", 32))  # fmt: skip


def edf_header(path: Path, rng: Random) -> str:
    """Write something else into one field of an EDF header."""
    data = bytearray(path.read_bytes())
    channels = int(data[252:256])
    fields = dict(_MAIN)
    place = 256
    for name, width in _WIDTHS:
        for channel in range(channels):
            fields[f"{name} {channel + 1}"] = (place, width)
            place += width
    name = rng.choice(sorted(_MAIN) if rng.random() < 0.4 else sorted(fields))
    begin, width = fields[name]
    old = bytes(data[begin : begin + width]).strip()
    choices = (rng.choice(EXTREMES), rng.choice(NAMES), "EDF+D", "EDF Annotations", "uV", "V", "99999999", "2147483648",
               "1e-7", "0.0000001", (old + b"0").decode("latin-1"), f"-{old.decode('latin-1')}", "nV",
               "\xff\xff")  # fmt: skip
    new = rng.choice(choices)
    data[begin : begin + width] = encoded(new)[:width].ljust(width)
    put(path, bytes(data))
    return f"{name}: {old[:20]!r} became {new[:width][:20]!r}"


def marks(path: Path, rng: Random) -> str:
    """Put words of WFDB annotation where they do not belong: waits, texts, codes, channels."""
    data = path.read_bytes()
    place = 2 * rng.randrange(len(data) // 2 + 1)

    def code(number: int, low: int) -> bytes:
        return (number << 10 | low).to_bytes(2, "little")

    choices = {
        "a wait back": code(59, 0) + b"\xff\xff\x00\x00", "a huge wait": code(59, 0) + b"\xff\x7f\xff\xff",
        "many huge waits": (code(59, 0) + b"\xff\x7f\xff\xff") * 2000, "a text past the end": code(63, 1023),
        "a text": code(63, 8) + b"\x1b[31m[/b", "an unknown code": code(rng.randrange(50, 64), rng.randrange(1024)),
        "the end": b"\0\0", "no wait": code(1, 0) * 500, "a channel": code(62, 1023), "a number": code(60, 1023),
        "half a word": b"\x01", "a note of times": code(22, 0) + code(63,
        30) + b"## time resolution: 0\0\0\0\0\0\0\0\0\0",
        "a resolution": code(22, 0) + code(63, 28) + b"## time resolution: 1e308\0\0\0",
    }  # fmt: skip
    what = rng.choice(sorted(choices))
    put(path, data[:place] + choices[what] + data[place:])
    return f"{what} at byte {place}"


HEADER: list[tuple[float, Mutation]] = [(25, header)]
EDF: list[tuple[float, Mutation]] = [(18, edf_header)]
MARKS: list[tuple[float, Mutation]] = [(12, marks)]
