"""Whoever looks on at a terminal: a progress bar, lines to read, warnings on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import Progress, TaskID

from ecgfed.tasks.watch import Watch

from .output import note, progress_bar, warn


class TerminalWatch(Watch):
    """Prints what a task tells.

    Args:
        bar: where progress is shown.
        quiet: print no notes and warnings.
        json_output: stdout belongs to a script, which hears no notes.
    """

    def __init__(self, bar: Progress, *, quiet: bool, json_output: bool) -> None:
        self.bar, self.quiet, self.json_output = bar, quiet, json_output
        self._tasks: dict[str, TaskID] = {}

    def progress(
        self, what: str, done: int, total: int | None, about: str = "", *, rate: str = "", left_s: float | None = None
    ) -> None:
        """Move the bar of what is counted."""
        if what not in self._tasks:
            self._tasks[what] = self.bar.add_task(what, total=total, completed=done, about="")
        fields: dict[str, Any] = {"about": about} | ({"rate": rate} if rate else {})
        if left_s is not None:
            fields["left_s"] = left_s
        self.bar.update(self._tasks[what], completed=done, total=total, **fields)

    def note(self, text: str) -> None:
        """Print a line for a person; a script that asked for JSON hears warnings only."""
        note(text, quiet=self.quiet or self.json_output)

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        warn(text, quiet=self.quiet)


@contextmanager
def watching(*, quiet: bool, json_output: bool) -> Iterator[TerminalWatch]:
    """Yield a watch with a progress bar on stderr."""
    with progress_bar(quiet) as bar:
        yield TerminalWatch(bar, quiet=quiet, json_output=json_output)
