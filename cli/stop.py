"""Ctrl-C and SIGTERM: a command leaves nothing half made; a training finishes and saves its round first."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

#: signal -> what a person calls it
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class StopRequest:
    """Whether somebody asked this process to stop.

    Attributes:
        code: the exit code to stop with, 128 + the signal's number; None while nobody asked.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.code: int | None = None
        self._quiet = quiet

    def requested(self) -> bool:
        """Return whether to stop after this round."""
        return self.code is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the request; leave at once when there was one already, as a kill would, which loses this round only."""
        del frame
        if self.code is not None:
            _print("stopped at once; the last checkpoint is whole, go on with --resume")
            os._exit(128 + number)
        self.code = 128 + number
        if not self._quiet:
            _print(f"{_NAMES[signal.Signals(number)]}: this round is finished and saved first; once more stops at once")


def _print(line: str) -> None:
    # not through sys.stderr: the signal may have come while the main thread was printing there
    os.write(2, f"\r\x1b[Kecgfed: {line}\n".encode() if os.isatty(2) else f"ecgfed: {line}\n".encode())


@contextmanager
def _handling(numbers: Iterable[signal.Signals], handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let a handler have some signals until the block ends."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def graceful_stop(*, quiet: bool) -> Iterator[StopRequest]:
    """Yield a request that SIGINT and SIGTERM set, instead of ending the process, until the block ends."""
    request = StopRequest(quiet=quiet)
    with _handling(_NAMES, request.handle):
        yield request


class Interruption:
    """What Ctrl-C or SIGTERM asked of this process while a command ran.

    Attributes:
        code: the exit code to end with, 128 + the signal's number; None while nobody asked.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self._process = os.getpid()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note what was asked, and unwind as after Ctrl-C, so that what is half made is taken away."""
        del frame
        if os.getpid() != self._process:  # a worker process that was forked from this one ends as any other
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.code = 128 + number
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Yield what SIGINT and SIGTERM ask for, until the block ends; one that is ignored stays so (a shell's ``&``)."""
    interruption = Interruption()
    heeded = [number for number in _NAMES if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    with _handling(heeded, interruption.handle):
        yield interruption
