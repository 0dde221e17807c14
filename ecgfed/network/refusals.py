"""Counts of what the server refused: written by the SuperLink, read for the console and for metrics."""

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from ecgfed.base.errors import StorageError
from ecgfed.base.files import write_json

#: File in the server's folder: reason -> requests refused since the server was started.
FILE_NAME = "refused.json"
#: Shortest time between two writes, s.
WRITE_S = 2.0
#: Reason -> description for the operator.
REASONS = {
    "path": "requests for something that sites do not ask for",
    "key": "requests with a key that is not in --keys",
    "clock": "requests signed at another time: the sender's clock is wrong, or somebody repeats a request",
    "signature": "requests with an invalid signature",
    "busy": "requests of a site that has too many unfinished ones",
    "slow": "requests whose body did not arrive in time",
    "proxy connections": "connections beyond those that one address, or addresses of no site, may have",
    "proxy requests": "requests for something that sites do not ask for, or with a key that is not in --keys",
}


class Refusals:
    """Counts refusals, and writes the counts at most every ``WRITE_S`` seconds, the last of a burst included.

    Args:
        folder: the server's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.file, self.counts = folder / FILE_NAME, Counter[str]()
        self._written, self._is_scheduled = -WRITE_S, False

    def add(self, reason: str) -> None:
        """Count a refusal; called on an event loop, which writes the counts."""
        self.counts[reason] += 1
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(self._written + WRITE_S - time.monotonic(), self.write)

    def write(self) -> None:
        """Write the counts; a full disk loses them and nothing else."""
        self._written, self._is_scheduled = time.monotonic(), False
        with suppress(StorageError):
            write_json(self.file, dict(self.counts))


def counted(folder: Path) -> dict[str, int]:
    """Return the counts by reason; empty if there are none."""
    try:
        values = json.loads((folder / FILE_NAME).read_bytes())
        return {str(name): int(count) for name, count in values.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
