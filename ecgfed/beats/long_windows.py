"""Windows of a recording that is read by blocks: what ``windows_around`` cuts from the whole, to the last bit.

A window depends on the samples within a few seconds of it, apart from two things: a gap is bridged towards the next
valid sample, which is read for itself, and RR features look at the beats before, which are all known. The filter's
convolution begins its blocks where it would in the whole signal (``filters.convolved``), and the resampled signal where
one of its samples falls upon one of the recorder's.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import Windows, beat_flags
from ecgfed.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES, cut_windows, resample, resampling, rr_features
from ecgfed.record.recording import AnyRecording, spans
from ecgfed.signal.long_filter import BandPassed, Bridged
from ecgfed.signal.quality import LeadQuality, Reason

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
    rr_s, bad = rr_features(r_samples / fs_hz), quality.spans()
    chosen = r_samples if keep is None else r_samples[keep]
    rr_s = rr_s if keep is None else rr_s[keep]
    cut = _Windows(recording, quality)
    for start, stop in spans(recording.samples, max(1, round(chunk_s * fs_hz))):
        first, last = np.searchsorted(chosen, [start, stop]).tolist()
        if first < last:
            at = chosen[first:last]
            window_mv, padded = cut.around(at)
            yield Windows(window_mv, rr_s[first:last], beat_flags(padded, fs_hz, at, bad))


class _Windows:
    """A recording's lead in use through the band-pass, at the windows' sampling frequency."""

    def __init__(self, recording: AnyRecording, quality: LeadQuality) -> None:
        self.fs_hz, self.samples = recording.fs_hz, recording.samples
        self.filtered = BandPassed(Bridged(recording, recording.lead, quality.spans([Reason.GAP])))
        ratio = resampling(self.fs_hz)
        self.up, self.down = (1, 1) if self.fs_hz == FS_HZ else (ratio.numerator, ratio.denominator)
        self.length = -(-self.samples * self.up // self.down)  # of the whole lead, resampled

    def around(self, r_samples: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Cut the windows of neighbouring beats; see ``cut_windows``."""
        at = np.clip(np.rint(r_samples * (FS_HZ / self.fs_hz)).astype(np.int64), 0, self.length - 1)
        reach = _RESAMPLE_REACH * max(self.up, self.down) / self.up + 2
        low = math.floor((int(at[0]) - R_INDEX) * self.down / self.up - reach)
        high = math.ceil((int(at[-1]) + WINDOW_SAMPLES - R_INDEX) * self.down / self.up + reach)
        low = max(low // self.down * self.down, 0)  # where a resampled sample is one of the recorder's
        filtered = resample(self.filtered[low:high], self.fs_hz)
        return cut_windows(filtered, at - low // self.down * self.up)
