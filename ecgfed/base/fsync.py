"""Durability: flush files and folders to disk (fsync), and swap two folders atomically."""

import contextlib
import ctypes
import errno
import os
import platform
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path

from ecgfed.base.platform import fsync_file, fsync_folder

#: Number of files flushed in parallel: a file system commits them in one transaction instead of one each.
_SYNC_THREADS = 8
#: Errors of file systems that cannot flush a folder, or of folders that are writable but not readable.
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)
#: System call number of ``renameat2`` by architecture, for C libraries without a wrapper; and its exchange flag.
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}
_AT_FDCWD, _EXCHANGE = -100, 2


def sync_file(path: Path) -> None:
    """Flush a file to disk; raises OSError."""
    fsync_file(path)


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to disk; raises OSError.

    Does nothing on file systems that do not support it (some network file systems).
    """
    try:
        fsync_folder(path)
    except OSError as problem:
        if problem.errno not in _UNSUPPORTED:
            raise


def sync_files(paths: Sequence[Path]) -> None:
    """Flush several files to disk; raises OSError."""
    if len(paths) < 3:
        for path in paths:
            sync_file(path)
        return
    with ThreadPoolExecutor(min(_SYNC_THREADS, len(paths)), thread_name_prefix="sync") as pool:
        for _ in pool.map(sync_file, paths):
            pass


def sync_tree(folder: Path) -> None:
    """Flush a folder with all its files and subfolders to disk; raises OSError."""
    files: list[Path] = []
    folders: list[Path] = []
    for parent, _, names in os.walk(folder, onerror=_raise):
        folders.append(Path(parent))
        files += [path for name in names if not (path := Path(parent, name)).is_symlink()]
    sync_files(files)
    for path in reversed(folders):
        sync_folder(path)


def _raise(problem: OSError) -> None:
    raise problem


def make_folder(path: Path) -> list[Path]:
    """Create a folder and its missing parents durably; return the created folders, the deepest first.

    Raises:
        OSError: it cannot be created; parents created so far are removed again.
    """
    created = [part for part in (path, *path.parents) if not part.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for part in created:
            sync_folder(part.parent)
    except OSError:
        remove_empty(created)
        raise
    return created


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty, in order."""
    for part in folders:
        with contextlib.suppress(OSError):
            part.rmdir()


def hidden_name(name: str) -> str:
    """Return a hidden file name, short enough for a suffix: ``.NAME``, or a prefix of the name and a hash."""
    data = os.fsencode(name)
    if len(data) <= 160:
        return f".{name}"
    return f".{data[:120].decode(errors='ignore')}-{sha256(data).hexdigest()[:16]}"


def atomic_swap(first: Path, second: Path) -> bool:
    """Swap two paths atomically; return False, with nothing changed, if the system does not support it.

    Raises:
        OSError: one of them does not exist, or the system refuses.
    """
    code = _renameat2(os.fsencode(first), os.fsencode(second))
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):  # EPERM: a container forbids the call
        return False
    if code:
        raise OSError(code, os.strerror(code), str(first))
    return True


def _renameat2(first: bytes, second: bytes) -> int:
    """Swap two paths; return 0 or the errno."""
    folder, flags = ctypes.c_int(_AT_FDCWD), ctypes.c_uint(_EXCHANGE)
    arguments = (folder, ctypes.c_char_p(first), folder, ctypes.c_char_p(second), flags)
    library = _c_library()
    if library is None:
        return errno.ENOSYS
    number = _RENAMEAT2.get(platform.machine()) if ctypes.sizeof(ctypes.c_void_p) == 8 else None
    if hasattr(library, "renameat2"):
        result = library.renameat2(*arguments)
    elif platform.system() == "Linux" and number is not None:
        result = library.syscall(ctypes.c_long(number), *arguments)
    else:
        return errno.ENOSYS
    return 0 if result == 0 else ctypes.get_errno()


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except TypeError:  # Windows: no default library and no atomic swap
        return None
