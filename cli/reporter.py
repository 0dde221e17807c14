"""Progress reporting at a terminal: a progress bar, notes, warnings on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import Progress, TaskID

from ecgfed.tasks.progress import ProgressReporter

from .output import note, progress_bar, warn


class TerminalReporter(ProgressReporter):
    """Prints progress, notes and warnings.

    Args:
        bar: the progress bar.
        quiet: print no notes and warnings.
        json_output: stdout holds JSON for a script; notes are not printed.
    """

    def __init__(self, bar: Progress, *, quiet: bool, json_output: bool) -> None:
        self.bar, self.quiet, self.json_output = bar, quiet, json_output
        self._tasks: dict[str, TaskID] = {}

    def update(
        self,
        what: str,
        completed: int,
        total: int | None,
        item: str = "",
        *,
        rate: str = "",
        remaining_s: float | None = None,
    ) -> None:
        """Update the progress bar."""
        if what not in self._tasks:
            self._tasks[what] = self.bar.add_task(what, total=total, completed=completed, about="")
        fields: dict[str, Any] = {"about": item} | ({"rate": rate} if rate else {})
        if remaining_s is not None:
            fields["left_s"] = remaining_s
        self.bar.update(self._tasks[what], completed=completed, total=total, **fields)

    def note(self, text: str) -> None:
        """Print a note, unless JSON was requested."""
        note(text, quiet=self.quiet or self.json_output)

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        warn(text, quiet=self.quiet)


@contextmanager
def terminal_reporter(*, quiet: bool, json_output: bool) -> Iterator[TerminalReporter]:
    """Yield a reporter with a progress bar on stderr."""
    with progress_bar(quiet) as bar:
        yield TerminalReporter(bar, quiet=quiet, json_output=json_output)
