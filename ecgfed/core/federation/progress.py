"""Report progress and speed after every round."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import Callback, RoundOutcome


@dataclass(frozen=True)
class TrainingProgress:
    """Progress and speed of a training session.

    Attributes:
        round: finished rounds of the run.
        rounds: planned rounds of the run.
        rounds_per_s: over the last rounds of this session.
        samples_per_s: training beats per second over the same rounds.
        remaining_s: expected time for the remaining rounds at that speed.
        record: the round's line in the history.
        timed: rounds that the speed is averaged over.
    """

    round: int
    rounds: int
    rounds_per_s: float
    samples_per_s: float
    remaining_s: float
    record: dict[str, Any]
    timed: int = 1


class ProgressCallback(Callback):
    """Calls a function with the progress after every round.

    Args:
        rounds: planned rounds of the run.
        on_progress: called with the progress.
        window: rounds that the speed is averaged over.
        clock: monotonic time in seconds.
    """

    def __init__(
        self,
        rounds: int,
        on_progress: Callable[[TrainingProgress], None],
        window: int = 20,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.rounds, self.on_progress, self.clock = rounds, on_progress, clock
        # (when, beats of the session so far), the first from before the window's first round
        self._marks: deque[tuple[float, int]] = deque(maxlen=window + 1)

    def on_start(self, state: State) -> None:
        """Start the clock."""
        self._marks.clear()
        self._marks.append((self.clock(), 0))

    def on_round(self, outcome: RoundOutcome) -> None:
        """Report the progress."""
        self._marks.append((self.clock(), self._marks[-1][1] + outcome.examples))
        (since, before), (now, beats) = self._marks[0], self._marks[-1]
        elapsed = max(now - since, 1e-9)
        timed, finished = len(self._marks) - 1, outcome.state.round
        speed, remaining_s = timed / elapsed, (self.rounds - finished) * elapsed / timed
        self.on_progress(
            TrainingProgress(
                finished, self.rounds, speed, (beats - before) / elapsed, remaining_s, outcome.record, timed
            )
        )
