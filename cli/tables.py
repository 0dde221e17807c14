"""Tables that fit the terminal: plain text in every cell, numbers whole, names broken where they have a joint."""

import math
import re
from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ecgfed.base.text import safe_text

#: What a cell may hold; None and NaN are shown as a dash, whole numbers with commas, others with three digits.
Cell = str | int | float | None
GAP = 2
#: A column of words is not made narrower than this, nor than its longest cell.
NARROWEST = 16
_NUMBER = re.compile(r"[-+]?\d[\d,.]*(e[-+]?\d+)?(/\d[\d,]*)?( ± \d[\d,.]*)?( ?[%a-zA-Z]{1,3})?")
_WORDS = re.compile(r"\s*\S+\s*")
_JOINTS = re.compile(r"[^\s/\\_.,:;-]*[\s/\\_.,:;-]+|[^\s/\\_.,:;-]+")


def cell_text(value: Cell) -> str:
    """Return a cell as it is printed."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, str):
        return safe_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str = "", width: int) -> RenderableType:
    """Return a table of plain text, to be printed.

    Columns of numbers, with a unit or without, stand to the right, but for the first. Where the table is wider than
    ``width``, headings take several lines first, then words are broken, at spaces and at the joints of names; numbers
    never are. Where that is not enough, each row becomes a list of names and values.

    Args:
        columns: their headings.
        rows: as many cells each.
        title: a line above.
        width: of the terminal, in characters.
    """
    heads, cells, numeric, widths = _laid_out(columns, rows, width)
    if widths is None:
        renderable = _as_list([pair for row in cells for pair in [*zip(heads, row, strict=True), ("", "")]][:-1], width)
    else:
        renderable = _as_table(heads, cells, widths, numeric)
    return Group(Text(safe_text(title), style="italic"), renderable) if title else renderable


def fits(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, width: int) -> bool:
    """Say whether a table has room in ``width`` characters, and would not become a list."""
    return _laid_out(columns, rows, width)[-1] is not None


def _laid_out(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], width: int
) -> tuple[list[str], list[list[str]], list[bool], list[int] | None]:
    """Return headings, cells, which columns are of numbers, and their widths where there is room for them."""
    heads = [safe_text(name) for name in columns]
    cells = [[cell_text(value) for value in row] for row in rows]
    numeric = [i > 0 and _is_numeric([row[i] for row in cells]) for i in range(len(heads))]
    return heads, cells, numeric, _fitted(heads, cells, numeric, width)


def _as_table(heads: list[str], cells: list[list[str]], widths: list[int], numeric: list[bool]) -> Table:
    rich_table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for head, room, right in zip(heads, widths, numeric, strict=True):
        rich_table.add_column(_broken(head, room), width=room, no_wrap=True, justify="right" if right else "left")
    for row in cells:
        rich_table.add_row(*(_broken(cell, room) for cell, room in zip(row, widths, strict=True)))
    return rich_table


def key_values(pairs: Iterable[tuple[str, Cell]], *, width: int) -> Table:
    """Return names and values as a list without headings; long values go on below themselves."""
    return _as_list([(safe_text(name), cell_text(value)) for name, value in pairs], width)


def _as_list(pairs: list[tuple[str, str]], width: int) -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
    names = min(max((cell_len(name) for name, _ in pairs), default=0), width // 2)
    for name, value in pairs:
        grid.add_row(_broken(name, names), _broken(value, width - GAP - names))
    return grid


def without_zero_rows(rows: Iterable[Sequence[Cell]]) -> tuple[list[Sequence[Cell]], list[str]]:
    """Return the rows in which anything but 0 and nothing is counted, and the names (first cells) of the others."""
    nonzero: list[Sequence[Cell]] = []
    empty: list[str] = []
    for row in rows:
        if any(value not in (0, None, "0", "-", "") for value in row[1:]):
            nonzero.append(row)
        else:
            empty.append(cell_text(row[0]))
    return nonzero, empty


def _is_numeric(column: list[str]) -> bool:
    return all(cell in ("", "-") or _NUMBER.fullmatch(cell) for cell in column)


def _longest(text: str) -> int:
    return max((cell_len(word) for word in text.split()), default=0)


def _fitted(heads: list[str], cells: list[list[str]], numeric: list[bool], width: int) -> list[int] | None:
    """Return the columns' widths, or None where there is no room for what may not be broken."""
    content = [max((cell_len(row[i]) for row in cells), default=0) for i in range(len(heads))]
    widths = [max(cell_len(head), room) for head, room in zip(heads, content, strict=True)]
    full = [max(_longest(head), room) for head, room in zip(heads, content, strict=True)]
    minimum = [
        room if number else max(_longest(head), min(room, NARROWEST))
        for head, room, number in zip(heads, full, numeric, strict=True)
    ]
    for floor in (full, minimum):
        while sum(widths) + GAP * (len(widths) - 1) > width:
            widest = max(range(len(widths)), key=lambda i: (widths[i] > floor[i], widths[i]))
            if widths[widest] <= floor[widest]:
                break
            widths[widest] -= 1
    return widths if sum(widths) + GAP * (len(widths) - 1) <= width else None


def _broken(text: str, room: int) -> Text:
    """Return text in lines of at most ``room`` characters: whole words, longer ones broken at their joints."""
    room = max(2, room)
    lines, line = [], ""
    for word in _WORDS.findall(text):
        for part in [word] if cell_len(word.rstrip()) <= room else _JOINTS.findall(word):
            if cell_len(line) + cell_len(part.rstrip()) <= room:
                line += part
                continue
            if line.strip():
                lines.append(line.rstrip())
            *full, line = chop_cells(part, room) if cell_len(part.rstrip()) > room else [part]
            lines += full
    return Text("\n".join([*lines, line.rstrip()]), no_wrap=True)
