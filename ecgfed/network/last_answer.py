"""When the server last answered a site's SuperNode, which asks it every few seconds; needs no torch."""

import contextlib
import time
from pathlib import Path

#: File in the site's folder, touched at every answer.
SEEN = "server-seen"
#: Seconds without an answer after which the server has gone.
GONE_S = 180.0


def note_answer(folder: Path) -> None:
    """Note that the server has answered; errors are ignored."""
    with contextlib.suppress(OSError):
        (folder / SEEN).touch()


def server_gone(folder: Path) -> bool:
    """Return whether the server has not answered for ``GONE_S``; False if it never has."""
    try:
        return time.time() - (folder / SEEN).stat().st_mtime > GONE_S
    except OSError:
        return False
