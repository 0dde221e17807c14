"""What differs between operating systems, in one place: locks, the disk, cores, and what a private file is.

Everything above asks here and never for a system's name. What a system has is looked for, not assumed: Windows has no
``fcntl``, no ``O_NOFOLLOW`` and cannot open a folder; macOS has no ``sched_getaffinity``.
"""

import contextlib
import errno
import os
import secrets
from pathlib import Path
from types import ModuleType

from ecgfed.errors import OptionError


def _unix_locks() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    return fcntl


_FCNTL = _unix_locks()

#: What a file is opened with: not for a child, not through a link, not to wait for a pipe, no line ends changed.
ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
NO_LINK, NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
#: Where Windows locks a file: far behind its text, since nobody else can read bytes that are locked; and how many
#: bytes. Who shares a lock has one of them, who wants it alone all of them.
_LOCK_AT, _LOCK_BYTES = 1 << 30, 64
#: What errors say of which no kind says that memory is lacking: of torch, CUDA, C++ and Python's threads.
_NO_MEMORY = ("can't allocate memory", "out of memory", "bad_alloc", "can't start new thread")
#: So many bytes are tried by who shares a lock, until one is free.
_TRIES = 8


def lock(handle: int, *, shared: bool = False) -> None:
    """Lock an open file, or fail at once; the system lets go when the process ends, however it ends.

    Args:
        handle: of the file, opened to read and write where this may be.
        shared: let in others who share.

    Raises:
        OSError: somebody else has it (``EWOULDBLOCK``, ``EAGAIN`` or ``EACCES``), or the file system has no locks.
    """
    if _FCNTL is not None:
        _FCNTL.flock(handle, (_FCNTL.LOCK_SH if shared else _FCNTL.LOCK_EX) | _FCNTL.LOCK_NB)
        return
    if not shared:
        _lock_bytes(handle, _LOCK_AT, _LOCK_BYTES)
        return
    for left in reversed(range(_TRIES)):
        try:
            _lock_bytes(handle, _LOCK_AT + secrets.randbelow(_LOCK_BYTES), 1)
            return
        except OSError as problem:
            if not left or problem.errno != errno.EACCES:
                raise


def _lock_bytes(handle: int, at: int, many: int) -> None:
    import msvcrt

    os.lseek(handle, at, os.SEEK_SET)
    msvcrt.locking(handle, msvcrt.LK_NBLCK, many)  # type: ignore[attr-defined]  # mypy knows Linux's modules


def take_away(handle: int, place: Path) -> None:
    """Close a lock file, which lets go of it, and remove its name unless others hold or share it."""
    if _FCNTL is None:  # an open file cannot be removed there, be it ours or another's: so what is removed is nobody's
        os.close(handle)
        with contextlib.suppress(OSError):
            place.unlink()
        return
    with contextlib.suppress(OSError):
        _FCNTL.flock(handle, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)
        if is_at(handle, place):
            place.unlink()
    os.close(handle)


def is_at(handle: int, place: Path) -> bool:
    """Return whether an open file still has a name."""
    try:
        return os.path.samestat(os.fstat(handle), place.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def read_from_start(handle: int, most: int) -> bytes:
    """Return the first bytes of an open file, at most ``most``; raises OSError."""
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, most)


def write_anew(handle: int, data: bytes) -> None:
    """Let an open file hold these few bytes and no others; raises OSError."""
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, data)


def sync_file(path: Path) -> None:
    """Force a file's bytes to the disk; raises OSError."""
    if hasattr(os, "O_DIRECTORY"):
        _sync(path, os.O_RDONLY)
        return
    with contextlib.suppress(PermissionError):  # Windows forces only what may be written, and a copy may be read only
        _sync(path, os.O_RDWR)


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk, where the system can; raises OSError.

    Windows cannot open a folder. NTFS keeps names in a journal of its own, so that a name is whole or not there.
    """
    if hasattr(os, "O_DIRECTORY"):
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | ALWAYS)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def for_owner_alone(handle: int) -> None:
    """Let only its owner read an open file.

    Nothing is done on Windows: who may read a file there is said by its folder, and a person's own folders are theirs.
    """
    if hasattr(os, "fchmod"):
        os.fchmod(handle, 0o600)


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # macOS and Windows have none
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there is not enough memory, whoever raised it.

    The system refuses by ``ENOMEM``, and to map a library's file; torch, ONNX Runtime and Python's own threads have
    kinds and words of their own.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    text = str(error)
    if isinstance(error, ImportError):
        return any(said in text for said in ("failed to map segment", "annot allocate memory"))
    return isinstance(error, RuntimeError) and any(said in text for said in _NO_MEMORY)


def needs_forks(what: str) -> None:
    """Refuse what needs processes that are forks of one another, as Windows has none; raises OptionError.

    Args:
        what: the command, ``ecgfed federate``.
    """
    if not hasattr(os, "fork"):
        action = "run it there, or in WSL (https://learn.microsoft.com/windows/wsl)"
        raise OptionError(what, "does not run on this system", "Linux or macOS", action)
