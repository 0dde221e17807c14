"""``history.jsonl`` and ``timing.jsonl``: one line per round."""

from pathlib import Path
from typing import Any

from ecgfed.base.errors import RunError
from ecgfed.base.safe_io import check_links, parse_json, read_bounded
from ecgfed.core.runs.document import typed

#: Maximum size, more than 10,000 clients in 10,000 rounds need.
MAX_BYTES = 2 << 30
HISTORY, TIMING = "history.jsonl", "timing.jsonl"


def read_lines(path: Path, rounds: int | None = None) -> list[dict[str, Any]]:
    """Read a JSON-lines file of a run, up to a round; an incomplete last line is ignored.

    Lines after that round are not validated: no checkpoint covers them, and a power cut may have damaged them.

    Raises:
        RunError: unreadable, a damaged line before the last, or a line that is not an object with a ``round``.
    """
    if not path.is_file():
        return []
    try:
        check_links(path.parent, [path.name], RunError)
        data = read_bounded(path, MAX_BYTES, RunError)
    except OSError as problem:
        actual = f"cannot be read ({problem.strerror})"
        raise RunError(path, actual, action="restore the file from a backup") from problem
    lines: list[dict[str, Any]] = []
    raw, torn = data.splitlines(), not data.endswith(b"\n")
    for number, text in enumerate(raw, start=1):
        try:
            line = parse_json(text)
        except ValueError as problem:
            if (torn and number == len(raw)) or (lines and lines[-1].get("round") == rounds):
                break
            action = "restore the file from a backup"
            raise RunError(path, f"line {number} is no JSON ({problem})", action=action) from problem
        if not isinstance(line, dict):
            raise RunError(path, f"line {number} is no JSON object", action="restore the file from a backup")
        action = f"restore line {number} from a backup"
        if rounds is None or typed(line, "round", int, path, action) <= rounds:
            lines.append(line)
    return lines


def read_history(folder: Path, rounds: int | None = None) -> list[dict[str, Any]]:
    """Read a run's history up to a round, with its losses checked.

    Raises:
        RunError: as ``read_lines``, and for a line without its losses.
    """
    lines = read_lines(folder / HISTORY, rounds)
    for line in lines:
        for name in ("loss_mean", "loss_max"):
            typed(line, name, float, folder / HISTORY, "restore the file from a backup")
    return lines
