"""Checkpoint and history as callbacks of the training loop."""

import json
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ecgfed.base.errors import StorageError
from ecgfed.base.files import append_line, write_text
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import Callback, RoundOutcome
from ecgfed.core.federation.trees import tree_bytes
from ecgfed.core.runs.background_writer import BackgroundWriter
from ecgfed.core.runs.checkpoint import CheckpointStore, Snapshot
from ecgfed.core.runs.client_states import ClientStates
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines

#: Memory limit of unwritten states between checkpoints.
SPILL_BYTES = 64 << 20
#: Default fraction of the time spent on checkpoints, and the longest time without one.
SHARE_OF_TIME, LONGEST_S = 0.02, 600.0


class SaveCheckpoint(Callback):
    """Saves the state on a background thread during the next round; at most one write is in progress.

    Between checkpoints, client states stay in memory up to ``spill_bytes``; beyond that they are written ahead of the
    next checkpoint. On an error or Ctrl-C, the last finished round is saved before the error propagates.

    Args:
        store: the checkpoint store.
        every: save every n-th round, and the last; None: as often as takes 2% of the time, including disk waits, and at
            least every ten minutes. A resumed run continues from the last saved round with identical results.
        spill_bytes: memory limit of unwritten states.
    """

    def __init__(self, store: CheckpointStore, every: int | None = 1, spill_bytes: int = SPILL_BYTES) -> None:
        self.store, self.every, self.spill_bytes = store, every, spill_bytes
        #: processor time of the writing thread so far, s
        self.cpu_s = 0.0
        self._last_round: dict[int, int] = {}
        self._unsaved: Snapshot | None = None
        self._not_before = 0.0
        self._writer: BackgroundWriter | None = None

    def on_start(self, state: State) -> None:
        """Move client states to disk; raises RunError, StorageError."""
        self.store.attach(state)
        self._last_round, self._unsaved, self._not_before = {}, None, 0.0
        self._writer = BackgroundWriter()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Start to save changes since the last checkpoint, if one is due.

        Raises:
            StorageError: the previous write failed; the checkpoint before it is still valid.
        """
        state, writer = outcome.state, self._writer
        if writer is None or not isinstance(state.client_states, ClientStates):
            raise ValueError("on_start comes first")
        self._last_round.update(dict.fromkeys(outcome.changed, state.round))
        writer.wait()
        unwritten = state.client_states.unwritten()
        newer = {client: (self._last_round.get(client, state.round), tree) for client, tree in unwritten.items()}
        snapshot = Snapshot(state.round, newer, state.server, dict(state.beats_used))
        if outcome.last or outcome.stopping or self._is_turn(state.round):
            self._unsaved, self._last_round = None, {}
            writer.submit(lambda: self._write(snapshot))
            return
        self._unsaved = snapshot
        if sum(map(tree_bytes, unwritten.values())) > self.spill_bytes:
            self._unsaved, self._last_round = replace(snapshot, client_states={}), {}
            writer.submit(lambda: self._write(replace(snapshot, server=None)))

    def _is_turn(self, number: int) -> bool:
        return time.perf_counter() >= self._not_before if self.every is None else number % self.every == 0

    def _write(self, snapshot: Snapshot) -> None:
        started, cpu = time.perf_counter(), time.thread_time()
        self.store.write(snapshot)
        self.cpu_s += time.thread_time() - cpu
        if snapshot.server is not None:
            ended = time.perf_counter()
            self._not_before = ended + min((ended - started) / SHARE_OF_TIME, LONGEST_S)

    def on_end(self, state: State) -> None:
        """Wait for the last write; raises StorageError."""
        if self._writer is not None:
            self._writer.wait()
            self._writer.close()

    def on_failure(self, state: State) -> None:
        """Save the last finished round and wait; errors are suppressed in favour of the one that ended the session."""
        if self._writer is None:
            return
        unsaved, self._unsaved = self._unsaved, None
        if unsaved is not None:
            with suppress(StorageError):
                self._writer.submit(lambda: self._write(unsaved))
        self._writer.close()


class WriteHistory(Callback):
    """Appends a line per round to ``history.jsonl`` (deterministic for a seed) and ``timing.jsonl`` (not).

    It must run before ``SaveCheckpoint``: after a kill, lines may be ahead of the checkpoint, but never behind; lines
    ahead are removed on resume. A checkpoint syncs them to disk before it is published.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._since = time.perf_counter()

    def on_start(self, state: State) -> None:
        """Remove lines that an interrupted session wrote after its last checkpoint."""
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
        timing = {"round": outcome.state.round, "seconds": round(now - self._since, 4), "examples": outcome.examples}
        append_line(self.run / TIMING, json.dumps(timing))
        self._since = now
