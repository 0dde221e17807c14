"""The three standard streams as a shell may leave them: closed, full, or with nobody who reads on."""

import io
import os
import sys
from contextlib import suppress


def open_closed_streams() -> None:
    """Let a stream that the shell closed (``>&-``) lead nowhere.

    Otherwise Python has no stream there, and the next file that is opened gets its number, with what a library prints.
    """
    for number, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_WRONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if mode == os.O_RDONLY else "w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that an encoding cannot write is shown, and is no error
        sys.stdout.reconfigure(errors="backslashreplace")


def close_streams() -> None:
    """Let standard output lead nowhere, since Python would try once more as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
