"""Signals whose waves begin and end where a rule says: powers of half sines for P and T, straight lines for the QRS."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed import Recording

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Beat:
    """Times in seconds from the R peak, heights in mV; a wave without height is none."""

    p: tuple[float, float] = (-0.20, -0.10)
    p_mv: float = 0.15
    qrs: tuple[float, float] = (-0.04, 0.05)
    t: tuple[float, float] = (0.18, 0.36)
    t_mv: float = 0.30
    st_mv: float = 0.0

    def at(self, t_s: Floats) -> Floats:
        """Return the beat at times from its R peak, mV."""
        onset, end = self.qrs
        knots = [onset, onset / 2, 0.0, end * 0.45, end]
        signal = np.interp(t_s, knots, [0.0, -0.2, 1.2, -0.3, self.st_mv])
        for (start, stop), height in ((self.p, self.p_mv), (self.t, self.t_mv)):
            part = (t_s - start) / (stop - start)
            signal += np.where((part > 0) & (part < 1), height * np.sin(np.pi * np.clip(part, 0, 1)) ** 1.5, 0.0)
        # an elevated ST segment ends with the T wave
        return signal - np.where(t_s > self.t[0], self.st_mv * np.clip((t_s - self.t[0]) / 0.1, 0, 1), 0.0)

    def points_ms(self) -> dict[str, float]:
        """Return when its waves begin and end, ms from the R peak."""
        names = {"p_onset": self.p[0], "p_end": self.p[1], "qrs_onset": self.qrs[0], "qrs_end": self.qrs[1]}
        return {name: 1000 * at for name, at in {**names, "t_end": self.t[1]}.items()}


def recorded(
    beat: Beat,
    fs_hz: float = 250.0,
    rr_s: Floats | None = None,
    *,
    noise_mv: float = 0.005,
    wander_mv: float = 0.0,
    seed: int = 0,
) -> tuple[Recording, Ints]:
    """Return a recording of a beat, repeated after each of the intervals, and its R peaks."""
    rng = np.random.default_rng(seed)
    intervals = np.full(40, 0.8) if rr_s is None else rr_s
    r_samples = np.round((1.0 + np.cumsum(intervals)) * fs_hz).astype(np.int64)
    t_s = np.arange(int(r_samples[-1] + 2 * fs_hz)) / fs_hz
    signal = np.sum([beat.at(t_s - r / fs_hz) * (np.abs(t_s - r / fs_hz) < 0.7) for r in r_samples.tolist()], axis=0)
    signal += noise_mv * rng.standard_normal(len(signal)) + wander_mv * np.sin(2 * np.pi * 0.25 * t_s)
    return Recording("rule", Path("rule"), "II", ("II",), fs_hz, signal[None], ()), r_samples
