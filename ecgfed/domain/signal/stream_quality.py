"""The quality of a lead whose samples come as they are recorded: what ``quality`` finds in the whole, seconds later.

The last half minute is judged again every second, by the functions that judge a whole lead. What they find is decided
where nothing that may still come can change it: a flat line is known a second later, the height of the beats (medians
of stretches of two seconds, two of them ahead) up to six and a half, noise and jumps another three. Within a gap of
less than ``LONGEST_BRIDGE_S`` everything waits for its end. A rail is the lead's own extreme, which no stream knows:
it is told the limits of its converter, or finds none.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.filters import bridge_samples, bridged
from ecgfed.domain.signal.quality import (
    BASELINE_WINDOW_S,
    BLOCK_S,
    FLAT_S,
    SPIKE_MARGIN_S,
    SPIKE_RINGS_S,
    FirstLook,
    Reason,
    block_samples,
    first_look,
    noise_and_jumps,
    runs,
    spikes,
    unit_samples,
)
from ecgfed.domain.signal.spans import Spans

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Everything about a sample is decided once so much has come after it; in a gap, that of the gap (up to 10 s) more.
DECIDED_S = 12.0
#: Noise and jumps look so far ahead: medians over a second and two, half seconds, and pauses that are closed.
_NOISE_AHEAD_S = 2.8
#: Stretches of two seconds before what is decided that are judged with it.
_UNITS_BEFORE = 8
#: Stretches whose height of the beats counts for one, on each side.
_AROUND = 2


class Samples:
    """The last samples of a lead, numbered from the stream's start.

    Attributes:
        start: number of the first one that is kept.
        values: (samples,) float64 millivolt, NaN where there is none.
        before: the last valid sample that is no longer kept, and its value.
    """

    def __init__(self) -> None:
        self.start, self.values = 0, np.empty(0)
        self.before: tuple[int, float] | None = None

    @property
    def stop(self) -> int:
        """How many samples have come."""
        return self.start + len(self.values)

    def append(self, more: Floats) -> None:
        """Take the next samples."""
        self.values = np.concatenate([self.values, more])

    def part(self, start: int, stop: int) -> Floats:
        """Return samples as they came."""
        return self.values[start - self.start : stop - self.start]

    def without_gaps(self, start: int, stop: int, longest: int) -> Floats:
        """Return samples, gaps bridged as in the whole lead; one that has not ended holds its last value."""
        part = self.part(start, stop)
        if np.isfinite(part).all():
            return part
        filled = bridged(self.values.copy(), ~np.isfinite(self.values), longest, first=self.start, before=self.before)
        return filled[start - self.start : stop - self.start]

    def forget(self, before: int) -> None:
        """Drop the samples before a number."""
        drop = before - self.start
        if drop <= 0:
            return
        self.before = last_valid(self.values[:drop], ~np.isfinite(self.values[:drop]), self.start, self.before)
        self.values, self.start = self.values[drop:].copy(), before


class QualityStream:
    """Finds the bad stretches of a lead as its samples come.

    Args:
        samples: the lead; more are appended to it from outside, and no more forgotten than ``needed`` says.
        fs_hz: sampling frequency in Hz.
        rails_mv: the values at which its converter ends.
    """

    def __init__(self, samples: Samples, fs_hz: float, rails_mv: tuple[float, ...] = ()) -> None:
        self._samples, self._fs_hz, self._rails = samples, fs_hz, rails_mv
        self.decided = 0
        self.needed = 0  # the first sample that is judged again
        self._known: dict[Reason, list[tuple[int, int]]] = {reason: [] for reason in Reason}
        self._ahead: dict[Reason, list[tuple[int, int]]] = {}
        self._before: list[tuple[int, float] | None] = [None, None]  # what is bridged from: not lost; no spike either

    def spans(self, reasons: Iterable[Reason]) -> Spans:
        """Return where the lead is bad; what is not decided is as if the recording ended here."""
        edges = [edge for reason in reasons for edge in self._known[reason] + self._ahead.get(reason, [])]
        return Spans.merged(edges)

    def forget(self, before: int) -> None:
        """Drop stretches that end before a sample."""
        for reason, edges in self._known.items():
            self._known[reason] = [edge for edge in edges if edge[1] >= before]

    def look(self, *, ended: bool = False) -> None:
        """Judge what has come; ``ended`` says that nothing follows."""
        first, stop, fs_hz = self.needed, self._samples.stop, self._fs_hz
        longest = bridge_samples(fs_hz)
        look = first_look(self._samples.part(first, stop), fs_hz, self._rails)
        masks, lost = look.masks, look.lost
        sure = stop if ended else max(stop - math.ceil(FLAT_S * fs_hz), first)
        sure = sure if ended else _bridged_until(lost, sure, longest, first, self._before[0])
        height, spike = self._spikes(look, first, longest)
        sure = sure if ended else max(self._spikes_until(sure, first), first)
        unlike = lost | spike
        if not lost.all():
            signal = bridged(look.signal.copy(), unlike, longest, first=first, before=self._before[1])
            masks |= {Reason.SPIKE: spike, **noise_and_jumps(signal, lost, spike, height, fs_hz, first)}
        if not ended:
            sure = _bridged_until(unlike, sure, longest, first, self._before[1]) - math.ceil(_NOISE_AHEAD_S * fs_hz)
        self._note(masks, first, max(sure, self.decided))
        self._move(look.signal, lost, spike)

    def _spikes(self, look: FirstLook, first: int, longest: int) -> tuple[Floats, Mask]:
        """Return the height of the beats and the spikes, as ``spikes``."""
        if look.lost.all():
            return np.empty(0), np.zeros(len(look.lost), np.bool_)
        signal = bridged(look.signal.copy(), look.lost, longest, first=first, before=self._before[0])
        height, spike, _ = spikes(signal, look.lost, self._fs_hz)
        return height, spike

    def _spikes_until(self, sure: int, first: int) -> int:
        """Return until where spikes and the height of the beats are decided, of a signal that is up to ``sure``."""
        block, unit = block_samples(self._fs_hz), unit_samples(self._fs_hz)
        blocks = (sure - first) // block - (round(BASELINE_WINDOW_S / BLOCK_S) // 2 + 1)
        heights = blocks // (unit // block) - _AROUND
        return first + heights * unit - math.ceil((SPIKE_RINGS_S + SPIKE_MARGIN_S) * self._fs_hz) - 2

    def _note(self, masks: dict[Reason, Mask], first: int, sure: int) -> None:
        """Keep what is decided up to ``sure``, and what lies ahead until the next look."""
        for reason, mask in masks.items():
            known = self._known[reason]
            for start, stop in runs(mask[self.decided - first : sure - first]):
                start, stop = start + self.decided, stop + self.decided
                if known and known[-1][1] == start:
                    known[-1] = (known[-1][0], stop)
                else:
                    known.append((start, stop))
            self._ahead[reason] = [(sure + start, sure + stop) for start, stop in runs(mask[sure - first :])]
        for reason in set(Reason) - set(masks):
            self._ahead[reason] = []
        self.decided = sure

    def _move(self, signal: Floats, lost: Mask, spike: Mask) -> None:
        """Begin the next look so long before what is decided that it does not depend on what lies before that."""
        unit, first = unit_samples(self._fs_hz), self.needed
        begin = max((self.decided // unit - _UNITS_BEFORE) * unit, first)
        past = begin - first
        if past:
            for number, missing in enumerate((lost, lost | spike)):
                self._before[number] = last_valid(signal[:past], missing[:past], first, self._before[number])
            self.needed = begin


def last_valid(values: Floats, missing: Mask, first: int, before: tuple[int, float] | None) -> tuple[int, float] | None:
    """Return the number and value of the last sample of a part that is there, ``before`` where none is."""
    valid = np.flatnonzero(~missing)
    return (first + int(valid[-1]), float(values[valid[-1]])) if len(valid) else before


def _bridged_until(missing: Mask, sure: int, longest: int, first: int, before: tuple[int, float] | None) -> int:
    """Return until where a bridged signal is known, where it is known up to ``sure`` what is missing.

    A gap that has not ended and may yet be short is not known; of a long one all but its last five seconds is.
    """
    part = missing[: max(sure - first, 0)]
    if not len(part) or not part[-1]:
        return sure
    valid = np.flatnonzero(~part)
    begin = first + int(valid[-1]) + 1 if len(valid) else before[0] + 1 if before else 0
    return sure - longest // 2 if sure - begin > longest else max(begin, first)
