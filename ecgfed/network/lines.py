"""Follow a file of messages that another process appends to."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


class Lines:
    """Reads lines as they are appended to a file; begins again where the file was replaced by a shorter one."""

    def __init__(self, path: Path) -> None:
        self.path, self.position = path, 0

    def new(self) -> Iterator[str]:
        """Yield the complete lines appended since the last call."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as stream:
            if stream.seek(0, 2) < self.position:
                self.position = 0
            stream.seek(self.position)
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                self.position += len(line)
                yield line.decode(errors="replace").rstrip("\n")
