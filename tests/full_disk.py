"""A disk without space, for a program in this process."""

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest


class _Full(io.FileIO):
    """A file that takes half of what is written, and no more."""

    def write(self, data: Any) -> int:
        super().write(memoryview(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.name)


def gets_full(monkeypatch: pytest.MonkeyPatch, *, after: int = 0, counted: str = "") -> None:
    """Let the disk be full once so many files have been opened to be written whose names end in ``counted``."""
    original, left = Path.open, after

    def opened(path: Path, mode: str = "r", *more: Any, **how: Any) -> Any:
        nonlocal left
        if "w" not in mode:
            return original(path, mode, *more, **how)
        left -= path.name.endswith(counted)
        return _Full(path, "w") if left < 0 else original(path, mode, *more, **how)

    monkeypatch.setattr(Path, "open", opened)
