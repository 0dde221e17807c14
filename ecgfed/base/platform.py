"""Differences between operating systems: locks, fsync, cores, file permissions.

The rest of ecgfed uses these functions and never checks the system's name. Features are detected, not assumed: Windows
has no ``fcntl``, no ``O_NOFOLLOW`` and cannot open a folder; macOS has no ``sched_getaffinity``.
"""

import contextlib
import errno
import os
import secrets
from pathlib import Path
from types import ModuleType

from ecgfed.base.errors import OptionError


def _unix_locks() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    return fcntl


_FCNTL = _unix_locks()

#: Flags of ``os.open``: not inherited, binary; do not follow links; do not wait for a pipe.
ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
NO_LINK, NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
#: Byte range that is locked on Windows: far behind the text, since locked bytes cannot be read. A shared lock takes one
#: of the bytes, an exclusive lock all of them.
_LOCK_OFFSET, _LOCK_BYTES = 1 << 30, 64
#: Messages of out-of-memory errors without a class of their own: from torch, CUDA, C++ and Python's threads.
_NO_MEMORY = ("can't allocate memory", "out of memory", "bad_alloc", "can't start new thread")
#: Blocks up to this size are reused; twice as much may lie idle.
_REUSED_BYTES = 8 << 20
#: Number of bytes tried for a shared lock.
_TRIES = 8


def lock(handle: int, *, shared: bool = False) -> None:
    """Lock an open file, or fail immediately; the system releases the lock when the process ends.

    Args:
        handle: the file's handle, opened for reading and, if permitted, writing.
        shared: take a shared lock.

    Raises:
        OSError: another process holds it (``EWOULDBLOCK``, ``EAGAIN`` or ``EACCES``), or the file system has no locks.
    """
    if _FCNTL is not None:
        _FCNTL.flock(handle, (_FCNTL.LOCK_SH if shared else _FCNTL.LOCK_EX) | _FCNTL.LOCK_NB)
        return
    if not shared:
        _lock_bytes(handle, _LOCK_OFFSET, _LOCK_BYTES)
        return
    for attempt in reversed(range(_TRIES)):
        try:
            _lock_bytes(handle, _LOCK_OFFSET + secrets.randbelow(_LOCK_BYTES), 1)
            return
        except OSError as problem:
            if not attempt or problem.errno != errno.EACCES:
                raise


def _lock_bytes(handle: int, offset: int, count: int) -> None:
    import msvcrt

    os.lseek(handle, offset, os.SEEK_SET)
    msvcrt.locking(handle, msvcrt.LK_NBLCK, count)  # type: ignore[attr-defined]  # mypy knows Linux's modules


def release_lock_file(handle: int, path: Path) -> None:
    """Close a lock file, which releases it, and delete it unless others hold or share it."""
    if _FCNTL is None:  # Windows does not delete open files, so only an unused lock file is deleted
        os.close(handle)
        with contextlib.suppress(OSError):
            path.unlink()
        return
    with contextlib.suppress(OSError):
        _FCNTL.flock(handle, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)
        if has_path(handle, path):
            path.unlink()
    os.close(handle)


def has_path(handle: int, path: Path) -> bool:
    """Return whether an open file is still the file at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def read_from_start(handle: int, max_bytes: int) -> bytes:
    """Read at most ``max_bytes`` from the start of an open file; raises OSError."""
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, max_bytes)


def overwrite(handle: int, data: bytes) -> None:
    """Replace the content of an open file by a few bytes; raises OSError."""
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, data)


def fsync_file(path: Path) -> None:
    """Flush a file to disk; raises OSError."""
    if hasattr(os, "O_DIRECTORY"):
        _sync(path, os.O_RDONLY)
        return
    with contextlib.suppress(PermissionError):  # Windows flushes only writable files
        _sync(path, os.O_RDWR)


def fsync_folder(path: Path) -> None:
    """Flush a folder's entries to disk if the system supports it; raises OSError.

    Windows cannot open a folder, but NTFS keeps names in a journal.
    """
    if hasattr(os, "O_DIRECTORY"):
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | ALWAYS)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def restrict_to_owner(handle: int) -> None:
    """Make an open file readable for its owner only.

    Does nothing on Windows, where files inherit the permissions of their folder.
    """
    if hasattr(os, "fchmod"):
        os.fchmod(handle, 0o600)


def cores() -> int:
    """Return the number of cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # macOS and Windows have none
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def reuse_freed_memory() -> None:
    """Let the C library keep blocks of a few megabytes that are freed, for who asks next.

    glibc returns a block of 128 KiB and more to the system, and its pages are cleared anew each time, until so large a
    block has been freed once (mallopt(3), M_MMAP_THRESHOLD). Elsewhere it does nothing. The block is never touched.
    """
    bytes(_REUSED_BYTES)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory is exhausted.

    The system reports ``ENOMEM`` or fails to map a library; torch, ONNX Runtime and Python's threads have their own
    error classes and messages.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    text = str(error)
    if isinstance(error, ImportError):
        return any(phrase in text for phrase in ("failed to map segment", "annot allocate memory"))
    return isinstance(error, RuntimeError) and any(phrase in text for phrase in _NO_MEMORY)


def require_fork(what: str) -> None:
    """Refuse a command that needs ``fork``, which Windows lacks; raises OptionError.

    Args:
        what: the command, ``ecgfed federate``.
    """
    if not hasattr(os, "fork"):
        action = "run it there, or in WSL (https://learn.microsoft.com/windows/wsl)"
        raise OptionError(what, "does not run on this system", "Linux or macOS", action)
