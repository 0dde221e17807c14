"""A process that has imported everything and forks a child for each message.

Flower starts a process for every message, whose imports take three seconds of CPU time. This process is started beside
a site's SuperExec, has a single thread, computes nothing itself, and reads one line of arguments per message from its
standard input.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import BinaryIO, cast

#: Modules a child needs, imported before the first message.
_IMPORTS = ("flwr.supernode.cli", "ecgfed.network.client_app", "ecgfed.tasks.evaluate", "ecgfed.tasks.export")


class Warm:
    """The process beside a SuperExec; restarted if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._begin()

    def _begin(self) -> None:
        program = [sys.executable, "-m", "ecgfed.network.processes", "warm"]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE)

    def handle(self, arguments: Sequence[str]) -> bool:
        """Run ``flwr-clientapp`` with these arguments in a forked child; False if the process is not available."""
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
    """Fork a child for every line of standard input; returns when the input ends, which it does with the SuperExec.

    Args:
        run: called in the child with the arguments; the child exits afterwards.
    """
    for name in _IMPORTS:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
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
    """Read one line without buffering, so that no child inherits another child's input."""
    line = b""
    while not line.endswith(b"\n"):
        byte = stream.read(1)
        if not byte:
            return b""
        line += byte
    return line
