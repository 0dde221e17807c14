"""A lead that is read by blocks, bridged over its gaps and through the band-pass: as ``filters`` makes it of the whole.

A stretch of it can be asked for as of an array, and is the whole's to the last bit. A gap is bridged towards the next
valid sample, which is read for itself; the convolution begins its blocks where it would in the whole.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.filters import band_pass_taps, bridge_samples, bridged, convolved, reach_of
from ecgfed.domain.signal.spans import Spans


@dataclass(frozen=True)
class Bridged:
    """One lead of a recording, its gaps bridged as ``fill_gaps`` does with the whole.

    Attributes:
        recording: in memory or on the disk.
        name: the lead's.
        gaps: where it has no valid sample.
    """

    recording: Recording
    name: str
    gaps: Spans

    def __len__(self) -> int:
        return self.recording.samples

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        start, stop, _ = stretch.indices(len(self))
        return self.read(start, max(start, stop))

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (samples,) float64 in millivolt, without NaN."""
        signal = self._recorded(start, stop)
        gap = ~np.isfinite(signal)
        if not gap.any():
            return signal
        longest = bridge_samples(self.recording.fs_hz)
        before = self._edge(start, after=False) if gap[0] else None
        behind = self._edge(stop - 1, after=True) if gap[-1] else None
        return bridged(np.array(signal, np.float64), gap, longest, first=start, before=before, behind=behind)

    def _edge(self, inside: int, *, after: bool) -> tuple[int, float] | None:
        """Return the valid sample beside the gap that holds a sample, and its value; None past the lead's ends."""
        number = int(np.searchsorted(self.gaps.start, inside, side="right")) - 1
        position = int(self.gaps.stop[number]) if after else int(self.gaps.start[number]) - 1
        if not 0 <= position < self.recording.samples:
            return None
        return position, float(self._recorded(position, position + 1)[0])

    def _recorded(self, start: int, stop: int) -> NDArray[np.float64]:
        return self.recording.lead_mv(self.name, start, stop)


@dataclass(frozen=True)
class BandPassed:
    """A lead through the band-pass."""

    lead: Bridged

    def __len__(self) -> int:
        return len(self.lead)

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        start, stop, _ = stretch.indices(len(self))
        taps = band_pass_taps(self.lead.recording.fs_hz)
        reach = reach_of(taps)
        first = max(start - reach, 0)
        part = self.lead.read(first, min(max(start, stop) + reach, len(self)))
        return convolved(part, taps, first)[start - first : max(start, stop) - first]
