"""The band-pass every window has gone through, on the training side and on a device alike.

A linear-phase FIR of 4 s, 0.5 to 40 Hz, its delay of 2 s compensated: it depends on nothing but the samples
within 2 s, so a stream gives the same values as a whole record. 0.5 Hz keeps the ST segment and removes
baseline wander, 40 Hz removes mains hum at 50 and 60 Hz (monitoring bandwidth, IEC 60601-2-27).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal import fir
from ecgfed.domain.signal.spans import Spans

BAND_HZ = (0.5, 40.0)
LENGTH_S = 4.0
#: A longer gap is not bridged by one straight line (``bridged``): a stream cannot wait for its end.
LONGEST_BRIDGE_S = 10.0
#: For manifests and cohort files.
DESCRIPTION = "FIR band-pass 0.5-40 Hz, Hamming, 4 s, linear phase, delay compensated"


@lru_cache(maxsize=16)
def band_pass_taps(fs_hz: float) -> NDArray[np.float64]:
    """Return the filter's taps for a signal at ``fs_hz`` (Hz): (an odd number,) float64, symmetric, read-only."""
    taps = fir.band_pass(int(LENGTH_S * fs_hz) // 2 * 2 + 1, *BAND_HZ, fs_hz)
    taps.setflags(write=False)
    return taps


def band_pass(signal_mv: NDArray[np.floating], fs_hz: float) -> NDArray[np.float64]:
    """Filter a whole signal, delay compensated.

    Before its start and after its end the signal is taken to hold its first and last value.

    Args:
        signal_mv: (samples,) finite, millivolt.
        fs_hz: sampling frequency in Hz.

    Returns:
        (samples,) float64 millivolt, aligned with the input.
    """
    return convolved(np.asarray(signal_mv, dtype=np.float64), band_pass_taps(fs_hz))


def convolved(signal: NDArray[np.float64], taps: NDArray[np.float64], first: int | None = None) -> NDArray[np.float64]:
    """Convolve a signal (samples,) with an odd number of symmetric taps, its first and last value held at the ends.

    A convolution by Fourier transforms of blocks rounds by where the blocks begin. Of a part that begins at sample
    ``first`` of a long signal the blocks are laid where they lie in the whole, so that the part's inner values, those
    further than ``reach_of(taps)`` from an end of it that is no end of the signal, are the whole's to the last bit.
    Without ``first`` it is the whole.
    """
    half = len(taps) // 2
    if first is None:
        return fir.convolved(np.pad(signal, half, mode="edge"), taps)[2 * half :][: len(signal)]
    step = fir.block_step(len(taps))
    lead_in = first % step  # zeros from a block's beginning on
    padded_samples = len(signal) + 2 * half
    laid = np.zeros(max(padded_samples + lead_in, 4 * (step + len(taps))))  # a short one would be one block
    laid[lead_in : lead_in + half] = signal[0]
    laid[lead_in + half : lead_in + half + len(signal)] = signal
    laid[lead_in + half + len(signal) : lead_in + padded_samples] = signal[-1]
    return fir.convolved(laid, taps)[lead_in + 2 * half :][: len(signal)]


def reach_of(taps: NDArray[np.float64]) -> int:
    """Return how far from an end of a part ``convolved`` may differ from the whole signal's, in samples."""
    return 2 * fir.block_step(len(taps)) + len(taps)


def bridge_samples(fs_hz: float) -> int:
    """Return how long a gap may be, in samples, to be bridged by one straight line."""
    return round(LONGEST_BRIDGE_S * fs_hz)


def fill_gaps(
    signal_mv: NDArray[np.floating], longest: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Bridge invalid samples, so that a gap does not spread through the filter: see ``bridged``.

    Args:
        signal_mv: (samples,) millivolt, NaN or infinite where there is no sample.
        longest: a longer gap is no straight line (``bridge_samples``); None takes a line for any.

    Returns:
        The signal (samples,) float64 without NaN, and (samples,) bool, true where it was bridged. A signal with no
        valid sample becomes zeros.
    """
    gap = ~np.isfinite(signal_mv)
    return bridged(np.array(signal_mv, dtype=np.float64), gap, longest), gap


def bridged(
    signal: NDArray[np.float64],
    missing: NDArray[np.bool_],
    longest: int | None,
    *,
    first: int = 0,
    before: tuple[int, float] | None = None,
    behind: tuple[int, float] | None = None,
) -> NDArray[np.float64]:
    """Bridge what is missing of a signal, or of a part of it, to the same bits.

    A gap of up to ``longest`` samples is a straight line between its neighbours. A longer one holds the value before
    it, and for its last ``longest // 2`` samples the value behind it: nothing waits longer for its end than that, and
    nothing near one end of it depends on the other. A gap at an end of the signal holds its one neighbour.

    Args:
        signal: (samples,) millivolt, changed and returned.
        missing: (samples,) bool.
        longest: of a straight line, in samples; None for any.
        first: number of the part's first sample.
        before: the last sample that is there before the part, and its value; None where there is none.
        behind: the first one behind the part, likewise.
    """
    if not missing.any():
        return signal
    valid = np.flatnonzero(~missing)
    outer = [edge for edge in (before, behind) if edge is not None]
    at = np.concatenate([first + valid, np.array([edge[0] for edge in outer], np.int64)])
    values = np.concatenate([signal[valid], np.array([edge[1] for edge in outer], np.float64)])
    if not len(at):
        signal[missing] = 0.0
        return signal
    order = np.argsort(at)
    at, values = at[order], values[order]
    if longest is not None:
        long = np.flatnonzero(np.diff(at) - 1 > longest)
        middle = at[long + 1] - longest // 2
        at = np.insert(at, np.repeat(long + 1, 2), np.stack([middle - 1, middle], axis=1).ravel())
        ends = np.stack([values[long], values[long + 1]], axis=1).ravel()
        values = np.insert(values, np.repeat(long + 1, 2), ends)
    signal[missing] = np.interp(first + np.flatnonzero(missing), at, values)
    return signal


class Stretches(Protocol):
    """A signal in millivolt whose stretches are asked for: an array, or computed on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, stretch: slice, /) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Bridged:
    """One lead of a recording, its gaps bridged: a stretch of what ``fill_gaps`` makes of the whole, to the last bit.

    A gap is bridged towards the next valid sample, which is read for itself.

    Attributes:
        recording: the recording.
        name: the lead's.
        gaps: where it has no valid sample.
    """

    recording: Recording
    name: str
    gaps: Spans

    def __len__(self) -> int:
        return self.recording.samples

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        """Return samples (samples,) float64 in millivolt, without NaN."""
        start, stop, _ = stretch.indices(len(self))
        signal = self.recording.lead_mv(self.name, start, max(start, stop))
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
        return position, float(self.recording.lead_mv(self.name, position, position + 1)[0])


@dataclass(frozen=True)
class BandPassed:
    """A lead through the band-pass, the part of it that is asked for: ``band_pass`` of the whole, to the last bit."""

    lead: Bridged

    def __len__(self) -> int:
        return len(self.lead)

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        """Return samples (samples,) float64 in millivolt."""
        start, stop, _ = stretch.indices(len(self))
        taps = band_pass_taps(self.lead.recording.fs_hz)
        reach, stop = reach_of(taps), max(start, stop)
        if len(self) <= reach:  # the whole may be convolved in one block
            return convolved(self.lead[:], taps)[start:stop]
        first = max(start - reach, 0)
        return convolved(self.lead[first : stop + reach], taps, first)[start - first : stop - first]
