"""Atrial fibrillation and flutter in a recording that arrives in parts, as ``rhythm`` detects it in the whole."""

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.events.rhythm import RhythmEpisodes
from ecgfed.domain.signal.rhythm import (
    AVERAGED,
    CELL_S,
    LEADS,
    MIN_FS_HZ,
    NAME,
    WINDOW_S,
    averaged,
    cell_episodes,
    cell_windows,
    episodes,
    log_odds,
    packaged_weights,
    signal_features,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: No R peak is detected later than this after it (``beats.stream.DETECTED_WITHIN_S``).
_DETECTED_WITHIN_S = 6.0
#: Cells of signal that are read around a window.
_MARGIN = 1
#: Seconds received from the start of a cell until its rhythm is decided, at most: the windows of its neighbours have to
#: be complete, and their R peaks detected.
DECIDED_WITHIN_S = (len(AVERAGED) // 2) * CELL_S + (WINDOW_S - CELL_S) / 2 + _DETECTED_WITHIN_S + CELL_S


class RhythmStream:
    """Takes samples and R peaks as they come.

    Args:
        fs_hz: sampling frequency in Hz.
        lead: index of the lead in use; one other is looked at as well.
    """

    def __init__(self, fs_hz: float, lead: int) -> None:
        self.fs_hz, self.lead = fs_hz, lead
        self._odds: list[float] = []  # of each cell: 8 bytes for 10 s
        self._peaks = np.empty(0, np.int64)
        self._signals = np.empty((0, 0))
        self._first = 0  # number of the first sample in ``_signals``
        self._samples = 0
        self.episodes = RhythmEpisodes(NAME, ())

    def look(self, signals_mv: Floats, peaks: Ints, *, ended: bool = False) -> None:
        """Take the next samples (leads, samples) and detected R peaks; ``ended`` says that none follow.

        ``episodes`` are then those that are decided; one that ends where the decided part ends may go on. After the end
        they are those of the whole recording.
        """
        rows = [self.lead, *(row for row in range(len(signals_mv)) if row != self.lead)][:LEADS]
        self._signals = np.concatenate([self._signals.reshape(len(rows), -1), signals_mv[rows]], axis=1)
        self._peaks = np.concatenate([self._peaks, peaks])
        self._samples += signals_mv.shape[1]
        if self.fs_hz < MIN_FS_HZ or not self._samples:
            return
        if ended:
            self._add(cell_windows(self._samples / self.fs_hz)[len(self._odds) :])
            self.episodes = episodes(np.array(self._odds), self._samples / self.fs_hz)
            return
        known_s = self._samples / self.fs_hz - _DETECTED_WITHIN_S
        count = int((known_s - (WINDOW_S - CELL_S) / 2) // CELL_S) if known_s >= WINDOW_S else 0
        if count > len(self._odds):
            self._add(cell_windows((count + 2) * CELL_S)[len(self._odds) : count])
            decided = averaged(np.array(self._odds))[: -(len(AVERAGED) // 2)]
            self.episodes = cell_episodes(decided, len(decided) * CELL_S, packaged_weights())
            self._forget()

    def _add(self, windows_s: Floats) -> None:
        """Score windows that are complete."""
        if len(windows_s):
            start_s = self._first / self.fs_hz
            features = signal_features(self._signals, self.fs_hz, self._peaks - self._first, windows_s - start_s)
            self._odds += log_odds(features).tolist()

    def _forget(self) -> None:
        """Drop what no window needs any more; at the end of the recording windows are moved inwards."""
        cells = len(self._odds) - round(WINDOW_S / CELL_S) - _MARGIN
        first = max(round(cells * CELL_S * self.fs_hz), self._first)
        self._signals = self._signals[:, first - self._first :].copy()
        self._peaks, self._first = self._peaks[self._peaks >= first], first
