"""Samples at a device's own rate, brought to 360 a second in C."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from mcu_sources import HERE, SANITIZED, STRICT, build, lines_of, run_c, tool
from numpy.typing import NDArray
from test_c_stream import a_minute

from ecgfed.base.errors import OptionError
from ecgfed.domain.signal.fir import resampled
from ecgfed.exports.mcu.rate import check_rate, rate_header

pytest_plugins = ("mcu_fixtures",)
RATES = (100, 125, 128, 200, 250, 256, 500, 512, 1000)
NAN = float("nan")


def at_rate(sources: Path, folder: Path, fs_hz: int) -> Path:
    """Return a copy of the sources for another rate."""
    out = folder / f"at{fs_hz}"
    shutil.copytree(sources, out)
    (out / "ecgfed_rate_taps.h").write_text(rate_header(fs_hz), "utf-8")
    return out


def through(
    sources: Path, folder: Path, fs_hz: int, signal_mv: NDArray[np.floating]
) -> tuple[NDArray[np.float64], int]:
    """Return what ``ecgfed_rate.c`` gives for a signal, and the device's sample of 36,000,000,000 at 360 Hz."""
    *values, sample = np.array(lines_of(rate_program(sources, folder, fs_hz), signal_mv, 36_000_000_000)).ravel()
    return np.array(values, np.float64), int(sample)


def rate_program(sources: Path, folder: Path, fs_hz: int) -> Path:
    """Return the program that runs ``ecgfed_rate.c`` alone."""
    made = at_rate(sources, folder, fs_hz)
    command = [tool("gcc"), *STRICT, *SANITIZED, f"-I{made}", "-o", made / "rate", HERE / "rate_main.c"]
    subprocess.run([*command, made / "ecgfed_rate.c", "-lm"], check=True)
    return made / "rate"


@pytest.mark.mcu
@pytest.mark.parametrize("fs_hz", [125, 250, 500])
def test_numbers_of_a_devices_samples_after_years(sources: Path, tmp_path: Path, fs_hz: int) -> None:
    """``ecgfed_rate_sample`` beside Python's whole numbers, halves rounded up."""
    days = 86_400 * 360
    numbers = [0, 1, 2**31, 2**32 + 1, 400 * days + 7, 100_000 * days + 11]
    found = [int(line[0]) for line in lines_of(rate_program(sources, tmp_path, fs_hz), np.empty(0), *numbers)]
    assert found == [(2 * at * fs_hz + 360) // 720 for at in numbers]


@pytest.mark.mcu
@pytest.mark.parametrize("fs_hz", RATES)
def test_a_sine_on_a_level_goes_through(sources: Path, tmp_path: Path, fs_hz: int) -> None:
    seconds = np.arange(10 * fs_hz) / fs_hz
    found, sample = through(sources, tmp_path, fs_hz, -3.0 + np.sin(2 * np.pi * 17.3 * seconds))
    assert len(found) == 3600
    assert sample == 100_000_000 * fs_hz
    wanted = -3.0 + np.sin(2 * np.pi * 17.3 * np.arange(3600) / 360)
    np.testing.assert_allclose(found[60:-60], wanted[60:-60], rtol=0, atol=5e-3)


@pytest.mark.mcu
def test_as_python_resamples(sources: Path, tmp_path: Path) -> None:
    signal_mv = np.random.default_rng(0).standard_normal(2500)
    found, _ = through(sources, tmp_path, 250, signal_mv)
    wanted = resampled(signal_mv, 36, 25)
    assert len(found) == len(wanted)
    np.testing.assert_allclose(found[40:-40], wanted[40:-40], rtol=0, atol=0.01)  # a level is kept in C


@pytest.mark.mcu
@pytest.mark.parametrize("fs_hz", [125, 250, 1000])
def test_missing_samples_stay_where_they_are(sources: Path, tmp_path: Path, fs_hz: int) -> None:
    signal_mv = np.full(6 * fs_hz, 0.7)
    signal_mv[: fs_hz // 2] = signal_mv[2 * fs_hz : 3 * fs_hz] = signal_mv[5 * fs_hz] = NAN
    signal_mv[3 * fs_hz :] = -1.2
    signal_mv[5 * fs_hz] = NAN
    found, _ = through(sources, tmp_path, fs_hz, signal_mv)
    at = np.rint(np.arange(len(found)) * fs_hz / 360).astype(np.int64)
    at = np.minimum(np.floor(np.arange(len(found)) * fs_hz / 360 + 0.5).astype(np.int64), len(signal_mv) - 1)
    lost = np.isnan(found)
    assert (lost != np.isnan(signal_mv[at])).sum() <= 8  # which of two samples at one distance is the nearer
    assert np.abs(found[~lost & (at < 3 * fs_hz)] - 0.7).max() < 1e-6
    assert np.abs(found[~lost & (at >= 3 * fs_hz)] + 1.2).max() < 1e-6


@pytest.mark.mcu
@pytest.mark.parametrize("fs_hz", [250, 500])
def test_the_same_beats_at_another_rate(sources: Path, program: Path, tmp_path: Path, fs_hz: int) -> None:
    signal_mv = a_minute()
    up, down = check_rate(fs_hz)
    other = resampled(signal_mv, down, up)
    here = run_c(program, signal_mv, tmp_path)
    made = at_rate(sources, tmp_path, fs_hz)
    there = run_c(build(made, made / "driver", "gcc", *SANITIZED), other, tmp_path)
    assert len(there.sample) == len(here.sample)
    apart = np.abs(there.sample - here.sample)[1:-1]
    assert apart.max() <= 5  # on the flat top of a wide beat, noise decides
    assert np.median(apart) == 0
    assert (there.label == here.label)[1:-1].mean() >= 0.95


@pytest.mark.parametrize("fs_hz", [99, 2001, 257, 0, -360, True, 250.0, "250"])
def test_rates_that_are_refused(fs_hz: object) -> None:
    with pytest.raises(OptionError, match="fs_hz"):
        check_rate(fs_hz)  # type: ignore[arg-type]
