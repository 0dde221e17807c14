"""What a power cut may not take: files and folders forced to the disk, and two folders exchanged in one step."""

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

from ecgfed import system

#: So many files are forced to the disk at once: a file system takes them in one transaction, and not one in each.
_TOGETHER = 8
#: What a file system says that cannot force a folder to the disk, or whose folder may be written and not read.
_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)
#: ``renameat2`` by architecture, where the C library has no name for it; and its flag that exchanges the two.
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}
_AT_FDCWD, _EXCHANGE = -100, 2


def sync_file(path: Path) -> None:
    """Force a file's bytes to the disk; raises OSError."""
    system.sync_file(path)


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk; raises OSError.

    A file system that knows no such thing (some of a network) is taken at its word: it keeps them as it can.
    """
    try:
        system.sync_folder(path)
    except OSError as problem:
        if problem.errno not in _CANNOT:
            raise


def sync_files(paths: Sequence[Path]) -> None:
    """Force the bytes of several files to the disk; raises OSError."""
    if len(paths) < 3:
        for path in paths:
            sync_file(path)
        return
    with ThreadPoolExecutor(min(_TOGETHER, len(paths)), thread_name_prefix="sync") as pool:
        for _ in pool.map(sync_file, paths):
            pass


def sync_tree(folder: Path) -> None:
    """Force all that is in a folder to the disk, the folders in it and itself; raises OSError."""
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
    """Make a folder and those above it, durably; return those that were not there, the deepest first.

    Raises:
        OSError: it cannot be made; what was made of it is gone again.
    """
    made = [part for part in (path, *path.parents) if not part.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for part in made:
            sync_folder(part.parent)
    except OSError:
        remove_empty(made)
        raise
    return made


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders that hold nothing, in the order given."""
    for part in folders:
        with contextlib.suppress(OSError):
            part.rmdir()


def hidden(name: str) -> str:
    """Return the hidden form of a name, short enough to be added to: ``.NAME``, or its beginning and a hash."""
    data = os.fsencode(name)
    if len(data) <= 160:
        return f".{name}"
    return f".{data[:120].decode(errors='ignore')}-{sha256(data).hexdigest()[:16]}"


def exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; return False where the system cannot, and nothing has changed.

    Raises:
        OSError: one of them is not there, or the disk refuses.
    """
    code = _renameat2(os.fsencode(one), os.fsencode(other))
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):  # EPERM: a container forbids the call
        return False
    if code:
        raise OSError(code, os.strerror(code), str(one))
    return True


def _renameat2(one: bytes, other: bytes) -> int:
    """Exchange two names; return 0 or the error's number."""
    arguments = (
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(one),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(other),
        ctypes.c_uint(_EXCHANGE),
    )
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
    except TypeError:  # Windows has no library without a name, and nothing that exchanges two names
        return None
