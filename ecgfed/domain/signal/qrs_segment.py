"""A stretch of a stream without a gap: what the QRS detector keeps of it between two calls, and its open decisions."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal import qrs_features, qrs_net, qrs_resample, qrs_signal
from ecgfed.domain.signal.qrs_rhythm import BLOCKS_AHEAD, Likely
from ecgfed.domain.signal.qrs_signal import (
    BLOCK,
    FIRST_BLOCKS,
    LOOK_AHEAD,
    LOOK_BACK,
    NEEDED_AHEAD,
    RATE_HZ,
    Floats,
    Ints,
    Traces,
)
from ecgfed.domain.signal.qrs_views import APART, ActiveBlocks, LeadVote, ViewBeats, distance, views_of

#: Two beats are at least the first of these apart (428/min), and the second unless the log odds of both reach
#: ``WEAK_SCORE``: the waves of a fast ventricular run do, most P and T waves do not. Beats that were moved to the same
#: extremum are ``SAME_PEAK_S`` apart or less.
REFRACTORY_S, RELATIVE_REFRACTORY_S, WEAK_SCORE, SAME_PEAK_S = 0.14, 0.185, 0.5, 0.065
_LIMIT_MV = 1000.0
#: How many blocks levels look back.
_LEVELS_OF = 30


#: (waves,) samples and (waves,) log odds.
Log = Callable[[Ints, Floats], None]


class Segment:
    """Takes the samples of a stretch as they come and returns the R peaks that have become certain.

    Args:
        fs_hz: sampling frequency in Hz.
        leads: how many leads there are.
        lead: the lead on whose extremum the R peak is put.
        start: sample of the stream at which the stretch begins.
        log: told of every wave that all leads together have decided on, in samples of the stream, and its log odds.
    """

    def __init__(self, fs_hz: float, leads: int, lead: int, start: int, log: Log | None = None) -> None:
        self.log = log
        self.fs_hz, self.lead, self.start = fs_hz, lead, start
        self.raw, self.raw_start = np.empty((leads, 0), np.int32), 0
        self.last_uv = np.zeros((leads, 1), np.int32)  # last valid input, and what was made of it
        self.last_out = np.zeros((leads, 1), np.int32)
        self.held = np.ones((leads, 1), np.bool_)
        self.signal, self.signal_start = np.empty((leads, 0), np.int32), 0
        self.statistics, self.statistics_start = np.empty((2, leads, 0), np.float32), 0
        self.blocks = 0  # looked at so far, and decided
        self.decided = 0
        self.views = views_of(leads, lead)
        self.vote = LeadVote(len(self.views))
        self.active = ActiveBlocks(0, np.empty((leads, 0), np.bool_))
        self.open: tuple[float, int, int] | None = None  # score, 200 Hz sample and R peak of the last beat
        self.reported = -1

    @property
    def count(self) -> int:
        """200 Hz samples that have come."""
        return self.signal_start + self.signal.shape[1]

    @property
    def samples(self) -> int:
        """Samples that have come, at the stream's own rate."""
        return self.raw_start + self.raw.shape[1]

    def stretch(self, low: int, high: int) -> NDArray[np.int32]:
        """Return 200 Hz samples (leads, high - low); before the first and after the last that has come, those."""
        count = self.count
        stretch = self.signal[:, max(low, 0) - self.signal_start : high - self.signal_start]
        if low < 0 or high > count:
            stretch = np.pad(stretch, ((0, 0), (max(-low, 0), max(high - count, 0))), mode="edge")
        return stretch

    def feed(self, data_mv: NDArray[np.float64], *, ended: bool) -> Ints:
        """Take samples (leads, samples), NaN where one is missing; ``ended`` says that no more will come."""
        if data_mv.shape[1]:
            self.raw = np.concatenate([self.raw, self._in_steps(data_mv)], axis=1)
        total = self.samples
        have = self.count
        count = qrs_resample.resampled_count(total, self.fs_hz, ended)
        if count > have:
            end = total if ended else None
            more = qrs_resample.resample(self.raw, self.raw_start, have, count, self.fs_hz, end)
            self.signal = np.concatenate([self.signal, more], axis=1)
        stop = -(-count // BLOCK) if ended else (count - NEEDED_AHEAD) // BLOCK
        peaks: list[int] = []
        if stop > self.blocks and (ended or stop >= FIRST_BLOCKS - 1):
            peaks = self._look(stop, count, ended)
        if ended:
            self._report(peaks)
        self._forget()
        return np.array(peaks, dtype=np.int64) + self.start

    def _in_steps(self, data_mv: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return whole microvolts; where a lead misses samples its last value is held, and it goes on from there."""
        missing = ~np.isfinite(data_mv)
        if not missing.any():
            return self._in_steps_without_gaps(data_mv)
        data = np.where(missing, 0.0, data_mv)
        data_uv = np.rint(np.clip(data, -_LIMIT_MV, _LIMIT_MV) * 1000).astype(np.int32)
        last = np.maximum.accumulate(np.where(missing, -1, np.arange(data.shape[1])), axis=1)
        data_uv = np.where(last < 0, self.last_uv, np.take_along_axis(data_uv, np.maximum(last, 0), axis=1))
        was_missing = np.concatenate([self.held, missing[:, :-1]], axis=1)
        steps = np.diff(data_uv, prepend=self.last_uv)
        steps[missing | was_missing] = 0
        out = self.last_out + np.cumsum(steps, axis=1, dtype=np.int32)
        self.last_uv, self.last_out, self.held = data_uv[:, -1:], out[:, -1:], missing[:, -1:]
        return np.asarray(out, dtype=np.int32)

    def _in_steps_without_gaps(self, data_mv: NDArray[np.float64]) -> NDArray[np.int32]:
        """The same where every sample is there."""
        data = np.clip(data_mv, -_LIMIT_MV, _LIMIT_MV)
        data *= 1000
        out = np.rint(data, out=data).astype(np.int32)
        last_uv = out[:, -1:].copy()
        out += self.last_out - np.where(self.held, out[:, :1], self.last_uv)
        self.last_uv, self.last_out, self.held = last_uv, out[:, -1:].copy(), np.zeros_like(self.held)
        return out

    def _look(self, stop: int, count: int, ended: bool) -> list[int]:
        """Look at the blocks up to ``stop``, decide what can be; return the R peaks that nothing can replace."""
        first, self.blocks = self.blocks, stop
        decide = stop if ended else max(stop - BLOCKS_AHEAD, 0)
        low, high = self.decided * BLOCK - LOOK_BACK, stop * BLOCK + LOOK_AHEAD
        traces = qrs_signal.traces(self.stretch(low, high), low)
        back = first * BLOCK - traces.start
        self._measure(traces, count if ended else (stop + 1) * BLOCK)
        level = self._levels(first, stop)
        self.active = self.active.joined(first, qrs_signal.lead_weights(level[:, :, 1:-1]) > 0)
        for view in self.views:
            view.take(traces, level, back, count - traces.start)
        fresh: list[ViewBeats] = []
        for number, view in enumerate(self.views):
            known = len(view.at)
            beats, score = view.second_look(self.decided, decide)
            if self.log and not number:
                at = np.rint(view.at[known:] * (self.fs_hz / RATE_HZ)).astype(np.int64)
                self.log(at + self.start, view.score[known:])
            peak = np.zeros(len(beats.at), np.int64)
            if number:  # what all leads together have decided on needs no place from one of them
                combined = np.concatenate([self.vote.recent[0], fresh[0].at])
                alone = np.flatnonzero(distance(beats.at, combined) > APART)
                peak[alone] = self.locate(traces, beats.some(alone))
            else:
                peak = self.locate(traces, beats)
            fresh.append(ViewBeats(beats.at, np.full(len(peak), number), score, peak))
        self.vote.take(fresh)
        self.decided = decide
        limit = decide * BLOCK if ended or len(self.views) == 1 else decide * BLOCK - APART
        chosen = self.vote.decide(self.views, count if ended else limit, self.active)
        for view in self.views:
            view.forget(decide)
        self.active = self.active.since(max(decide - 2, 0))
        return self._refractory(chosen, limit)

    def _measure(self, traces: Traces, stop: int) -> None:
        """Take the statistics of the blocks up to a 200 Hz sample that have none yet; keep those of 30 s."""
        known = self.statistics_start + self.statistics.shape[2]
        fresh = traces.envelope[:, known * BLOCK - traces.start : stop - traces.start]
        if fresh.shape[1]:
            more = qrs_signal.block_statistics(fresh)
            self.statistics = np.concatenate([self.statistics, more], axis=2)

    def _levels(self, first: int, stop: int) -> Floats:
        """Return the levels (6, leads, stop - first + 2) of some blocks and of one more on each side."""
        known = self.statistics_start + self.statistics.shape[2]
        low, high = max(first - 1, 0), min(stop + 1, known)
        level = qrs_signal.levels(self.statistics, self.statistics_start, low, high)
        return np.pad(level, ((0, 0), (0, 0), (low - first + 1, stop + 1 - high)), mode="edge")

    def locate(self, traces: Traces, beats: Likely) -> Ints:
        """Return the R peak of each beat, in samples of the segment."""
        at, peaks = beats.at - traces.start, np.empty(len(beats.at), np.int64)
        for lead in np.unique(beats.lead).tolist():
            mine = beats.lead == lead
            position, exists, features = qrs_features.extrema(traces, lead, at[mine], beats.size[mine])
            score = np.where(exists, qrs_net.peak_scores(features), -np.inf)
            chosen = np.take_along_axis(position, score.argmax(axis=1)[:, None], axis=1)[:, 0]
            smooth = traces.smooth[lead]
            up = 2 * smooth[chosen] >= smooth[chosen - 3] + smooth[chosen + 3]
            peaks[mine] = self._refine(lead, chosen + traces.start, up)
        return peaks

    def _refine(self, lead: int, position: Ints, up: NDArray[np.bool_]) -> Ints:
        """Go from a 200 Hz sample to the extremum within 8 ms at the stream's own rate, smoothed over 5 ms."""
        reach, half = max(1, round(0.008 * self.fs_hz)), int(self.fs_hz / RATE_HZ / 2)
        end = self.samples
        centre = np.rint(position * (self.fs_hz / RATE_HZ)).astype(np.int64)
        offset = np.arange(-reach - half, reach + half + 1)
        near = self.raw[lead, np.clip(centre[:, None] + offset, self.raw_start, end - 1) - self.raw_start]
        total = np.zeros((len(near), near.shape[1] + 1), np.int64)
        np.cumsum(near, axis=1, out=total[:, 1:])
        width = 2 * half + 1
        sums = total[:, width:] - total[:, :-width]
        shift = np.where(up, sums.argmax(axis=1), sums.argmin(axis=1)) - reach
        return np.asarray(np.clip(centre + shift, 0, end - 1), dtype=np.int64)

    def _refractory(self, beats: ViewBeats, stop: int) -> list[int]:
        """Of two beats within the refractory period the surer stays; return the peaks that nothing can replace."""
        accepted: list[int] = []
        absolute, relative = round(REFRACTORY_S * RATE_HZ), round(RELATIVE_REFRACTORY_S * RATE_HZ)
        for beat in zip(beats.score.tolist(), beats.at.tolist(), beats.peak.tolist(), strict=True):
            weak = self.open and min(self.open[0], beat[0]) < WEAK_SCORE
            if self.open and beat[1] - self.open[1] < (relative if weak else absolute):
                self.open = max(self.open, beat)
            else:
                self._report(accepted)
                self.open = beat
        if self.open and stop - self.open[1] >= relative:  # nothing that is decided later is so near
            self._report(accepted)
        return accepted

    def _report(self, peaks: list[int]) -> None:
        """Close the open beat; one whose R peak fell upon the last beat's keeps its own centre."""
        if not self.open:
            return
        _, at, peak = self.open
        self.open = None
        if peak - self.reported < SAME_PEAK_S * self.fs_hz:
            peak = round(at * self.fs_hz / RATE_HZ)
        if self.reported < 0 or peak - self.reported >= SAME_PEAK_S * self.fs_hz:
            self.reported = peak
            peaks.append(peak)

    def _forget(self) -> None:
        """Drop what no later decision looks at."""
        keep = max(self.decided * BLOCK - LOOK_BACK, self.signal_start)
        if keep == self.signal_start and keep:  # nothing has been decided since
            return
        self.signal = self.signal[:, keep - self.signal_start :].copy()
        self.signal_start = keep
        step = self.fs_hz / RATE_HZ
        oldest = min(self.decided * BLOCK - 2 * qrs_features.REACH, keep + self.signal.shape[1])
        raw_keep = max(math.floor((oldest - 1) * step) - 2, self.raw_start)
        self.raw = self.raw[:, raw_keep - self.raw_start :].copy()
        self.raw_start = raw_keep
        first = max(self.blocks - _LEVELS_OF, self.statistics_start)
        self.statistics = self.statistics[:, :, first - self.statistics_start :].copy()
        self.statistics_start = first
