"""Every write of a federation, one after the other: what a program does at each, in a process of its own."""

import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

#: The calls of the system that change a disk.
STEPS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync")
#: What differs from one session to the next in the name of a temporary file, and from one file to the next.
_CHANGING = re.compile(r"\.?\d+-[0-9a-f]{8}\.|[0-9a-f]{16,}|\d+")  # .PID-RANDOM.NAME.partial, a run's ID, a round


def at_every_step(act: Callable[[int, str], None]) -> None:
    """Call ``act`` with number and name before every call that changes a disk, for the rest of this process."""
    from ecgfed.base import fsync

    count, counting, inside = 0, threading.Lock(), threading.local()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal count
            if getattr(inside, "act", False):  # a call that act makes itself
                return real(*args, **more)
            inside.act = True
            try:
                with counting:  # files are forced to the disk by several threads
                    act(count, f"{name} {_named(args[0])}")
                    count += 1
            finally:
                inside.act = False
            return real(*args, **more)

        return call

    for name in STEPS:
        setattr(os, name, counted(name, getattr(os, name)))
    fsync._renameat2 = counted("exchange", fsync._renameat2)


def _named(what: Any) -> str:
    """Return a file's name without what changes."""
    path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else Path(os.fsdecode(what))
    return "/".join(_CHANGING.sub("#", part) for part in path.parts[-2:])


def in_a_child(work: Callable[[], Any], setup: Callable[[], None] = lambda: None) -> tuple[int, Any]:
    """Do something in a fork; return its exit code, negative for a signal, and what it returned or raised, as JSON."""
    told, tell = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(told)
        torch.set_num_threads(1)
        code, answer = 0, None
        try:
            setup()
            answer = work()
        except Exception as problem:
            from ecgfed.base.errors import EcgfedError

            code = 2 if isinstance(problem, EcgfedError) else 1
            answer = problem.line if isinstance(problem, EcgfedError) else traceback.format_exc()
        with os.fdopen(tell, "w") as stream:
            stream.write(json.dumps(answer))
        os._exit(code)
    os.close(tell)
    with os.fdopen(told) as stream:
        text = stream.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), json.loads(text) if text else None


def killed_at(step: int) -> Callable[[], None]:
    """Have the process kill itself before a step, as ``kill -9`` does."""

    def act(number: int, name: str) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: at_every_step(act)


def full_at(step: int, after: int) -> Callable[[], None]:
    """Have the disk be full at so many steps from one on, as where somebody makes room then."""
    import errno

    def act(number: int, name: str) -> None:
        if step <= number < step + after and name.split()[0] in ("mkdir", "fsync", "replace", "rename"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: at_every_step(act)


def steps_of(work: Callable[[], Any]) -> list[str]:
    """Return the names of the steps of some work."""
    found: list[str] = []

    def noted() -> Any:
        work()
        return found

    code, names = in_a_child(noted, lambda: at_every_step(lambda number, name: found.append(name)))
    assert code == 0, names
    return list(names)


def one_of_each(names: Sequence[str]) -> list[int]:
    """Return a step of each name, some early and some late; none that only takes a lock or a name nobody has away."""
    places: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        if not name.endswith(".lock") and not (name.startswith("unlink") and name.endswith(".partial")):
            places.setdefault(name, []).append(number)
    return sorted(found[turn * 7 % len(found)] for turn, found in enumerate(places.values()))
