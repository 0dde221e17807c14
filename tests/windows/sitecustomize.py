"""Makes a Python on Linux behave as one on Windows, in what ecgfed could stumble over; loaded as Python starts.

For modules of ecgfed alone: no ``fcntl``, ``resource`` and the like, an ``os`` and a ``signal`` without what Windows
has not, an ``msvcrt`` that locks bytes. For every module: a file that is open or mapped cannot be renamed, replaced or
removed, a name that Windows cannot have is refused, a folder cannot be opened, text gets CRLF, and what depends on the
encoding of the place is an error. It cannot show drives, backslashes in paths, virus scanners and Windows' packages.
"""

import builtins
import contextlib
import ctypes
import errno
import importlib
import io
import os
import pathlib
import signal
import sys
import types
import warnings
from typing import Any

_OURS = ("ecgfed", "ecgfed_cli")
_NOT_THERE = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "_posixsubprocess"}
_OS_HAS_NOT = (
    *(
        "O_CLOEXEC",
        "O_NOFOLLOW",
        "O_NONBLOCK",
        "O_DIRECTORY",
        "O_NOCTTY",
        "O_SYNC",
        "O_DSYNC",
        "fchmod",
        "fchown",
        "chown",
    ),
    *("pread", "pwrite", "preadv", "pwritev", "sched_getaffinity", "fork", "forkpty", "register_at_fork", "killpg"),
    *("getuid", "geteuid", "getgid", "getegid", "statvfs", "fstatvfs", "mkfifo", "mknod", "sync", "fdatasync", "uname"),
    *("posix_fadvise", "posix_fallocate", "sendfile", "getpgid", "setsid", "nice", "getloadavg", "wait", "WNOHANG"),
)
_SIGNAL_HAS_NOT = (
    "SIGKILL",
    "SIGCHLD",
    "SIGHUP",
    "SIGALRM",
    "SIGUSR1",
    "SIGUSR2",
    "SIGPIPE",
    "SIGQUIT",
    "alarm",
    "setitimer",
)
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
_OFD_SETLK, _BINARY = 37, 0x8000
_open, _io_open, _rename, _replace, _unlink, _rmdir, _mkdir, _fsync = (
    *(os.open, io.open, os.rename, os.replace, os.unlink, os.rmdir, os.mkdir, os.fsync),
)


def _checked_name(path: Any) -> None:
    """Refuse a name that Windows cannot have."""
    if isinstance(path, int):
        return
    for part in os.fsdecode(path).split("/"):
        if part in ("", ".", ".."):
            continue
        if any(mark in part for mark in '<>:"|?*\\') or part[-1] in ". " or part.split(".")[0].lower() in _RESERVED:
            raise OSError(errno.EINVAL, f"Windows cannot have {part!r}", str(path))


def _is_ours(path: Any) -> bool:
    return isinstance(path, int) or not os.fsdecode(path).startswith(("/proc", "/dev", "/sys"))


def _in_use(path: Any) -> bool:
    """Say whether this process has a file open or mapped that this is, or that lies in it."""
    real = os.path.realpath(path)
    who = "*" if real.endswith(".lock") else "self"  # of locks other processes count too; of all files is too slow
    names = set()
    for one in pathlib.Path("/proc").glob(f"{who}/fd/*"):
        with contextlib.suppress(OSError):  # closed since, or of somebody else
            names.add(os.readlink(one))  # noqa: PTH115  # what it names is not resolved
    with _io_open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        names |= {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/")}
    return any(name == real or name.startswith(real + "/") for name in names)


def _refusing(real: Any, *, many: int = 1, exists: bool = False) -> Any:
    def call(*paths: Any, **more: Any) -> Any:
        if more.get("dir_fd") is None:
            for path in paths[:many]:
                if _in_use(path):
                    raise PermissionError(errno.EACCES, "Permission denied (in use)", str(path))
            _checked_name(paths[many - 1])
            if exists and os.path.lexists(paths[1]):
                raise FileExistsError(errno.EEXIST, "File exists", str(paths[1]))
        return real(*paths, **more)

    return call


def _made(path: Any, *more: Any, **how: Any) -> None:
    _checked_name(path)
    _mkdir(path, *more, **how)


def _opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if dir_fd is None and _is_ours(path):
        _checked_name(path)
        if pathlib.Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return _open(path, flags & ~_BINARY, mode, dir_fd=dir_fd)


def _text_opened(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
    if not isinstance(file, int) and "r" not in mode:
        _checked_name(file)
    if "b" not in mode and "r" not in mode and len(args) < 4 and more.get("newline") is None:
        more["newline"] = "\r\n"
    if "b" not in mode and len(args) < 2 and more.get("encoding") is None:
        warnings.warn("an encoding that depends on the place", EncodingWarning, stacklevel=2)
    return _io_open(file, mode, *args, **more)


def _forced(handle: int) -> None:
    import fcntl

    if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    _fsync(handle)


def _locking(handle: int, mode: int, many: int) -> None:
    """Lock bytes from where the file stands, for this handle alone, as Windows does (an open file description lock)."""
    import fcntl
    import struct

    at = os.lseek(handle, 0, os.SEEK_CUR)
    kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
    try:
        fcntl.fcntl(handle, _OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, at, many, 0))
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


def _without(module: types.ModuleType, names: tuple[str, ...]) -> types.ModuleType:
    """Return a module that looks at another one, without some names."""
    made = types.ModuleType(module.__name__)

    def find(name: str) -> Any:
        if name in names:
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}' (as on Windows)")
        return getattr(module, name)

    made.__getattr__ = find  # type: ignore[method-assign]
    return made


class _Library(ctypes.CDLL):
    def __init__(self, name: Any = None, *more: Any, **how: Any) -> None:
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        super().__init__(name, *more, **how)


_msvcrt = types.ModuleType("msvcrt")
vars(_msvcrt).update(locking=_locking, LK_NBLCK=2, LK_LOCK=1, LK_UNLCK=0)
_GIVEN = {"msvcrt": _msvcrt}
_import = builtins.__import__


def _imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    asking = (globals or {}).get("__name__", "").partition(".")[0]
    if asking in _OURS and level == 0:
        if name.partition(".")[0] in _NOT_THERE:
            raise ModuleNotFoundError(f"No module named '{name}' (as on Windows)", name=name)
        if name in _GIVEN and not (name == "os" and fromlist):
            return _GIVEN[name]
    return _import(name, globals, locals, fromlist, level)


def _begin() -> None:
    os.O_BINARY = _BINARY  # type: ignore[attr-defined]
    os.open, os.mkdir, os.fsync = _opened, _made, _forced  # type: ignore[assignment]
    os.rename, os.replace = _refusing(_rename, many=2, exists=True), _refusing(_replace, many=2)
    os.unlink = os.remove = _refusing(_unlink)
    os.rmdir = _refusing(_rmdir)
    io.open = builtins.open = _text_opened  # type: ignore[assignment]
    _GIVEN["os"], _GIVEN["signal"] = _without(os, _OS_HAS_NOT), _without(signal, _SIGNAL_HAS_NOT)
    _GIVEN["sys"] = _without(sys, ())
    _GIVEN["sys"].platform = "win32"  # type: ignore[attr-defined]
    _GIVEN["ctypes"] = _without(ctypes, ())
    _GIVEN["ctypes"].CDLL = _Library  # type: ignore[attr-defined]
    builtins.__import__ = _imported
    warnings.filterwarnings("ignore", category=EncodingWarning)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"ecgfed")


if os.environ.get("ECGFED_AS_ON_WINDOWS"):
    importlib.import_module("multiprocessing")  # before anything is taken away
    sys.modules.pop("msvcrt", None)
    _begin()
