"""Ctrl-C and SIGTERM: a command leaves nothing half made; a training finishes and saves its round first."""

import _thread
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType

#: signal -> what a person calls it
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
#: Seconds in which a second signal asks for the same: ``timeout`` sends one to a command and one to its process group.
_TWICE_S = 1.0


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


class _Interrupted(KeyboardInterrupt):
    """What unwinds a command; calls ``gone`` as it ceases to exist, caught or lost."""

    def __init__(self, gone: Callable[[], None]) -> None:
        super().__init__()
        self._gone = gone

    def __del__(self) -> None:
        self._gone()


class Interruption:
    """What Ctrl-C or SIGTERM asked of this process while a command ran.

    Python raises an interruption once, wherever the main thread is. Inside a finaliser or a library's bare ``except:``
    (that of ``mpmath``, which torch imports) it is lost and the command would go on; it is raised again then.

    Attributes:
        code: the exit code to end with, 128 + the signal's number; None while nobody asked.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self._process = os.getpid()
        self._raised_s = -math.inf  # when what is unwinding now was raised
        self._closed = False
        self._again = threading.Lock()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note what was asked, and unwind as after Ctrl-C, so that what is half made is taken away."""
        del frame
        if os.getpid() != self._process:  # a worker process that was forked from this one ends as any other
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if self._closed or time.monotonic() < self._raised_s + _TWICE_S:
            return
        self.code, self._raised_s = 128 + number, time.monotonic()
        # in no variable: its traceback would hold it for ever
        raise _Interrupted(partial(self._gone, signal.Signals(number)))

    def _gone(self, number: signal.Signals) -> None:
        if not self._closed and os.getpid() == self._process:
            self._raised_s = -math.inf
            _thread.start_new_thread(self._interrupt_again, (number,))  # raised in a finaliser, it is lost as before

    def _interrupt_again(self, number: signal.Signals) -> None:
        time.sleep(0.01)
        with self._again:
            if not self._closed:
                _thread.interrupt_main(number)

    def close(self) -> None:
        """Raise no more: the command has ended."""
        self._closed = True
        with self._again:  # what is on its way comes now, not to the handler of before
            pass


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Yield what SIGINT and SIGTERM ask for, to be closed in the block; an ignored one stays so (a shell's ``&``)."""
    interruption, shown = Interruption(), sys.unraisablehook
    sys.unraisablehook = lambda lost: None if isinstance(lost.exc_value, _Interrupted) else shown(lost)
    try:
        with _handling(_heeded(), interruption.handle):
            yield interruption
    finally:
        sys.unraisablehook = shown


def interrupted_once() -> AbstractContextManager[None]:
    """Return a block in which SIGINT and SIGTERM raise a KeyboardInterrupt that it catches, as its regular end."""
    return _handling(_heeded(), signal.default_int_handler)


def _heeded() -> list[signal.Signals]:
    return [number for number in _NAMES if signal.getsignal(number) not in (signal.SIG_IGN, None)]
