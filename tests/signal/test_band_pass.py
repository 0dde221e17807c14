"""The band-pass: what it keeps, what it takes away, no delay, and nothing that a stream could not know."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import correlate, lfilter

from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.signal.filters import band_pass, band_pass_taps, bridged, fill_gaps

RATES = pytest.mark.parametrize("fs_hz", [250.0, 360.0, 500.0, 257.3])


def sine(fs_hz: float, hz: float, seconds: float = 60.0) -> np.ndarray:
    wave: np.ndarray = np.sin(2 * np.pi * hz * np.arange(round(seconds * fs_hz)) / fs_hz)
    return wave


def inner(signal: np.ndarray, fs_hz: float) -> np.ndarray:
    """What lies more than the filter's half length from both ends."""
    edge = int(2 * fs_hz) + 1
    return signal[edge:-edge]


@RATES
@pytest.mark.parametrize(("hz", "at_most"), [(0.0, 0.01), (0.05, 0.01), (50.0, 0.001), (60.0, 0.001)])
def test_wander_and_mains_are_suppressed(fs_hz: float, hz: float, at_most: float) -> None:
    """By 40 dB below the band and by 60 dB where mains hum is."""
    signal = sine(fs_hz, hz) if hz else np.ones(round(60 * fs_hz))
    assert np.abs(inner(band_pass(signal, fs_hz), fs_hz)).max() < at_most


@RATES
@pytest.mark.parametrize("hz", [2.0, 10.0, 25.0])
def test_the_ecg_band_passes_unchanged_and_undelayed(fs_hz: float, hz: float) -> None:
    signal = sine(fs_hz, hz)
    out = band_pass(signal, fs_hz)
    assert len(out) == len(signal)
    np.testing.assert_allclose(inner(out, fs_hz), inner(signal, fs_hz), atol=0.01)


@RATES
def test_the_edges_of_the_band_stand_at_half_amplitude(fs_hz: float) -> None:
    """0.5 and 40 Hz, the cut-off of a windowed filter: 6 dB down."""
    for hz in (0.5, 40.0):
        assert np.abs(inner(band_pass(sine(fs_hz, hz), fs_hz), fs_hz)).max() == pytest.approx(0.5, abs=0.03)


def test_an_impulse_stays_where_it_is_and_comes_out_symmetric() -> None:
    signal = np.zeros(4001)
    signal[1500] = 1.0
    out = band_pass(signal, 360.0)
    assert np.argmax(out) == 1500
    np.testing.assert_allclose(out[1500:2300], out[1500:700:-1], atol=1e-12)
    lag = np.argmax(correlate(out, signal, mode="full")) - (len(signal) - 1)
    assert lag == 0


@RATES
@pytest.mark.parametrize("block", [37, 360, 4096])
def test_a_stream_in_blocks_gives_the_same_samples(fs_hz: float, block: int) -> None:
    """A causal filter fed block by block, its state kept: the same samples, later by half the filter's length."""
    signal = np.random.default_rng(0).normal(size=round(20 * fs_hz)) + 3.0
    taps = band_pass_taps(fs_hz)
    half = len(taps) // 2
    assert len(taps) % 2 == 1
    assert half <= 2 * fs_hz
    state, parts = np.zeros(len(taps) - 1), []
    for start in range(0, len(signal), block):
        part, state = lfilter(taps, 1.0, signal[start : start + block], zi=state)
        parts.append(part)
    streamed = np.concatenate(parts)
    whole = band_pass(signal, fs_hz)
    np.testing.assert_allclose(streamed[2 * half :], whole[half:-half], atol=1e-10)


def test_beyond_the_ends_the_signal_holds_its_first_and_last_value() -> None:
    signal = np.random.default_rng(1).normal(size=3000) + 5.0
    longer = np.concatenate([np.full(2000, signal[0]), signal, np.full(2000, signal[-1])])
    np.testing.assert_allclose(band_pass(signal, 360.0), band_pass(longer, 360.0)[2000:-2000], atol=1e-10)


@settings(deadline=None, max_examples=40)
@given(at=st.integers(0, 4999), level=st.floats(-1000, 1000), seed=st.integers(0, 2**32 - 1))
def test_samples_more_than_two_seconds_away_change_nothing(at: int, level: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=5000)
    other = signal.copy()
    far = np.abs(np.arange(5000) - at) > 2 * 250
    other[far] = level + 100 * rng.normal(size=far.sum())
    assert band_pass(other, 250.0)[at] == pytest.approx(band_pass(signal, 250.0)[at], abs=1e-8)


def test_no_window_depends_on_anything_far_away() -> None:
    """A window reaches 156 samples past its R peak and the filter 720 more; what lies beyond is free to change."""
    rng = np.random.default_rng(2)
    signal = rng.normal(0, 0.01, 20_000)
    other = signal.copy()
    other[:9000] = 50 * rng.normal(size=9000)
    other[11_000:] = np.nan
    r = np.array([10_000])
    mine, theirs = windows_around(signal, 360.0, r), windows_around(other, 360.0, r)
    np.testing.assert_allclose(mine.window_mv, theirs.window_mv, atol=1e-5)
    assert not theirs.flags.any()


def test_gaps_are_bridged_with_straight_lines() -> None:
    filled, gap = fill_gaps(np.array([np.nan, 1.0, np.nan, np.nan, 4.0, np.inf]))
    assert filled.tolist() == [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    assert gap.tolist() == [True, False, True, True, False, True]


def test_a_signal_of_gaps_only_becomes_zeros() -> None:
    filled, gap = fill_gaps(np.full(5, np.nan))
    assert filled.tolist() == [0.0] * 5
    assert gap.all()


def test_what_is_given_stays_as_it_was() -> None:
    signal = np.array([0.0, np.nan, 2.0])
    fill_gaps(signal)
    assert np.isnan(signal[1])
    with pytest.raises(ValueError, match="read-only"):
        band_pass_taps(360.0)[0] = 1.0


def test_a_long_gap_holds_the_value_before_it_and_in_its_last_seconds_the_one_behind() -> None:
    """So that nothing waits long for its end."""
    signal = np.array([2.0, *[np.nan] * 4, 4.0, *[np.nan] * 5, 9.0, np.nan])
    filled, _ = fill_gaps(signal, 4)
    assert filled.tolist() == pytest.approx([2, 2.4, 2.8, 3.2, 3.6, 4, 4, 4, 4, 9, 9, 9, 9])
    assert fill_gaps(signal)[0].tolist()[6:11] == pytest.approx([4 + 5 * part / 6 for part in range(1, 6)])


@pytest.mark.parametrize("longest", [None, 2, 6, 30])
def test_a_part_is_bridged_as_in_the_whole(longest: int | None) -> None:
    rng = np.random.default_rng(5)
    signal = rng.normal(size=400)
    signal[rng.random(400) < 0.4] = np.nan
    signal[100:150] = signal[380:] = np.nan
    whole, gap = fill_gaps(signal, longest)
    for start, stop in ((0, 90), (90, 120), (110, 130), (120, 400), (390, 400)):
        valid = np.flatnonzero(~gap)
        before, behind = valid[valid < start], valid[valid >= stop]
        part = bridged(
            signal[start:stop].copy(),
            gap[start:stop],
            longest,
            first=start,
            before=(int(before[-1]), float(signal[before[-1]])) if len(before) else None,
            behind=(int(behind[0]), float(signal[behind[0]])) if len(behind) else None,
        )
        assert np.array_equal(part, whole[start:stop])
