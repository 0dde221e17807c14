"""One case in one forked process: time, memory and what it touches are bounded and watched by the parent.

Everything is imported before the fork, so that a case costs milliseconds and not the seconds that torch takes.
"""

import atexit
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Beyond what the process maps at its start, an allocation fails: the same verdict on every machine.
ADDRESS_SPACE = 12 << 30
#: No file, and no output, grows beyond this.
FILE_BYTES = 1 << 30
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod"}
_ESCAPES = {"subprocess.Popen", "os.exec", "os.system", "os.posix_spawn", "socket.connect", "socket.bind"}
_ANYWHERE = ("/dev/", "/proc/self/")


@dataclass(frozen=True)
class Limits:
    """What a case may take.

    Attributes:
        seconds: of wall time; then it hangs.
        idle_s: without any use of a processor; then it hangs too (a pipe nobody writes to).
        memory: resident bytes.
    """

    seconds: float = 60.0
    idle_s: float = 10.0
    memory: int = 2 << 30


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: its exit code; -N where signal N ended it.
        killed: ``hang`` or ``memory`` where the parent had to end it, else "".
        seconds: of processor time; wall time where it was killed.
        peak: largest resident size in bytes, torch and all.
        out: standard output.
        err: standard error.
        told: what it did that no case may do: wrote, or read bait, outside its folder; started a program.
    """

    code: int
    killed: str
    seconds: float
    peak: int
    out: bytes
    err: bytes
    told: tuple[str, ...]


@dataclass
class _Running:
    pid: int
    home: Path
    began: float
    busy_at: float
    cpu: int = 0
    peak: int = 0
    killed: str = ""


@dataclass(frozen=True)
class Task:
    """What to run, and where.

    Attributes:
        home: a folder of its own: output and notes of the watcher go there.
        folder: inside ``home``: the current folder of the process, and all it may change.
        action: called in the child; what it raises ends the process as in a script.
        about: handed back with the end.
    """

    home: Path
    folder: Path
    action: Callable[[], object]
    about: Any = field(default=None)


def run_all(tasks: Iterable[Task], jobs: int, limits: Limits) -> Iterator[tuple[Task, Ended]]:
    """Run tasks, ``jobs`` at a time, and yield each as it ends. Single-threaded: a fork must copy no locks."""
    gc.collect()
    gc.freeze()  # the children's collector leaves the parent's pages shared
    waiting = iter(tasks)
    active: list[tuple[Task, _Running]] = []
    more = True
    try:
        while more or active:
            while more and len(active) < jobs:
                task = next(waiting, None)
                if task is None:
                    more = False
                else:
                    active.append((task, _start(task)))
            ended = []
            for task, running in active:
                if (end := _look(running, limits)) is not None:
                    ended.append((task, end))
            active = [pair for pair in active if not any(pair[0] is task for task, _ in ended)]
            yield from ended
            if not ended:
                time.sleep(0.004)
    finally:
        gc.unfreeze()
        for _, running in active:
            _kill(running.pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(running.pid, 0)


def run_one(task: Task, limits: Limits) -> Ended:
    """Run one task to its end."""
    return next(iter(run_all([task], 1, limits)))[1]


def _start(task: Task) -> _Running:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        code = 70
        try:
            code = _live(task)
        except BaseException:  # nothing of the child may go up into the parent's frames
            (task.home / "stderr").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    now = time.monotonic()
    return _Running(pid, task.home, now, now)


def _look(running: _Running, limits: Limits) -> Ended | None:
    """Return how a process ended, or None; end one that takes too much."""
    now = time.monotonic()
    pid, status, used = os.wait4(running.pid, os.WNOHANG)
    if pid:
        _kill(running.pid)  # what it left running
        peak = max(running.peak, used.ru_maxrss << 10)
        killed = running.killed or ("memory" if peak > limits.memory else "")
        out, err, told = (_read(running.home / name) for name in ("stdout", "stderr", "told"))
        lines = tuple(dict.fromkeys(told.decode(errors="replace").splitlines()))
        seconds = now - running.began if running.killed else used.ru_utime + used.ru_stime
        return Ended(os.waitstatus_to_exitcode(status), killed, seconds, peak, out, err, lines)
    rss, cpu = _usage(running.pid)
    running.peak = max(running.peak, rss)
    if cpu != running.cpu:
        running.cpu, running.busy_at = cpu, now
    if rss > limits.memory:
        running.killed = "memory"
    elif now - running.began > limits.seconds or now - running.busy_at > limits.idle_s:
        running.killed = running.killed or "hang"
    if running.killed:
        _kill(running.pid)
    return None


def _usage(pid: int) -> tuple[int, int]:
    """Return resident bytes and processor ticks of a process, children that ended included."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, 0
    fields = stat.rpartition(")")[2].split()
    return int(fields[21]) * resource.getpagesize(), sum(map(int, fields[11:15]))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(32 << 20)
    except OSError:
        return b""


def _live(task: Task) -> int:
    """Set the child up and run the task as Python runs a script; return the exit code."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in ((0, os.devnull), (1, "stdout"), (2, "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        made = os.open(name if number == 0 else task.home / name, flags, 0o600)
        os.dup2(made, number)
        os.close(made)
    told = os.open(task.home / "told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    faulthandler.enable(sys.stderr)
    os.chdir(task.folder)
    for variable, name in (
        ("HOME", "home"),
        ("TMPDIR", "tmp"),
        ("XDG_CACHE_HOME", "home"),
        ("XDG_CONFIG_HOME", "home"),
    ):
        os.environ[variable] = str(task.home / name)
    tempfile.tempdir = None
    # what the parent shall do at its end, such as taking temporary folders away, is not the child's to do
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    _limit()
    _watch(task.home, task.folder, told)
    try:
        return _call(task.action)
    finally:
        with contextlib.suppress(Exception):
            threading._shutdown()  # type: ignore[attr-defined]  # a script waits for its threads too
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()


def _call(action: Callable[[], object]) -> int:
    try:
        action()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        sys.stderr.write(f"{stop.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _limit() -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_AS, mapped + ADDRESS_SPACE),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _watch(home: Path, folder: Path, told: int) -> None:
    """Write down whatever this process does outside its folder; audit hooks see all of Python, for good."""
    inside, around = str(folder.resolve()), str(home.resolve().parent)
    temporary = str(home.resolve() / "tmp"), str(home.resolve() / "home")

    def say(what: str) -> None:
        os.write(told, (what.replace("\n", " ") + "\n").encode(errors="backslashreplace"))

    def is_inside(path: str) -> bool:
        return any(path == place or path.startswith(f"{place}/") for place in (inside, *temporary))

    def seen(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(args[0], str | bytes) and not is_inside(path := _real(args[0])):
                if (args[2] or 0) & _WRITES and not path.startswith(_ANYWHERE):
                    say(f"wrote {path}")
                elif path.startswith(around):
                    say(f"read {path}")
        elif event in _CHANGES:
            for part in args[: 2 if event in ("os.rename", "os.link") else 1]:
                if isinstance(part, str | bytes) and not is_inside(path := _real(part, follow=False)):
                    say(f"{event} {path}")
        elif event in _ESCAPES:
            say(f"{event} {args[:1]!r}")

    sys.addaudithook(seen)


def _real(path: str | bytes, *, follow: bool = True) -> str:
    """Return where a path leads; with ``follow`` unset the last part may be a link, which is meant itself."""
    text = os.fsdecode(path)
    try:
        if follow:
            return os.path.realpath(text)
        head, tail = os.path.split(os.path.abspath(text))  # noqa: PTH100
        return os.path.join(os.path.realpath(head), tail)  # noqa: PTH118
    except (OSError, ValueError):
        return text
