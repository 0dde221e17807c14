"""Checkpoint and history as callbacks of the training loop."""

import json
import time
from pathlib import Path
from typing import Any

from ecgfed.errors import RunError
from ecgfed.federation.checkpoint import CheckpointStore, State
from ecgfed.federation.train import Callback, RoundOutcome
from ecgfed.files import append_line, write_text

HISTORY, TIMING = "history.jsonl", "timing.jsonl"


class SaveCheckpoint(Callback):
    """Saves the state after every n-th round and after the last.

    Args:
        store: where to.
        every: n; a killed run goes on from the last saved round, to the same end whatever n is.
    """

    def __init__(self, store: CheckpointStore, every: int = 1) -> None:
        self.store, self.every = store, every
        self._changed: set[int] = set()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Save what has changed since the last time, when it is this round's turn."""
        self._changed.update(outcome.changed)
        if outcome.state.round % self.every == 0 or outcome.last:
            self.store.save(outcome.state, sorted(self._changed))
            self._changed.clear()


class WriteHistory(Callback):
    """Appends a line a round to ``history.jsonl`` (the same for the same seed) and ``timing.jsonl`` (never the same).

    It stands before ``SaveCheckpoint``: a line may be ahead of the checkpoint after a kill, never behind, and lines
    ahead are cut off when the run goes on.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._since = time.perf_counter()

    def on_start(self, state: State) -> None:
        """Cut off what a killed session wrote past its last checkpoint."""
        for name in (HISTORY, TIMING):
            path = self.run / name
            lines = read_lines(path, state.round)
            if path.is_file() or lines:
                write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
        self._since = time.perf_counter()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Append the round's lines."""
        now = time.perf_counter()
        append_line(self.run / HISTORY, json.dumps(outcome.record))
        append_line(
            self.run / TIMING, json.dumps({"round": outcome.state.round, "seconds": round(now - self._since, 4)})
        )
        self._since = now


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
