"""Progress reporting at a terminal: a progress bar, notes, warnings on stderr."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.progress import Progress, TaskID

from ecgfed.tasks.progress import ProgressReporter

from .output import note, print_json, progress_bar, seconds, warn


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


class Output:
    """What a command prints, from its start on.

    Args:
        json_output: print one JSON object.
        quiet: print nothing.
    """

    def __init__(self, *, json_output: bool, quiet: bool) -> None:
        self.json_output, self.quiet = json_output, quiet
        self._started = time.perf_counter()

    @property
    def seconds(self) -> str:
        """The time since the command began, as text."""
        return seconds(time.perf_counter() - self._started)

    @contextmanager
    def reporter(self) -> Iterator[TerminalReporter]:
        """Yield a reporter with a progress bar on stderr."""
        with progress_bar(self.quiet) as bar:
            yield TerminalReporter(bar, quiet=self.quiet, json_output=self.json_output)

    def show(self, value: Mapping[str, object], print_text: Callable[[], None]) -> None:
        """Print a result as JSON with the seconds it took, or as text unless the command is to be quiet."""
        if self.json_output:
            print_json({**value, "seconds": round(time.perf_counter() - self._started, 2)})
        elif not self.quiet:
            print_text()
