"""Mutations of any file: its bytes, its numbers as text, and what stands in its place."""

import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random

#: Changes a file in place and says what it did.
Mutation = Callable[[Path, Random], str]

#: What a number in a text may become.
EXTREMES = (
    "0", "-0", "1", "-1", "nan", "NaN", "inf", "-inf", "Infinity", "1e308", "-1e308", "1e-300", "1e400", "0x10",
    "2OO", "200,5", "1_000", " ", "", "٣", "²", "1.", ".5", "--1", "+1", "true", "null", "9" * 5000,
    str(2**31), str(2**63), str(-(2**63) - 1), str(2**64), "1000000000000", "0." + "3" * 5000, "1e999999999",
)  # fmt: skip
#: What a name or a text may become: paths out of the folder, what a terminal obeys, markup, mathematics.
NAMES = (
    "../../../fuzzed", "../fuzzed/x", "/fuzzed-absolute", "..", ".", "", "a/b", "a\x00b", "a\nb", "a\r\nb", "x" * 300,
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "[/b]", "[bold]", "[link=file:///etc/passwd]x[/link]", "[/x]",
    "$\\frac{$", "$x^{$", "%s%n", "{0}", "\u202egpj.exe", "\ufeff", "\ud800", "é" * 80, "con", "-rf", "--out", "~",
    "$(touch fuzzed)", "evil.py:X", "../evil.py:X", "NUL", " lead ", "a,b", 'a"b', "N", "V",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def put(path: Path, data: bytes) -> None:
    """Write what a file shall hold from now on."""
    path.write_bytes(data)


def encoded(text: str) -> bytes:
    """Return text as bytes, halves of surrogate pairs as what some programs write for them."""
    return text.encode("utf-8", "surrogatepass")


def at(data: bytes, rng: Random) -> int:
    """Return a place in the data: near an end, at a round number, or anywhere."""
    last = max(0, len(data) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randint(0, min(last, 64))
    if kind == 1:
        return last - rng.randint(0, min(last, 64))
    if kind == 2:
        return min(last, 1 << rng.randrange(20))
    return rng.randint(0, last)


def flip_bits(path: Path, rng: Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        return splice(path, rng)
    places = [at(data, rng) for _ in range(rng.choice((1, 1, 1, 2, 8, 64)))]
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    put(path, data)
    return f"{len(places)} bits flipped, the first at byte {places[0]}"


def splice(path: Path, rng: Random) -> str:
    """Set some bytes, make them random, remove or double them, or put others before or behind all."""
    data = path.read_bytes()
    place, count = at(data, rng), rng.choice((1, 2, 3, 4, 8, 64, 256, 1000, 4096))
    here = data[place : place + count]
    ways = {
        "set": bytes([rng.choice((0, 0xFF, 0x7F, 0x80, 0x20))]) * len(here),
        "made random": rng.randbytes(len(here)),
        "removed": b"",
        "doubled": here * 2,
        "behind new ones": rng.choice((rng.randbytes(rng.choice((1, 2, 8, 100))), b"\0" * 8, b"\n", b"\xff")) + here,
        "followed by more at the end": here,
    }
    what = rng.choice(sorted(ways))
    end = rng.choice((b"\0", b"\n", b"garbage", rng.randbytes(64), b"\0" * 65536)) if what.startswith("foll") else b""
    put(path, data[:place] + ways[what] + data[place + count :] + end)
    return f"{len(here)} bytes at byte {place} {what}"


def truncate(path: Path, rng: Random) -> str:
    data = path.read_bytes()
    keep = rng.choice((0, 1, len(data) // 2, max(0, len(data) - 1), at(data, rng), data.rfind(b"\n") + 1))
    put(path, data[:keep])
    return f"cut to {keep} of {len(data)} bytes"


def swap(path: Path, rng: Random) -> str:
    data = path.read_bytes()
    count = rng.choice((1, 2, 64, 512))
    first, second = sorted((at(data, rng), at(data, rng)))
    if second - first < count:
        return flip_bits(path, rng)
    a, b = data[first : first + count], data[second : second + count]
    put(path, data[:first] + b + data[first + count : second] + a + data[second + count :])
    return f"{count} bytes at {first} and {second} exchanged"


def number(path: Path, rng: Random) -> str:
    """Replace a number that stands there as text."""
    data = path.read_bytes()
    found = list(_NUMBER.finditer(data[: 1 << 20]))
    if not found:
        return flip_bits(path, rng)
    match = rng.choice(found[:40]) if rng.random() < 0.5 else rng.choice(found)
    new = rng.choice(EXTREMES)
    put(path, data[: match.start()] + encoded(new) + data[match.end() :])
    return f"number {match[0][:20].decode()} at byte {match.start()} became {new[:20]!r}"


def name(path: Path, rng: Random) -> str:
    """Put a name as no name should be in place of a word."""
    data = path.read_bytes()
    found = list(re.finditer(rb"[A-Za-z_./]{2,}", data[: 1 << 16]))
    if not found:
        return splice(path, rng)
    match, new = rng.choice(found), rng.choice(NAMES)
    put(path, data[: match.start()] + encoded(new) + data[match.end() :])
    return f"{match[0][:20].decode()} at byte {match.start()} became {new[:30]!r}"


def line(path: Path, rng: Random) -> str:
    """Take a line away, double it, exchange two, or write ends of lines as others do."""
    lines = path.read_bytes().splitlines(keepends=True)
    if not lines:
        return splice(path, rng)
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(i, lines[i])
    elif kind == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == 3:
        lines = [part.replace(b"\n", b"\r\n") for part in lines]
    elif kind == 4:
        lines = [b"\xef\xbb\xbf", *lines]
    else:
        lines[i] = lines[i].rstrip(b"\n") * rng.choice((2, 100, 20000)) + b"\n"
    put(path, b"".join(lines))
    return f"line {i + 1}: {('removed', 'doubled', f'exchanged with {j + 1}', 'CRLF', 'BOM', 'very long')[kind]}"


def foreign(path: Path, rng: Random) -> str:
    """Put a file of another kind there."""
    kinds = {
        "an ELF head": b"\x7fELF\x02\x01\x01" + b"\0" * 57, "a zip's end": b"PK\x05\x06" + b"\0" * 18,
        "a pickle": b"\x80\x04\x95\x0f\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x0ctouch fuzzed\x85R.",
        "JSON": b"{}", "a JSON list": b"[]", "null": b"null", "UTF-16": '{"a": 1}'.encode("utf-16"), "nothing": b"",
        "an npy of objects": b"\x93NUMPY\x01\0F\0"
        + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}".ljust(69) + b"\n",
        "newlines": b"\n" * 5000, "commas": b"," * 2_000_000, "brackets": b"[" * 200_000, "zeros": b"\0" * 100_000,
    }  # fmt: skip
    what = rng.choice(sorted(kinds))
    put(path, kinds[what])
    return f"replaced by {what}"


def place(path: Path, rng: Random) -> str:
    """Put something there that is no regular file, a link, or a file without end."""
    kind = rng.choice(
        ("folder", "pipe", "socket", "missing", "endless", "full", "loop", "dangling", "sparse", "link out")
    )
    if kind == "link out":  # the same bytes, in the watcher's folder: whether links out are followed
        away = path.resolve().parent / path.name
        bait = next(parent for parent in away.parents if (parent / "bait").is_dir()) / "bait" / path.name
        shutil.move(path, bait)
        path.symlink_to(bait)
        return "a link to the same bytes outside"
    size = path.stat().st_size
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        before = Path.cwd()
        os.chdir(path.parent)  # a socket's path may have 107 characters
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        finally:
            os.chdir(before)
    elif kind in ("endless", "full"):
        path.symlink_to("/dev/zero" if kind == "endless" else "/dev/full")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("not-there")
    elif kind == "sparse":
        with path.open("wb") as stream:
            stream.truncate(size + (1 << 40))
    return f"in its place: {kind}"


def around(path: Path, rng: Random) -> str:
    """Change the folder the file is in: odd names beside it, a link to its own parent."""
    kind = rng.choice(("a link to the parent", "an odd name", "a pipe beside", "a partial file"))
    folder = path.parent
    if kind == "a link to the parent":
        (folder / "again").symlink_to("..", target_is_directory=True)
    elif kind == "an odd name":
        odd = rng.choice(("\x1b[31m.hea", "[x].hea", "-rf.csv", "\u202ex.edf", "x" * 200 + ".npy"))
        shutil.copyfile(path, folder / odd)
    elif kind == "a pipe beside":
        os.mkfifo(folder / f"beside{path.suffix}")
    else:
        (folder / f".{path.name}.partial").write_bytes(b"half")
    return f"in its folder: {kind}"


BYTES: list[tuple[float, Mutation]] = [
    (3, flip_bits), (6, splice), (2, truncate), (1, swap), (0.7, foreign), (2, place), (0.5, around),
]  # fmt: skip
TEXT: list[tuple[float, Mutation]] = [*BYTES, (6, number), (4, name), (3, line)]
