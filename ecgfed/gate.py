"""The gate: what a file from a stranger must pass before it is believed (docs/security.md).

Only regular files are opened; a size is weighed before anything is read; JSON and TOML are bounded in length, depth
and the digits of a number; a name that shall become a file's is one, and a link does not lead out of a folder.
"""

import json
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from ecgfed.errors import EcgfedError
from ecgfed.text import safe_text

#: Documents: a cohort of 100,000 recordings has 60 MB; a person writes TOML by hand.
MAX_JSON_BYTES, MAX_TOML_BYTES = 64 << 20, 256 << 10
#: Nobody's document is deeper, has more values, or a longer whole number (of 64 bits, with its sign).
MAX_DEPTH, MAX_VALUES, MAX_DIGITS = 32, 8_000_000, 20
#: The longest name of a file that common file systems take, in bytes, less room for what stands before and behind it.
MAX_NAME_BYTES = 200
#: A compressed file may hold so many numbers, and so many more for each of its bytes: an ECG never shrinks so far.
FREE_NUMBERS, NUMBERS_A_BYTE = 2**23, 32
_RESERVED = {
    *("con", "prn", "aux", "nul", "conin$", "conout$"),
    *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
}
_FORBIDDEN = '/\\<>:"|?*'


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read, where it is one: a pipe or a device, which may never end, is refused before it is read.

    Raises:
        OSError: there is none, or it is no regular file.
    """
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(0, "it is no regular file", str(path))
    return os.fdopen(opened, "rb")


def read_bounded(path: Path, most: int, error: type[EcgfedError], where: object = None) -> bytes:
    """Return the bytes of a regular file of at most ``most`` bytes; what it is not is one line.

    Args:
        path: the file.
        most: the bound in bytes.
        error: what to raise.
        where: what to name in the error; default the file.
    """
    where = path if where is None else where
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > most:
                raise error(where, f"has {size:,} bytes", f"at most {most:,}", "check that it is the right file")
            return stream.read(size)  # room is made for all that is asked for, so not for the bound
    except FileNotFoundError:
        raise error(where, "does not exist", action="check the path") from None
    except OSError as problem:
        raise error(where, f"cannot be read ({problem.strerror or problem})", "a file") from problem


def parse_json(data: bytes | str) -> Any:
    """Return what bounded JSON says; for a text from a file.

    Raises:
        ValueError: it is no JSON, has more values or is deeper than any document of ours, holds a whole number of more
            than 20 digits or a name twice in one object, or is not UTF-8.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_JSON_BYTES:
        raise ValueError(f"{len(raw):,} bytes, at most {MAX_JSON_BYTES:,} are read")
    # each value but the first of a list or an object follows a comma, each first one a bracket
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    try:
        value = json.loads(raw.decode("utf-8"), parse_int=_whole_number, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(f"deeper than {MAX_DEPTH} levels") from None
    _check_depth(value)
    return value


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return what bounded TOML says; raises ValueError as ``parse_json``."""
    if len(data) > MAX_TOML_BYTES:
        raise ValueError(f"{len(data):,} bytes, at most {MAX_TOML_BYTES:,} are read")
    try:
        value = tomllib.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"deeper than {MAX_DEPTH} levels") from None
    _check_depth(value)
    _check_numbers(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose names are each there once: of two, readers disagree which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice!r:.100} stands twice in one object")
    return found


def _check_numbers(value: Any) -> None:
    """Refuse whole numbers of more than ``MAX_DIGITS`` digits, which TOML may write in hexadecimal ones too."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_numbers(part)
    elif isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise ValueError(f"a whole number of more than {MAX_DIGITS} digits")


def _whole_number(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _check_depth(value: Any) -> None:
    """Refuse a document whose lists and objects lie deeper in one another than ``MAX_DEPTH``."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [
            part
            for one in level
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
    if level:
        raise ValueError(f"deeper than {MAX_DEPTH} levels")


def name_fault(name: object) -> str:
    """Say why a name cannot be a file's on every common system, or ``""`` where it can.

    It is text, neither empty nor long, of printable characters, without separators and ``<>:"|?*``, does not begin
    with a dot or end in one or a blank, and is no device's name (``nul``).
    """
    if not isinstance(name, str):
        return "is no text"
    if not name.strip():
        return "is empty"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:  # half a surrogate pair
        return "holds what no file's name can"
    if size > MAX_NAME_BYTES:
        return f"has {size:,} bytes, more than {MAX_NAME_BYTES}"
    if safe_text(name) != name:
        return "holds control characters"
    found = next((mark for mark in _FORBIDDEN if mark in name), None)
    if found:
        return f"holds {found}"
    if name[0] in ". " or name[-1] in ". ":
        return "begins with a dot or a blank, or ends in one"
    return "is a device's" if is_device(name) else ""


def is_device(name: str) -> bool:
    """Return whether Windows takes a name, whatever its ending, for a device: ``con``, ``NUL.hea``, ``com1.txt``.

    Source: https://learn.microsoft.com/windows/win32/fileio/naming-a-file
    """
    return name.split(".")[0].rstrip(" ").casefold() in _RESERVED


def check_name(name: object, what: str, where: object, error: type[EcgfedError]) -> str:
    """Return a name that can be a file's; raises ``error`` with one line where it cannot (``name_fault``)."""
    fault = name_fault(name)
    if fault or not isinstance(name, str):
        raise error(where, f"{what} {name!r:.100} {fault}", "a name that can be a file's", "rename it")
    return name


def label_fault(text: object, most: int = 255) -> str:
    """Say why a text cannot be a label (a lead's, a class's, a record's name) to be shown, or ``""``."""
    if not isinstance(text, str):
        return "is no text"
    if not text.strip():
        return "is empty"
    if len(text) > most:
        return f"has {len(text):,} characters, more than {most}"
    return "holds control characters" if safe_text(text) != text else ""


def check_labels(labels: Iterable[object], what: str, where: object, error: type[EcgfedError]) -> None:
    """Refuse labels that are no text, empty, long, or hold control characters; raises ``error``."""
    for label in labels:
        if fault := label_fault(label):
            raise error(where, f"{what} {label!r:.100} {fault}", "a printable name", "rename it")


def check_columns(names: Iterable[str], used: Iterable[str], where: object, error: type[EcgfedError]) -> None:
    """Refuse a table that has a column twice, of which readers take the first or the last; raises ``error``.

    Args:
        names: of the columns, in any case.
        used: the names, in lower case, whose columns are read; what others are called does not matter.
        where: the table.
        error: what to raise.
    """
    count = Counter(name.strip().casefold() for name in names)
    if twice := next((name for name in used if count[name] > 1), None):
        raise error(where, f"has {count[twice]} columns {twice!r}", "one of them", "delete the others, or rename them")


def path_fault(name: str) -> str:
    """Say why a path that a file names leads, or may lead, out of that file's folder; ``""`` where it stays inside."""
    if "\0" in name or safe_text(name) != name:
        return "holds control characters"
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ":" in parts[0]:
        return "is no path inside the folder"
    return "leads out of the folder" if ".." in parts or "" in parts else ""


def check_links(folder: Path, names: Iterable[str], error: type[EcgfedError]) -> None:
    """Refuse parts of a folder that are links to what lies outside it; raises ``error``.

    The folder itself may be a link, as a person's own are. What is not there is passed by.

    Args:
        folder: a cohort, a run, a checkpoint.
        names: files and folders in it.
        error: what to raise.
    """
    home = None
    for name in names:
        part = folder / name
        if part.is_symlink():
            home = home or Path(os.path.realpath(folder))
            led = Path(os.path.realpath(part))
            if not led.is_relative_to(home):
                raise error(
                    part, f"is a link out of its folder, to {led}", "the file itself", "put a copy in its place"
                )


def check_expansion(numbers: int, stored_bytes: int, where: object, error: type[EcgfedError]) -> None:
    """Refuse a compressed file that claims more numbers than any signal of its size holds; raises ``error``."""
    most = FREE_NUMBERS + NUMBERS_A_BYTE * stored_bytes
    if numbers > most:
        raise error(
            where,
            f"claims {numbers:,} numbers in {stored_bytes:,} bytes",
            f"at most {most:,}",
            "cut it into parts, or write it without compression",
        )
