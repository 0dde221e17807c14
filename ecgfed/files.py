"""Writing so that a kill, a full disk or a power cut never leaves a half file (docs/decisions/0026).

A temporary name first, which no other process can have; the bytes forced to the disk; the name changed; the folder
forced to the disk; and only then what was there before is removed.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ecgfed.durable import exchange, hidden, make_folder, remove_empty, sync_file, sync_files, sync_folder, sync_tree
from ecgfed.errors import EcgfedError, OptionError, StorageError
from ecgfed.gate import MAX_JSON_BYTES, check_links, parse_json, read_bounded
from ecgfed.locks import INSIDE, locked
from ecgfed.text import shortened

_PARTIAL = ".partial"
_TEMPORARY = re.compile(r"\.\d+-[0-9a-f]{8}\..*\.partial", re.DOTALL)
#: What lies in a folder that a command of ours made, and may replace: a bundle, a cohort, a run or runs of several
#: seeds, scores, a federation. Where somebody's own files are likely (recordings, C sources) a command names its own.
MADE = ("manifest.json", "cohort.json", "run.json", "seed-*/run.json", "scores.json", "server/server.json")
#: How long one process waits for another one that writes the same file.
_WAIT_S = 30.0
#: Folders that are being made and are not there yet: they are forced to the disk whole, not file by file.
_making: set[Path] = set()


def _storage_error(path: Path, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    return StorageError(
        path, f"could not be written ({reason})", action="free space or choose another place; nothing was changed"
    )


def _temporary(path: Path) -> Path:
    """Return a name beside ``path`` that no other process, and no other call, has."""
    return path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}{hidden(path.name)}{_PARTIAL}")


def _clear_leftovers(path: Path) -> None:
    """Remove what has a temporary name of ``path``; who holds the lock of ``path`` knows that nobody works on it."""
    name = re.compile(rf"\.(\d+-[0-9a-f]{{8}}\.)?{re.escape(hidden(path.name)[1:])}{re.escape(_PARTIAL)}")
    with contextlib.suppress(OSError):
        for part in [part for part in path.parent.iterdir() if name.fullmatch(part.name)]:
            remove(part)


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as the system lets us."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    """Return whether a name is one that only unfinished work of ours has."""
    return path.name == INSIDE or bool(_TEMPORARY.fullmatch(path.name))


def _in_the_making(path: Path) -> bool:
    return any(folder in path.parents for folder in _making)


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path``, durably, when the block ends well.

    Raises:
        StorageError: when the operating system refuses to write; ``path`` is as it was before.
    """
    partial = _temporary(path)
    with contextlib.ExitStack() as stack:
        later = _in_the_making(path)
        if not later and path.parent.is_dir() and stack.enter_context(locked(path, wait_s=_WAIT_S)):
            _clear_leftovers(path)
        stack.callback(remove, partial)
        try:
            yield partial
            if not later:
                sync_file(partial)
            partial.replace(path)
            if not later:
                sync_folder(path.parent)
        except OSError as error:
            raise _storage_error(path, error) from error


def write_together(contents: Mapping[Path, bytes | Iterable[bytes]]) -> None:
    """Write several files of one folder, all of them or none; raises StorageError.

    Two processes that write the same files take turns: what is there in the end is one's, and not some of each.

    Args:
        contents: what each file shall hold, whole or in pieces; the folder is made where it is not there.
    """
    first = next(iter(contents))
    made: list[Path] = []
    try:
        made = make_folder(first.parent)
        with contextlib.ExitStack() as stack:
            for target in sorted(contents):  # in one order, so that no two wait for one another
                if stack.enter_context(locked(target, wait_s=_WAIT_S)):
                    _clear_leftovers(target)
            files = stack.enter_context(NewFiles(first.parent))
            for target, data in contents.items():
                files.add(target.name, data)
            files.publish()
            sync_folder(first.parent)
    except OSError as problem:
        remove_empty(made)
        found = f"cannot be made ({problem.strerror})"
        raise StorageError(first.parent, found, action="choose another --out") from None
    except StorageError:
        remove_empty(made)
        raise


class NewFiles:
    """Files of one folder that are written one after the other and take their names together; a context manager.

    Args:
        folder: where to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: list[tuple[Path, Path]] = []

    def add(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file, whole or piece by piece, under a temporary name; raises StorageError."""
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
        """Force every byte to the disk and give the files their names; the folder is the caller's to sync.

        Raises:
            StorageError: the disk refuses.
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

    def __exit__(self, *about: object) -> None:
        """Take away what has not got its name."""
        for partial, _ in self._waiting:
            remove(partial)


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
    folder: Path, name: str, version: int, error: type[EcgfedError], *, what: str, command: str, proof: str = ""
) -> dict[str, Any]:
    """Read the JSON document that makes a folder what it is, and check its schema version.

    Args:
        folder: a cohort, a run or a bundle.
        name: the document's file name.
        version: the schema version this ecgfed reads.
        error: what to raise, with one line, when the folder is none or of another version.
        what: what the folder should be, ``a cohort``.
        command: the command that makes one, ``ecgfed prepare``.
        proof: the file that shows it to be whole, where that is another one than the document.
    """
    put_back(folder, proof or name)
    if not folder.is_dir():
        if (aside := replaced_by(folder)).is_dir():
            said = f"is not there; {aside.name} beside it is what an --overwrite that was killed put aside"
            raise error(folder, said, what, "rename it")
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


def check_new_folder(
    path: Path,
    *,
    overwrite: bool = False,
    option: str = "--out",
    proofs: Sequence[str] = MADE,
    contents: Sequence[str] = ("*",),
) -> None:
    """Refuse a folder that is taken before the work for it, as ``replacing_folder`` does; raises OptionError.

    Args:
        path: the folder to make.
        overwrite: one that is there may be replaced, if one of ``proofs`` lies in it.
        option: the option to name in the error.
        proofs: patterns of files by which a folder is known to be one of ours.
        contents: patterns of all that may lie in one that is replaced; by default anything may.
    """
    if path.exists() and not path.is_dir():
        raise OptionError(option, f"{path} is a file", "a folder to create")
    if path.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise OptionError(option, f"{path} is the folder this runs in", "a new folder", "name one inside it")
    if path.is_dir() and not all(map(is_temporary, path.iterdir())) and not overwrite:
        raise OptionError(option, f"{path} is not empty", "a new folder", "choose another, or pass --overwrite")
    if overwrite and path.is_dir() and (strangers := _strangers(path, proofs, contents)):
        found = f"{path} holds {shortened(', '.join(strangers), 60)}, which no command of ecgfed wrote"
        action = "choose another, or move your own files; nothing was removed"
        raise OptionError(option, found, "a new folder, or one to replace", action)


def _strangers(path: Path, proofs: Sequence[str], contents: Sequence[str]) -> list[str]:
    """Return the names in a folder that no command of ours wrote: all, where nothing shows that one made it."""
    names = sorted(one.name for one in path.iterdir() if not is_temporary(one))
    if not any(True for proof in proofs for _ in path.glob(proof)):
        return names
    return [name for name in names if not any(fnmatchcase(name, pattern) for pattern in contents)]


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
    sources = {os.path.realpath(file) for file in read}  # Path.resolve raises RuntimeError at a link to itself
    own = [target.name for target in targets if os.path.realpath(target) in sources]
    if own:
        raise OptionError(option, f"{', '.join(own)} is the recording itself", "another folder")
    taken = [target.name for target in targets if target.exists()]
    if taken and not overwrite:
        found = f"{targets[0].parent} holds {', '.join(taken[:3])}"
        raise OptionError(option, found, "no such files", "choose another, or --overwrite")


def replaced_by(path: Path) -> Path:
    """Return where a folder lies while another one takes its place and may yet fail."""
    real = path.resolve()
    return real.with_name(f"{hidden(real.name)}.replaced") if real.name else real / ".replaced"


def put_back(path: Path, proof: str) -> None:
    """Finish, or undo, what a kill left of an ``--overwrite``, unless somebody is at work there.

    Args:
        path: a folder that somebody wants to open.
        proof: the file in it that shows it to be whole.
    """
    if replaced_by(path).is_dir():
        with contextlib.suppress(StorageError), locked(path):
            put_back_held(path, proof)


def put_back_held(path: Path, proof: str) -> None:
    """Do what ``put_back`` does, where the caller holds the folder's lock."""
    old, path = replaced_by(path), path.resolve()
    if not old.is_dir():
        return
    with contextlib.suppress(OSError):  # a disk that may not be written: it stays, and who opens the folder is told
        if (path / proof).is_file():  # the new one is whole
            sync_folder((path / proof).parent)
            remove(old)
        elif not path.exists():
            old.rename(path)
            sync_folder(path.parent)
        elif (old / proof).is_file():
            failed = old
            if not exchange(old, path):
                failed = path.rename(_temporary(path))
                sync_folder(path.parent)
                old.rename(path)
            sync_folder(path.parent)
            remove(failed)


def swap(new: Path, path: Path) -> None:
    """Let a folder take another one's place, durably; the other then has the first one's name. Raises OSError.

    In one step where the system can. Elsewhere the old one stands at ``replaced_by(path)`` for a moment, where
    ``put_back`` finds it.
    """
    if not exchange(new, path):
        old, moved = replaced_by(path), new
        if old == new:
            moved = new.rename(_temporary(path))
            sync_folder(path.parent)
        remove(old)  # of a kill long ago: what stands at ``path`` took its place
        path.rename(old)
        sync_folder(path.parent)
        try:
            moved.rename(path)
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
    option: str = "--out",
    proofs: Sequence[str] = MADE,
    contents: Sequence[str] = ("*",),
) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; it takes the place of ``path``, durably, when the block ends well.

    Until then nobody else can: the folder is locked.

    Args:
        path: the folder to make; it must not exist, or be empty, unless ``overwrite``.
        overwrite: replace what is there, at the very end.
        option: the option to name in the error.
        proofs: see ``check_new_folder``.
        contents: likewise.

    Raises:
        OptionError: when ``path`` is taken.
        StorageError: when somebody else writes there, or the operating system refuses to; ``path`` is as it was before.
    """
    check_new_folder(path, overwrite=overwrite, option=option, proofs=proofs, contents=contents)
    real = path.resolve()
    partial = _temporary(real)
    with contextlib.ExitStack() as stack:
        if stack.enter_context(locked(path)):
            put_back_held(path, "")
            _clear_leftovers(real)
        # somebody may have made it, or put something there, before we had the lock
        check_new_folder(path, overwrite=overwrite, option=option, proofs=proofs, contents=contents)
        stack.callback(remove, partial)
        try:
            make_folder(partial)
            stack.callback(_making.discard, partial)
            _making.add(partial)
            yield partial
            if not _in_the_making(partial):
                sync_tree(partial)
            _take_place(partial, real)
        except OSError as error:
            raise _storage_error(path, error) from error


def _take_place(new: Path, path: Path) -> None:
    """Let a finished folder take its name; what had it before has the temporary one then."""
    if path.is_dir():
        swap(new, path)
    else:
        new.rename(path)
        sync_folder(path.parent)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def md5(path: Path) -> str:
    """Return the MD5 of a file as 32 hexadecimal digits: to compare with published ones, never for security."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def append_line(path: Path, line: str) -> None:
    """Append one line and hand it to the operating system at once, not yet to the disk; raises StorageError."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    except OSError as error:
        raise _storage_error(path, error) from error
