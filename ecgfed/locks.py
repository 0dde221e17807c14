"""One process at a time writes into a folder: a lock file beside it, which the system holds (``ecgfed.system``).

The system frees such a lock when its holder ends, however it ends, so a lock file that a kill left locks nobody out. It
stands beside the folder, since the folder itself may be exchanged for another one; where nothing may be written there,
in the folder. A file system that has no locks (some of a network) locks nobody out.
"""

import contextlib
import errno
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ecgfed import system
from ecgfed.durable import hidden, make_folder, remove_empty
from ecgfed.errors import StorageError

#: The lock inside a folder, where none can stand beside it.
INSIDE = ".ecgfed.lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.EBADF)
_NOT_HERE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO)
_RETRY_S = 0.02
_held: set[int] = set()


class HeldError(StorageError):
    """Another process, or another part of this one, writes into this folder."""


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[bool]:
    """Keep others out of a file or folder, which need not exist, until the block ends.

    Args:
        path: the file or folder.
        shared: let in others who ask for a shared lock, and keep out those who ask for one of their own.
        wait_s: how long to wait for who is in.

    Yields:
        Whether there is a lock: a file system may have none.

    Raises:
        HeldError: somebody else is in; it says who.
    """
    lock, made = _lock_of(path, Path(os.path.realpath(path)), shared=shared, until=time.monotonic() + wait_s)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()
        remove_empty(made)


class _Lock:
    """A lock that this process holds."""

    def __init__(self, place: Path, handle: int) -> None:
        self.place, self.handle, self.owner = place, handle, os.getpid()
        _held.add(handle)

    def release(self) -> None:
        """Take the lock's name away, unless others share it, and let go."""
        if os.getpid() != self.owner:  # a fork of the holder, which has closed it already
            return
        _held.discard(self.handle)
        system.take_away(self.handle, self.place)


def _lock_of(path: Path, real: Path, *, shared: bool, until: float) -> tuple[_Lock | None, list[Path]]:
    """Return the lock, None where there can be none, and the folders that had to be made for it."""
    made: list[Path] = []
    for place in (real.with_name(f"{hidden(real.name)}.lock"), real / INSIDE):
        try:
            if place.parent != real and not place.parent.exists():
                made = make_folder(place.parent)
            handle = _take(path, place, shared=shared, until=until)
        except HeldError:
            remove_empty(made)
            raise
        except OSError as problem:
            if problem.errno in _NO_LOCKS:
                return None, made
            if problem.errno in (*_NOT_HERE, errno.ENOENT):
                continue
            remove_empty(made)
            raise StorageError(place, f"cannot be locked ({problem.strerror})", action="choose another place") from None
        return _Lock(place, handle), made
    return None, made  # nothing can be written here: that is said when it is tried


def _take(path: Path, place: Path, *, shared: bool, until: float) -> int:
    """Return the handle of the lock file, locked; raises HeldError, OSError."""
    while True:
        handle = _open(place)
        try:
            system.lock(handle, shared=shared)
            if system.is_at(handle, place):
                _sign(handle)
                return handle
        except OSError as problem:
            holder = _holder(handle)
            os.close(handle)
            if problem.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                raise
            if time.monotonic() >= until:
                action = "wait for it to end, or choose another place"
                raise HeldError(path, f"is in use by {holder}", action=action) from None
            time.sleep(_RETRY_S)
        else:  # who held it before has taken its name away: once more, with the file that has the name now
            os.close(handle)


def _open(place: Path) -> int:
    flags = system.ALWAYS | system.NO_LINK | system.NO_WAIT
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except PermissionError:  # somebody else's lock file: it can be locked all the same
        handle = os.open(place, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ENXIO, "is no file", str(place))
    return handle


def _sign(handle: int) -> None:
    """Say in the lock file who holds it, for who comes next."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": now})
    with contextlib.suppress(OSError):
        system.write_anew(handle, text.encode())


def _holder(handle: int) -> str:
    """Say who holds a lock; what does not look like what ``_sign`` writes is not repeated."""
    try:
        told = json.loads(system.read_from_start(handle, 1000))
        process, host, since = told["process"], str(told["host"]), str(told["since"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
    if not isinstance(process, int) or not re.fullmatch(r"[\w.-]{1,64}", host):
        return "another process"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", since):
        return "another process"
    whose = " (this one)" if process == os.getpid() and host == socket.gethostname() else ""
    return f"process {process}{whose} on {host} since {since}"


def _forget() -> None:
    """Close in a forked child what its parent holds: a child that lives on would hold it too."""
    for handle in _held:
        with contextlib.suppress(OSError):
            os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
