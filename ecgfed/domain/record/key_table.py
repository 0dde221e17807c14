"""Who is who: the table of new ids and old names, written only where a person asks for it, for their eyes alone.

Whoever holds it can undo the anonymisation, so the file is readable by its owner (mode 0600) and never lies in the
folder it is the key of.
"""

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base import platform
from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import replacing_file
from ecgfed.base.text import cell_text, safe_cell

COLUMNS = ("id", "patient", "record")
_ID = re.compile(r"p(\d{4,})")


@dataclass(frozen=True)
class KeyRow:
    """One recording: the id it got, whose it was, and where it lies."""

    id: str
    patient: str
    record: str


def new_id(number: int) -> str:
    """Return the id of a number from 1 on: ``p0001``."""
    return f"p{number:04d}"


def id_number(name: str) -> int:
    """Return the number of an id, 0 for any other name."""
    match = _ID.fullmatch(name)
    return int(match[1]) if match and len(match[1]) < 10 else 0


def check_key(key: Path, out: Path) -> None:
    """Refuse a key that would lie in the folder it is the key of, or in a folder that is none; raises OptionError."""
    if key.resolve().is_relative_to(out.resolve()):
        raise OptionError("key", f"{key} lies in {out}", "a file elsewhere", "keep it apart from what it opens")
    if key.is_dir() or not key.resolve().parent.is_dir():
        raise OptionError("key", f"{key} cannot be written", "a file in a folder that exists")


def read_key(key: Path) -> list[KeyRow]:
    """Return the rows of a key table, none where there is no file; raises OptionError where it is another file."""
    if not key.exists():
        return []
    try:
        with key.open(newline="", encoding="utf-8", errors="surrogateescape") as stream:
            reader = csv.reader(stream, strict=True)
            head, rows = next(reader, None), [row for row in reader if row]
    except (OSError, ValueError, csv.Error) as problem:
        expected = f"a table that {param('key')} wrote"
        raise OptionError("key", f"{key} cannot be read ({problem})", expected, "choose another file") from None
    if head != list(COLUMNS) or any(len(row) != len(COLUMNS) or not id_number(row[0]) for row in rows):
        expected = f"a table that {param('key')} wrote"
        raise OptionError("key", f"{key} exists and is no key table", expected, "choose another file")
    return [KeyRow(row[0], cell_text(row[1]), cell_text(row[2])) for row in rows]


@contextmanager
def writing_key(key: Path | None, rows: Iterable[KeyRow]) -> Iterator[None]:
    """Write a key table that is kept where the block ends well, and leaves what was there as it was where it does not.

    Args:
        key: the file, mode 0600 from its first byte on; None for none.
        rows: all of them.

    Raises:
        StorageError: the disk refuses.
    """
    if key is None:
        yield
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((row.id, safe_cell(row.patient), safe_cell(row.record)) for row in rows)
    with replacing_file(key) as partial:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | platform.NO_LINK, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            platform.restrict_to_owner(stream.fileno())  # a file of that name may have been there
            stream.write(text.getvalue().encode("utf-8", "surrogateescape"))
            stream.flush()
            os.fsync(stream.fileno())
        yield
