"""A recording with everything that can be wrong with one, for tests that hold two languages together."""

import numpy as np
from conftest import synthetic_signal
from numpy.typing import NDArray
from record_files import r_waves

from ecgfed.domain.signal.quality import LIMIT_MV


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


def beats_and_none(fs_hz: float, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, slice]]:
    """Return three leads (3, samples) in whole microvolts, the R times (s), and where which fault is.

    Noise of 10 microvolt, 0 mV and the rail on all leads; movement, and no samples, on the second alone.
    """
    faults = {"noise": 45.0, "zero": 20.0, "rail": 8.0, "short": 3.05, "movement": 15.0, "off": 15.0}
    lasting_s, rng = 12.0 * (len(faults) + 1) + sum(faults.values()), np.random.default_rng(seed)
    times = np.cumsum(0.8 + 0.04 * rng.standard_normal(int(lasting_s / 0.8)))
    times, at_s, where = times[times < lasting_s - 0.5], 0.0, {}
    for name, length_s in faults.items():
        at_s += 12.0
        where[name] = slice(round(at_s * fs_hz), round((at_s + length_s) * fs_hz))
        at_s += length_s
    hidden = [where[name] for name in ("noise", "zero", "rail", "short")]
    for part in hidden:
        times = times[(times < part.start / fs_hz - 0.25) | (times > part.stop / fs_hz + 0.25)]
    lead = r_waves(fs_hz, times.tolist(), lasting_s)
    signals = np.stack([lead, -0.6 * lead, 0.8 * lead]) + 0.005 * rng.standard_normal((3, len(lead)))
    noise = 0.010 * rng.standard_normal((3, len(lead)))
    for part, line in zip(hidden, (noise, 0 * noise, 0 * noise + 5.0, 0 * noise), strict=True):
        signals[:, part] = line[:, part]
    moved = rng.standard_normal(where["movement"].stop - where["movement"].start)
    signals[1, where["movement"]] += 1.5 * np.convolve(
        moved, np.ones(round(0.04 * fs_hz)) / np.sqrt(0.04 * fs_hz), "same"
    )
    signals[1, where["off"]] = np.nan
    return np.rint(signals * 1000) / 1000, times, where


def rails_by_median(signal: NDArray[np.float64]) -> tuple[float, ...]:
    """The extremes of a lead that lie a millivolt or more from the median of the rest."""
    valid = np.clip(signal[np.isfinite(signal)], -LIMIT_MV, LIMIT_MV)
    if not len(valid):
        return ()
    ends = (float(valid.min()), float(valid.max()))
    rest = valid[(valid > ends[0]) & (valid < ends[1])]
    return tuple(end for end in ends if len(rest) and abs(end - np.median(rest)) >= 1.0)
