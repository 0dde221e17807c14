"""Anonymisation shared by ``prepare`` and ``convert``: new ids, and the key file that maps them to the sources."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from ecgfed.base.errors import OptionError, StorageError, param
from ecgfed.base.locks import locked
from ecgfed.domain.cohort.anonymous import key_rows, new_ids, renumbered
from ecgfed.domain.cohort.sources import PrepareOptions, Source
from ecgfed.domain.record.key_table import KeyRow, check_key, id_number, new_id, read_key


@dataclass(frozen=True)
class Named:
    """Clients with their ids in the cohort, the matching options, and the rows of the key."""

    sources: list[Source]
    options: PrepareOptions
    rows: list[KeyRow]


def named(
    sources: Sequence[Source],
    options: PrepareOptions,
    *,
    anonymize: bool,
    ids_from_headers: bool,
    key: Path | None,
    out: Path,
    overwrite: bool,
) -> Named:
    """Return the clients with their ids in the cohort: new ones for an anonymised cohort, else their own.

    Args:
        sources: the clients.
        options: options of the cohort; ``holdout`` has the original ids, the result the new ones.
        anonymize: also rename the records, and omit their file names and digests.
        ids_from_headers: patients were identified by header comments, which must not enter the cohort.
        key: path of the key file, or None.
        out: output folder of the cohort.
        overwrite: replace an existing key.

    Raises:
        OptionError: a key inside the cohort's folder, an existing key, or a key without new ids.
    """
    if key is not None:
        if not (anonymize or ids_from_headers):
            raise OptionError("key", f"given without {param('anonymize')}", "new ids to write into it", code="missing")
        check_key(key, out)
        if key.exists() and not overwrite:
            action = f"choose another, or pass {param('overwrite=True')}"
            raise OptionError("key", f"{key} exists", "a new file", action, code="exists")
        if key.exists():
            read_key(key)  # --overwrite replaces only key files
    if not (anonymize or ids_from_headers):
        return Named(list(sources), options, [])
    new = renumbered(sources, records=anonymize)
    changed = replace(options, holdout=new_ids(options.holdout, new), anonymous=anonymize)
    return Named(new, changed, key_rows(new))


@contextmanager
def reserved_id(out: Path, key: Path | None, source: Path) -> Iterator[tuple[str, list[KeyRow]]]:
    """Yield a free id for a recording, and the rows of the key including it.

    A recording in the key keeps its id. The id is reserved within the ``with`` block, also against other processes.

    Args:
        out: folder of the new record.
        key: the key to extend, or None.
        source: the recording.
    """
    turn = None if key is None else key.resolve().with_name(f"{key.resolve().name}.turn")
    # so that no row is lost to another process that extends the key, whose own lock is for writing
    with nullcontext() if turn is None else locked(turn, wait_s=math.inf):
        yield from _reserved(out, [] if key is None else read_key(key), str(source.resolve()))


def _reserved(out: Path, known: list[KeyRow], path: str) -> Iterator[tuple[str, list[KeyRow]]]:
    """Yield the id and the rows of ``reserved_id``, once."""
    if known_id := next((row.id for row in known if row.record == path), ""):
        yield known_id, known
        return
    used = [id_number(row.id) for row in known]
    if out.is_dir():
        used += [id_number(file.name.partition(".")[0]) for file in out.iterdir()]
    number = max(used, default=0) + 1
    folder = out if out.is_dir() else None
    while folder is not None and not _reserve(folder, new_id(number)):
        number += 1
    name = new_id(number)
    try:
        yield name, [*known, KeyRow(name, "", path)]
    finally:
        if folder is not None:
            (folder / f".{name}.taken").unlink(missing_ok=True)


def _reserve(folder: Path, name: str) -> bool:
    """Reserve an id; False if another process has reserved or used it. Raises StorageError."""
    mark = folder / f".{name}.taken"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError as problem:
        reason = f"cannot be written ({problem.strerror})"
        raise StorageError(folder, reason, action=f"choose another {param('out')}") from None
    if any(folder.glob(f"{name}.*")):
        mark.unlink(missing_ok=True)
        return False
    return True
