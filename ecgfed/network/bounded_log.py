"""A program's output in a log that stays bounded while the program runs: size, length of a line, lines a second."""

import threading
import time
from pathlib import Path
from typing import IO

#: Size above which the log is moved away, replacing the previous old one, bytes.
MAX_LOG_BYTES = 1 << 24
#: Longest line, bytes, and most lines a second; the rest is counted.
MAX_LINE_BYTES, MAX_LINES_PER_S = 2000, 200


class BoundedLog:
    """Writes the output of one program to a file, in a thread, until the program and its children have ended.

    Args:
        file: the log; lines are appended.
        old: where a log beyond ``MAX_LOG_BYTES`` is moved.
    """

    def __init__(self, file: Path, old: Path) -> None:
        self.file, self.old = file, old
        self._second, self._lines, self._omitted = 0.0, 0, 0

    def follow(self, output: IO[bytes]) -> threading.Thread:
        """Start to write what comes from a pipe; returns the thread."""
        thread = threading.Thread(target=self._write_all, args=(output,), daemon=True, name=f"log {self.file.name}")
        thread.start()
        return thread

    def _write_all(self, output: IO[bytes]) -> None:
        within = False  # whether the last part was of a line that is longer than what is written of it
        with output:
            while part := output.readline(MAX_LINE_BYTES):
                ends = part.endswith(b"\n")
                if not within:
                    self._write(part if ends else part + b" [...]\n")
                within = not ends

    def _write(self, line: bytes) -> None:
        """Write a line; where it cannot be written, the program has to go on, and so its pipe is emptied."""
        now = time.monotonic()
        if now - self._second >= 1.0:
            omitted, self._second, self._lines, self._omitted = self._omitted, now, 0, 0
            if omitted:
                self._append(b"[%d lines omitted]\n" % omitted)
        if self._lines >= MAX_LINES_PER_S:
            self._omitted += 1
            return
        self._lines += 1
        self._append(line)

    def _append(self, line: bytes) -> None:
        try:
            if self.file.is_file() and self.file.stat().st_size + len(line) > MAX_LOG_BYTES:
                self.file.replace(self.old)
            with self.file.open("ab") as stream:
                stream.write(line)
        except OSError:
            return
