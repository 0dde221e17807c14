"""The quality of a lead that is read by blocks: what ``quality`` finds in the whole, in memory that does not grow.

Every criterion looks at seconds, so each block is judged together with what lies around it, by the same functions as a
whole lead. Two things reach further. A rail is the lead's own extreme: the lead is gone over for it before. And a lost
stretch is bridged towards the next valid sample, however far off that is: blocks wait until it is known,
and those that hold nothing but lost samples wait as two numbers.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.record.recording import AnyRecording, spans
from ecgfed.signal.filters import bridge_samples, bridged
from ecgfed.signal.quality import (
    BLOCK_S,
    FIRST_REACH_S,
    HEIGHT_S,
    LIMIT_MV,
    NOISE_REACH_S,
    RAIL_FROM_REST_MV,
    RAIL_S,
    RAIL_SAMPLES,
    SPIKE_MV,
    SPIKE_REACH_S,
    LeadQuality,
    Reason,
    block_samples,
    first_look,
    in_order,
    lead_quality,
    noise_and_jumps,
    runs,
    spikes,
    stays_at,
)
from ecgfed.signal.spans import Spans

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: (start, stop) -> (samples,) one lead in millivolt, NaN where there is no sample.
ReadLead = Callable[[int, int], Floats]

#: How much is judged at once; less than a recording that stays on the disk, so that one in memory is judged whole.
CHUNK_S = 600.0
#: A chunk is no shorter than what is looked at beside it.
_LEAST_UNITS = math.ceil(max(SPIKE_REACH_S, NOISE_REACH_S) / HEIGHT_S) + 1


def quality_of(recording: AnyRecording, lead: str, *, chunk_s: float = CHUNK_S) -> LeadQuality:
    """Find the bad stretches of one lead of a recording, in memory or on the disk; see ``quality.lead_quality``."""
    samples, fs_hz, read = recording.samples, recording.fs_hz, _reader(recording, lead)
    chunk = _chunk(fs_hz, chunk_s)
    if samples <= 2 * chunk:
        return lead_quality(read(0, samples), fs_hz)
    return _by_chunks(read, samples, fs_hz, chunk, tuple(Reason))


def spikes_of(recording: AnyRecording, lead: str, *, chunk_s: float = CHUNK_S) -> tuple[tuple[int, int], ...]:
    """Return the spikes of one lead alone, start and stop of each, as ``quality_of`` finds them; in less time."""
    samples, fs_hz, read = recording.samples, recording.fs_hz, _reader(recording, lead)
    chunk = _chunk(fs_hz, chunk_s)
    if samples <= 2 * chunk:
        found = lead_quality(read(0, samples), fs_hz)
    else:
        found = _by_chunks(read, samples, fs_hz, chunk, (Reason.SPIKE,))
    return tuple((part.start, part.stop) for part in found.stretches if part.reason is Reason.SPIKE)


def gaps_of(recording: AnyRecording, lead: str, *, chunk_s: float = CHUNK_S) -> Spans:
    """Return where a lead of a recording has no valid sample (NaN or infinite), in samples.

    Args:
        recording: in memory or on the disk.
        lead: one of its leads, by name; another name is a ValueError.
        chunk_s: how much of it is looked at, at a time, in seconds.
    """
    read, found = _reader(recording, lead), _Runs()
    for start, stop in spans(recording.samples, _chunk(recording.fs_hz, chunk_s)):
        found.add(start, ~np.isfinite(read(start, stop)))
    return Spans.merged(found.edges)


def _reader(recording: AnyRecording, lead: str) -> ReadLead:
    row = recording.leads.index(lead)

    def read(start: int, stop: int) -> Floats:
        signal: Floats = recording.read(start, stop, [row])[0]
        return signal

    return read


def _chunk(fs_hz: float, chunk_s: float) -> int:
    unit = unit_samples(fs_hz)
    return max(round(chunk_s * fs_hz / unit), _LEAST_UNITS) * unit


def unit_samples(fs_hz: float) -> int:
    """Return the samples of one of the stretches in which the height of the beats is taken, where chunks may begin."""
    return block_samples(fs_hz) * round(HEIGHT_S / BLOCK_S)


def _by_chunks(read: ReadLead, samples: int, fs_hz: float, chunk: int, reasons: tuple[Reason, ...]) -> LeadQuality:
    low, high = _extremes(read, samples, chunk)
    spikes_alone = reasons == (Reason.SPIKE,)
    if spikes_alone and not high.max() - low.min() > SPIKE_MV:  # no sample is that far from any baseline
        return LeadQuality(samples, fs_hz, ())
    found = {reason: _Runs() for reason in Reason}
    at_rail = _rails(read, samples, fs_hz, chunk, low, high)
    pieces = _bridged(_looked_at(read, samples, fs_hz, chunk, at_rail, found), bridge_samples(fs_hz))
    pieces = _with_spikes(pieces, fs_hz, found, spikes_alone=spikes_alone)
    if spikes_alone:
        for _ in pieces:  # they note what is asked for on their way
            pass
    else:
        _last_look(_bridged(pieces, bridge_samples(fs_hz)), fs_hz, found)
    wanted = ((reason, one.edges) for reason, one in found.items() if reason in reasons)
    return LeadQuality(samples, fs_hz, in_order(wanted))


class _Runs:
    """Stretches as they are found, chunk after chunk; one that goes on in the next chunk is one."""

    def __init__(self) -> None:
        self.edges: list[tuple[int, int]] = []

    def add(self, first: int, mask: Mask) -> None:
        for start, stop in runs(mask):
            if self.edges and self.edges[-1][1] == first + start:
                self.edges[-1] = (self.edges[-1][0], first + stop)
            else:
                self.edges.append((first + start, first + stop))


def _valid(read: ReadLead, samples: int, chunk: int) -> Iterator[Floats]:
    """Yield the valid samples of each chunk, cut off as ``first_look`` does."""
    for start, stop in spans(samples, chunk):
        signal = read(start, stop)
        held = signal[np.isfinite(signal)]
        if len(held):
            yield np.clip(held, -LIMIT_MV, LIMIT_MV)


def _extremes(read: ReadLead, samples: int, chunk: int) -> tuple[Floats, Floats]:
    """Return each chunk's lowest and highest valid value; infinity and its negative where it has none."""
    low, high = [], []
    for start, stop in spans(samples, chunk):
        signal = read(start, stop)
        ends = float(signal.min()), float(signal.max())
        if not np.isfinite(ends).all():  # of a chunk with all its samples both are numbers
            held = signal[np.isfinite(signal)]
            ends = (float(held.min()), float(held.max())) if len(held) else (np.inf, -np.inf)
        low.append(ends[0] if ends[0] == np.inf else min(max(ends[0], -LIMIT_MV), LIMIT_MV))
        high.append(ends[1] if ends[1] == -np.inf else min(max(ends[1], -LIMIT_MV), LIMIT_MV))
    return np.array(low), np.array(high)


def _rails(read: ReadLead, samples: int, fs_hz: float, chunk: int, lows: Floats, highs: Floats) -> tuple[float, ...]:
    """Return what ``quality.rails`` does, but for an extreme that is nowhere held for as long as a rail.

    It asks whether the median of the rest is far from an extreme, not for it.

    Args:
        read: the lead.
        samples: its length.
        fs_hz: its sampling frequency in Hz.
        chunk: how much is read at once.
        lows: each chunk's lowest value; an extreme is held where a chunk has it.
        highs: each chunk's highest value.
    """
    low, high = float(lows.min()), float(highs.max())
    if not high - low >= RAIL_FROM_REST_MV:
        return ()

    def held(extreme: float, ends: Floats) -> bool:
        reach = max(RAIL_SAMPLES, round(RAIL_S * fs_hz)) + 1
        for start in (chunk * np.flatnonzero(ends == extreme)).tolist():
            signal = read(max(start - reach, 0), min(start + chunk + reach, samples))
            signal = np.where(np.isfinite(signal), np.clip(signal, -LIMIT_MV, LIMIT_MV), np.nan)
            if stays_at(signal, extreme, fs_hz).any():
                return True
        return False

    places = [(extreme, sign) for extreme, ends, sign in ((low, lows, 1), (high, highs, -1)) if held(extreme, ends)]
    rests = [_Rest(sign * extreme) for extreme, sign in places]
    for values in _valid(read, samples, chunk) if places else ():
        rest = values[(values > low) & (values < high)]
        for (_, sign), one in zip(places, rests, strict=True):
            one.add(sign * rest)
    return tuple(extreme for (extreme, _), rest in zip(places, rests, strict=True) if rest.median_is_far)


class _Rest:
    """The values above a lowest one, parted where they are far enough from it for it to be a rail."""

    def __init__(self, lowest: float) -> None:
        self.lowest, self.near, self.far = lowest, 0, 0
        self.last_near, self.first_far = -np.inf, np.inf

    def add(self, values: Floats) -> None:
        far = values - self.lowest >= RAIL_FROM_REST_MV
        self.far += int(far.sum())
        self.near += len(far) - int(far.sum())
        self.first_far = min(self.first_far, float(values.min(where=far, initial=np.inf)))
        self.last_near = max(self.last_near, float(values.max(where=~far, initial=-np.inf)))

    @property
    def median_is_far(self) -> bool:
        """Whether the median of all is; where they are even it may be the mean of the two at the border."""
        if self.near != self.far:
            return self.far > self.near
        return self.far > 0 and (self.last_near + self.first_far) / 2 - self.lowest >= RAIL_FROM_REST_MV


@dataclass(frozen=True)
class _Piece:
    """A chunk on its way.

    Attributes:
        start: the lead's sample at which it begins.
        samples: its length.
        signal: (samples,) millivolt; empty where nothing of it is valid.
        lost: (samples,) bool, what is to be bridged is not valid here.
        spike: (samples,) bool.
        height: of the beats, a value a block.
    """

    start: int
    samples: int
    signal: Floats
    lost: Mask
    spike: Mask
    height: Floats

    @property
    def bridged(self) -> Mask:
        """Where the signal is no longer the recorder's."""
        return self.lost | self.spike if len(self.spike) else self.lost


_NO_MASK, _NOTHING = np.empty(0, np.bool_), np.empty(0)


def _looked_at(
    read: ReadLead, samples: int, fs_hz: float, chunk: int, at_rail: tuple[float, ...], found: dict[Reason, _Runs]
) -> Iterator[_Piece]:
    """Yield the chunks with what is lost of them; gaps, rails and flat lines are noted."""
    reach = round(FIRST_REACH_S * fs_hz)
    for start, stop in spans(samples, chunk):
        first = max(start - reach, 0)
        look = first_look(read(first, min(stop + reach, samples)), fs_hz, at_rail)
        inner = slice(start - first, stop - first)
        for reason, mask in look.masks.items():
            found[reason].add(start, mask[inner])
        yield _Piece(start, stop - start, look.signal[inner], look.lost[inner], _NO_MASK, _NOTHING)


def _bridged(pieces: Iterable[_Piece], longest: int) -> Iterator[_Piece]:
    """Yield the chunks with what is not valid bridged as ``fill_gaps`` does with a whole lead."""
    waiting: list[_Piece] = []
    last: tuple[int, float] | None = None  # the valid sample before those that wait
    for piece in pieces:
        valid = np.flatnonzero(~piece.bridged)
        if not len(valid):
            waiting.append(replace(piece, signal=_NOTHING))
            continue
        following = piece.start + int(valid[0]), float(piece.signal[valid[0]])
        for one in waiting:
            done, last = _line(one, last, following, longest)
            yield done
        waiting = [piece]
        if valid[-1] == piece.samples - 1:
            done, last = _line(piece, last, None, longest)
            yield done
            waiting = []
    for one in waiting:
        done, last = _line(one, last, None, longest)
        yield done


def _line(
    piece: _Piece, last: tuple[int, float] | None, following: tuple[int, float] | None, longest: int
) -> tuple[_Piece, tuple[int, float] | None]:
    """Bridge one chunk between the valid samples before and behind it; return it and the last valid sample."""
    missing = piece.bridged
    valid = np.flatnonzero(~missing)
    inside = [(piece.start + int(valid[-1]), float(piece.signal[valid[-1]]))] if len(valid) else []
    if not missing.any():
        return piece, inside[0]
    signal = piece.signal.copy() if len(valid) else np.zeros(piece.samples)
    signal = bridged(signal, missing, longest, first=piece.start, before=last, behind=following)
    return replace(piece, signal=signal), inside[0] if inside else last


@dataclass(frozen=True)
class _Around:
    """A chunk among its neighbours: the signal and all the rest reach ``before`` samples further to the left."""

    piece: _Piece
    before: int
    inner: slice


def _with_neighbours(pieces: Iterable[_Piece], reach: int, block: int) -> Iterator[_Around]:
    """Yield each chunk with ``reach`` samples, a multiple of ``block``, on both sides, as far as there are any."""
    before: _Piece | None = None
    here: _Piece | None = None
    for piece in pieces:
        if here is not None:
            yield _joined(before, here, piece, reach, block)
            before = here
        here = piece
    if here is not None:
        yield _joined(before, here, None, reach, block)


def _joined(before: _Piece | None, here: _Piece, behind: _Piece | None, reach: int, block: int) -> _Around:
    left = 0 if before is None else min(reach, before.samples)

    def laid(part: Callable[[_Piece], NDArray[Any]], size: int) -> NDArray[Any]:
        parts = [part(here)]
        if before is not None:
            parts.insert(0, part(before)[len(part(before)) - left // size :])
        if behind is not None:
            parts.append(part(behind)[: reach // size])
        return np.concatenate(parts)

    whole = _Piece(
        here.start - left,
        here.samples,
        laid(lambda one: one.signal, 1),
        laid(lambda one: one.lost, 1),
        laid(lambda one: one.spike, 1),
        laid(lambda one: one.height, block),
    )
    return _Around(whole, left, slice(left, left + here.samples))


def _with_spikes(
    pieces: Iterable[_Piece], fs_hz: float, found: dict[Reason, _Runs], *, spikes_alone: bool
) -> Iterator[_Piece]:
    """Yield the chunks with the height of their beats and their spikes, which are noted.

    Nothing deviates further from a median than the lowest and highest values are apart: where those are too near for a
    spike, and spikes alone are asked for, there is nothing to find.
    """
    block, unit = block_samples(fs_hz), unit_samples(fs_hz)
    for around in _with_neighbours(pieces, -(-round(SPIKE_REACH_S * fs_hz) // unit) * unit, block):
        one, inner = around.piece, around.inner
        if spikes_alone and not np.ptp(one.signal) > SPIKE_MV:
            continue
        height, spike = spikes(one.signal, one.lost, fs_hz)
        start = one.start + around.before
        found[Reason.SPIKE].add(start, spike[inner])
        blocks = slice(inner.start // block, -(-inner.stop // block))
        yield _Piece(start, one.samples, one.signal[inner], one.lost[inner], spike[inner], height[blocks])


def _last_look(pieces: Iterable[_Piece], fs_hz: float, found: dict[Reason, _Runs]) -> None:
    """Note noise and jumps of the baseline."""
    block, unit = block_samples(fs_hz), unit_samples(fs_hz)
    for around in _with_neighbours(pieces, -(-round(NOISE_REACH_S * fs_hz) // unit) * unit, block):
        one, inner = around.piece, around.inner
        made = noise_and_jumps(one.signal, one.lost, one.spike, one.height, fs_hz, one.start)
        for reason, mask in made.items():
            found[reason].add(one.start + around.before, mask[inner])
