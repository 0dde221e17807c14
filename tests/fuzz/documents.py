"""Mutations that know JSON, JSON lines, TOML and CSV."""

import copy
import json
import re
from pathlib import Path
from random import Random
from typing import Any

from .plain import EXTREMES, NAMES, Mutation, encoded, put

_DEEP = 200_000
#: Written as they stand, since no Python value would give them.
_RAW = ("NaN", "Infinity", "-Infinity", "1e400", "9" * 5000, "-" + "1" * 5000, "1e-400", "[" * _DEEP, '{"a":' * _DEEP,
        "[" * 500 + "]" * 500, '"\\ud800"', '"\x1b[31m"', "01", "'a'", "undefined", "")  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, "", "x", "0", "nan", [], {}, [[]], [None],
    {"": None}, {"a": {"b": []}}, ["x"] * 5000, "x" * 1_000_000, [0] * 100_000,
)  # fmt: skip
_MARK = "@fuzz@"


def _places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a document."""
    found = [here]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            found += _places(part, (*here, key))
    return found


def _holder(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


def _dump(document: Any) -> bytes:
    return encoded(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def change(document: Any, rng: Random) -> tuple[bytes, str]:
    """Return a document with one thing changed, as bytes, and what that was."""
    document = copy.deepcopy(document)
    paths = [path for path in _places(document) if path]
    if not paths:
        return encoded(rng.choice(_RAW)), "the whole became another value"
    # long lists of the same would take all the cases
    short = [path for path in paths if all(not isinstance(key, int) or key < 3 for key in path)] or paths
    path = rng.choice(short)
    holder, key = _holder(document, path), path[-1]
    where = "/".join(map(str, path))
    kind = rng.choice(("raw", "value", "value", "number", "name", "remove", "double", "rename", "swap", "list", "near"))
    if kind == "raw":
        raw, holder[key] = rng.choice(_RAW), _MARK
        text = _dump(document).replace(json.dumps(_MARK).encode(), encoded(raw), 1)
        return text, f"{where} became {raw[:20]!r}"
    if kind == "double" and isinstance(holder, dict):
        other = rng.choice(_VALUES[:16])
        pair = f'"{_MARK}": {json.dumps(other)}, {json.dumps(key)}'
        text = _dump(document).replace(encoded(json.dumps(key)), encoded(pair), 1)
        return text.replace(_MARK.encode(), encoded(key)), f"{where} is there twice"
    return _dump(_changed(document, holder, key, kind, rng)), f"{where}: {kind}, {_brief(holder, key)}"


def _changed(document: Any, holder: Any, key: Any, kind: str, rng: Random) -> Any:
    """Change one value in place; returns the document."""
    old = holder[key]
    if kind == "remove":
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[rng.choice(NAMES)] = holder.pop(key)
    elif kind == "swap":
        others = [other for other in (holder if isinstance(holder, dict) else range(len(holder))) if other != key]
        if others:
            other = rng.choice(others)
            holder[key], holder[other] = holder[other], holder[key]
        else:
            del holder[key]
    elif kind == "list" and isinstance(old, list) and old:
        holder[key] = rng.choice((old[::-1], old * 2, old[:-1], [*old, old[0]], old * 1000))
    elif kind == "near" and isinstance(old, bool):
        holder[key] = not old
    elif kind == "near" and isinstance(old, int | float):
        holder[key] = rng.choice((old + 1, old - 1, -old, old * 1000, old / 3))
    elif kind == "near" and isinstance(old, str) and old:
        holder[key] = rng.choice((old[:-1], old + "x", old.upper(), old.swapcase(), old[::-1], old + " "))
    elif kind == "name":
        holder[key] = rng.choice(NAMES)
    elif kind == "number":
        text = rng.choice(EXTREMES)
        try:
            holder[key] = json.loads(text)
        except ValueError:
            holder[key] = text
    else:
        holder[key] = rng.choice(_VALUES)
    return document


def _brief(holder: Any, key: Any) -> str:
    try:
        return f"now {repr(holder[key])[:40]}"
    except (KeyError, IndexError, TypeError):
        return "gone"


def json_value(path: Path, rng: Random) -> str:
    data, what = change(json.loads(path.read_bytes()), rng)
    put(path, data)
    return what


def json_line(path: Path, rng: Random) -> str:
    lines = path.read_bytes().splitlines()
    number = rng.randrange(len(lines))
    data, what = change(json.loads(lines[number]), rng)
    lines[number] = data.replace(b"\n", b"")
    put(path, b"\n".join(lines) + rng.choice((b"\n", b"")))
    return f"line {number + 1}, {what}"


def toml_value(path: Path, rng: Random) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    number = rng.choice([i for i, text in enumerate(lines) if "=" in text])
    key, _, old = lines[number].partition("=")
    values = ("0", "-1", "nan", "inf", "-inf", "1e308", "9" * 5000, "true", '"x"', '""', "[]", "{}", "1979-05-27",
              "0x10",
              "[" * _DEEP, "[" * 500 + "]" * 500, '"../../../fuzzed"', '"\\u001b[31m"', "'evil.py:X'", "'''",
              "1_0", "0.5",
              "[[1]]", '"[/b]"', str(2**63), "07:32:00", ".5", "{a=" * 900 + "1" + "}" * 900)  # fmt: skip
    new = rng.choice(values)
    kind = rng.randrange(5)
    if kind == 0:
        lines.insert(number, f"{rng.choice(['rounds', 'passes', 'lr', 'set', 'unknown', 'a.b.c', '[/b]'])} = {new}")
    elif kind == 1:
        lines.insert(rng.randrange(len(lines) + 1), lines[number])
    elif kind == 2:
        lines.insert(0, rng.choice(("[set]", "[[set]]", "[a" + ".a" * 5000 + "]", "[", "set = 1")))
    else:
        lines[number] = f"{key}= {new}"
    put(path, encoded("\n".join(lines) + "\n"))
    return f"line {number + 1} ({key.strip()} ={old[:20]}): {kind}, {new[:30]!r}"


def csv_cell(path: Path, rng: Random) -> str:
    data = path.read_bytes().decode("utf-8")
    sign = "\t" if path.suffix == ".tsv" else ","
    rows = [row.split(sign) for row in data.splitlines()]
    if not rows:
        put(path, b"," * 100)
        return "100 commas"
    row = rng.randrange(min(len(rows), 4)) if rng.random() < 0.6 else rng.randrange(len(rows))
    column = rng.randrange(len(rows[row]))
    kind = rng.choice(("number", "number", "name", "quote", "wide", "long", "drop", "column", "decimal", "all"))
    new = rng.choice(EXTREMES) if kind == "number" else rng.choice(NAMES)
    if kind in ("number", "name"):
        rows[row][column] = new
    elif kind == "quote":
        rows[row][column] = '"' + rows[row][column]
    elif kind == "wide":
        rows[row] += ["0"] * rng.choice((1, 100, 2_000_000))
    elif kind == "long":
        rows[row][column] = "x" * 300_000
    elif kind == "drop":
        del rows[row][column]
    elif kind == "column":
        for cells in rows:
            cells.insert(column, cells[min(column, len(cells) - 1)])
    elif kind == "decimal":
        rows = [[re.sub(r"(\d)\.(\d)", r"\1,\2", cell) for cell in cells] for cells in rows]
    else:
        rows = [[*cells[:column], new, *cells[column + 1 :]] for cells in rows]
    put(path, encoded("\n".join(sign.join(cells) for cells in rows) + "\n"))
    return f"row {row + 1} column {column + 1}: {kind}, {new[:20]!r}"


JSON: list[tuple[float, Mutation]] = [(25, json_value)]
LINES: list[tuple[float, Mutation]] = [(25, json_line)]
TOML: list[tuple[float, Mutation]] = [(20, toml_value)]
CSV: list[tuple[float, Mutation]] = [(15, csv_cell)]
