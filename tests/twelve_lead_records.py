"""Recordings of twelve leads whose waves are dipoles of known directions in the frontal plane."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from record_files import write_leads

FS_HZ = 500.0
#: Directions of the limb leads in degrees (Einthoven's triangle), and their gain: Goldberger's leads have sqrt(3) / 2.
ANGLES = {"I": 0.0, "II": 60.0, "III": 120.0, "aVR": -150.0, "aVL": -30.0, "aVF": 90.0}
GAINS = {name: np.sqrt(3) / 2 if name.startswith("a") else 1.0 for name in ANGLES}
#: Wave -> time from the R peak and standard deviation in s, height in mV.
WAVES = {"P": (-0.16, 0.022, 0.16), "Q": (-0.022, 0.007, -0.12), "R": (0.0, 0.010, 1.3), "S": (0.024, 0.008, -0.25),
         "T": (0.29, 0.042, 0.32)}  # fmt: skip
#: Of P, of Q, R and S, and of T in V1 to V6.
CHEST = {
    "P": (0.5, 0.6, 0.6, 0.6, 0.5, 0.5),
    "QRS": (-0.5, -0.8, 0.3, 1.1, 1.0, 0.8),
    "T": (-0.3, 0.8, 1.2, 1.2, 1.0, 0.8),
}


def dipole_leads(
    qrs_deg: float = 50.0, *, p_deg: float = 55.0, t_deg: float = 40.0, rate: float = 66.0, seconds: float = 10.0,
    noise_mv: float = 0.01, offset_s: float = 0.35, r_s: np.ndarray | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the twelve leads, (samples,) mV each; the noise is that of the electrodes, so that the sums hold."""
    time = np.arange(round(seconds * FS_HZ)) / FS_HZ
    rng = np.random.default_rng(7)
    if r_s is None:
        r_s = np.arange(offset_s, seconds, 60 / rate)
    wave = {
        name: sum(height * np.exp(-0.5 * ((time - r - at) / width) ** 2) for r in r_s)
        for name, (at, width, height) in WAVES.items()
    }
    parts = {"P": (wave["P"], p_deg), "QRS": (wave["Q"] + wave["R"] + wave["S"], qrs_deg), "T": (wave["T"], t_deg)}
    arms = rng.normal(0, noise_mv, (3, len(time)))  # R, L, F
    electrodes = {"I": arms[1] - arms[0], "II": arms[2] - arms[0]}
    electrodes |= {
        "III": arms[2] - arms[1], "aVR": arms[0] - (arms[1] + arms[2]) / 2,
        "aVL": arms[1] - (arms[0] + arms[2]) / 2, "aVF": arms[2] - (arms[0] + arms[1]) / 2,
    }  # fmt: skip
    leads = {
        name: GAINS[name] * sum(shape * np.cos(np.radians(angle - at)) for shape, at in parts.values())
        + electrodes[name]
        for name, angle in ANGLES.items()
    }
    for number in range(6):
        of = sum(parts[name][0] * CHEST[name][number] for name in parts)
        leads[f"V{number + 1}"] = of + rng.normal(0, noise_mv, len(time))
    return leads


def write_twelve(
    folder: Path, name: str = "twelve", leads: Mapping[str, np.ndarray] | None = None, **how: float
) -> Path:
    """Write a recording of twelve leads."""
    return write_leads(folder, name, dipole_leads(**how) if leads is None else leads, fs_hz=FS_HZ)
