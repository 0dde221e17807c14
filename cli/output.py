"""What every command shares: options, progress, tables, and turning our errors into one line and exit code 2."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

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


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """Yield a progress bar on stderr; silent when asked or when stderr is no terminal."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(), TextColumn("{task.fields[about]}"),
    )  # fmt: skip
    with Progress(*columns, console=stderr, disable=quiet or not stderr.is_terminal, transient=True) as bar:
        yield bar


def seconds(value: float) -> str:
    """Write a time: ``3.5 s``, ``2 min 05 s``."""
    return f"{value:.1f} s" if value < 120 else f"{int(value // 60)} min {int(value % 60):02d} s"
