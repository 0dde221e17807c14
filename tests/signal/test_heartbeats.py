"""Beats at the ends of a recording that are noise: pulses of known heights at known samples."""

from pathlib import Path

import numpy as np
import pytest

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.heartbeats import end_noise, without_heartbeat
from ecgfed.domain.signal.size import min_qrs_mv
from ecgfed.domain.signal.spans import Spans

FS = 250.0
#: Five waves, then twenty QRS complexes, then four waves.
PEAKS = np.arange(29) * 200 + 100
NOISE = np.r_[np.ones(5), np.zeros(20), np.ones(4)].astype(bool)


def recording(*leads: np.ndarray) -> Recording:
    """Leads of pulses of 60 ms, of the given heights in mV."""
    signals = np.zeros((len(leads), 6000))
    for row, heights in enumerate(leads):
        for at, height in zip(PEAKS.tolist(), heights.tolist(), strict=True):
            signals[row, at - 7 : at + 8] = height
    names = ("MLII", "V5", "V1")[: len(leads)]
    return Recording("r", Path("r"), names[0], names, FS, signals, ())


def heights(noise_mv: float, qrs_mv: float = 1.0) -> np.ndarray:
    return np.where(NOISE, noise_mv, qrs_mv)


def test_low_waves_at_both_ends_are_noise() -> None:
    assert end_noise(recording(heights(0.10)), PEAKS).tolist() == NOISE.tolist()


@pytest.mark.parametrize(
    ("noise_mv", "qrs_mv", "noise"), [(0.14, 1.0, True), (0.16, 1.0, False), (0.07, 0.4, True), (0.09, 0.4, False)]
)
def test_the_limit_is_a_fifth_of_the_qrs_and_at_most_150_microvolt(noise_mv: float, qrs_mv: float, noise: bool) -> None:
    assert end_noise(recording(heights(noise_mv, qrs_mv)), PEAKS).any() == noise


def test_a_lead_that_shows_the_qrs_keeps_them() -> None:
    off, good = heights(0.05), np.full(29, 0.8)
    assert not end_noise(recording(off, good), PEAKS).any()
    assert end_noise(recording(off, heights(0.03, 0.8)), PEAKS).tolist() == NOISE.tolist()


def test_one_or_two_low_beats_and_low_beats_within_stay() -> None:
    few = np.ones(29)
    few[[0, 1, 12, 13, 14, 15, 28]] = 0.05
    assert not end_noise(recording(few), PEAKS).any()
    assert not end_noise(recording(heights(0.05)), PEAKS[NOISE]).any(), "nine beats say nothing"


def test_samples_without_a_wave() -> None:
    made, at = recording(np.ones(29)), np.array([PEAKS[3], PEAKS[3] + 100, PEAKS[20]])
    assert without_heartbeat(made, PEAKS, at).tolist() == [False, True, False]


def test_the_least_qrs_is_a_tenth_of_the_upper_quartile() -> None:
    nothing = Spans.merged([])
    assert min_qrs_mv(recording(heights(0.05, 0.6)), "MLII", PEAKS, nothing) == pytest.approx(0.06)
    assert min_qrs_mv(recording(heights(0.05, 3.0)), "MLII", PEAKS, nothing) == 0.1
    assert min_qrs_mv(recording(heights(0.05)), "MLII", PEAKS[:4], nothing) == 0.0
