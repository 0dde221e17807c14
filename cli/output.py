"""What every command shares: options, progress, tables, and turning our errors into one line and exit code 2."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from . import tables
from .tables import Cell
from .tables import without_zero_rows as without_zero_rows

console = Console()
stderr = Console(stderr=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the output where it exists.")]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Worker threads or processes; default: one for each core.")
]


def print_json(value: Any) -> None:
    """Print a JSON object for a script."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def note(text: str, *, quiet: bool, json_output: bool = False) -> None:
    """Print a line for a person; to stderr when stdout belongs to a script."""
    if not quiet:
        (stderr if json_output else console).print(text, highlight=False, markup=False, soft_wrap=True)


def warn(text: str, *, quiet: bool = False) -> None:
    """Print a warning on stderr."""
    if not quiet:
        stderr.print(f"ecgfed: note: {text}", highlight=False, markup=False, soft_wrap=True)


class _Rate(ProgressColumn):
    """Steps a second, or seconds a step where a step takes longer than one; what the task says of it where it does."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if "rate" in task.fields or not speed:
            return Text(task.fields.get("rate", ""))
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each")


class _Left(TimeRemainingColumn):
    """The time left; what the task says of it where it does."""

    def render(self, task: Task) -> Text:
        left = task.fields.get("left_s")
        return super().render(task) if left is None else Text(str(timedelta(seconds=round(left))), style="cyan")


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """Yield a progress bar on stderr; silent when asked or when stderr is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        _Left(),
        TextColumn("{task.fields[about]}"),
    )
    with Progress(*columns, console=stderr, disable=quiet or not stderr.is_terminal, transient=True) as bar:
        yield bar


def seconds(value: float) -> str:
    """Write a time: ``3.5 s``, ``2 min 05 s``."""
    return f"{value:.1f} s" if value < 120 else f"{int(value // 60)} min {int(value % 60):02d} s"


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str = "") -> Table:
    """Return a table for ``console.print``: plain text that fits the terminal; see ``tables.table``."""
    return tables.table(columns, rows, title=title, width=console.width)
