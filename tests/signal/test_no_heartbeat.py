"""No heartbeat, no beats: noise, flat lines, saturation; and no beat is lost behind them."""

import numpy as np
import pytest
from numpy.typing import NDArray
from record_files import r_waves

from ecgfed.device import detect_qrs
from ecgfed.domain.signal.peaks import detect_around_gaps

Floats = NDArray[np.float64]


def rhythm(fs_hz: float, seconds: float = 40.0, seed: int = 0) -> tuple[Floats, Floats]:
    """Return a lead (samples,) in mV with 10 microvolt of noise, and the R times (s)."""
    rng = np.random.default_rng(seed)
    times = 0.6 + np.cumsum(0.8 + 0.04 * rng.standard_normal(int(seconds / 0.84) - 1)) - 0.8
    times = times[times < seconds - 0.4]
    lead = r_waves(fs_hz, times.tolist(), seconds)
    return lead + 0.01 * rng.standard_normal(len(lead)), times


def between(fs_hz: float, middle: Floats) -> tuple[Floats, Floats, tuple[float, float]]:
    """Return a rhythm, something else, and a rhythm again, with all R times and where the middle lies (s)."""
    before, first = rhythm(fs_hz, seed=1)
    behind, second = rhythm(fs_hz, seed=2)
    start, stop = len(before) / fs_hz, (len(before) + len(middle)) / fs_hz
    return np.concatenate([before, middle, behind]), np.concatenate([first, second + stop]), (start, stop)


def assert_beats(peaks: NDArray[np.int64], times: Floats, fs_hz: float) -> None:
    assert len(peaks) == len(times)
    assert np.abs(peaks / fs_hz - times).max() < 0.05


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0, 1000.0])
@pytest.mark.parametrize("noise_uv", [2.0, 5.0, 10.0, 15.0])
def test_a_stopped_heart_has_no_beats(fs_hz: float, noise_uv: float) -> None:
    noise = noise_uv / 1000 * np.random.default_rng(0).standard_normal(round(45 * fs_hz))
    signal, times, _ = between(fs_hz, noise)
    assert_beats(detect_qrs(signal, fs_hz), times, fs_hz)


@pytest.mark.parametrize("noise_uv", [2.0, 5.0, 10.0, 20.0])
def test_noise_alone_is_no_heartbeat(noise_uv: float) -> None:
    rng = np.random.default_rng(1)
    for leads in (1, 2):
        noise = noise_uv / 1000 * rng.standard_normal((leads, 360 * 60))
        assert not len(detect_qrs(noise, 360.0))


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 500.0])
@pytest.mark.parametrize("level_mv", [0.0, -0.3, 5.0, -5.0, float("nan")])
@pytest.mark.parametrize("leads", [1, 2])
def test_no_beat_is_lost_behind_a_flat_line(fs_hz: float, level_mv: float, leads: int) -> None:
    """A step of some millivolts at either edge may pass for a beat (docs/qrs.md), and for nothing else."""
    for seconds in (1, 3, 5, 8, 20):
        signal, times, edges = between(fs_hz, np.full(round(seconds * fs_hz), level_mv))
        both = np.stack([signal, -0.6 * signal])[:leads]
        peaks = detect_around_gaps(both, fs_hz)
        steps = np.abs(peaks[:, None] / fs_hz - np.array(edges)).min(axis=1) < 0.1
        assert abs(level_mv) == 5.0 or not steps.any()
        assert_beats(peaks[~steps], times, fs_hz)


def test_small_beats_are_beats() -> None:
    signal, times = rhythm(360.0)
    quiet = 0.05 * signal + 0.0005 * np.random.default_rng(3).standard_normal(len(signal))
    assert_beats(detect_qrs(quiet, 360.0), times, 360.0)


@pytest.mark.parametrize("poor", [0, 1])
def test_a_lead_ruined_by_movement_neither_adds_nor_removes_beats(poor: int) -> None:
    """Ten seconds of large slow and fast movement on one of two leads; the other is as before."""
    rng = np.random.default_rng(6)
    signal, times = rhythm(360.0, 60.0)
    both = np.stack([signal, 0.7 * signal + 0.01 * rng.standard_normal(len(signal))])
    inside = slice(20 * 360, 30 * 360)
    walk = np.cumsum(rng.standard_normal(10 * 360)) * 0.06 + 0.3 * rng.standard_normal(10 * 360)
    both[poor, inside] += walk
    assert_beats(detect_qrs(both, 360.0), times, 360.0)
