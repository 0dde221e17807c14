"""The synthetic patients as the wfdb package reads them."""

from collections import Counter
from pathlib import Path

import numpy as np
import wfdb
from numpy.typing import NDArray

FS_HZ = 360
NAMES = [f"demo{n:02d}" for n in range(1, 13)]
#: The classes each of the twelve has, and of which most of its beats are.
CLASSES = [
    ("N", "V"),
    ("L", "V"),
    ("N", "A"),
    ("R", "AV"),
    ("N", ""),
    ("/", "V"),
    ("N", "V"),
    ("N", "AV"),
    ("L", "V"),
    ("R", "AV"),
    ("N", "AV"),
    ("N", "V"),
]
Floats = NDArray[np.float64]


class Record:
    """One record as the wfdb package reads it."""

    def __init__(self, path: Path) -> None:
        read = wfdb.rdrecord(str(path))
        marks = wfdb.rdann(str(path), "atr")
        self.header, self.mv = read, np.asarray(read.p_signal)
        self.sample, self.symbol = np.asarray(marks.sample), np.asarray(marks.symbol)
        self.rr_s = np.diff(self.sample) / FS_HZ
        self.basic = Counter(self.symbol.tolist()).most_common(1)[0][0]

    def basic_rr_s(self) -> Floats:
        """Intervals between two basic beats, neither of them after a premature one."""
        plain = self.symbol == self.basic
        keep = plain[1:-1] & plain[2:] & plain[:-2]
        return np.asarray(self.rr_s[1:][keep])

    def mean_beat(self, symbol: str, before_s: float = 0.3, after_s: float = 0.5) -> tuple[Floats, Floats]:
        """Times from the R wave (s) and the mean beat (samples, 2) mV, 0 at its median from 120 to 90 ms before.

        Beats that a premature one follows are left out: it would stand in the window.
        """
        steps = np.arange(-round(before_s * FS_HZ), round(after_s * FS_HZ))
        inside = (self.sample + steps[0] >= 0) & (self.sample + steps[-1] < len(self.mv))
        alone = np.append(self.symbol[1:] == self.basic, True)
        beats = self.mv[self.sample[(self.symbol == symbol) & inside & alone][:, None] + steps]
        level = np.median(beats[:, (steps > -0.12 * FS_HZ) & (steps < -0.09 * FS_HZ)], axis=1, keepdims=True)
        return steps / FS_HZ, (beats - level).mean(axis=0)

    def qrs_width_s(self, symbol: str) -> float:
        """From the first to the last moment within 90 ms of R at which a lead passes an eighth of its deflection."""
        times, beat = self.mean_beat(symbol)
        near = np.abs(times) < 0.09
        size = np.abs(beat[near]) / np.abs(beat[near]).max(axis=0)
        return float(np.ptp(times[near][(size > 1 / 8).any(axis=1)]))
