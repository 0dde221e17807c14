"""Atrial fibrillation and flutter in a recording that arrives in parts, as ``rhythm`` detects it in the whole.

As there, poor quality, possible ventricular flutter, paced beats and standstills are excluded, judged by the last
minute of the signal: the height of QRS complexes and the share of paced beats are those of that minute, waves that
become flutter later are not taken out, and a converter's rails are those that the stream was told.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.flutter import flutter_spans
from ecgfed.domain.signal.heartbeats import NO_BEATS_S, no_beats
from ecgfed.domain.signal.pacing import detect_pacing
from ecgfed.domain.signal.quality import NO_SIGNAL, Reason
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
    excluded_windows,
    log_odds,
    packaged_weights,
    signal_features,
)
from ecgfed.domain.signal.spans import Spans
from ecgfed.domain.signal.stream_quality import DECIDED_S, QualityStream

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: No R peak is detected later than this after it (``beats.stream.DETECTED_WITHIN_S``); quality takes ``DECIDED_S``.
_DETECTED_WITHIN_S = 6.0
#: Cells of signal that are read around a window.
_MARGIN = 1
#: Seconds received from the start of a cell until its rhythm is decided, at most: the windows of its neighbours have to
#: be complete, and their R peaks and quality decided. In a gap the quality waits for the gap's end, 10 s at most.
DECIDED_WITHIN_S = (len(AVERAGED) // 2) * CELL_S + (WINDOW_S - CELL_S) / 2 + DECIDED_S + CELL_S


class RhythmStream:
    """Takes samples and R peaks as they come.

    Args:
        fs_hz: sampling frequency in Hz.
        lead: index of the lead in use; one other is looked at as well.
        quality: of the lead in use, which has judged the samples before they come here.
    """

    def __init__(self, fs_hz: float, lead: int, quality: QualityStream) -> None:
        self.fs_hz, self.lead, self._quality = fs_hz, lead, quality
        self._odds: list[float] = []  # of each cell: 8 bytes for 10 s
        self._peaks = np.empty(0, np.int64)
        self._signals = np.empty((0, 0))
        self._first = 0  # number of the first sample in ``_signals``
        self._samples = 0
        self._without: list[tuple[float, float]] = []  # seconds that are no part of an episode
        self._unreadable = Spans.merged([])  # samples in which no episode begins or ends
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
            self.episodes = self._readable(episodes(np.array(self._odds), self._samples / self.fs_hz))
            return
        known_s = min(self._samples / self.fs_hz - _DETECTED_WITHIN_S, self._quality.decided / self.fs_hz)
        count = int((known_s - (WINDOW_S - CELL_S) / 2) // CELL_S) if known_s >= WINDOW_S else 0
        if count > len(self._odds):
            self._add(cell_windows((count + 2) * CELL_S)[len(self._odds) : count])
            decided = averaged(np.array(self._odds))[: -(len(AVERAGED) // 2)]
            self.episodes = self._readable(cell_episodes(decided, len(decided) * CELL_S, packaged_weights()))
            self._forget()

    def _readable(self, found: RhythmEpisodes) -> RhythmEpisodes:
        """Return episodes as ``RecordingBeats.fibrillation`` cuts them."""
        unreadable_s = [(start / self.fs_hz, stop / self.fs_hz) for start, stop in self._unreadable]
        return found.without(self._without, NO_BEATS_S).trimmed(unreadable_s, NO_BEATS_S)

    def _add(self, windows_s: Floats) -> None:
        """Score windows that are complete."""
        if not len(windows_s):
            return
        fs_hz, start_s = self.fs_hz, self._first / self.fs_hz
        leads = ("I", "II")[: len(self._signals)]
        held = Recording("", Path(), leads[0], leads, fs_hz, self._signals, ())
        peaks = (self._peaks - self._first)[~self._quality.spans([Reason.SPIKE]).inside(self._peaks)]
        bad, lost = (
            [(max(start - self._first, 0), stop - self._first) for start, stop in self._quality.spans(reasons)]
            for reasons in (Reason, NO_SIGNAL)
        )
        flutter = flutter_spans(held)
        without = Spans.merged([*lost, *flutter])
        spans_s = [((start + self._first) / fs_hz, (stop + self._first) / fs_hz) for start, stop in without]
        standstills = no_beats(held, peaks, without).episodes
        spans_s += [(start + start_s, stop + start_s) for start, stop in standstills]
        self._without += [span for span in spans_s if span[1] - span[0] >= NO_BEATS_S]
        unreadable = Spans.merged([*bad, *flutter])
        now = ((start + self._first, stop + self._first) for start, stop in unreadable)
        self._unreadable = Spans.merged([*self._unreadable, *now])
        unreadable_s = np.array([*unreadable]).reshape(-1, 2) / fs_hz
        windows_s = windows_s - start_s
        odds = log_odds(signal_features(self._signals, fs_hz, peaks, windows_s))
        pacing = detect_pacing(held, peaks)
        excluded = excluded_windows(windows_s, peaks / fs_hz, pacing.beats if pacing else None, unreadable_s)
        self._odds += np.where(excluded, np.nan, odds).tolist()

    def _forget(self) -> None:
        """Drop what no window needs any more; at the end of the recording windows are moved inwards."""
        cells = len(self._odds) - round(WINDOW_S / CELL_S) - _MARGIN
        first = max(round(cells * CELL_S * self.fs_hz), self._first)
        self._signals = self._signals[:, first - self._first :].copy()
        self._peaks, self._first = self._peaks[self._peaks >= first], first
