"""Rhythms that a database lacks, made from its own beats: fast runs, tall T waves, pauses, blocks, pacing.

Each maker takes a ``Strip`` of a real record and returns another one, with the beats that are in it. Beats are cut from
the record, the straight line between the cut's ends taken off, and put together again on the record's own noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.wfdb_files import read_annotation, read_recording

Signal = NDArray[np.float64]
Rng = np.random.Generator
NORMAL, WIDE = ("N", "L", "R", "e", "j", "A", "a", "J", "S"), ("V", "E")
#: Records without P waves before their beats (atrial fibrillation or flutter, or waves too small to cut).
_NO_P = "108 109 118 124 200 201 202 203 207 208 210 217 219 221 222 228 232"
NO_P = frozenset(_NO_P.split())


@dataclass(frozen=True)
class Strip:
    """A piece of an ECG and where its beats are.

    Attributes:
        name: of the record it was made from.
        signals_mv: (leads, samples) millivolt, the annotators' lead first.
        fs_hz: sampling frequency in Hz.
        beats: (beats,) sample numbers.
        symbols: (beats,) their WFDB symbols.
    """

    name: str
    signals_mv: Signal
    fs_hz: float
    beats: NDArray[np.int64]
    symbols: NDArray[np.str_]

    @property
    def samples(self) -> int:
        return self.signals_mv.shape[1]

    def of(self, symbols: Sequence[str]) -> NDArray[np.int64]:
        """Return the beats of some kinds."""
        return self.beats[np.isin(self.symbols, symbols)]


def load(source: Path, record: str) -> tuple[Strip, list[tuple[int, int]]]:
    """Read a record; return it, the annotators' lead first, and the stretches of flutter, which hold no beats."""
    recording = read_recording(source / record, ("MLII", "V5"), every_lead=True)
    signals = np.roll(recording.signals_mv, -recording.leads.index(recording.lead), axis=0)
    marks = read_annotation(source / record)
    starts, ends = marks.sample[marks.symbol == "["], marks.sample[marks.symbol == "]"]
    flutter = list(zip(starts.tolist(), ends.tolist(), strict=True))
    beats = marks.beats()
    keep = np.ones(len(beats.sample), np.bool_)
    for start, end in flutter:
        keep &= (beats.sample < start) | (beats.sample > end)
    return Strip(record, signals, float(recording.fs_hz), beats.sample[keep], beats.symbol[keep]), flutter


def excerpt(strip: Strip, start: int, stop: int) -> Strip:
    """Return the samples from ``start`` to ``stop``."""
    keep = (strip.beats >= start) & (strip.beats < stop)
    beats, symbols = strip.beats[keep] - start, strip.symbols[keep]
    return replace(strip, signals_mv=strip.signals_mv[:, start:stop].copy(), beats=beats, symbols=symbols)


def played(strip: Strip, speed: float) -> Strip:
    """Return the same samples, said to be taken ``speed`` times as fast."""
    return replace(strip, fs_hz=strip.fs_hz * speed)


def levelled(window: Signal) -> Signal:
    """Take off the straight line between the ends (means of three samples)."""
    first, last = window[:, :3].mean(axis=1), window[:, -3:].mean(axis=1)
    share = np.linspace(0, 1, window.shape[1])
    return np.asarray(window - (first[:, None] * (1 - share) + last[:, None] * share))


def joined(parts: Sequence[Strip]) -> Strip:
    """Put strips one after another, each levelled so that they meet."""
    signals = np.concatenate([levelled(part.signals_mv) for part in parts], axis=1)
    starts = np.cumsum([0, *(part.samples for part in parts)])
    beats = np.concatenate([part.beats + start for part, start in zip(parts, starts[:-1], strict=True)])
    return replace(parts[0], signals_mv=signals, beats=beats, symbols=np.concatenate([p.symbols for p in parts]))


def heights(strip: Strip, beats: NDArray[np.int64], reach_s: float = 0.08) -> Signal:
    """Return the peak-to-peak amplitude (leads, beats) of each QRS complex."""
    reach = round(reach_s * strip.fs_hz)
    at = np.clip(beats[:, None] + np.arange(-reach, reach + 1), 0, strip.samples - 1)
    return np.asarray(np.ptp(strip.signals_mv[:, at], axis=2))


class Assembly:
    """Waves put on a quiet background, each where it is wanted."""

    def __init__(self, strip: Strip, seconds: float, rng: Rng) -> None:
        self.strip, self.fs_hz, self.rng = strip, strip.fs_hz, rng
        self.samples = round(seconds * strip.fs_hz)
        self.signals = background(strip, self.samples, rng)
        self.beats: list[int] = []
        self.symbols: list[str] = []

    def wave(
        self, beat: int, before_s: float, after_s: float, at: float, *, gain: float = 1.0, wider: float = 1
    ) -> int:
        """Copy what lies around a beat of the record to second ``at``; return the sample it came to."""
        before, after = round(before_s * self.fs_hz), round(after_s * self.fs_hz)
        piece = cut(self.strip, beat, before, after)
        if wider != 1:
            piece, before = stretched(piece, wider), round(before * wider)
        return self.put(piece, before, at, gain)

    def put(self, piece: Signal, before: int, at: float, gain: float) -> int:
        """Add a piece whose sample ``before`` comes to second ``at``; return the sample it came to."""
        here = round(at * self.fs_hz)
        start = here - before
        low, high = max(start, 0), min(start + piece.shape[1], self.samples)
        if low < high:
            self.signals[:, low:high] += gain * piece[:, low - start : high - start]
        return here

    def beat(self, beat: int, at: float, symbol: str, **options: float) -> None:
        """The same with a QRS complex: it counts as a beat."""
        here = self.wave(beat, options.pop("before_s"), options.pop("after_s"), at, **options)
        if 0 <= here < self.samples:
            self.beats.append(here)
            self.symbols.append(symbol)

    def spike(self, at: float, height_mv: Signal, decay_s: float) -> None:
        """A pacing spike: two samples high, and what the amplifier makes of it."""
        here, length = round(at * self.fs_hz), round(4 * decay_s * self.fs_hz)
        if 0 < here < self.samples - length - 3:
            self.signals[:, here : here + 2] += height_mv[:, None]
            tail = np.exp(-np.arange(length) / (decay_s * self.fs_hz))
            self.signals[:, here + 2 : here + 2 + length] -= 0.08 * height_mv[:, None] * tail

    def made(self) -> Strip:
        order = np.argsort(self.beats, kind="stable")
        beats, symbols = np.array(self.beats, np.int64)[order], np.array(self.symbols, np.str_)[order]
        return replace(self.strip, signals_mv=self.signals, beats=beats, symbols=symbols)


def cut(strip: Strip, beat: int, before: int, after: int, *, taper: bool = True) -> Signal:
    """Return (leads, before + after) around a beat, levelled, faded in and out over 20 ms."""
    at = np.clip(np.arange(beat - before, beat + after), 0, strip.samples - 1)
    piece = levelled(strip.signals_mv[:, at])
    if taper:
        fade = min(round(0.02 * strip.fs_hz), piece.shape[1] // 3)
        ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / fade)
        piece[:, :fade] *= ramp
        piece[:, -fade:] *= ramp[::-1]
    return piece


def stretched(piece: Signal, factor: float) -> Signal:
    """Return a wave made wider."""
    count = round(piece.shape[1] * factor)
    place = np.linspace(0, piece.shape[1] - 1, count)
    return np.stack([np.interp(place, np.arange(piece.shape[1]), lead) for lead in piece])


def background(strip: Strip, samples: int, rng: Rng) -> Signal:
    """Return noise as quick and as high as the record's own between the beats, and breathing."""
    time = np.arange(samples) / strip.fs_hz
    made = []
    for lead in strip.signals_mv:
        quick = np.diff(lead[: round(120 * strip.fs_hz)], 2)
        size = 1.4826 * np.median(np.abs(quick)) / np.sqrt(6) + 0.002
        noise = size * np.convolve(rng.normal(size=samples + 2), [0.6, 0.6, 0.6], "valid")
        for _ in range(2):
            noise += rng.uniform(0, 0.08) * np.sin(2 * np.pi * (rng.uniform(0.15, 0.45) * time + rng.random()))
        made.append(noise)
    return np.stack(made)


def usable(strip: Strip, beats: NDArray[np.int64], margin_s: float = 0.6) -> NDArray[np.int64]:
    """Leave out beats too near the ends to be cut."""
    margin = round(margin_s * strip.fs_hz)
    return beats[(beats >= margin) & (beats < strip.samples - margin)]


def look_alikes(strip: Strip, beats: NDArray[np.int64], rng: Rng, reach_s: float = 0.1) -> NDArray[np.int64]:
    """Return beats of one form: those most like one of them, at least five where there are so many."""
    reach = round(reach_s * strip.fs_hz)
    forms = strip.signals_mv[0][beats[:, None] + np.arange(-reach, reach + 1)]
    forms = forms - forms.mean(axis=1, keepdims=True)
    forms /= np.sqrt((forms**2).sum(axis=1, keepdims=True)) + 1e-9
    like = forms @ forms[rng.integers(len(beats))]
    return beats[np.argsort(-like, kind="stable")[: max(5, len(beats) // 4)]]


def v_run(strip: Strip, rate: float, seconds: float, rng: Rng, *, one_form: bool = True) -> Strip:
    """String ventricular beats together, ``rate`` of them a minute."""
    pool = usable(strip, strip.of(WIDE))
    pool = look_alikes(strip, pool, rng) if one_form and len(pool) > 5 else pool
    parts, beats, length = [], [], 0
    while length < seconds * strip.fs_hz:
        count = round(60 / rate * strip.fs_hz * (1 + 0.015 * float(np.clip(rng.normal(), -2, 2))))
        before = round(0.42 * count)
        parts.append(cut(strip, int(rng.choice(pool)), before, count - before, taper=False))
        beats.append(length + before)
        length += count
    signals = np.concatenate(parts, axis=1)
    signals += 0.5 * background(strip, length, rng)
    return replace(strip, signals_mv=signals, beats=np.array(beats, np.int64), symbols=np.full(len(beats), "V"))


def with_runs(strip: Strip, rate: float, seconds: float, rng: Rng, run_s: float = 20.0) -> Strip:
    """Runs of ventricular beats between stretches of the record, of which as many as its seconds give."""
    parts: list[Strip] = []
    while sum(part.samples for part in parts) < seconds * strip.fs_hz:
        start = rng.integers(0, strip.samples - round(12 * strip.fs_hz))
        parts.append(excerpt(strip, start, start + round(rng.uniform(6, 12) * strip.fs_hz)))
        parts.append(v_run(strip, rate, run_s * rng.uniform(0.5, 1.2), rng, one_form=rng.random() < 0.7))
    return joined(parts)


def bump(samples: int, edge: int) -> Signal:
    """Return a window of ones with cosine edges."""
    window = np.ones(samples)
    edge = max(1, min(edge, samples // 2))
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(edge) + 0.5) / edge)
    window[:edge], window[-edge:] = ramp, ramp[::-1]
    return window


def rescaled(strip: Strip, gains: Callable[[int, str], float | Signal]) -> Strip:
    """Make each beat, T wave included, larger or smaller by what ``gains(index, symbol)`` says (for each lead)."""
    signals, fs = strip.signals_mv.copy(), strip.fs_hz
    for i, (at, symbol) in enumerate(zip(strip.beats.tolist(), strip.symbols.tolist(), strict=True)):
        after = strip.beats[i + 1] - round(0.2 * fs) if i + 1 < len(strip.beats) else strip.samples
        low, high = max(at - round(0.16 * fs), 0), int(min(at + round(0.5 * fs), after, strip.samples))
        factor = np.asarray(gains(i, symbol), dtype=np.float64).reshape(-1, 1)
        if high - low > round(0.25 * fs) and (factor != 1).any():
            part = strip.signals_mv[:, low:high]
            signals[:, low:high] += (factor - 1) * levelled(part) * bump(high - low, round(0.04 * fs))
    return replace(strip, signals_mv=signals)
