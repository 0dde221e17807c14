"""Windows of a recording that is read by blocks: what ``windows_around`` cuts from the whole, to the last bit.

A window depends on the samples within a few seconds of it, apart from two things: a gap is bridged towards the next
valid sample, which is read for itself, and RR features look at the beats before, which are all known. The filter's
convolution begins its blocks where it would in the whole signal (``filters.convolved``), and the resampled signal where
one of its samples falls upon one of the recorder's.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import Windows, beat_flags
from ecgfed.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES, cut_windows, resample, resampling, rr_features
from ecgfed.record.recording import AnyRecording, spans
from ecgfed.signal.filters import band_pass_taps, convolved, reach_of
from ecgfed.signal.quality import LeadQuality, Reason
from ecgfed.signal.spans import Spans

#: How much is filtered at once, beside what the filters need around it.
CHUNK_S = 1200.0
#: scipy's ``resample_poly`` looks at so many samples of the slower one of its two signals on each side.
_RESAMPLE_REACH = 10


def windows_by_blocks(
    recording: AnyRecording,
    quality: LeadQuality,
    r_samples: NDArray[np.int64],
    keep: NDArray[np.int64] | None = None,
    *,
    chunk_s: float = CHUNK_S,
) -> Iterator[Windows]:
    """Cut the windows of a recording's lead in use, a stretch of it after the other.

    Args:
        recording: in memory or on the disk.
        quality: of the lead in use; it says where the gaps are, too.
        r_samples: (beats,) int64 increasing positions of all R peaks.
        keep: numbers of the beats to cut, in order of time; all of them for None.
        chunk_s: how much is filtered at once, in seconds.

    Yields:
        Windows of consecutive beats, in memory that does not grow with the recording; no empty ones.
    """
    fs_hz = recording.fs_hz
    lead = _Lead(recording, quality.spans([Reason.GAP]))
    rr_s, bad = rr_features(r_samples / fs_hz), quality.spans()
    chosen = r_samples if keep is None else r_samples[keep]
    rr_s = rr_s if keep is None else rr_s[keep]
    filtered = _Filtered(lead, fs_hz)
    for start, stop in spans(recording.samples, max(1, round(chunk_s * fs_hz))):
        first, last = np.searchsorted(chosen, [start, stop]).tolist()
        if first < last:
            at = chosen[first:last]
            window_mv, padded = filtered.windows(at)
            yield Windows(window_mv, rr_s[first:last], beat_flags(padded, fs_hz, at, bad))


class BandPassed:
    """A recording's lead in use through the band-pass, of which any stretch can be asked for as of an array."""

    def __init__(self, recording: AnyRecording, quality: LeadQuality) -> None:
        self._filtered = _Filtered(_Lead(recording, quality.spans([Reason.GAP])), recording.fs_hz)

    def __len__(self) -> int:
        return self._filtered.samples

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        start, stop, step = stretch.indices(len(self))
        return self._filtered.band_passed(start, max(start, stop))[::step]


@dataclass(frozen=True)
class _Lead:
    """One lead of a recording, its gaps bridged by straight lines as ``fill_gaps`` does with the whole."""

    recording: AnyRecording
    gaps: Spans

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (samples,) float64 in millivolt, without NaN."""
        signal = self._recorded(start, stop)
        gap = ~np.isfinite(signal)
        if not gap.any():
            return signal
        signal = signal.copy()
        at, valid = start + np.flatnonzero(gap), start + np.flatnonzero(~gap)
        places, values = [valid], [signal[~gap]]
        if gap[0] and (before := self._edge(start, after=False)) is not None:
            places.insert(0, np.array([before[0]]))
            values.insert(0, np.array([before[1]]))
        if gap[-1] and (behind := self._edge(stop - 1, after=True)) is not None:
            places.append(np.array([behind[0]]))
            values.append(np.array([behind[1]]))
        known = np.concatenate(places)
        signal[gap] = np.interp(at, known, np.concatenate(values)) if len(known) else 0.0
        return signal

    def _edge(self, inside: int, *, after: bool) -> tuple[int, float] | None:
        """Return the valid sample beside the gap that holds a sample, and its value; None past the lead's ends."""
        number = int(np.searchsorted(self.gaps.start, inside, side="right")) - 1
        place = int(self.gaps.stop[number]) if after else int(self.gaps.start[number]) - 1
        if not 0 <= place < self.recording.samples:
            return None
        return place, float(self._recorded(place, place + 1)[0])

    def _recorded(self, start: int, stop: int) -> NDArray[np.float64]:
        row = self.recording.leads.index(self.recording.lead)
        signal: NDArray[np.float64] = self.recording.read(start, stop, [row])[0]
        return signal


class _Filtered:
    """A lead through the band-pass, at the windows' sampling frequency."""

    def __init__(self, lead: _Lead, fs_hz: float) -> None:
        self.lead, self.fs_hz = lead, fs_hz
        self.samples = lead.recording.samples
        self.taps = band_pass_taps(fs_hz)
        ratio = resampling(fs_hz)
        self.up, self.down = (1, 1) if fs_hz == FS_HZ else (ratio.numerator, ratio.denominator)
        self.length = -(-self.samples * self.up // self.down)  # of the whole lead, resampled

    def windows(self, r_samples: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Cut the windows of neighbouring beats; see ``cut_windows``."""
        at = np.clip(np.rint(r_samples * (FS_HZ / self.fs_hz)).astype(np.int64), 0, self.length - 1)
        reach = _RESAMPLE_REACH * max(self.up, self.down) / self.up + 2
        low = math.floor((int(at[0]) - R_INDEX) * self.down / self.up - reach)
        high = math.ceil((int(at[-1]) + WINDOW_SAMPLES - R_INDEX) * self.down / self.up + reach)
        low = max(low // self.down * self.down, 0)  # where a resampled sample is one of the recorder's
        filtered = resample(self.band_passed(low, min(high, self.samples)), self.fs_hz)
        return cut_windows(filtered, at - low // self.down * self.up)

    def band_passed(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` of the lead through the band-pass, as of the whole lead."""
        reach = reach_of(self.taps)
        first = max(start - reach, 0)
        part = self.lead.read(first, min(stop + reach, self.samples))
        return convolved(part, self.taps, first)[start - first : stop - first]
