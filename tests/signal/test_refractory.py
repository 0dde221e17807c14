"""Two beats are no nearer than 0.14 s (428/min): of two waves that are, one is a beat."""

import numpy as np

from ecgfed.domain.signal.qrs import detect_qrs


def test_of_two_waves_within_the_refractory_period_one_is_a_beat() -> None:
    """A rhythm of 75/min whose every beat is followed 0.12 s later by a wave of the same form, 0.8 times as high."""
    fs_hz, rng = 250.0, np.random.default_rng(0)
    time_s = np.arange(round(60 * fs_hz)) / fs_hz
    signal = rng.normal(0, 0.01, len(time_s))
    beats_s = np.arange(1, 59, 0.8)
    for at in beats_s:
        for delay_s, height_mv in ((0.0, 1.0), (0.12, 0.8)):
            signal += height_mv * np.exp(-0.5 * ((time_s - at - delay_s) / 0.012) ** 2)
    peaks = detect_qrs(signal, fs_hz)
    assert len(peaks) == len(beats_s)
    assert np.diff(peaks).min() >= 0.14 * fs_hz
