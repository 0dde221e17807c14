"""When the server last answered a site's SuperNode, which asks it every few seconds; needs no torch.

The files' times are those of the monotonic clock, which all processes of a machine share: a clock that is set right
during a training would otherwise look like a silence.
"""

import contextlib
import math
import os
import time
from pathlib import Path

#: Files in the site's folder: touched at every answer, and there since nobody listens at the server's address.
SEEN, REFUSED = "server-seen", "server-refused"
#: Seconds without an answer, and of refused connections, after which the server has gone.
GONE_S, REFUSED_S = 180.0, 6.0


def note_answer(folder: Path) -> None:
    """Note that the server has answered; errors are ignored."""
    with contextlib.suppress(OSError):
        _touch(folder / SEEN)
        (folder / REFUSED).unlink(missing_ok=True)


def note_refused(folder: Path) -> None:
    """Note that nobody listens at the server's address; errors are ignored."""
    with contextlib.suppress(OSError):
        _touch(folder / REFUSED, exist_ok=False)


def seconds_since_answer(folder: Path) -> float:
    """Return how long ago the server last answered, s; infinite if it never has."""
    return _age(folder / SEEN)


def server_gone(folder: Path) -> str:
    """Return how the server has gone, "" if it has not: no answer for ``GONE_S``, or refused for ``REFUSED_S``."""
    silent, refused = _age(folder / SEEN), _age(folder / REFUSED)
    if REFUSED_S < refused < math.inf:
        return f"has refused connections for {refused:.0f} s"
    return f"has not answered for {GONE_S:g} s" if GONE_S < silent < math.inf else ""


def _touch(file: Path, *, exist_ok: bool = True) -> None:
    file.touch(exist_ok=exist_ok)
    now = time.monotonic()
    os.utime(file, (now, now))


def _age(file: Path) -> float:
    try:
        age = time.monotonic() - file.stat().st_mtime
    except OSError:
        return math.inf
    return age if age > -1.0 else math.inf  # of an earlier start of the machine
