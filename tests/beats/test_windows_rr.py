"""Windows cut by hand, RR features worked out by hand, and sampling frequencies that must not matter."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import given, settings
from hypothesis import strategies as st
from record_files import r_waves, write_signals

from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.extract import FLAG_PADDED, FLAG_POOR_QUALITY
from ecgfed.domain.beats.path import BeatOptions, read_beats
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import cut_beside, cut_windows, resample, rr_features, windows_of
from ecgfed.domain.signal.filters import band_pass


def test_a_window_by_hand() -> None:
    """Two samples before the R peak, five in all."""
    windows, padded = cut_windows(np.arange(10.0), np.array([2, 4, 7]), before=2, length=5)
    assert windows[:, 0].tolist() == [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [5, 6, 7, 8, 9]]
    assert windows.dtype == np.float32
    assert windows.shape == (3, 1, 5)
    assert not padded.any()


def test_beats_at_the_edges_are_padded_with_zero_and_flagged() -> None:
    windows, padded = cut_windows(np.arange(1.0, 11.0), np.array([0, 1, 2, 7, 8, 9]), before=2, length=5)
    assert windows[:, 0].tolist() == [
        [0, 0, 1, 2, 3],
        [0, 1, 2, 3, 4],
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
        [7, 8, 9, 10, 0],
        [8, 9, 10, 0, 0],
    ]
    assert padded.tolist() == [True, True, False, False, True, True]


def test_the_contract_is_256_samples_with_the_r_peak_at_100() -> None:
    signal = np.arange(1000.0)
    windows, padded = cut_windows(signal, np.array([100, 400, 844, 845]))
    assert windows.shape == (4, 1, 256)
    assert windows[1, 0].tolist() == list(range(300, 556))
    assert padded.tolist() == [False, False, False, True]


def test_beside_a_window_lie_means_of_four_samples_and_nothing_beyond_the_ends() -> None:
    """The window of R = 600 is 500 to 755: 188 samples before it, 132 after it."""
    signal = np.random.default_rng(0).standard_normal(1000)
    beside = cut_beside(signal, np.array([600, 0, 288, 289, 999, 711, 712]))
    assert beside.shape == (7, 80)
    assert beside.dtype == np.float32
    by_hand = np.concatenate([signal[312:500].reshape(-1, 4).mean(1), signal[756:888].reshape(-1, 4).mean(1)])
    np.testing.assert_allclose(beside[0], by_hand, atol=1e-6)
    assert not beside[1, :47].any()
    assert not beside[4, 47:].any()
    assert (beside[2:4, :47] != 0).all()
    np.testing.assert_allclose(beside[2, 0], signal[:4].mean(), atol=1e-6)
    np.testing.assert_allclose(beside[5, 79], signal[995:999].mean(), atol=1e-6)
    np.testing.assert_allclose(beside[6, 79], signal[996:].mean(), atol=1e-6)


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0, 977.0])
def test_windows_and_what_lies_beside_them_are_the_same_bits_from_a_part_of_the_lead(fs_hz: float) -> None:
    """Resampled from what they depend on alone, as from the whole lead."""
    lead = np.random.default_rng(1).standard_normal(round(20 * fs_hz))
    r = np.rint(np.array([0.1, 0.5, 5.03, 9.7, 14.2, 19.6, 19.99]) * fs_hz).astype(np.int64)
    whole, at = resample(lead, fs_hz), np.rint(r * (360 / fs_hz)).astype(np.int64)
    for some in (slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 7), slice(0, 7)):
        window_mv, padded, beside_mv = windows_of(lead, fs_hz, r[some], strip=True)
        windows, expected_padded = cut_windows(whole, np.minimum(at[some], len(whole) - 1))
        np.testing.assert_array_equal(window_mv, windows)
        assert padded.tolist() == expected_padded.tolist()
        np.testing.assert_array_equal(beside_mv, cut_beside(whole, np.minimum(at[some], len(whole) - 1)))
        assert windows_of(lead, fs_hz, r[some])[2].shape == (len(r[some]), 0)


def test_a_recording_shorter_than_a_window_still_gives_one() -> None:
    windows, padded = cut_windows(np.ones(30), np.array([10]))
    assert windows[0, 0].tolist() == [0.0] * 90 + [1.0] * 30 + [0.0] * 136
    assert padded.tolist() == [True]


def test_no_beats_give_no_windows() -> None:
    for version, names in RR_NAMES.items():
        windows = windows_around(np.zeros(1000), 360.0, np.empty(0, np.int64), rr_version=version)
        assert windows.window_mv.shape == (0, 1, 256)
        assert windows.rr_s.shape == (0, len(names))
        assert windows.flags.shape == (0,)


def test_windows_hold_the_filtered_signal_and_flags_say_what_is_amiss() -> None:
    signal = np.random.default_rng(0).normal(0, 0.01, 5000)  # too little to be called noise
    signal[2300:2310] = np.nan
    r = np.array([50, 1000, 2150, 2160, 2409, 2411, 4900])
    windows = windows_around(signal, 360.0, r)
    bridged = signal.copy()
    bridged[2300:2310] = np.interp(np.arange(2300, 2310), [2299, 2310], [signal[2299], signal[2310]])
    np.testing.assert_allclose(windows.window_mv[1, 0], band_pass(bridged, 360.0)[900:1156], atol=1e-6)
    # A window spans R - 100 to R + 155: 2150 reaches 2305, 2409 starts at 2309, 2411 at 2311.
    poor = [bool(flag & FLAG_POOR_QUALITY) for flag in windows.flags]
    assert poor == [False, False, True, True, True, False, False]
    padded = [bool(flag & FLAG_PADDED) for flag in windows.flags]
    assert padded == [True, False, False, False, False, False, True]


def test_intervals_across_unmarked_stretches_are_void() -> None:
    r = np.arange(400, 36_000, 300)
    void = [(int(r[20]) + 9, int(r[20]) + 10), (9000, 9700)]
    windows = windows_around(np.random.default_rng(0).normal(0, 0.01, 36_500), 360.0, r, void=void)
    marked = windows.rr_s[:, RR_NAMES[2].index("void_previous")]
    touches = [any(a < stop and b > start for start, stop in void) for a, b in pairwise(r.tolist())]
    assert marked.tolist() == [1, *touches]


def test_rr_by_hand() -> None:
    """R at 0, 1, 1.8, 3 s: intervals 1.0, 0.8, 1.2; known medians 1.0, 1.0, 0.9, 1.0."""
    expected = [
        [1.0, 1.0, 1.0, 1.0],  # no beat before it: takes its next interval
        [1.0, 0.8, 1.0, 1.0],
        [0.8, 1.2, 0.9, 0.8 / 0.9],
        [1.2, 1.2, 1.0, 1.2],  # none after it: takes its previous one
    ]
    features = rr_features(np.array([0.0, 1.0, 1.8, 3.0]))
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=1e-6)


def test_rr_of_one_and_of_two_beats() -> None:
    assert rr_features(np.array([5.0])).tolist() == [[0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(rr_features(np.array([5.0, 5.75])), [[0.75, 0.75, 0.75, 1.0]] * 2)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.2, 3.0), min_size=1, max_size=40))
def test_rr_matches_plain_loops(intervals: list[float]) -> None:
    times = np.concatenate([[1.0], 1.0 + np.cumsum(intervals)])
    features = rr_features(times)
    for i in range(1, len(times)):
        known = sorted(intervals[max(0, i - 10) : i])
        middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
        following = intervals[i] if i < len(intervals) else intervals[-1]
        expected = [intervals[i - 1], following, middle, intervals[i - 1] / middle]
        np.testing.assert_allclose(features[i], expected, rtol=1e-5)


def test_rr_of_two_beats_at_one_time_stays_finite() -> None:
    assert np.isfinite(rr_features(np.array([1.0, 1.0, 1.0]))).all()


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 500.0, 1000.0, 257.3])
def test_resampling_keeps_a_sine(fs_hz: float) -> None:
    at = np.arange(round(20 * fs_hz)) / fs_hz
    out = resample(np.sin(2 * np.pi * 7 * at), fs_hz)
    assert len(out) == pytest.approx(20 * 360, abs=2)
    expected = np.sin(2 * np.pi * 7 * np.arange(len(out)) / 360)
    np.testing.assert_allclose(out[360:-360], expected[360:-360], atol=0.01)


def test_360_hz_is_left_alone() -> None:
    signal = np.random.default_rng(0).normal(size=100)
    np.testing.assert_array_equal(resample(signal, 360.0), signal)


@pytest.mark.parametrize("fs_hz", [250.0, 500.0, 1000.0])
def test_one_heart_recorded_at_two_rates_gives_the_same_windows(tmp_path: Path, fs_hz: float) -> None:
    """R peaks at whole tenths of a second fall on a sample at every rate; 1 step is 5 microvolt."""
    r_s = [0.7, 1.5, 2.4, 3.1, 4.0, 4.9, 5.6, 6.2, 7.1, 8.0]
    for name, rate in (("own", fs_hz), ("mit", 360.0)):
        write_signals(tmp_path, name, r_waves(rate, r_s, 9.0), fs_hz=rate, fmt="212", adc_gain=200.0)
        wfdb.wrann(name, "atr", np.rint(np.array(r_s) * rate).astype(int), ["N"] * 10, write_dir=str(tmp_path))
    options = BeatOptions(("MLII",), "annotated", rr_version=1)
    own, mit = (read_beats(tmp_path / name, options).windows for name in ("own", "mit"))
    assert mit.window_mv.max() > 0.8
    np.testing.assert_allclose(own.window_mv, mit.window_mv, atol=0.02)
    np.testing.assert_allclose(own.rr_s, mit.rr_s, atol=1e-5)
    assert own.flags.tolist() == mit.flags.tolist()
    assert (mit.window_mv[:, 0].argmax(axis=1) == 100).all()
