"""A process that has imported everything and waits: for each message it forks a child, which answers it.

Flower starts a process for every message, and three seconds of a core go into its imports. This one is started beside a
site's SuperExec, has one thread, computes nothing itself, and reads a line of arguments a message from its input.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import BinaryIO, cast

#: What a child needs, imported before the first message.
_IMPORTS = ("flwr.supernode.cli", "ecgfed.network.client_app", "ecgfed.tasks.evaluate", "ecgfed.tasks.export")


class Warm:
    """The process beside a SuperExec; started again where it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._begin()

    def _begin(self) -> None:
        program = [sys.executable, "-m", "ecgfed.network.processes", "warm"]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE)

    def handle(self, arguments: Sequence[str]) -> bool:
        """Have a child run ``flwr-clientapp`` with these arguments; False where that is not to be had."""
        process = self._process
        if process is None or process.poll() is not None:
            self._begin()
            return False
        try:
            stream = cast(BinaryIO, process.stdin)
            stream.write(json.dumps(list(arguments)).encode() + b"\n")
            stream.flush()
        except OSError:
            return False
        return True


def wait_for_messages(run: Callable[[list[str]], None]) -> None:
    """Fork a child for every line of the input; returns when the input ends, as it does with the SuperExec.

    Args:
        run: what a child does with the arguments; the child ends with it.
    """
    for name in _IMPORTS:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with os.fdopen(os.dup(0), "rb", buffering=0) as lines:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        while line := _line(lines):
            arguments = [str(argument) for argument in json.loads(line)]
            if os.fork() == 0:
                lines.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                code = 1
                try:
                    run(arguments)
                    code = 0
                except SystemExit as stop:
                    code = stop.code if isinstance(stop.code, int) else 1
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)


def _line(stream: BinaryIO) -> bytes:
    """Read one line, unbuffered, so that no child holds what is another's."""
    line = b""
    while not line.endswith(b"\n"):
        byte = stream.read(1)
        if not byte:
            return b""
        line += byte
    return line
