"""Signals whose rhythm is known: sinus rhythm with P waves, and atrial fibrillation."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def rhythm(
    seconds: float, fs_hz: float, *, atrial: bool, seed: int = 0, rr_s: Floats | None = None
) -> tuple[Floats, Ints]:
    """A lead in mV and its R peaks: sinus rhythm with P waves, or fibrillation with intervals of 0.4 to 1.1 s.

    Other intervals may be passed.
    """
    rng = np.random.default_rng(seed)
    rr = rng.uniform(0.4, 1.1, 5000) if atrial else 0.8 + 0.02 * np.sin(np.arange(5000) / 4)
    rr = rr if rr_s is None else rr_s
    r_s = 0.5 + np.cumsum(rr)
    r_s = r_s[r_s < seconds - 0.6]
    t = np.arange(round(seconds * fs_hz)) / fs_hz
    lead = 0.01 * rng.standard_normal(len(t))
    waves = [(0.0, 0.012, 1.0), (0.28, 0.05, 0.3)] + [(-0.16, 0.025, 0.15)] * (not atrial)
    for shift, width, height in waves:
        for at in r_s + shift:
            near = slice(max(round((at - 6 * width) * fs_hz), 0), round((at + 6 * width) * fs_hz))
            lead[near] += height * np.exp(-0.5 * ((t[near] - at) / width) ** 2)
    if atrial:
        lead += 0.05 * np.sin(2 * np.pi * (6 * t + 0.5 * np.sin(t)))
    return lead, np.rint(r_s * fs_hz).astype(np.int64)


def recording(leads: Floats, fs_hz: float) -> Recording:
    names = ("MLII", "V1")[: len(leads)]
    return Recording("x", Path("x"), "MLII", names, fs_hz, leads, ())


def joined(fs_hz: float, *parts: tuple[float, bool]) -> tuple[Recording, Ints]:
    """Parts of so many seconds, each fibrillation or not, one after the other."""
    leads, peaks, first = [], [], 0
    for seed, (seconds, atrial) in enumerate(parts):
        lead, r_samples = rhythm(seconds, fs_hz, atrial=atrial, seed=seed)
        leads.append(lead)
        peaks.append(r_samples + first)
        first += len(lead)
    return recording(np.concatenate(leads)[None], fs_hz), np.concatenate(peaks)
