"""The quality of a lead, in memory or on disk: the criteria of ``quality`` applied to overlapping chunks.

Every criterion looks at seconds, so a chunk is judged together with ``MARGIN_S`` of the lead on both sides, and its
inner part is what the whole lead would give, bit for bit. Only a rail depends on the whole lead (its own extreme), so
the lead is scanned for it first.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording, spans
from ecgfed.domain.signal.filters import LONGEST_BRIDGE_S, bridge_samples, fill_gaps
from ecgfed.domain.signal.quality import (
    FIRST_REACH_S,
    LIMIT_MV,
    NOISE_REACH_S,
    RAIL_FROM_REST_MV,
    RAIL_S,
    RAIL_SAMPLES,
    SPIKE_MV,
    SPIKE_REACH_S,
    LeadQuality,
    Reason,
    Stretch,
    first_look,
    noise_and_jumps,
    runs,
    spikes,
    stays_at,
    unit_samples,
)
from ecgfed.domain.signal.spans import Spans

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: (start, stop) -> (samples,) one lead in millivolt, NaN where there is no sample.
ReadLead = Callable[[int, int], Floats]

#: The inner part of a chunk, in seconds. A lead of up to two chunks is judged as one.
CHUNK_S = 1200.0
#: On each side of it: the criteria's own reach, and a gap short enough to be bridged by a straight line, whose far end
#: must be known. The values that a longer gap is filled with count for nothing outside it.
MARGIN_S = FIRST_REACH_S + SPIKE_REACH_S + NOISE_REACH_S + LONGEST_BRIDGE_S


def lead_quality(signal_mv: NDArray[np.floating], fs_hz: float, *, chunk_s: float = CHUNK_S) -> LeadQuality:
    """Find the bad stretches of one lead.

    Args:
        signal_mv: (samples,) millivolt as recorded, not filtered; NaN or infinite where there is no sample.
        fs_hz: sampling frequency in Hz, above 80.
        chunk_s: length of a chunk in seconds; it does not change the result.
    """
    recorded = np.asarray(signal_mv, dtype=np.float64)
    return _judge(lambda start, stop: recorded[start:stop], len(recorded), fs_hz, chunk_s)


def quality_of(recording: Recording, lead: str, *, chunk_s: float = CHUNK_S) -> LeadQuality:
    """Find the bad stretches of one lead of a recording; see ``lead_quality``."""
    return _judge(_reader(recording, lead), recording.samples, recording.fs_hz, chunk_s)


def spikes_of(recording: Recording, lead: str, *, chunk_s: float = CHUNK_S) -> tuple[tuple[int, int], ...]:
    """Return start and stop of the spikes of one lead, as ``quality_of`` finds them, in less time."""
    read = _reader(recording, lead)
    quality = _judge(read, recording.samples, recording.fs_hz, chunk_s, spikes_alone=True)
    return tuple((stretch.start, stretch.stop) for stretch in quality.stretches)


def gaps_of(recording: Recording, lead: str, *, chunk_s: float = CHUNK_S) -> Spans:
    """Return where a lead of a recording has no valid sample (NaN or infinite), in samples.

    Raises:
        ValueError: the recording has no such lead.
    """
    read, gaps = _reader(recording, lead), _Runs()
    for start, stop in spans(recording.samples, max(1, round(chunk_s * recording.fs_hz))):
        gaps.add(start, ~np.isfinite(read(start, stop)))
    return Spans.merged(gaps.edges)


def _reader(recording: Recording, lead: str) -> ReadLead:
    return partial(recording.lead_mv, lead)


class _Runs:
    """Runs of true values, chunk after chunk; one that continues in the next chunk is a single run."""

    def __init__(self) -> None:
        self.edges: list[tuple[int, int]] = []

    def add(self, first: int, mask: Mask) -> None:
        for start, stop in runs(mask):
            if self.edges and self.edges[-1][1] == first + start:
                self.edges[-1] = (self.edges[-1][0], first + stop)
            else:
                self.edges.append((first + start, first + stop))


def _judge(read: ReadLead, samples: int, fs_hz: float, chunk_s: float, *, spikes_alone: bool = False) -> LeadQuality:
    unit = unit_samples(fs_hz)  # chunks and margins consist of whole units, as the whole lead does
    chunk, margin = (max(1, round(length_s * fs_hz / unit)) * unit for length_s in (chunk_s, MARGIN_S))
    if samples <= 2 * chunk:
        chunk = max(samples, 1)
    chunks = list(spans(samples, chunk))
    low, high = _extremes(read, chunks)
    if spikes_alone and not high.max(initial=-np.inf) - low.min(initial=np.inf) > SPIKE_MV:
        return LeadQuality(samples, fs_hz, ())  # no sample is that far from any baseline
    at_rail = _rails(read, samples, fs_hz, chunks, low, high)
    by_reason = {reason: _Runs() for reason in Reason}
    for start, stop in chunks:
        first, last = max(start - margin, 0), min(stop + margin, samples)
        for reason, mask in _masks(read(first, last), fs_hz, at_rail, first, spikes_alone=spikes_alone).items():
            by_reason[reason].add(start, mask[start - first : stop - first])
    stretches = [Stretch(*edge, reason) for reason, reason_runs in by_reason.items() for edge in reason_runs.edges]
    return LeadQuality(samples, fs_hz, tuple(sorted(stretches, key=lambda part: (part.start, part.stop))))


def _masks(
    recorded: Floats, fs_hz: float, at_rail: tuple[float, ...], first: int, *, spikes_alone: bool
) -> dict[Reason, Mask]:
    """Return a mask (samples,) for each reason, of a part of a lead that begins at its sample ``first``."""
    look = first_look(recorded, fs_hz, at_rail)
    masks = {} if spikes_alone else dict(look.masks)
    if look.lost.all() or (spikes_alone and not np.ptp(look.signal) > SPIKE_MV):
        return masks
    signal, lost = look.signal, look.lost
    if lost.any():
        signal, _ = fill_gaps(np.where(lost, np.nan, signal), bridge_samples(fs_hz))
    height, spike, baseline = spikes(signal, lost, fs_hz)
    masks[Reason.SPIKE] = spike
    if spikes_alone:
        return masks
    if spike.any():
        signal, _ = fill_gaps(np.where(lost | spike, np.nan, signal), bridge_samples(fs_hz))
    known = None if spike.any() else baseline
    return masks | noise_and_jumps(signal, lost, spike, height, fs_hz, first, known)


def _extremes(read: ReadLead, chunks: Iterable[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Return each chunk's lowest and highest valid value; infinity and its negative where it has none."""
    low, high = [], []
    for start, stop in chunks:
        signal = read(start, stop)
        ends = float(signal.min()), float(signal.max())
        if not np.isfinite(ends).all():  # of a chunk without gaps both are numbers
            valid = signal[np.isfinite(signal)]
            ends = (float(valid.min()), float(valid.max())) if len(valid) else (np.inf, -np.inf)
        low.append(ends[0] if ends[0] == np.inf else min(max(ends[0], -LIMIT_MV), LIMIT_MV))
        high.append(ends[1] if ends[1] == -np.inf else min(max(ends[1], -LIMIT_MV), LIMIT_MV))
    return np.array(low), np.array(high)


def _rails(
    read: ReadLead, samples: int, fs_hz: float, chunks: list[tuple[int, int]], lows: Floats, highs: Floats
) -> tuple[float, ...]:
    """Return which of a lead's extremes it stays at, far from the median of the rest.

    Args:
        read: the lead.
        samples: its length.
        fs_hz: its sampling frequency in Hz.
        chunks: its chunks.
        lows: each chunk's lowest value.
        highs: each chunk's highest value.
    """
    low, high = float(lows.min(initial=np.inf)), float(highs.max(initial=-np.inf))
    if not high - low >= RAIL_FROM_REST_MV:
        return ()
    reach = max(RAIL_SAMPLES, round(RAIL_S * fs_hz)) + 1

    def is_reached(extreme: float, ends: Floats) -> bool:
        for number in np.flatnonzero(ends == extreme).tolist():
            start, stop = chunks[number]
            signal = read(max(start - reach, 0), min(stop + reach, samples))
            signal = np.where(np.isfinite(signal), np.clip(signal, -LIMIT_MV, LIMIT_MV), np.nan)
            if stays_at(signal, extreme, fs_hz).any():
                return True
        return False

    sides = ((low, lows, 1), (high, highs, -1))
    reached = [(extreme, sign) for extreme, ends, sign in sides if is_reached(extreme, ends)]
    rests = [_Rest(sign * extreme) for extreme, sign in reached]
    for values in _valid(read, chunks) if reached else ():
        rest = values[(values > low) & (values < high)]
        for (_, sign), side in zip(reached, rests, strict=True):
            side.add(sign * rest)
    return tuple(extreme for (extreme, _), rest in zip(reached, rests, strict=True) if rest.median_is_distant)


def _valid(read: ReadLead, chunks: Iterable[tuple[int, int]]) -> Iterator[Floats]:
    """Yield the valid samples of each chunk, clipped as ``first_look`` does."""
    for start, stop in chunks:
        signal = read(start, stop)
        yield np.clip(signal[np.isfinite(signal)], -LIMIT_MV, LIMIT_MV)


class _Rest:
    """The values above a lowest one, counted on both sides of the distance that makes it a rail."""

    def __init__(self, lowest: float) -> None:
        self.lowest, self.near, self.distant = lowest, 0, 0
        self.highest_near, self.lowest_distant = -np.inf, np.inf

    def add(self, values: Floats) -> None:
        distant = values - self.lowest >= RAIL_FROM_REST_MV
        self.distant += int(distant.sum())
        self.near += len(distant) - int(distant.sum())
        self.lowest_distant = min(self.lowest_distant, float(values.min(where=distant, initial=np.inf)))
        self.highest_near = max(self.highest_near, float(values.max(where=~distant, initial=-np.inf)))

    @property
    def median_is_distant(self) -> bool:
        """Whether the median of all is; of an even number it may be the mean of the two at the border."""
        if self.near != self.distant:
            return self.distant > self.near
        middle = (self.highest_near + self.lowest_distant) / 2
        return self.distant > 0 and middle - self.lowest >= RAIL_FROM_REST_MV
