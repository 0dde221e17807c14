"""A synthetic clean ECG with known beats: two leads, the same curves at any sampling frequency."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: A normal beat's waves P, Q, R, S, T: time from the R wave (s), width (one standard deviation, s), height (mV) in a
#: lead like MLII and in one like V5. Gaussian bumps, as in McSharry et al. (IEEE Trans Biomed Eng 50(3):289, 2003).
WAVES = (
    (-0.165, 0.020, 0.13, 0.10),
    (-0.024, 0.008, -0.11, -0.14),
    (0.000, 0.011, 1.15, 1.40),
    (0.025, 0.009, -0.22, -0.35),
    (0.285, 0.046, 0.28, 0.36),
)
LEADS = ("MLII", "V5")


@dataclass(frozen=True)
class SyntheticEcg:
    """A synthetic recording.

    Attributes:
        signals_mv: (2, samples) float64 millivolt, leads as ``LEADS``.
        fs_hz: sampling frequency in Hz.
        r_s: (beats,) float64, time of each R peak in s.
    """

    signals_mv: NDArray[np.float64]
    fs_hz: float
    r_s: NDArray[np.float64]


def synthetic_ecg(
    fs_hz: float = 360.0, seconds: float = 60.0, *, rr_s: float = 0.8, noise_mv: float = 0.01, seed: int = 0
) -> SyntheticEcg:
    """Simulate sinus rhythm with intervals varying by 5% and a little white noise.

    Args:
        fs_hz: sampling frequency in Hz.
        seconds: length in s.
        rr_s: mean interval in s.
        noise_mv: standard deviation of the noise in millivolt.
        seed: determines intervals and noise; the beats' times do not depend on ``fs_hz``.
    """
    beats, noise = (np.random.default_rng([seed, part]) for part in (0, 1))
    intervals = rr_s * (1 + 0.05 * np.clip(beats.standard_normal(int(2 * seconds / rr_s) + 2), -3, 3))
    r_s = 0.5 * rr_s + np.cumsum(intervals) - intervals[0]
    r_s = r_s[r_s < seconds - 0.3 * rr_s]
    time_s = np.arange(round(seconds * fs_hz)) / fs_hz
    signals_mv = noise_mv * noise.standard_normal((len(LEADS), len(time_s)))
    for at_s, width_s, *heights_mv in WAVES:
        # all beats' bumps of one wave at once, each up to five standard deviations
        reach = int(5 * width_s * fs_hz) + 1
        centre = np.rint((r_s + at_s) * fs_hz).astype(np.int64)
        at = centre[:, None] + np.arange(-reach, reach + 1)
        bump = np.exp(-0.5 * ((at / fs_hz - (r_s + at_s)[:, None]) / width_s) ** 2)
        inside = (at >= 0) & (at < len(time_s))
        for signal, height_mv in zip(signals_mv, heights_mv, strict=True):
            np.add.at(signal, at[inside], height_mv * bump[inside])
    return SyntheticEcg(signals_mv, fs_hz, r_s)
