"""Two beats are no nearer than 0.17 s: a P wave after an asystole is no beat beside its QRS complex."""

import numpy as np
from conftest import synthetic_signal

from ecgfed.domain.signal.qrs import detect_qrs


def test_beats_are_never_nearer_than_the_refractory_period() -> None:
    """Noise of 10 microvolt for 45 s, then the heart comes back with a P wave that stands alone."""
    rng = np.random.default_rng(0)
    signal, _ = synthetic_signal("N" * 60, fs_hz=250.0, seed=1)
    quiet = rng.normal(0, 0.01, 45 * 250)
    for seed in range(6):
        again, _ = synthetic_signal("N" * 60, fs_hz=250.0, seed=seed)
        peaks = detect_qrs(np.concatenate([signal, quiet, again]), 250.0)
        assert np.diff(peaks).min() >= 0.16 * 250  # from the centres of waves to their extrema: 10 ms
        assert not ((peaks > len(signal)) & (peaks < len(signal) + len(quiet))).any()
