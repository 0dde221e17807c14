"""Tables of numbers as people write them: comma, semicolon, tab or blanks, decimal comma, comments, empty cells."""

import csv
import io
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.safe_io import open_regular
from ecgfed.base.text import count_of
from ecgfed.domain.record.watch_table import MAX_FACTS, metadata_above

#: What stands for a value that was not recorded.
GAPS = ("", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "null", "-", "--")
_COMMENT = ("#", "%")
#: More columns than any recorder writes, and more text than 100 days of one lead.
MAX_COLUMNS, MAX_TEXT_BYTES = 1024, 2 << 30
#: Rows that are taken apart at once: bounds the memory that their cells take.
_BLOCK = 65_536
#: Bytes of a text that are read at once.
_PIECE = 1 << 20
#: What stands between the cells of a table with quotes once they are gone (RFC 4180): no text holds it.
_UNIT_SEPARATOR = "\x1f"
_QUOTED = re.compile(r'"[^"]*"')
#: A comma that divides thousands, or is a decimal one: nothing tells.
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


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
        fs_hz: sampling frequency, where lines above the table state it.
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
    fs_hz: float | None = None

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
                    problem = f"line {line}{name} holds {cells[column].strip()!r}"
                    raise RecordError(self.path, problem, "a number, or nothing for a gap")


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


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without their ends: line feeds, carriage returns, or both.

    A cell may hold U+2028 and other characters at which ``str.splitlines`` splits too.
    """
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None)]


def read_text(path: Path) -> str:
    """Return a text file, UTF-8, UTF-16 or Latin-1; raises RecordError where there is none, or none of text.

    It is read piece by piece up to the first NUL: a file may be small and have gigabytes of nothing behind it.
    """
    raw = bytearray()
    try:
        with open_regular(path) as stream:
            while part := stream.read(_PIECE):
                raw += part
                wide = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
                if (b"\0\0\0\0" if wide else b"\0") in part:
                    raise RecordError(path, "is not text", "a table of numbers", "check that it is the right file")
                if len(raw) > MAX_TEXT_BYTES:
                    raise RecordError(path, "is too long", f"at most {MAX_TEXT_BYTES:,} bytes", "cut it into parts")
    except FileNotFoundError:
        raise RecordError(path, "does not exist", "a table of numbers", "check the path") from None
    except OSError as error:  # a folder, a device, a file of another user
        raise RecordError(path, f"cannot be read ({error.strerror or error})", "a table of numbers") from error
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


def _without_quotes(path: Path, rows: list[str], lines: list[int]) -> tuple[list[str], str | None]:
    """Return the rows without quotes around their cells, and what stands between cells; raises RecordError.

    A comma inside double quotes divides nothing, and two quotes there are one (RFC 4180).
    """
    separator = _separator([_QUOTED.sub("", row) for row in rows[:3]])
    if separator is None or not any('"' in row for row in rows):
        return [row.replace('"', "").replace("'", "") for row in rows], separator
    plain = []
    for number, row in zip(lines, rows, strict=True):
        if row.count('"') % 2:
            problem = f"line {number} has a quote that is not closed"
            raise RecordError(path, problem, "both quotes of a cell on one line", "correct that line")
        cells = row.split(separator)
        if '"' in row:
            cells = next(csv.reader([row], delimiter=separator, skipinitialspace=True))
        plain.append(_UNIT_SEPARATOR.join(cell.replace("'", "") for cell in cells))
    commas = [
        cell
        for row in plain
        if "," in row
        for cell in row.split(_UNIT_SEPARATOR)
        if "," in cell and as_number(cell, ",") is not None
    ]
    if commas and all(_THOUSANDS.fullmatch(cell.strip()) for cell in commas):
        problem = f"cells such as {commas[0]!r:.40}, whose comma may be decimal or divide thousands"
        raise RecordError(path, problem, "numbers without commas, or with decimal ones", "write them without commas")
    return plain, _UNIT_SEPARATOR


def read_table(path: Path) -> Table:
    """Read a text table.

    Args:
        path: the file, UTF-8, UTF-16 or Latin-1.

    Raises:
        RecordError: no file, no text, no rows, rows of different lengths (with the first such line), a quote that is
            not closed.
    """
    rows: list[str] = []
    lines: list[int] = []
    comments: list[str] = []
    blank = 0
    blanks_inside: list[int] = []
    for number, line in enumerate(lines_of(read_text(path)), 1):
        if line.lstrip().startswith(_COMMENT):
            comments.append(line.strip().lstrip("".join(_COMMENT)).strip())
        elif not line.strip():
            blank = number
        else:
            if blank and rows and len(blanks_inside) <= MAX_FACTS:
                blanks_inside.append(blank)
            blank = 0
            rows.append(line)
            lines.append(number)
    if not rows:
        raise RecordError(path, "is empty", "a table of numbers", "choose another file, or leave this one out")
    rows, separator = _without_quotes(path, rows, lines)
    metadata = metadata_above([row.split(separator) for row in rows[: MAX_FACTS + 1]]) if separator else None
    if metadata:
        rows, lines, comments = rows[metadata.rows :], lines[metadata.rows :], [*comments, *metadata.comments]
        blanks_inside = [number for number in blanks_inside if number > lines[0]]
    width = _width(path, rows, lines, separator)
    if width == 1 and blanks_inside:
        raise RecordError(path, f"line {blanks_inside[0]} is blank", "a number, or NaN for a gap", "delete or fill it")
    head: list[tuple[str, ...]] = (
        [(f"{metadata.lead} ({metadata.unit})" if metadata.unit else metadata.lead,)] if metadata else []
    )
    while rows and len(head) < 2 and not metadata:
        cells = [cell.strip() for cell in rows[0].split(separator)]
        if not _is_names(cells):
            break
        head.append(tuple(cells))
        rows, lines = rows[1:], lines[1:]
    if not rows:
        expected = "numbers below the columns' names"
        raise RecordError(path, "holds no row of numbers", expected, "choose another file, or leave this one out")
    header, units = [*head, (), ()][:2]
    lines_above, fs_hz = tuple(filter(None, comments)), metadata.fs_hz if metadata else None
    return Table(path, header, units, rows, lines, separator, _decimal(rows, separator), width, lines_above, fs_hz)


def _width(path: Path, rows: list[str], lines: list[int], separator: str | None) -> int:
    """Return how many columns every row has; raises RecordError with the line of the first that has not."""
    width = len(rows[0].split(separator, MAX_COLUMNS))
    if width > MAX_COLUMNS:
        problem = f"has more than {MAX_COLUMNS:,} columns"
        raise RecordError(path, problem, "a column for each lead", "swap rows and columns")
    for number, row in zip(lines, rows, strict=True):
        columns = len(row.split()) if separator is None else row.count(separator) + 1
        if columns != width:
            expected = f"{width} as the lines before it have"
            action = "delete what is not of the table, such as lines above it, or fill the row"
            raise RecordError(path, f"line {number} has {count_of(columns, 'column')}", expected, action)
    return width
