"""Our QRS detector: one stream, whole recordings included, that answers within ``DELAY_S``.

Candidates are the peaks of the leads' joint slope envelope; a small network looks at each lead around a candidate,
scaled by the level of the last seconds, and says whether it is a QRS complex; among complexes closer than the
refractory 200 ms the surest stays; a second one picks the R peak among the extrema of the lead in use. A recording is
detected by the same stream, fed whole.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ecgfed.signal import qrs_net, qrs_signal
from ecgfed.signal.qrs_signal import BLOCK, LOOK_AHEAD, LOOK_BACK, RATE_HZ, Floats, Ints, Traces

#: A peak is reported at the latest when this much signal after it has been seen.
DELAY_S = 3.2
#: Two beats are at least this far apart (refractory period of Pan and Tompkins, IEEE Trans Biomed Eng 32:230, 1985).
REFRACTORY_S = 0.2
#: Log odds from which a candidate is a beat; chosen on DS1 by cross-validation (benchmarks/qrs/train.py).
THRESHOLD = -0.4
#: Samples missing for longer than this on all leads are a gap; for less, the signal is held.
BRIDGE_S = 0.04
#: Sampling frequencies: below, a QRS complex has too few samples; a longer piece than this is fed in parts.
MIN_FS_HZ = 100.0
_PIECE_S = 600.0
_LIMIT_MV = 1000.0


class QrsDetector:
    """Finds R peaks in a stream of samples; the peaks do not depend on how the stream is cut into chunks.

    Args:
        fs_hz: sampling frequency in Hz, 100 or more.
        leads: how many leads a chunk has.
        lead: the lead on whose extremum the R peak is put.

    Raises:
        ValueError: a sampling frequency below 100 Hz, or a lead that is not there.
    """

    def __init__(self, fs_hz: float, leads: int = 1, *, lead: int = 0) -> None:
        if not (math.isfinite(fs_hz) and fs_hz >= MIN_FS_HZ):
            raise ValueError(f"fs_hz is {fs_hz}; expected {MIN_FS_HZ:g} Hz or more")
        if not 0 <= lead < leads:
            raise ValueError(f"lead is {lead}; expected 0 to {leads - 1}")
        self.fs_hz, self.leads, self.lead = float(fs_hz), leads, lead
        self._seen = 0
        self._waiting = np.empty((leads, 0))  # a run of missing samples that may yet be a gap
        self._segment: _Segment | None = None
        self._bridge = round(BRIDGE_S * fs_hz)

    def push(self, chunk_mv: NDArray[np.floating]) -> Ints:
        """Take the next samples and return the R peaks that have become certain.

        Args:
            chunk_mv: (samples,) or (leads, samples) millivolt, NaN where there is no sample.

        Returns:
            (peaks,) int64 sample numbers since the stream's start, increasing from call to call.

        Raises:
            ValueError: another number of leads.
        """
        chunk = np.atleast_2d(np.asarray(chunk_mv, dtype=np.float64))
        if chunk.ndim != 2 or len(chunk) != self.leads:
            raise ValueError(f"a chunk has shape {np.shape(chunk_mv)}; expected ({self.leads}, samples)")
        found = []
        for part in np.array_split(chunk, max(1, math.ceil(chunk.shape[1] / (_PIECE_S * self.fs_hz))), axis=1):
            found += self._take(part)
        return _joined(found)

    def finish(self) -> Ints:
        """End the stream and return the last R peaks; the next ``push`` begins another one at sample 0."""
        found = self._close()
        self._seen, self._waiting = 0, np.empty((self.leads, 0))
        return _joined(found)

    def _close(self) -> list[Ints]:
        """End the segment, if there is one."""
        segment, self._segment = self._segment, None
        return [segment.feed(np.empty((self.leads, 0)), ended=True)] if segment else []

    def _take(self, part: Floats) -> list[Ints]:
        """Cut at the gaps; a run of missing samples at the end waits until it is known to be one."""
        begin = self._seen - self._waiting.shape[1]
        self._seen += part.shape[1]
        data = np.concatenate([self._waiting, part], axis=1)
        missing = ~np.isfinite(data).any(axis=0)
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        found: list[Ints] = []
        at = 0
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            long = stop - start > self._bridge
            if self._segment is None and start == at:
                at = stop  # before the first sample of a segment
            elif long:
                found += self._feed(data[:, at:start], begin + at)
                found += self._close()
                at = stop
            elif stop == data.shape[1]:
                found += self._feed(data[:, at:start], begin + at)
                at = start
        if at < data.shape[1] and not missing[at:].all():
            found += self._feed(data[:, at:], begin + at)
            at = data.shape[1]
        self._waiting = data[:, at:] if self._segment is not None else np.empty((self.leads, 0))
        return found

    def _feed(self, data: Floats, start: int) -> list[Ints]:
        if not data.shape[1]:
            return []
        if self._segment is None:
            self._segment = _Segment(self.fs_hz, self.leads, self.lead, start)
        return [self._segment.feed(data, ended=False)]


def detect_qrs(signals_mv: NDArray[np.floating], fs_hz: float, *, lead: int = 0) -> Ints:
    """Find the R peaks of a whole recording: the stream, fed at once.

    Args:
        signals_mv: (samples,) or (leads, samples) millivolt, NaN where there is no sample.
        fs_hz: sampling frequency in Hz, 100 or more.
        lead: the lead on whose extremum the R peak is put.

    Returns:
        (peaks,) int64 increasing sample numbers; none where nothing looks like a QRS complex.
    """
    signals = np.atleast_2d(signals_mv)
    detector = QrsDetector(fs_hz, len(signals), lead=lead)
    return _joined([detector.push(signals), detector.finish()])


def _joined(found: list[Ints]) -> Ints:
    return np.concatenate(found) if found else np.empty(0, np.int64)


class _Segment:
    """A stretch without a gap: what is kept of it between two calls, and the decisions that are still open."""

    def __init__(self, fs_hz: float, leads: int, lead: int, start: int) -> None:
        self.fs_hz, self.lead, self.start = fs_hz, lead, start
        self.raw, self.raw_start = np.empty((leads, 0), np.int64), 0
        self.last_uv = np.zeros((leads, 1), np.int64)  # last valid input, and what was made of it
        self.last_out = np.zeros((leads, 1), np.int64)
        self.held = np.ones((leads, 1), np.bool_)
        self.signal, self.signal_start = np.empty((leads, 0), np.int64), 0
        self.statistics, self.statistics_start = np.empty((2, leads, 0)), 0
        self.blocks = 0  # decided so far
        self.open: tuple[float, int, int] | None = None  # score, 200 Hz sample and R peak of the last beat
        self.reported = -1

    def feed(self, data_mv: Floats, *, ended: bool) -> Ints:
        """Take samples; return the R peaks that have become certain."""
        if data_mv.shape[1]:
            self.raw = np.concatenate([self.raw, self._whole(data_mv)], axis=1)
        total = self.raw_start + self.raw.shape[1]
        have = self.signal_start + self.signal.shape[1]
        count = qrs_signal.resampled_count(total, self.fs_hz, ended)
        if count > have:
            end = total if ended else None
            more = qrs_signal.resample(self.raw, self.raw_start, have, count, self.fs_hz, end)
            self.signal = np.concatenate([self.signal, more], axis=1)
        stop = -(-count // BLOCK) if ended else (count - LOOK_AHEAD) // BLOCK
        peaks = self._decide(stop, count, ended) if stop > self.blocks else []
        if ended:
            self._report(peaks)
        self._forget()
        return np.array(peaks, dtype=np.int64) + self.start

    def _whole(self, data_mv: Floats) -> Ints:
        """Return whole microvolts; where a lead misses samples its last value is held, and it goes on from there."""
        missing = ~np.isfinite(data_mv)
        some = bool(missing.any())
        data = np.where(missing, 0.0, data_mv) if some else data_mv
        data_uv = np.rint(np.clip(data, -_LIMIT_MV, _LIMIT_MV) * 1000).astype(np.int64)
        if some:
            last = np.maximum.accumulate(np.where(missing, -1, np.arange(data.shape[1])), axis=1)
            data_uv = np.where(last < 0, self.last_uv, np.take_along_axis(data_uv, np.maximum(last, 0), axis=1))
        was_missing = np.concatenate([self.held, missing[:, :-1]], axis=1)
        steps = np.diff(data_uv, prepend=self.last_uv)
        steps[missing | was_missing] = 0
        out = self.last_out + np.cumsum(steps, axis=1)
        self.last_uv, self.last_out, self.held = data_uv[:, -1:], out[:, -1:], missing[:, -1:]
        return np.asarray(out, dtype=np.int64)

    def _decide(self, stop: int, count: int, ended: bool) -> list[int]:
        """Decide on the blocks up to ``stop``; return the R peaks that nothing can replace any more."""
        first, self.blocks = self.blocks, stop
        low, high = first * BLOCK - LOOK_BACK, stop * BLOCK + LOOK_AHEAD
        stretch = self.signal[:, max(low, 0) - self.signal_start : high - self.signal_start]
        stretch = np.pad(stretch, ((0, 0), (max(-low, 0), max(high - count, 0))), mode="edge")
        made = qrs_signal.traces(stretch, low)
        back = first * BLOCK - made.start
        self._measure(made, count if ended else (stop + 1) * BLOCK)
        level = self._levels(first, stop)
        at = qrs_signal.candidates(made.envelope, level, back)
        at = at[at < count - made.start]
        block = (at - back) // BLOCK + 1
        which, score = _beats(made, at, level[:, :, block])
        at, block = at[which], block[which]
        peak = self._place(made, at, level[:, :, block])
        return self._refractory(score, at + made.start, peak, stop * BLOCK)

    def _measure(self, made: Traces, stop: int) -> None:
        """Take the statistics of the blocks up to a 200 Hz sample that have none yet; keep those of 30 s."""
        known = self.statistics_start + self.statistics.shape[2]
        fresh = made.envelope[:, known * BLOCK - made.start : stop - made.start]
        if fresh.shape[1]:
            more = qrs_signal.block_statistics(fresh)
            self.statistics = np.concatenate([self.statistics, more], axis=2)

    def _levels(self, first: int, stop: int) -> Floats:
        """Return the levels (5, leads, stop - first + 2) of some blocks and of one more on each side."""
        known = self.statistics_start + self.statistics.shape[2]
        low, high = max(first - 1, 0), min(stop + 1, known)
        level = qrs_signal.levels(self.statistics, self.statistics_start, low, high)
        return np.pad(level, ((0, 0), (0, 0), (low - first + 1, stop + 1 - high)), mode="edge")

    def _place(self, made: Traces, at: Ints, level: Floats) -> Ints:
        """Return the R peak of each beat, in samples of the segment."""
        usable = level[0] >= qrs_signal.FLOOR_UV
        best = qrs_signal.lead_weights(level).argmax(axis=0)
        lead = np.where(usable[self.lead], self.lead, best)
        peaks = np.empty(len(at), np.int64)
        for one in np.unique(lead).tolist():
            mine = lead == one
            place, there, features = qrs_signal.extrema(made, one, at[mine], level[0, one, mine])
            score = np.where(there, qrs_net.peak_scores(features), -np.inf)
            chosen = np.take_along_axis(place, score.argmax(axis=1)[:, None], axis=1)[:, 0]
            smooth = made.smooth[one]
            up = 2 * smooth[chosen] >= smooth[chosen - 3] + smooth[chosen + 3]
            peaks[mine] = self._refine(one, chosen + made.start, up)
        return peaks

    def _refine(self, lead: int, place: Ints, up: NDArray[np.bool_]) -> Ints:
        """Go from a 200 Hz sample to the extremum within 8 ms at the stream's own rate, smoothed over 5 ms."""
        reach, half = max(1, round(0.008 * self.fs_hz)), int(self.fs_hz / RATE_HZ / 2)
        end = self.raw_start + self.raw.shape[1]
        centre = np.rint(place * (self.fs_hz / RATE_HZ)).astype(np.int64)
        offset = np.arange(-reach - half, reach + half + 1)
        near = self.raw[lead, np.clip(centre[:, None] + offset, self.raw_start, end - 1) - self.raw_start]
        total = np.cumsum(near, axis=1)
        width = 2 * half + 1
        sums = total[:, width - 1 :] - np.pad(total, ((0, 0), (1, 0)))[:, :-width]
        shift = np.where(up, sums.argmax(axis=1), sums.argmin(axis=1)) - reach
        return np.asarray(np.clip(centre + shift, 0, end - 1), dtype=np.int64)

    def _refractory(self, score: Floats, at: Ints, peak: Ints, stop: int) -> list[int]:
        """Of beats within the refractory period keep the surest; return the peaks that nothing can replace."""
        done: list[int] = []
        apart = round(REFRACTORY_S * RATE_HZ)
        for beat in zip(score.tolist(), at.tolist(), peak.tolist(), strict=True):
            if self.open and beat[1] - self.open[1] < apart:
                self.open = max(self.open, beat)
            else:
                self._report(done)
                self.open = beat
        if self.open and stop - self.open[1] >= apart:
            self._report(done)
        return done

    def _report(self, done: list[int]) -> None:
        """Close the open beat; one whose R peak fell upon the last beat's keeps its own centre."""
        if not self.open:
            return
        _, at, peak = self.open
        self.open = None
        if peak - self.reported < REFRACTORY_S / 2 * self.fs_hz:
            peak = round(at * self.fs_hz / RATE_HZ)
        if self.reported < 0 or peak - self.reported >= REFRACTORY_S / 2 * self.fs_hz:
            self.reported = peak
            done.append(peak)

    def _forget(self) -> None:
        """Drop what no later decision looks at."""
        keep = max(self.blocks * BLOCK - LOOK_BACK, self.signal_start)
        self.signal = self.signal[:, keep - self.signal_start :].copy()
        self.signal_start = keep
        step = self.fs_hz / RATE_HZ
        oldest = min(self.blocks * BLOCK - 2 * qrs_signal.REACH, keep + self.signal.shape[1])
        raw_keep = max(math.floor((oldest - 1) * step) - 2, self.raw_start)
        self.raw = self.raw[:, raw_keep - self.raw_start :].copy()
        self.raw_start = raw_keep
        first = max(self.blocks - 30, self.statistics_start)
        self.statistics = self.statistics[:, :, first - self.statistics_start :].copy()
        self.statistics_start = first


def _beats(made: Traces, at: Ints, level: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Say which candidates are beats, and their scores."""
    weight = qrs_signal.lead_weights(level)
    rank = np.argsort(np.argsort(-weight, axis=0, kind="stable"), axis=0, kind="stable")
    counted = (weight > 0) & (rank < qrs_net.LEADS)
    score = qrs_net.beat_scores(qrs_signal.lead_features(made, at, level), counted)
    which = np.flatnonzero(score > THRESHOLD * qrs_net.SCORE_UNIT)
    return which, score[which]
