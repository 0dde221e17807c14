"""Beats as CSV and as JSON, a block of columns after the other: a fortnight has more than a million beats."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ecgfed.text import safe_cell

#: Name -> one value a beat: texts, whole numbers or finite ones.
Columns = Mapping[str, list[Any]]


def beats_as_table(blocks: Iterable[Columns]) -> Iterator[bytes]:
    """Yield a CSV file with a line for each beat and one for the names; nothing at all where there are none."""
    text = io.StringIO()
    writer, begun = csv.writer(text, lineterminator="\n"), False
    for block in blocks:
        if not begun:
            writer.writerow(block)
            begun = True
        cells = [map(_cell, values) if isinstance(values[0], str) else values for values in block.values()]
        writer.writerows(zip(*cells, strict=True))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()


def beats_as_json(about: Mapping[str, Any], blocks: Iterable[Columns]) -> Iterator[bytes]:
    """Yield what ``json.dumps({**about, "beats": [...]}, indent=1)`` writes, and a line's end.

    Args:
        about: JSON-ready, what stands before the beats.
        blocks: the beats.

    Raises:
        ValueError: a number that is not finite.
    """
    whole = json.dumps({**about, "beats": []}, indent=1, allow_nan=False, ensure_ascii=False)
    before = whole[: -len("]\n}")]
    some = False
    for block in blocks:
        lines = ",\n".join(f"   {_text(name)}: %s" for name in block)
        template = f"  {{\n{lines}\n  }}"
        rows = zip(*map(_rendered, block.values()), strict=True)
        yield (f"{before if not some else ','}\n" + ",\n".join([template % row for row in rows])).encode()
        some = True
    yield b"\n ]\n}\n" if some else (whole + "\n").encode()


def _rendered(values: list[Any]) -> Iterable[str]:
    """Return each value of a column as JSON writes it."""
    kind = type(values[0])
    if kind is str:
        return map(_text, values)
    return map(repr, values) if kind is int else map(_number, values)


def _number(value: float) -> str:
    if value - value != 0:  # infinite, or no number
        raise ValueError(f"{value} is not finite")
    return float.__repr__(value)


@lru_cache(maxsize=1024)
def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _cell(text: str) -> str:
    return safe_cell(text)
