"""Writing so that a kill or a full disk never leaves a half file: a temporary name first, then a rename."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ecgfed.errors import EcgfedError, OptionError, StorageError
from ecgfed.gate import MAX_JSON_BYTES, check_links, parse_json, read_bounded

_PARTIAL = ".partial"


def _storage_error(path: Path, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    return StorageError(
        path, f"could not be written ({reason})", action="free space or choose another place; nothing was changed"
    )


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` when the block ends well.

    Raises:
        StorageError: when the operating system refuses to write; ``path`` is as it was before.
    """
    partial = path.with_name(f".{path.name}{_PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise _storage_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_together(contents: dict[Path, bytes]) -> None:
    """Write several files of one folder, all of them or none; raises StorageError.

    Args:
        contents: what each file shall hold; the folder is made where it is not there.
    """
    folder = next(iter(contents)).parent
    made = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:  # renames, last of all, when every byte is on the disk
            for target, data in contents.items():
                stack.enter_context(replacing_file(target)).write_bytes(data)
    except (OSError, StorageError) as problem:
        for part in made:
            with contextlib.suppress(OSError):
                part.rmdir()
        if isinstance(problem, StorageError):
            raise
        raise StorageError(folder, f"cannot be made ({problem.strerror})", action="choose another --out") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` whole or not at all; raises StorageError."""
    with replacing_file(path) as partial:
        partial.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8) to ``path`` whole or not at all; raises StorageError."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, NaN refused, whole or not at all; raises StorageError."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path, error: type[EcgfedError]) -> Any:
    """Read bounded JSON (``ecgfed.gate``); raises ``error`` with one line when the file is absent or is not JSON."""
    data = read_bounded(path, MAX_JSON_BYTES, error)
    try:
        return parse_json(data)
    except ValueError as problem:  # nested too deep, a number of too many digits
        raise error(path, f"cannot be read as JSON ({problem})", action="make it again") from problem


def read_folder_document(
    folder: Path, name: str, version: int, error: type[EcgfedError], *, what: str, command: str
) -> dict[str, Any]:
    """Read the JSON document that makes a folder what it is, and check its schema version.

    Args:
        folder: a cohort, a run or a bundle.
        name: the document's file name.
        version: the schema version this ecgfed reads.
        error: what to raise, with one line, when the folder is none or of another version.
        what: what the folder should be, ``a cohort``.
        command: the command that makes one, ``ecgfed prepare``.
    """
    if not folder.is_dir():
        raise error(folder, "is not a folder", what, f"make one with '{command}'")
    if not (folder / name).is_file():
        raise error(folder, f"holds no {name}", what, f"make one with '{command}'")
    check_links(folder, [name], error)
    document = read_json(folder / name, error)
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found != version:
        raise error(
            folder / name, f"schema version {found!s:.40}", f"{version}", f"run '{command}' again with this ecgfed"
        )
    return dict(document)


def check_new_folder(path: Path, *, overwrite: bool = False, option: str = "--out") -> None:
    """Refuse a folder that is taken before the work for it, as ``replacing_folder`` does; raises OptionError."""
    if path.exists() and not path.is_dir():
        raise OptionError(option, f"{path} is a file", "a folder to create")
    if path.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise OptionError(option, f"{path} is the folder this runs in", "a new folder", "name one inside it")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise OptionError(option, f"{path} is not empty", "a new folder", "choose another, or pass --overwrite")


def check_free(
    targets: Sequence[Path], read: Iterable[Path] = (), *, overwrite: bool = False, option: str = "--out"
) -> None:
    """Refuse to write over files that are there, and over those that were read at any price; raises OptionError.

    Args:
        targets: the files to write, of one folder.
        read: the files the work began with.
        overwrite: files that are there may be replaced.
        option: the option to name in the error.
    """
    sources = {file.resolve() for file in read}
    own = [target.name for target in targets if target.resolve() in sources]
    if own:
        raise OptionError(option, f"{', '.join(own)} is the recording itself", "another folder")
    taken = [target.name for target in targets if target.exists()]
    if taken and not overwrite:
        found = f"{targets[0].parent} holds {', '.join(taken[:3])}"
        raise OptionError(option, found, "no such files", "choose another, or --overwrite")


@contextlib.contextmanager
def replacing_folder(path: Path, *, overwrite: bool = False, option: str = "--out") -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; rename it to ``path`` when the block ends well.

    Args:
        path: the folder to make; it must not exist, or be empty, unless ``overwrite``.
        overwrite: replace what is there, at the very end.
        option: the option to name in the error.

    Raises:
        OptionError: when ``path`` is taken.
        StorageError: when the operating system refuses to write; ``path`` is as it was before.
    """
    check_new_folder(path, overwrite=overwrite, option=option)
    partial = path.with_name(f".{path.name}{_PARTIAL}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        if path.is_dir():
            old = path.with_name(f".{path.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
            partial.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            partial.rename(path)
    except OSError as error:
        raise _storage_error(path, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def md5(path: Path) -> str:
    """Return the MD5 of a file as 32 hexadecimal digits: to compare with published ones, never for security."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def append_line(path: Path, line: str) -> None:
    """Append one line and hand it to the operating system at once; raises StorageError."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _storage_error(path, error) from error
