"""Beats as CSV and as JSON, piece by piece: a fortnight has more than a million."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from ecgfed.text import safe_row

#: Beats in a piece.
_AT_ONCE = 4096


def beats_as_table(beats: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield a CSV file with a line for each beat and one for the names; nothing at all where there are none."""
    text, writer = io.StringIO(), None
    while some := list(islice(beats, _AT_ONCE)):
        if writer is None:
            writer = csv.DictWriter(text, list(some[0]), lineterminator="\n")
            writer.writeheader()
        writer.writerows(map(safe_row, some))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()


def beats_as_json(about: Mapping[str, Any], beats: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield what ``json.dumps({**about, "beats": [...]}, indent=1)`` writes, and a line's end.

    Args:
        about: JSON-ready, what stands before the beats.
        beats: of text, whole numbers and finite ones.

    Raises:
        ValueError: a number that is not finite.
    """
    whole = json.dumps({**about, "beats": []}, indent=1, allow_nan=False, ensure_ascii=False)
    head, tail = whole[: -len("[]\n}")], "\n}\n"
    separator = "[\n"
    while some := list(islice(beats, _AT_ONCE)):
        yield (head + separator + ",\n".join(map(_object, some))).encode()
        head, separator = "", ",\n"
    yield (f"{head}[]{tail}" if head else f"\n ]{tail}").encode()


def _object(beat: Mapping[str, Any]) -> str:
    """Return one beat as it stands in the list."""
    inside = ",\n".join(f"   {_name(name)}: {_value(value)}" for name, value in beat.items())
    return f"  {{\n{inside}\n  }}" if inside else "  {}"


@lru_cache(maxsize=256)
def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, str):
        return _name(value)
    return repr(value) if type(value) is int else _number(value)


def _number(value: object) -> str:
    return json.dumps(value, allow_nan=False)
