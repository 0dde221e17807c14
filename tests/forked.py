"""Calls of ecgfed in processes of their own, begun at the same moment or killed at a step they say.

One process imports all there is, runs nothing, and is forked for every call: fifty calls cost no fifty imports, and no
thread is lost to a fork.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: The calls of the system at which a process can be told to end itself, before it makes them.
STEPS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync")
Call = tuple[str, dict[str, Any]]


class Forks:
    """Runs calls; a context manager."""

    def __enter__(self) -> "Forks":
        here = Path(__file__).parent
        paths = [str(here), str(here.parent), *sys.path]
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        return self

    def __exit__(self, *about: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def run(self, *calls: Call, kill_at: int | None = None) -> list[tuple[int, str]]:
        """Run calls at the same moment; return for each its exit code, negative for a signal, and what it said."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"calls": calls, "kill_at": kill_at}), file=self.process.stdin, flush=True)
        return [(code, text) for code, text in json.loads(self.process.stdout.readline())]


def _end_at(step: int) -> None:
    """Let this process kill itself before the n-th call that changes a disk."""
    from ecgfed.base import fsync

    left = [step]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    fsync._renameat2 = counted(fsync._renameat2)


def _call(name: str, options: dict[str, Any]) -> None:
    import ecgfed
    from ecgfed.base import fsync
    from ecgfed.base.files import replacing_folder

    if options.pop("no_exchange", False):
        fsync._renameat2 = lambda *_: 38  # ENOSYS
    if name == "make":  # a folder of which every file tells whose it is
        with replacing_folder(
            Path(options["out"]), overwrite=options.get("overwrite", False), markers=("*",)
        ) as folder:
            for number in range(20):
                (folder / f"{number}.txt").write_text(options["mark"])
        return
    if name == "hold":
        import time

        from ecgfed.base.locks import locked

        with locked(Path(options["out"])):
            time.sleep(options["seconds"])
        return
    getattr(ecgfed, name)(**options)


def _fork(name: str, options: dict[str, Any], gate: int, kill_at: int | None) -> tuple[int, int]:
    told, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        return pid, told
    code, text = 0, ""
    try:
        select.select([gate], [], [])  # until all are there
        if kill_at is not None:
            _end_at(kill_at)
        _call(name, options)
    except Exception as problem:
        from ecgfed.base.errors import EcgfedError

        code, text = (2, str(problem)) if isinstance(problem, EcgfedError) else (1, repr(problem))
    finally:
        os.write(tell, text.encode()[:4000])
        os._exit(code)


def _serve() -> None:
    import importlib
    import pkgutil

    import torch._dynamo  # noqa: F401  a training loads it, which takes longer than a small training itself

    import ecgfed

    for room in ("domain.cohort", "core", "reports", "tasks"):
        folder = Path(ecgfed.__file__).parent.joinpath(*room.split("."))
        for module in pkgutil.walk_packages([str(folder)], f"ecgfed.{room}."):
            importlib.import_module(module.name)
    for line in sys.stdin:
        asked = json.loads(line)
        gate, opened = os.pipe()
        children = [_fork(name, options, gate, asked["kill_at"]) for name, options in asked["calls"]]
        os.write(opened, b"x")
        answers: list[Sequence[Any]] = []
        for pid, told in children:
            text = b""
            while part := os.read(told, 4096):
                text += part
            os.close(told)
            answers.append((os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode()))
        for handle in (gate, opened):
            os.close(handle)
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    _serve()
