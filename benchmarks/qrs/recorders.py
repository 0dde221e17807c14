"""What recorders and electrodes make of an ECG: bandwidth, sampling, steps, clipping, amplitude, noise."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from physiology import NORMAL, Rng, Signal, Strip, heights, load
from scipy.signal import butter, resample_poly, sosfiltfilt

from ecgfed.domain.record.wfdb_files import read_annotation


def low_passed(strip: Strip, hz: float) -> Strip:
    """Take out what is above ``hz`` (Butterworth of order 2, forth and back)."""
    sos = butter(2, hz, fs=strip.fs_hz, output="sos")
    return replace(strip, signals_mv=sosfiltfilt(sos, strip.signals_mv, axis=1))


def sampled(strip: Strip, fs_hz: int) -> Strip:
    """Return the strip at another sampling frequency."""
    up, down = fs_hz, round(strip.fs_hz)
    divisor = int(np.gcd(up, down))
    signals = resample_poly(strip.signals_mv, up // divisor, down // divisor, axis=1, padtype="line")
    beats = np.minimum(np.rint(strip.beats * (up / down)).astype(np.int64), signals.shape[1] - 1)
    return replace(strip, signals_mv=signals, fs_hz=float(fs_hz), beats=beats)


def stepped(strip: Strip, step_uv: float) -> Strip:
    """Round to the steps of a coarse converter."""
    return replace(strip, signals_mv=np.rint(strip.signals_mv * 1000 / step_uv) * step_uv / 1000)


def size(strip: Strip) -> Signal:
    """Return the median peak-to-peak amplitude of the QRS complexes (leads,), of normal beats where there are some."""
    normal = strip.of(NORMAL)
    return np.asarray(np.median(heights(strip, normal if len(normal) > 5 else strip.beats), axis=1))


def scaled(strip: Strip, height_mv: float) -> Strip:
    """Bring the QRS complexes of the first lead to a height, the others by the same factor."""
    return replace(strip, signals_mv=strip.signals_mv * (height_mv / size(strip)[0]))


def clipped(strip: Strip, share: float) -> Strip:
    """Cut each lead at a share of its largest waves, up and down, as an amplifier at its end does."""
    signals = strip.signals_mv.copy()
    for lead, high in zip(signals, size(strip), strict=True):
        middle = np.median(lead)
        np.clip(lead, middle - share * high, middle + share * high, out=lead)
    return replace(strip, signals_mv=signals)


def turned(strip: Strip) -> Strip:
    """Turn every lead over."""
    return replace(strip, signals_mv=-strip.signals_mv)


def one_lead(strip: Strip, lead: int) -> Strip:
    """Keep one lead."""
    return replace(strip, signals_mv=strip.signals_mv[lead : lead + 1])


class Noise:
    """Noise of the database's own bad stretches: what is left of them without the beats."""

    def __init__(self, source: Path, records: Sequence[str]) -> None:
        self.fs_hz = 360.0
        self.parts: list[Signal] = []
        for record in records:
            strip, _ = load(source, record)
            for lead, start, stop in _bad_stretches(source, record, strip):
                left = _without_beats(strip, lead, start, stop)
                self.parts.append(left / (left.std() + 1e-9))

    def draw(self, samples: int, fs_hz: float, rng: Rng) -> Signal:
        """Return noise of power 1, put together from pieces, at some sampling frequency."""
        made: list[Signal] = []
        while sum(map(len, made)) < samples:
            part = self.parts[rng.integers(len(self.parts))] * rng.choice([-1, 1])
            count = min(len(part), round(rng.uniform(3, 12) * self.fs_hz))
            start = rng.integers(0, len(part) - count + 1)
            piece = part[start : start + count]
            place = np.arange(0, count - 1, self.fs_hz / fs_hz)
            piece = np.interp(place, np.arange(count), piece)
            made.append(piece - np.linspace(piece[0], piece[-1], len(piece)))
        noise = np.concatenate(made)[:samples]
        return np.asarray(noise / noise.std())


def _bad_stretches(source: Path, record: str, strip: Strip) -> list[tuple[int, int, int]]:
    """Return (lead, start, stop) of stretches of 3 s or more that the annotators call noisy."""
    marks = read_annotation(source / record)
    noisy = marks.symbol == "~"
    at = [*marks.sample[noisy].tolist(), strip.samples]
    found = []
    for subtype, start, stop in zip(marks.subtypes[noisy].tolist(), at[:-1], at[1:], strict=True):
        if subtype >= 0 and 3 * strip.fs_hz <= stop - start <= 60 * strip.fs_hz:
            found += [(lead, start, stop) for lead in range(len(strip.signals_mv)) if subtype >> lead & 1]
    return found


def _without_beats(strip: Strip, lead: int, start: int, stop: int) -> Signal:
    """Subtract the record's median beat, fitted, at each beat of a stretch."""
    before, after = round(0.25 * strip.fs_hz), round(0.4 * strip.fs_hz)
    signal = strip.signals_mv[lead]
    inside = strip.beats[(strip.beats > before) & (strip.beats < strip.samples - after)]
    windows = signal[inside[:, None] + np.arange(-before, after)]
    form = np.median(windows - np.median(windows, axis=1, keepdims=True), axis=0)
    left = signal.copy()
    for at in inside[(inside > start - after) & (inside < stop + before)].tolist():
        window = signal[at - before : at + after]
        window = window - np.median(window)
        share = float(np.clip(window @ form / (form @ form + 1e-9), 0, 1.5))
        left[at - before : at + after] -= share * form
    part = left[start:stop]
    return np.asarray(part - np.median(part))


def motion(samples: int, fs_hz: float, rng: Rng) -> Signal:
    """Return the like of electrode motion, of power 1: jumps that die away, slow swings, bursts of 1 to 10 Hz."""
    time = np.arange(samples) / fs_hz
    made = np.zeros(samples)
    for start in np.cumsum(rng.exponential(1.2, int(samples / fs_hz / 1.2) + 3)):
        here = time - start
        rise, fall = np.exp(rng.uniform(-4.5, -2.5)), np.exp(rng.uniform(-2.2, 0.4))
        later = np.maximum(here, 0)
        made += rng.normal() * np.where(here > 0, (1 - np.exp(-later / rise)) * np.exp(-later / fall), 0)
    sos = butter(2, [1.0, rng.uniform(6, 14)], "bandpass", fs=fs_hz, output="sos")
    seconds = int(samples / fs_hz) + 3
    loud = np.interp(time, np.arange(seconds), rng.random(seconds) ** 2)
    swing = sosfiltfilt(sos, rng.normal(size=samples))
    made += 1.2 * loud * swing / (swing.std() + 1e-9)
    made += 0.7 * np.interp(time, 1.5 * np.arange(seconds), rng.normal(size=seconds))
    return np.asarray((made - made.mean()) / made.std())


def noisy(strip: Strip, noises: Sequence[Signal], snr_db: float) -> Strip:
    """Add noise of power 1, one for each lead; a QRS complex of height h has the power h^2 / 8, as in ``nst``."""
    power = size(strip) ** 2 / 8
    gains = np.sqrt(power / 10 ** (snr_db / 10))
    return replace(strip, signals_mv=strip.signals_mv + gains[:, None] * np.stack(noises))
