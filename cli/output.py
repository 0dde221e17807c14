"""What every command shares: options, and how lines, tables, JSON and progress are printed."""

import json
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console, JustifyMethod, OverflowMethod, RenderableType
from rich.progress import Progress
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ecgfed.base.text import safe_json, safe_text

from . import tables
from .progress import LineProgress, bar_on
from .progress import seconds as seconds
from .tables import Cell


class _PlainConsole(Console):
    """Prints strings as they are: no markup, no emoji codes, nothing that a terminal would obey."""

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        **ignored: object,
    ) -> Text:
        """Return a string as text; a table's cells, headings and titles come here too."""
        plain = safe_text(text)
        return super().render_str(
            plain, style=style, justify=justify, overflow=overflow, emoji=False, markup=False, highlight=False
        )


console = _PlainConsole()
stderr = _PlainConsole(stderr=True)

_COMMAND = re.compile(r"\becgfed [a-z]")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the output where it exists.")]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Worker threads or processes; default: one for each core.")
]


def print_json(value: object) -> None:
    """Print a JSON object for a script; what is no number becomes null, and what a terminal would obey is escaped.

    What the output's encoding cannot write (a redirected one on Windows) is escaped too, as JSON escapes.
    """
    text = safe_json(json.dumps(_finite(value), indent=1, allow_nan=False, ensure_ascii=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=1)
    sys.stdout.write(text + "\n")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def note(text: str, *, quiet: bool = False, json_output: bool = False) -> None:
    """Print a line for a person; to stderr when stdout belongs to a script."""
    if not quiet:
        _print_line(stderr if json_output else console, text)


def warn(text: str, *, quiet: bool = False) -> None:
    """Print a warning on stderr."""
    if not quiet:
        _print_line(stderr, f"ecgfed: note: {text}")


def _print_line(where: Console, text: str) -> None:
    """Print a line: on a terminal broken between words, but whole for a script, or where it holds a command to copy."""
    line = safe_text(text)
    if where.is_terminal and not _COMMAND.search(line):
        line = textwrap.fill(line, where.width, break_long_words=False, break_on_hyphens=False)
    where.print(Text(line), soft_wrap=True)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """Yield where to tell progress, on stderr: a bar on a terminal, else a line now and then; silent when asked."""
    on_terminal = stderr.is_interactive and stderr.file.isatty()
    if quiet or on_terminal:
        progress = bar_on(stderr, silent=quiet)
    else:
        progress = LineProgress(lambda line: _print_line(stderr, f"ecgfed: {line}"))
    with progress:
        yield progress


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str = "") -> RenderableType:
    """Return a table for ``console.print``: plain text that fits the terminal; see ``tables.table``."""
    return tables.table(columns, rows, title=title, width=console.width)


def key_values(pairs: Iterable[tuple[str, Cell]]) -> Table:
    """Return names and values as a list without headings, for ``console.print``."""
    return tables.key_values(pairs, width=console.width)
