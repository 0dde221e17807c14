"""Filters in numpy beside scipy.signal and scipy.ndimage, and nothing of scipy on the way to labels.

The same bits where both were seen to round alike; elsewhere a compiler may have joined a product and a sum in scipy.
"""

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.fft import next_fast_len
from scipy.ndimage import maximum_filter1d, median_filter, minimum_filter1d
from scipy.signal import firwin, oaconvolve, resample_poly
from scipy.special import lambertw

from ecgfed.domain.beats.windows import FS_HZ, resampling
from ecgfed.domain.signal import fir
from ecgfed.domain.signal.filters import BAND_HZ, band_pass_taps
from ecgfed.domain.signal.medians import running_median

RATES = (100.0, 128.0, 200.0, 250.0, 257.0, 360.0, 500.0, 512.0, 1000.0, 2000.0)


BITS = platform.machine() in ("x86_64", "AMD64")


def assert_same(found: np.ndarray, expected: np.ndarray, message: str = "") -> None:
    if BITS:
        np.testing.assert_array_equal(found, expected, err_msg=message)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=message)


def drawn(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=count)


@pytest.mark.parametrize("fs_hz", RATES)
def test_taps_are_firwins(fs_hz: float) -> None:
    taps = band_pass_taps(fs_hz)
    assert_same(taps, firwin(len(taps), BAND_HZ, pass_zero=False, fs=fs_hz, window="hamming"))
    np.testing.assert_allclose(taps, taps[::-1], rtol=0, atol=1e-15)
    noise = fir.band_pass(int(0.25 * fs_hz) // 2 * 2 + 1, 15.0, 40.0, fs_hz)
    assert_same(noise, firwin(len(noise), (15.0, 40.0), pass_zero=False, fs=fs_hz))
    ratio = resampling(fs_hz)
    most = max(ratio.numerator, ratio.denominator)
    if most > 1:
        low = fir.low_pass(20 * most + 1, 1 / most)
        assert_same(low, firwin(20 * most + 1, 1 / most, window=("kaiser", 5.0)))


@pytest.mark.parametrize("taps", [3, 61, 401, 1441])
def test_convolution_is_oaconvolves_of_long_and_of_short_signals(taps: int) -> None:
    weights = drawn(taps)
    for count in (taps, taps + 1, 2 * taps - 1, 2 * taps, 2 * taps + 1, 12 * taps, 16 * taps + 1, 200 * taps + 7):
        signal = drawn(count)
        assert_same(fir.convolved(signal, weights), oaconvolve(signal, weights), str(count))


def test_blocks_are_where_scipys_are() -> None:
    for taps in range(3, 4002, 13):
        overlap = taps - 1
        best = -overlap * lambertw(-1 / (2 * np.e * overlap), k=-1).real
        assert fir.block_step(taps) == next_fast_len(int(np.ceil(best))) - taps + 1, taps
    for least in (1, 13, 1000, 8193, 65521):
        assert fir.fast_length(least) == next_fast_len(least)
        assert fir.fast_length(least, (2, 3, 5)) == next_fast_len(least, real=True)


@pytest.mark.parametrize("fs_hz", [rate for rate in RATES if rate != FS_HZ])
def test_resampling_is_resample_polys(fs_hz: float) -> None:
    ratio = resampling(fs_hz)
    for count in (1, 2, 3, 24, 25, 26, 777, 9001):
        found = fir.resampled(drawn(count), ratio.numerator, ratio.denominator)
        assert_same(found, resample_poly(drawn(count), ratio.numerator, ratio.denominator))
    np.testing.assert_array_equal(fir.resampled(drawn(9), 1, 1), drawn(9))


def test_frequencies_with_little_in_common_are_resampled_too() -> None:
    np.testing.assert_array_equal(fir.resampled(drawn(500), 1200, 833), resample_poly(drawn(500), 1200, 833))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 13, 16, 20, 31, 32, 40, 64, 100])
def test_medians_are_ndimages(width: int) -> None:
    for count in (width, width + 1, 1000, 8192 + width, 20_000):
        values = np.round(drawn(count), 1)  # many are equal
        np.testing.assert_array_equal(running_median(values, width), median_filter(values, width, mode="reflect"))


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 250, 360])
def test_extremes_are_ndimages(width: int) -> None:
    values = drawn(2000)
    inner = slice(width // 2, width // 2 + len(values) - width + 1)
    low, high = fir.running_extremes(values, width)
    np.testing.assert_array_equal(low, minimum_filter1d(values, width)[inner])
    np.testing.assert_array_equal(high, maximum_filter1d(values, width)[inner])


def test_from_a_record_to_labels_no_large_package_is_imported() -> None:
    """scipy takes a second, wfdb with pandas half of one: longer than the work itself."""
    old = Path(__file__).parent.parent / "data" / "version-0.1"
    program = (
        "import sys, ecgfed\n"
        f"found = ecgfed.predict({str(old / 'bundle')!r}, {str(old / 'recording' / 'demo01')!r})\n"
        "assert len(found) > 60\n"
        "print(*sorted({'scipy', 'wfdb', 'pandas', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
