"""Checks on files from untrusted sources (docs/security.md).

Only regular files are opened; sizes are checked before reading; JSON and TOML are limited in length, depth and digits
of a number; file names are validated, and symbolic links must not lead out of their folder.
"""

import json
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from ecgfed.base.errors import EcgfedError
from ecgfed.base.text import safe_text

#: Size limits of documents: a cohort of 100,000 recordings has 60 MB; TOML is written by hand.
MAX_JSON_BYTES, MAX_TOML_BYTES = 64 << 20, 256 << 10
#: Limits of a document's depth, number of values, and digits of an integer (64 bits, with sign).
MAX_DEPTH, MAX_VALUES, MAX_DIGITS = 32, 8_000_000, 20
#: Longest file name on common file systems, in bytes, minus room for a prefix and a suffix.
MAX_NAME_BYTES = 200
#: Limit of the numbers in a compressed file: a constant plus a factor per byte, far above any compressed ECG.
FREE_NUMBERS, NUMBERS_A_BYTE = 2**23, 32
_RESERVED = {
    *("con", "prn", "aux", "nul", "conin$", "conout$"),
    *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
}
_FORBIDDEN = '/\\<>:"|?*'


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; pipes and devices, which may never end, are refused before they are read.

    Raises:
        OSError: the file does not exist or is not a regular file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_bounded(path: Path, max_bytes: int, error: type[EcgfedError], where: object = None) -> bytes:
    """Return the content of a regular file of at most ``max_bytes`` bytes; raises ``error`` otherwise.

    Args:
        path: the file.
        max_bytes: the size limit in bytes.
        error: the class of the error to raise.
        where: named in the error; default the file.
    """
    where = path if where is None else where
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > max_bytes:
                raise error(where, f"has {size:,} bytes", f"at most {max_bytes:,}", "check that it is the right file")
            return stream.read(size)  # read() allocates its argument, so do not pass the limit
    except FileNotFoundError:
        raise error(where, "does not exist", action="check the path") from None
    except OSError as problem:
        raise error(where, f"cannot be read ({problem.strerror or problem})", "a file") from problem


def parse_json(data: bytes | str) -> Any:
    """Parse JSON within limits.

    Raises:
        ValueError: it is not JSON or not UTF-8, is too long or too deep, has too many values, an integer of more than
            20 digits, or a name twice in one object.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_JSON_BYTES:
        raise ValueError(f"{len(raw):,} bytes, at most {MAX_JSON_BYTES:,} are read")
    # each value but the first of a list or an object follows a comma, each first one a bracket
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    try:
        value = json.loads(raw.decode("utf-8"), parse_int=_integer, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(f"deeper than {MAX_DEPTH} levels") from None
    _check_depth(value)
    return value


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML within limits; raises ValueError as ``parse_json``."""
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
    """Return an object; a repeated name raises ValueError, because readers disagree which value counts."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice!r:.100} stands twice in one object")
    return members


def _check_numbers(value: Any) -> None:
    """Refuse integers of more than ``MAX_DIGITS`` digits; TOML may write them in hexadecimal, too."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_numbers(part)
    elif isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise ValueError(f"an integer of more than {MAX_DIGITS} digits")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def _check_depth(value: Any) -> None:
    """Raise ValueError if lists and objects are nested more deeply than ``MAX_DEPTH``."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
            if isinstance(part, dict | list)
        ]
    if level:
        raise ValueError(f"deeper than {MAX_DEPTH} levels")


def name_problem(name: object) -> str:
    """Return why a name is not a valid file name on every common system, or ``""`` if it is.

    A valid name is a non-empty, not too long string of printable characters, without separators and ``<>:"|?*``, does
    not start or end with a dot or a space, and is not a device name (``nul``).
    """
    if not isinstance(name, str):
        return "is not text"
    if not name.strip():
        return "is empty"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:  # half a surrogate pair
        return "holds characters that cannot be encoded"
    if size > MAX_NAME_BYTES:
        return f"has {size:,} bytes, more than {MAX_NAME_BYTES}"
    if safe_text(name) != name:
        return "holds control characters"
    forbidden = next((mark for mark in _FORBIDDEN if mark in name), None)
    if forbidden:
        return f"holds {forbidden}"
    if name[0] in ". " or name[-1] in ". ":
        return "starts or ends with a dot or a space"
    return "is a device name" if is_device(name) else ""


def is_device(name: str) -> bool:
    """Return whether Windows treats a name, with any extension, as a device: ``con``, ``NUL.hea``, ``com1.txt``.

    Source: https://learn.microsoft.com/windows/win32/fileio/naming-a-file
    """
    return name.split(".")[0].rstrip(" ").casefold() in _RESERVED


def check_name(name: object, what: str, where: object, error: type[EcgfedError]) -> str:
    """Return a valid file name; raises ``error`` if it is not (``name_problem``)."""
    problem = name_problem(name)
    if problem or not isinstance(name, str):
        raise error(where, f"{what} {name!r:.100} {problem}", "a valid file name", "rename it")
    return name


def label_problem(text: object, max_length: int = 255) -> str:
    """Return why a text is not a valid label (name of a lead, a class or a record), or ``""`` if it is."""
    if not isinstance(text, str):
        return "is not text"
    if not text.strip():
        return "is empty"
    if len(text) > max_length:
        return f"has {len(text):,} characters, more than {max_length}"
    return "holds control characters" if safe_text(text) != text else ""


def check_labels(labels: Iterable[object], what: str, where: object, error: type[EcgfedError]) -> None:
    """Check labels for type, length and control characters; raises ``error``."""
    for label in labels:
        if problem := label_problem(label):
            raise error(where, f"{what} {label!r:.100} {problem}", "a printable name", "rename it")


def check_columns(names: Iterable[str], used: Iterable[str], where: object, error: type[EcgfedError]) -> None:
    """Refuse a table with a repeated column, of which readers take the first or the last; raises ``error``.

    Args:
        names: of the columns, in any case.
        used: the names, in lower case, of the columns that are read; others may be repeated.
        where: the table.
        error: the class of the error to raise.
    """
    count = Counter(name.strip().casefold() for name in names)
    if repeated := next((name for name in used if count[name] > 1), None):
        problem = f"has {count[repeated]} columns {repeated!r}"
        raise error(where, problem, "one of them", "delete the others, or rename them")


def path_problem(name: str) -> str:
    """Return why a path named in a file leads, or may lead, out of that file's folder; ``""`` if it stays inside."""
    if "\0" in name or safe_text(name) != name:
        return "holds control characters"
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ":" in parts[0]:
        return "is not a relative path inside the folder"
    return "leads out of the folder" if ".." in parts or "" in parts else ""


def check_links(folder: Path, names: Iterable[str], error: type[EcgfedError]) -> None:
    """Refuse entries of a folder that are symbolic links out of it; raises ``error``.

    The folder itself may be a link. Missing entries are ignored.

    Args:
        folder: a cohort, a run, a checkpoint.
        names: files and folders in it.
        error: the class of the error to raise.
    """
    root = None
    for name in names:
        part = folder / name
        if part.is_symlink():
            root = root or Path(os.path.realpath(folder))
            target = Path(os.path.realpath(part))
            if not target.is_relative_to(root):
                problem = f"is a link out of its folder, to {target}"
                raise error(part, problem, "the file itself", "put a copy in its place")


def check_expansion(numbers: int, stored_bytes: int, where: object, error: type[EcgfedError]) -> None:
    """Refuse a compressed file that claims more numbers than a signal of its size can hold; raises ``error``."""
    limit = FREE_NUMBERS + NUMBERS_A_BYTE * stored_bytes
    if numbers > limit:
        problem = f"claims {numbers:,} numbers in {stored_bytes:,} bytes"
        raise error(where, problem, f"at most {limit:,}", "cut it into parts, or write it without compression")
