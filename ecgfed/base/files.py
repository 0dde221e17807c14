"""Atomic and durable writes: a kill, a full disk or a power cut never leaves a partial file (docs/decisions/0026).

Data is written under a unique temporary name and flushed to disk, then renamed; the folder is flushed, and only then is
the previous version removed.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ecgfed.base.errors import EcgfedError, StorageError, param
from ecgfed.base.fsync import (
    atomic_swap,
    hidden_name,
    make_folder,
    remove_empty,
    sync_file,
    sync_files,
    sync_folder,
    sync_tree,
)
from ecgfed.base.locks import locked
from ecgfed.base.outputs import MARKERS as MARKERS
from ecgfed.base.outputs import check_free as check_free
from ecgfed.base.outputs import check_new_folder as check_new_folder
from ecgfed.base.outputs import is_temporary as is_temporary
from ecgfed.base.safe_io import MAX_JSON_BYTES, check_links, parse_json, read_bounded

_PARTIAL = ".partial"
#: Seconds to wait for another process that writes the same file.
_WAIT_S = 30.0
#: Folders in progress: they are flushed to disk as a whole at the end, not file by file.
_in_progress: set[Path] = set()


def _storage_error(path: Path, error: OSError) -> StorageError:
    action = "free space or choose another place; nothing was changed"
    return StorageError(path, f"could not be written ({error.strerror or error})", action=action)


def _temporary(path: Path) -> Path:
    """Return a name beside ``path`` that is unique to this process and call."""
    return path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}{hidden_name(path.name)}{_PARTIAL}")


def _clear_leftovers(path: Path) -> None:
    """Remove temporary files of ``path``; the caller holds its lock, so no process is using them."""
    name = re.compile(rf"\.(\d+-[0-9a-f]{{8}}\.)?{re.escape(hidden_name(path.name)[1:])}{re.escape(_PARTIAL)}")
    with contextlib.suppress(OSError):
        for part in [part for part in path.parent.iterdir() if name.fullmatch(part.name)]:
            remove(part)


def create_folder(path: Path, action: str = "choose another folder") -> None:
    """Create a folder and its missing parents durably, unless it exists; raises StorageError with ``action``."""
    try:
        make_folder(path)
    except OSError as problem:
        raise StorageError(path, f"cannot be made ({problem.strerror})", action=action) from problem


def remove(path: Path) -> None:
    """Remove a file or a folder, ignoring errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _is_in_progress(path: Path) -> bool:
    return any(folder in path.parents for folder in _in_progress)


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path``, durably, if the block succeeds.

    Raises:
        StorageError: the file cannot be written; ``path`` is unchanged.
    """
    partial = _temporary(path)
    with contextlib.ExitStack() as stack:
        deferred = _is_in_progress(path)
        if not deferred and path.parent.is_dir() and stack.enter_context(locked(path, wait_s=_WAIT_S)):
            _clear_leftovers(path)
        stack.callback(remove, partial)
        try:
            yield partial
            if not deferred:
                sync_file(partial)
            partial.replace(path)
            if not deferred:
                sync_folder(path.parent)
        except OSError as error:
            raise _storage_error(path, error) from error


def write_together(contents: Mapping[Path, bytes | Iterable[bytes]]) -> None:
    """Write several files of one folder, either all or none; raises StorageError.

    Two processes that write the same files take turns, so the files never mix.

    Args:
        contents: the content of each file, complete or in chunks; the folder is created if missing.
    """
    first = next(iter(contents))
    created: list[Path] = []
    try:
        created = make_folder(first.parent)
        with contextlib.ExitStack() as stack:
            for target in sorted(contents):  # in a fixed order, to avoid deadlocks
                if stack.enter_context(locked(target, wait_s=_WAIT_S)):
                    _clear_leftovers(target)
            files = stack.enter_context(NewFiles(first.parent))
            for target, data in contents.items():
                files.add(target.name, data)
            files.publish()
            sync_folder(first.parent)
    except OSError as problem:
        remove_empty(created)
        reason = f"cannot be made ({problem.strerror})"
        raise StorageError(first.parent, reason, action=f"choose another {param('out')}") from None
    except StorageError:
        remove_empty(created)
        raise


class NewFiles:
    """Files of one folder that are written one by one and published together; a context manager.

    Args:
        folder: the target folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: list[tuple[Path, Path]] = []

    def add(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file, complete or in chunks, under a temporary name; raises StorageError."""
        target = self.folder / name
        partial = _temporary(target)
        self._waiting.append((partial, target))
        try:
            with partial.open("wb") as stream:
                for piece in [data] if isinstance(data, bytes) else data:
                    stream.write(piece)
        except OSError as error:
            raise _storage_error(target, error) from error

    def publish(self) -> None:
        """Flush the files to disk and rename them to their final names; the caller flushes the folder.

        Raises:
            StorageError: a file cannot be written.
        """
        try:
            sync_files([partial for partial, _ in self._waiting])
            for partial, target in self._waiting:
                partial.replace(target)
        except OSError as error:
            raise _storage_error(self._waiting[0][1], error) from error
        self._waiting = []

    def __enter__(self) -> "NewFiles":
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Remove unpublished files."""
        for partial, _ in self._waiting:
            remove(partial)


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically; raises StorageError."""
    with replacing_file(path) as partial:
        partial.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8) to ``path`` atomically; raises StorageError."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON without NaN, atomically; raises StorageError."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path, error: type[EcgfedError]) -> Any:
    """Read JSON within limits (``ecgfed.base.safe_io``); raises ``error`` if the file is missing or is not JSON."""
    data = read_bounded(path, MAX_JSON_BYTES, error)
    try:
        return parse_json(data)
    except ValueError as problem:  # nested too deep, a number of too many digits
        raise error(path, f"cannot be read as JSON ({problem})", action="create it again") from problem


def read_folder_document(
    folder: Path, name: str, version: int, error: type[EcgfedError], *, what: str, command: str, marker: str = ""
) -> dict[str, Any]:
    """Read a folder's main JSON document and check its schema version.

    Args:
        folder: a cohort, a run or a bundle.
        name: the document's file name.
        version: the supported schema version.
        error: the class of the error to raise.
        what: what the folder should be, ``a cohort``.
        command: the command that creates one, ``ecgfed prepare``.
        marker: the file that marks a complete folder, if it is not the document.
    """
    recover(folder, marker or name)
    if not folder.is_dir():
        if (backup := backup_path(folder)).is_dir():
            reason = f"does not exist; {backup.name} beside it is the backup of an {param('overwrite')} that was killed"
            raise error(folder, reason, what, "rename it")
        raise error(folder, "is not a folder", what, f"create one with '{command}'")
    if not (folder / name).is_file():
        raise error(folder, f"holds no {name}", what, f"create one with '{command}'")
    check_links(folder, [name], error)
    document = read_json(folder / name, error)
    schema_version = document.get("schema_version") if isinstance(document, dict) else None
    if schema_version != version:
        action = f"run '{command}' again with this ecgfed"
        raise error(folder / name, f"schema version {schema_version!s:.40}", f"{version}", action)
    return dict(document)


def backup_path(path: Path) -> Path:
    """Return where the previous version of a folder is stored while it is being replaced."""
    real = path.resolve()
    return real.with_name(f"{hidden_name(real.name)}.replaced") if real.name else real / ".replaced"


def recover(path: Path, marker: str) -> None:
    """Complete or roll back an ``--overwrite`` that was killed, unless another process uses the folder.

    Args:
        path: the folder.
        marker: the file that marks a complete folder.
    """
    if backup_path(path).is_dir():
        with contextlib.suppress(StorageError), locked(path):
            recover_locked(path, marker)


def recover_locked(path: Path, marker: str) -> None:
    """Do the work of ``recover``; the caller holds the folder's lock."""
    old, path = backup_path(path), path.resolve()
    if not old.is_dir():
        return
    with contextlib.suppress(OSError):  # not writable: the backup stays, and opening the folder reports it
        if (path / marker).is_file():  # the new version is complete
            sync_folder((path / marker).parent)
            remove(old)
        elif not path.exists():
            old.rename(path)
            sync_folder(path.parent)
        elif (old / marker).is_file():
            failed = old
            if not atomic_swap(old, path):
                failed = path.rename(_temporary(path))
                sync_folder(path.parent)
                old.rename(path)
            sync_folder(path.parent)
            remove(failed)


def rename_folder(path: Path, name: Path) -> None:
    """Rename a complete folder durably; raises StorageError."""
    try:
        path.rename(name)
        sync_folder(name.parent)
    except OSError as error:
        raise _storage_error(name, error) from error


def swap_folders(new: Path, path: Path) -> None:
    """Swap two folders durably; raises OSError.

    The swap is atomic if the system supports it. Otherwise the old folder is at ``backup_path(path)`` for a moment,
    where ``recover`` finds it.
    """
    if not atomic_swap(new, path):
        old, source = backup_path(path), new
        if old == new:
            source = new.rename(_temporary(path))
            sync_folder(path.parent)
        remove(old)  # left over from an earlier kill, and replaced by ``path``
        path.rename(old)
        sync_folder(path.parent)
        try:
            source.rename(path)
        except OSError:
            old.rename(path)
            raise
        sync_folder(path.parent)
        if old != new:
            old.rename(new)
    sync_folder(path.parent)


@contextlib.contextmanager
def replacing_folder(
    path: Path,
    *,
    overwrite: bool = False,
    option: str = "out",
    markers: Sequence[str] = MARKERS,
    contents: Sequence[str] = ("*",),
) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; it replaces ``path``, durably, if the block succeeds.

    The folder is locked until then.

    Args:
        path: the folder to create; it must not exist, or be empty, unless ``overwrite``.
        overwrite: replace an existing folder at the end.
        option: the option to name in the error.
        markers: as in ``check_new_folder``.
        contents: as in ``check_new_folder``.

    Raises:
        OptionError: ``path`` exists.
        StorageError: another process writes there, or the system refuses; ``path`` is unchanged.
    """
    check_new_folder(path, overwrite=overwrite, option=option, markers=markers, contents=contents)
    real = path.resolve()
    partial = _temporary(real)
    with contextlib.ExitStack() as stack:
        if stack.enter_context(locked(path)):
            recover_locked(path, "")
            _clear_leftovers(real)
        # it may have been created or filled before the lock was acquired
        check_new_folder(path, overwrite=overwrite, option=option, markers=markers, contents=contents)
        stack.callback(remove, partial)
        try:
            make_folder(partial)
            stack.callback(_in_progress.discard, partial)
            _in_progress.add(partial)
            yield partial
            if not _is_in_progress(partial):
                sync_tree(partial)
            if real.is_dir():
                swap_folders(partial, real)
            else:
                partial.rename(real)
                sync_folder(real.parent)
        except OSError as error:
            raise _storage_error(path, error) from error


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def md5(path: Path) -> str:
    """Return the MD5 of a file as 32 hexadecimal digits, to compare with published checksums, not for security."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def append_line(path: Path, line: str) -> None:
    """Append one line without flushing it to disk; raises StorageError."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    except OSError as error:
        raise _storage_error(path, error) from error
