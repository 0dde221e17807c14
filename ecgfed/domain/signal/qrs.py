"""Our QRS detector: one stream, whole recordings included, that answers within ``DELAY_S``.

Candidates are the peaks of the leads' joint slope envelope; a small network looks at each lead around a candidate; a
second one sees what is left beside the candidates before and after it, and says whether it is a QRS complex; among
complexes closer than the refractory time the surest stays; a third one picks the R peak among the extrema of the lead
in use. A recording is detected by the same stream, fed whole.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.qrs_flat import FlatLine
from ecgfed.domain.signal.qrs_segment import Log, Segment
from ecgfed.domain.signal.qrs_signal import Ints

#: A peak is reported at the latest when this much signal after it has been seen.
DELAY_S = 4.7
#: Samples missing for longer than this on all leads are a gap; for less, the signal is held.
BRIDGE_S = 0.04
#: Sampling frequencies: below, a QRS complex has too few samples; a longer piece than this is fed in parts.
MIN_FS_HZ = 100.0
_PIECE_S = 600.0


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
        self._segment: Segment | None = None
        self._bridge = round(BRIDGE_S * fs_hz)
        self._flat = FlatLine(fs_hz, leads)
        self._log: Log | None = None

    def push(self, chunk_mv: NDArray[np.floating]) -> Ints:
        """Take the next samples and return the R peaks that have become certain.

        Args:
            chunk_mv: (samples,) or (leads, samples) millivolt, NaN where there is no sample.

        Returns:
            (peaks,) int64 sample numbers since the stream's start, increasing from call to call.

        Raises:
            ValueError: another number of leads.
        """
        chunk = self._checked(chunk_mv)
        peaks = []
        for part in np.array_split(chunk, max(1, math.ceil(chunk.shape[1] / (_PIECE_S * self.fs_hz))), axis=1):
            peaks += self._take(part)
        return _joined(peaks)

    @property
    def segment(self) -> Segment | None:
        """The stretch without a gap that the last samples belong to; None within a gap."""
        return self._segment

    def _checked(self, chunk_mv: NDArray[np.floating]) -> NDArray[np.float64]:
        chunk = np.atleast_2d(np.asarray(chunk_mv, dtype=np.float64))
        if chunk.ndim != 2 or len(chunk) != self.leads:
            raise ValueError(f"a chunk has shape {np.shape(chunk_mv)}; expected ({self.leads}, samples)")
        return chunk

    def finish(self) -> Ints:
        """End the stream and return the last R peaks; the next ``push`` begins another one at sample 0."""
        peaks = self._close()
        self._seen, self._waiting = 0, np.empty((self.leads, 0))
        self._flat = FlatLine(self.fs_hz, self.leads)
        return _joined(peaks)

    def _close(self) -> list[Ints]:
        """End the segment, if there is one."""
        segment, self._segment = self._segment, None
        return [segment.feed(np.empty((self.leads, 0)), ended=True)] if segment else []

    def _take(self, part: NDArray[np.float64]) -> list[Ints]:
        """Cut at gaps and flat lines; a run of missing samples at the end waits until it is known to be one."""
        flat = self._flat.mask(part)
        if flat.any():
            part = np.where(flat, np.nan, part)
        begin = self._seen - self._waiting.shape[1]
        self._seen += part.shape[1]
        data = np.concatenate([self._waiting, part], axis=1) if self._waiting.shape[1] else part
        missing = np.asarray(~np.isfinite(data).any(axis=0))
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        peaks: list[Ints] = []
        at = 0
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            long = stop - start > self._bridge
            if self._segment is None and start == at:
                at = stop  # before the first sample of a segment
            elif long:
                peaks += self._feed(data[:, at:start], begin + at)
                peaks += self._close()
                at = stop
            elif stop == data.shape[1]:
                peaks += self._feed(data[:, at:start], begin + at)
                at = start
        if at < data.shape[1] and not missing[at:].all():
            peaks += self._feed(data[:, at:], begin + at)
            at = data.shape[1]
        self._waiting = data[:, at:].copy() if self._segment is not None else np.empty((self.leads, 0))
        return peaks

    def _feed(self, data: NDArray[np.float64], start: int) -> list[Ints]:
        if not data.shape[1]:
            return []
        if self._segment is None:
            self._segment = Segment(self.fs_hz, self.leads, self.lead, start, self._log)
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


def qrs_odds(blocks_mv: Iterable[NDArray[np.floating]], fs_hz: float) -> tuple[Ints, NDArray[np.float32]]:
    """Return every wave of one lead that may be a QRS complex, and how likely it is one.

    Args:
        blocks_mv: (samples,) millivolt each, one after the other, NaN where there is no sample.
        fs_hz: sampling frequency in Hz, 100 or more.

    Returns:
        (waves,) int64 increasing sample numbers of the waves' middle, and (waves,) float32 log odds: above 0 where the
        detector takes the wave for a beat.
    """
    detector, waves = QrsDetector(fs_hz), []
    detector._log = lambda at, odds: waves.append((at, odds))
    for block in blocks_mv:
        detector.push(block)
    detector.finish()
    if not waves:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    at, odds = zip(*waves, strict=True)
    return np.concatenate(at), np.concatenate(odds)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
