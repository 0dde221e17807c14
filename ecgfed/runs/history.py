"""The JSON-lines files of a run: a line a round."""

import json
from pathlib import Path
from typing import Any

from ecgfed.errors import RunError

HISTORY, TIMING = "history.jsonl", "timing.jsonl"


def read_lines(path: Path, rounds: int | None = None) -> list[dict[str, Any]]:
    """Read a JSON-lines file of a run, up to a round; a half line at its end is left out.

    Raises:
        RunError: a broken line that is not the last.
    """
    if not path.is_file():
        return []
    lines: list[dict[str, Any]] = []
    raw = path.read_text(encoding="utf-8").splitlines()
    for number, text in enumerate(raw, start=1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError as problem:
            if number == len(raw):
                break
            raise RunError(path, f"line {number} is no JSON ({problem})", action="restore the file") from problem
        if rounds is None or line["round"] <= rounds:
            lines.append(line)
    return lines
