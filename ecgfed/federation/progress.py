"""How far a session is and how fast, told after every round."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ecgfed.federation.state import State
from ecgfed.federation.train import Callback, RoundOutcome


@dataclass(frozen=True)
class Progress:
    """How far a session is, and how fast.

    Attributes:
        round: finished rounds of the run.
        rounds: planned rounds of the run.
        rounds_per_s: over the last rounds of this session.
        samples_per_s: training beats a second over the same rounds.
        left_s: time the rounds that are left will take at that speed.
        record: the round's line in the history.
        timed: rounds that the speed is taken over.
    """

    round: int
    rounds: int
    rounds_per_s: float
    samples_per_s: float
    left_s: float
    record: dict[str, Any]
    timed: int = 1


class ReportProgress(Callback):
    """Tells somebody after every round how far the run is and how fast.

    Args:
        rounds: planned rounds of the run.
        tell: told.
        window: rounds that the speed is taken over.
        clock: seconds from any moment on.
    """

    def __init__(
        self,
        rounds: int,
        tell: Callable[[Progress], None],
        window: int = 20,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.rounds, self.tell, self.clock = rounds, tell, clock
        # (when, beats of the session so far), the first from before the window's first round
        self._marks: deque[tuple[float, int]] = deque(maxlen=window + 1)

    def on_start(self, state: State) -> None:
        """Begin to take the time."""
        self._marks.clear()
        self._marks.append((self.clock(), 0))

    def on_round(self, outcome: RoundOutcome) -> None:
        """Tell."""
        self._marks.append((self.clock(), self._marks[-1][1] + outcome.examples))
        (since, before), (now, beats) = self._marks[0], self._marks[-1]
        elapsed = max(now - since, 1e-9)
        timed, done = len(self._marks) - 1, outcome.state.round
        speed, left_s = timed / elapsed, (self.rounds - done) * elapsed / timed
        self.tell(Progress(done, self.rounds, speed, (beats - before) / elapsed, left_s, outcome.record, timed))
