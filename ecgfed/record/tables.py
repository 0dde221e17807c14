"""Tables of numbers as people write them: comma, semicolon, tab or blanks, decimal comma, comments, empty cells."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.gate import open_regular
from ecgfed.text import count_of

#: What stands for a value that was not recorded.
GAPS = ("", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "null", "-", "--")
_COMMENT = ("#", "%")
#: More columns than any recorder writes, and more text than 100 days of one lead.
MAX_COLUMNS, MAX_TEXT_BYTES = 1024, 2 << 30
#: Rows that are taken apart at once: bounds the memory that their cells take.
_BLOCK = 65_536


@dataclass(frozen=True)
class Table:
    """A table as text.

    Attributes:
        path: the file.
        header: names of the columns, or empty where the first line holds numbers already.
        units: what stands below the names, or empty.
        rows: the lines of the body.
        lines: their numbers in the file, from 1.
        separator: what stands between columns; ``None`` for blanks.
        decimal: ``.`` or ``,``.
        columns: how many.
        comments: comment lines, without their mark.
    """

    path: Path
    header: tuple[str, ...]
    units: tuple[str, ...]
    rows: list[str]
    lines: list[int]
    separator: str | None
    decimal: str
    columns: int
    comments: tuple[str, ...]

    def text(self, column: int) -> list[str]:
        """Return one column as it is written."""
        return [row.split(self.separator)[column].strip() for row in self.rows]

    def numbers(self, columns: list[int]) -> NDArray[np.float64]:
        """Return some columns (columns, rows) float64, NaN for a gap; raises RecordError with the line of a text."""
        values = np.empty((len(columns), len(self.rows)))
        glue = " " if self.separator is None else self.separator
        for start in range(0, len(self.rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            cells = glue.join(self.rows[part]).split(self.separator)  # every row has as many: read_table saw to it
            for row, column in enumerate(columns):
                try:
                    values[row, part] = _column_of_numbers(cells[column :: self.columns], self.decimal)
                except ValueError:
                    self._name_the_text(columns)
                    raise
        return values

    def _name_the_text(self, columns: list[int]) -> None:
        """Find the first cell that is no number, the slow way."""
        for line, row in zip(self.lines, self.rows, strict=True):
            cells = row.split(self.separator)
            for column in columns:
                if as_number(cells[column], self.decimal) is None:
                    name = f" of column {self.header[column]}" if self.header else f" of column {column + 1}"
                    raise RecordError(
                        self.path,
                        f"line {line}{name} holds {cells[column].strip()!r}",
                        "a number, or nothing for a gap",
                    )


def as_number(cell: str, decimal: str = ".") -> float | None:
    """Return a cell's number, NaN for a gap, or None for a text."""
    cell = cell.strip()
    if cell in GAPS:
        return math.nan
    if "_" in cell or (decimal == "," and "." in cell):  # Python reads 1_000
        return None
    try:
        return float(cell.replace(",", ".") if decimal == "," else cell)
    except ValueError:
        return None


def _column_of_numbers(cells: list[str], decimal: str) -> list[float]:
    """Return what ``as_number`` says of each cell, the whole column at once where none needs a closer look."""
    text = "\n".join(cells)
    if "_" not in text and (decimal == "." or "." not in text):
        try:
            return list(map(float, (text.replace(",", ".") if decimal == "," else text).split("\n")))
        except ValueError:  # a gap, or a text
            pass
    numbers = [as_number(cell, decimal) for cell in cells]
    if None in numbers:
        raise ValueError
    return [number for number in numbers if number is not None]


def read_text(path: Path) -> str:
    """Return a text file, UTF-8, UTF-16 or Latin-1; raises RecordError where there is none, or none of text."""
    try:
        with open_regular(path) as stream:
            raw = stream.read(1 << 16)
            if b"\0" not in raw or raw.startswith((b"\xff\xfe", b"\xfe\xff")):  # else no text, however long
                raw += stream.read(MAX_TEXT_BYTES)
    except FileNotFoundError:
        raise RecordError(path, "does not exist", "a table of numbers", "check the path") from None
    if len(raw) > MAX_TEXT_BYTES:
        raise RecordError(path, "is too long", f"at most {MAX_TEXT_BYTES:,} bytes", "cut it into parts")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = raw.decode("utf-16", errors="replace")
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
    if "\0" in text:
        raise RecordError(path, "is not text", "a table of numbers", "check that it is the right file")
    return text


def _is_names(cells: list[str]) -> bool:
    """Say whether a line holds names or units: some text, and no number, not even a clock time."""
    if len(cells) > 1 and cells == ["", *map(str, range(len(cells) - 1))]:  # as pandas numbers unnamed columns
        return True
    named = [cell for cell in cells if cell not in GAPS]
    return bool(named) and all(
        as_number(cell) is None and as_number(cell, ",") is None and clock_s(cell) is None for cell in named
    )


def clock_s(cell: str) -> float | None:
    """Return the seconds of a clock time, ``0:00.003`` or ``01:02:03.5``; None for anything else."""
    parts = [as_number(part) for part in cell.split(":")]
    if not 2 <= len(parts) <= 3 or any(part is None or not 0 <= part < math.inf for part in parts):
        return None
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + (part or 0.0)
    return seconds


def _separator(lines: list[str]) -> str | None:
    """Choose by the first lines: a tab where there is one, else a semicolon, a comma, or blanks."""
    head = lines[:3]
    for separator in ("\t", ";", ","):
        if all(separator in line for line in head):
            return separator
    return None if any(len(line.split()) > 1 for line in head[-1:]) else ","


def _decimal(body: list[str], separator: str | None) -> str:
    """A comma inside a cell is a decimal comma: of a table that comma does not divide."""
    return "," if separator != "," and any("," in row for row in body) else "."


def read_table(path: Path) -> Table:
    """Read a text table.

    Args:
        path: the file, UTF-8, UTF-16 or Latin-1.

    Raises:
        RecordError: no file, no text, no rows, or rows of different lengths (with the first such line).
    """
    rows: list[str] = []
    lines: list[int] = []
    comments: list[str] = []
    blank, blank_inside = 0, 0
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.lstrip().startswith(_COMMENT):
            comments.append(line.strip().lstrip("".join(_COMMENT)).strip())
        elif not line.strip():
            blank = number
        else:
            blank_inside = blank_inside or blank * bool(rows)
            rows.append(line.replace('"', "").replace("'", ""))
            lines.append(number)
    if not rows:
        raise RecordError(path, "is empty", "a table of numbers", "choose another file, or leave this one out")
    separator = _separator(rows)
    width = len(rows[0].split(separator, MAX_COLUMNS))
    if width > MAX_COLUMNS:
        raise RecordError(
            path, f"has more than {MAX_COLUMNS:,} columns", "a column for each lead", "swap rows and columns"
        )
    for number, row in zip(lines, rows, strict=True):
        found = len(row.split()) if separator is None else row.count(separator) + 1
        if found != width:
            expected = f"{width} as the lines before it have"
            action = "delete what is not of the table, such as lines above it, or fill the row"
            raise RecordError(path, f"line {number} has {count_of(found, 'column')}", expected, action)
    if width == 1 and blank_inside:
        raise RecordError(path, f"line {blank_inside} is blank", "a number, or NaN for a gap", "delete or fill it")
    head: list[tuple[str, ...]] = []
    while rows and len(head) < 2:
        cells = [cell.strip() for cell in rows[0].split(separator)]
        if not _is_names(cells):
            break
        head.append(tuple(cells))
        rows, lines = rows[1:], lines[1:]
    if not rows:
        raise RecordError(
            path,
            "holds no row of numbers",
            "numbers below the columns' names",
            "choose another file, or leave this one out",
        )
    header, units = [*head, (), ()][:2]
    return Table(
        path, header, units, rows, lines, separator, _decimal(rows, separator), width, tuple(filter(None, comments))
    )
