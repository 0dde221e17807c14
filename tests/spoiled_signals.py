"""A recording with everything that can be wrong with one, for tests that hold two languages together."""

import numpy as np
from conftest import synthetic_signal
from numpy.typing import NDArray


def spoiled(fs_hz: float, seed: int, beats: str = "NNNVNNANNN" * 9) -> NDArray[np.float64]:
    """Return two leads (2, samples) with gaps, a flat line, a rail, spikes, noise and a jump of the baseline."""
    signal, _ = synthetic_signal(beats, fs_hz=fs_hz, seed=seed)
    rng = np.random.default_rng(seed)
    at = {name: round(s * fs_hz) for name, s in {"gap": 8, "flat": 18, "rail": 25, "noise": 34, "jump": 44}.items()}
    other = 0.6 * signal + 0.02 * rng.standard_normal(len(signal))
    signal[at["gap"] : at["gap"] + round(2.5 * fs_hz)] = np.nan
    signal[at["flat"] : at["flat"] + round(3 * fs_hz)] = 0.05
    signal[at["rail"] : at["rail"] + round(0.4 * fs_hz)] = -6.0
    span = slice(at["noise"], at["noise"] + round(4 * fs_hz))
    signal[span] += 0.3 * rng.standard_normal(span.stop - span.start)
    signal[at["jump"] :] += 2.5
    spike = round(62 * fs_hz)
    signal[spike : spike + max(2, round(0.01 * fs_hz))] += 15.0
    signal[: round(0.3 * fs_hz)] = np.nan
    both = np.stack([signal, other])
    both[:, round(56 * fs_hz) : round(58 * fs_hz)] = np.nan
    return both
