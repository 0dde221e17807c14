"""Write beats as CSV and JSON, block by block: recordings of two weeks have more than a million beats."""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import safe_cell

#: Name -> one value per beat: str, bool, int or finite float; None for a missing value.
Columns = Mapping[str, list[Any]]


def beats_as_table(blocks: Iterable[Columns]) -> Iterator[bytes]:
    """Yield a CSV file with a header and a line per beat; nothing without beats."""
    text = io.StringIO()
    writer, has_header = csv.writer(text, lineterminator="\n"), False
    for block in blocks:
        if not has_header:
            writer.writerow(block)
            has_header = True
        cells = [_cells(values) for values in block.values()]
        writer.writerows(zip(*cells, strict=True))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()


def beats_as_json(metadata: Mapping[str, Any], blocks: Iterable[Columns]) -> Iterator[bytes]:
    """Yield ``json.dumps({**metadata, "beats": [...]}, indent=1)`` and a newline.

    Args:
        metadata: JSON-ready entries before the beats.

    Raises:
        ValueError: a number that is not finite.
    """
    document = json.dumps({**metadata, "beats": []}, indent=1, allow_nan=False, ensure_ascii=False)
    before = document[: -len("]\n}")]
    some = False
    for block in blocks:
        lines = ",\n".join(f"   {_text(name)}: %s" for name in block)
        template = f"  {{\n{lines}\n  }}"
        rows = zip(*map(_rendered, block.values()), strict=True)
        yield (f"{before if not some else ','}\n" + ",\n".join([template % row for row in rows])).encode()
        some = True
    yield b"\n ]\n}\n" if some else (document + "\n").encode()


def _cells(values: list[Any]) -> Iterable[Any]:
    """Return the CSV cells of a column: 1 and 0 for true and false, empty for None."""
    if None in values:
        return ("" if value is None else next(iter(_cells([value]))) for value in values)
    if isinstance(values[0], str):
        return map(_cell, values)
    return map(int, values) if isinstance(values[0], bool) else values


def _rendered(values: list[Any]) -> Iterable[str]:
    """Return the JSON text of each value of a column."""
    if None in values:
        return ("null" if value is None else next(iter(_rendered([value]))) for value in values)
    kind = type(values[0])
    if kind is str:
        return map(_text, values)
    if kind is bool:
        return ("true" if value else "false" for value in values)
    return map(repr, values) if kind is int else _numbers(values)


def _numbers(values: list[float]) -> Iterable[str]:
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{next(value for value in values if not math.isfinite(value))} is not finite")
    return map(float.__repr__, values)


def rounded(values: NDArray[np.floating]) -> list[float]:
    """Return ``round(value, 4)`` of finite values below 2^39, vectorised.

    Away from the midpoint between two decimals, the double nearest to the rounded decimal is the quotient of two
    integers; the few values near a midpoint are rounded individually.
    """
    scaled = values.astype(np.float64) * 1e4
    out: list[float] = (np.rint(scaled) / 1e4).tolist()
    for at in np.flatnonzero(np.abs(scaled - np.floor(scaled) - 0.5) < 1e-3).tolist():
        out[at] = round(float(values[at]), 4)
    return out


@lru_cache(maxsize=1024)
def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _cell(text: str) -> str:
    return safe_cell(text)
