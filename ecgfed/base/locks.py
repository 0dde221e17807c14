"""Folder locks: one process at a time writes into a folder, using a lock file that the operating system locks.

The system releases the lock when its holder ends, so a lock file left over from a kill blocks nothing. The file lies
beside the folder, since the folder itself may be replaced, or inside it if its parent is not writable. On file systems
without locks (some network file systems) nothing is locked.
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

from ecgfed.base import platform
from ecgfed.base.errors import StorageError
from ecgfed.base.fsync import hidden_name, make_folder, remove_empty

#: Name of the lock file inside a folder, if none can be created beside it.
LOCK_NAME = ".ecgfed.lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.EBADF)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO)
_RETRY_S = 0.02
_lock_handles: set[int] = set()


class LockedError(StorageError):
    """Another process, or another part of this process, is using this folder."""

    default_code = "locked"


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[bool]:
    """Lock a file or folder, which need not exist, until the block ends.

    Args:
        path: the file or folder.
        shared: take a shared lock, which excludes only exclusive locks.
        wait_s: how long to wait for the current holder, s.

    Yields:
        Whether a lock was taken: a file system may not support locks.

    Raises:
        LockedError: another process holds the lock; the message names it.
    """
    real = Path(os.path.realpath(path))
    # writing replaces a link to a file: its target is not touched, nor locked
    if path.is_symlink() and real.exists() and not real.is_dir():
        real = Path(os.path.realpath(path.parent)) / path.name
    lock, created = _lock_of(path, real, shared=shared, until=time.monotonic() + wait_s)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()
        remove_empty(created)


class _Lock:
    """A lock held by this process."""

    def __init__(self, path: Path, handle: int) -> None:
        self.place, self.handle, self.owner = path, handle, os.getpid()
        _lock_handles.add(handle)

    def release(self) -> None:
        """Remove the lock file, unless others share it, and release the lock."""
        if os.getpid() != self.owner:  # a fork of the holder, which has closed the handle already
            return
        _lock_handles.discard(self.handle)
        platform.release_lock_file(self.handle, self.place)


def _lock_of(path: Path, real: Path, *, shared: bool, until: float) -> tuple[_Lock | None, list[Path]]:
    """Return the lock, None if no lock is possible, and the folders that were created for it."""
    created: list[Path] = []
    for lock_path in (real.with_name(f"{hidden_name(real.name)}.lock"), real / LOCK_NAME):
        try:
            if lock_path.parent != real and not lock_path.parent.exists():
                created = make_folder(lock_path.parent)
            handle = _acquire(path, lock_path, shared=shared, deadline=until)
        except LockedError:
            remove_empty(created)
            raise
        except OSError as problem:
            if problem.errno in _NO_LOCKS:
                return None, created
            if problem.errno in (*_NOT_WRITABLE, errno.ENOENT):
                continue
            remove_empty(created)
            reason = f"cannot be locked ({problem.strerror})"
            raise StorageError(lock_path, reason, action="choose another place") from None
        return _Lock(lock_path, handle), created
    return None, created  # not writable: the later write reports the error


def _acquire(path: Path, lock_path: Path, *, shared: bool, deadline: float) -> int:
    """Return the handle of the locked lock file; raises LockedError, OSError."""
    while True:
        handle = _open(lock_path)
        try:
            platform.lock(handle, shared=shared)
            if platform.has_path(handle, lock_path):
                _write_holder(handle)
                return handle
        except OSError as problem:
            holder = _holder(handle)
            os.close(handle)
            if problem.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                raise
            if time.monotonic() >= deadline:
                action = "wait for it to end, or choose another place"
                raise LockedError(path, f"is in use by {holder}", action=action) from None
            time.sleep(_RETRY_S)
        else:  # the previous holder has removed the file: retry with the current one
            os.close(handle)


def _open(path: Path) -> int:
    flags = platform.ALWAYS | platform.NO_LINK | platform.NO_WAIT
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except PermissionError:  # another user's lock file, which can be locked nevertheless
        handle = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ENXIO, "is not a file", str(path))
    return handle


def _write_holder(handle: int) -> None:
    """Write the holder into the lock file, for other processes' error messages."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": now})
    with contextlib.suppress(OSError):
        platform.overwrite(handle, text.encode())


def _holder(handle: int) -> str:
    """Return the holder of a lock; anything not in ``_write_holder``'s format is not quoted."""
    try:
        document = json.loads(platform.read_from_start(handle, 1000))
        process, host, since = document["process"], str(document["host"]), str(document["since"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
    if not isinstance(process, int) or not re.fullmatch(r"[\w.-]{1,64}", host):
        return "another process"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", since):
        return "another process"
    suffix = " (this one)" if process == os.getpid() and host == socket.gethostname() else ""
    return f"process {process}{suffix} on {host} since {since}"


def _close_inherited() -> None:
    """Close the parent's lock handles in a forked child, which would otherwise keep the locks."""
    for handle in _lock_handles:
        with contextlib.suppress(OSError):
            os.close(handle)
    _lock_handles.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
