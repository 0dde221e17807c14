"""What ``prepare`` and ``convert`` share where names leave: new ids, and the key that says who is who."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.locks import locked
from ecgfed.domain.cohort.anonymous import key_rows, new_ids, renumbered
from ecgfed.domain.cohort.build import PrepareOptions, Source
from ecgfed.domain.record.key_table import KeyRow, check_key, id_number, new_id, read_key


@dataclass(frozen=True)
class Named:
    """Clients as a cohort shall call them, the options that go with them, and who is who."""

    sources: list[Source]
    options: PrepareOptions
    rows: list[KeyRow]


def named(
    sources: Sequence[Source],
    options: PrepareOptions,
    *,
    anonymize: bool,
    found_in_headers: bool,
    key: Path | None,
    out: Path,
    overwrite: bool,
) -> Named:
    """Return the clients under the ids they shall have: new ones where names leave, else their own.

    Args:
        sources: the clients.
        options: how the cohort is made; ``holdout`` names clients as they were, and as they shall be comes back.
        anonymize: records get new names too, and nothing is said of their files.
        found_in_headers: who the patients are was read in headers, so it is not written into a cohort.
        key: where who is who shall be written, or None.
        out: the cohort's folder.
        overwrite: a key that is there may be replaced.

    Raises:
        OptionError: a key that would travel with the cohort, that is there, or that there is nothing to write into.
    """
    if key is not None:
        if not (anonymize or found_in_headers):
            raise OptionError("--key", "given without --anonymize", "new ids, for it to say whose they are")
        check_key(key, out)
        if key.exists() and not overwrite:
            raise OptionError("--key", f"{key} is there", "a new file", "choose another, or pass --overwrite")
        if key.exists():
            read_key(key)  # --overwrite replaces a key, and no other file
    if not (anonymize or found_in_headers):
        return Named(list(sources), options, [])
    new = renumbered(sources, records=anonymize)
    changed = replace(options, holdout=new_ids(options.holdout, new), anonymous=anonymize)
    return Named(new, changed, key_rows(new))


@contextmanager
def reserved_id(out: Path, key: Path | None, source: Path) -> Iterator[tuple[str, list[KeyRow]]]:
    """Yield an id that no record of a folder has, for one recording, and the key's rows with it.

    A recording that the key knows keeps its id. While the block lasts another process is not given the same one.

    Args:
        out: the folder of the new record.
        key: the key to go on with, or None.
        source: the recording.
    """
    with _alone(key):
        yield from _reserved(out, [] if key is None else read_key(key), str(source.resolve()))


@contextmanager
def _alone(key: Path | None) -> Iterator[None]:
    """Wait until no other process goes on with a key, so that no row of it is lost."""
    if key is None:
        yield
        return
    real = key.resolve()
    with locked(real.with_name(f"{real.name}.turn"), wait_s=math.inf):  # the key's own lock is for who writes it
        yield


def _reserved(out: Path, known: list[KeyRow], path: str) -> Iterator[tuple[str, list[KeyRow]]]:
    """Yield the one id and the rows of ``reserved_id``; what a generator's ``with`` needs, and no more."""
    if own := next((row.id for row in known if row.record == path), ""):
        yield own, known
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
    """Take an id, unless another process has taken it or written its record since; raises StorageError."""
    mark = folder / f".{name}.taken"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError as problem:
        raise StorageError(folder, f"cannot be written ({problem.strerror})", action="choose another --out") from None
    if any(folder.glob(f"{name}.*")):
        mark.unlink(missing_ok=True)
        return False
    return True
