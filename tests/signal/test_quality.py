"""Bad stretches of a lead: damage made by hand is found where it was made, and a clean ECG is left alone."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ecgfed.domain.record.wfdb_files import read_recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.quality import LeadQuality, Reason, Stretch, runs
from ecgfed.testing.ecg import synthetic_ecg

FS = 360
START = 30 * FS


def clean(seconds: int = 60, fs_hz: float = FS) -> NDArray[np.float64]:
    """Beats of 1 mV, 20 microvolt of noise, slow wander of 0.15 mV; rounded to a recorder's 5 microvolt."""
    signal, _ = synthetic_signal("N" * (seconds + 20), fs_hz=fs_hz, seed=3)
    return np.round(signal[: round(seconds * fs_hz)] * 200) / 200


def of(quality: LeadQuality, reason: Reason) -> list[tuple[int, int]]:
    return [(part.start, part.stop) for part in quality.stretches if part.reason is reason]


@pytest.mark.parametrize("fs_hz", [100.0, 128.0, 250.0, 257.3, 360.0, 500.0, 1000.0])
def test_a_clean_ecg_is_usable_throughout(fs_hz: float) -> None:
    quality = lead_quality(clean(fs_hz=fs_hz), fs_hz)
    assert quality.stretches == ()
    assert quality.usable_s == pytest.approx(60)
    assert quality.seconds() == {}
    assert not quality.bad().any()


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("length", [1, 100, 5 * FS])
def test_a_gap_is_exactly_where_no_sample_is(hole: float, length: int) -> None:
    signal = clean()
    signal[START : START + length] = hole
    quality = lead_quality(signal, FS)
    assert quality.stretches == (Stretch(START, START + length, Reason.GAP),)
    assert quality.usable_s == pytest.approx(60 - length / FS)


def test_two_gaps_are_two_and_the_ends_count() -> None:
    signal = clean()
    signal[:10] = signal[20:30] = signal[-5:] = np.nan
    assert of(lead_quality(signal, FS), Reason.GAP) == [(0, 10), (20, 30), (60 * FS - 5, 60 * FS)]


@pytest.mark.parametrize("seconds", [1, 2, 20])
def test_a_flat_line_is_exactly_where_it_is(seconds: int) -> None:
    signal = clean()
    stop = START + seconds * FS
    signal[START:stop] = -0.5
    signal[[START - 1, stop]] = 0.0  # so that the line's ends are sharp
    quality = lead_quality(signal, FS)
    assert of(quality, Reason.FLAT) == [(START, stop)]
    assert {part.reason for part in quality.stretches} <= {Reason.FLAT, Reason.BASELINE}


def test_a_line_that_still_moves_by_an_amplifiers_noise_is_not_flat() -> None:
    """30 microvolt peak to peak (EC13) are noise of a connected amplifier; 10 microvolt are not."""
    signal = clean()
    piece = np.random.default_rng(0).uniform(-0.015, 0.015, 5 * FS)
    signal[START : START + 5 * FS] = piece
    assert of(lead_quality(signal, FS), Reason.FLAT) == []
    signal[START : START + 5 * FS] = piece / 3
    ((start, stop),) = of(lead_quality(signal, FS), Reason.FLAT)
    assert abs(start - START) <= FS // 10
    assert abs(stop - START - 5 * FS) <= FS // 10


def test_a_pause_of_the_heart_is_no_fault() -> None:
    signal, r = synthetic_signal("N" * 40, seed=1)
    pause = slice(r[20] + 150, r[20] + 150 + 3 * FS)
    paused = np.insert(
        signal, r[20] + 150, 0.02 * np.random.default_rng(5).standard_normal(3 * FS) + signal[r[20] + 150]
    )
    quality = lead_quality(paused, FS)
    assert not quality.bad()[pause].any()


@pytest.mark.parametrize("level", [5.115, -5.12])
@pytest.mark.parametrize("length", [8, 100, 30 * FS])
def test_the_rail_is_exactly_where_the_limit_is_held(level: float, length: int) -> None:
    signal = clean()
    signal[START - 20 * FS : START - 20 * FS + length] = level
    quality = lead_quality(signal, FS)
    assert of(quality, Reason.RAIL) == [(START - 20 * FS, START - 20 * FS + length)]
    assert of(quality, Reason.FLAT) == []


def test_tops_of_beats_and_a_quiet_baseline_are_no_rail() -> None:
    signal = clean()
    top = signal.argmax()
    signal[top : top + 3] = signal.max()  # three samples, as MIT-BIH's own tops
    assert of(lead_quality(signal, FS), Reason.RAIL) == []
    still = np.maximum(signal, 0.0)  # the lowest value for most of the time, 0 mV from the rest's middle
    assert of(lead_quality(still, FS), Reason.RAIL) == []


@pytest.mark.parametrize(("height", "length"), [(50.0, 1), (-20.0, 1), (8.0, 10), (-6.0, 30)])
def test_a_spike_is_found_and_little_more(height: float, length: int) -> None:
    signal = clean()
    signal[START : START + length] += height
    ((start, stop),) = of(lead_quality(signal, FS), Reason.SPIKE)
    assert START - 0.06 * FS <= start <= START
    assert START + length <= stop <= START + length + 0.06 * FS
    assert {part.reason for part in lead_quality(signal, FS).stretches} == {Reason.SPIKE}


def test_a_ventricular_beat_is_no_spike() -> None:
    signal, _ = synthetic_signal("NNNNNNNVNNNNNN" * 4, seed=2)
    assert lead_quality(signal * 1.0, FS).stretches == ()
    signal, _ = synthetic_signal("NNNNNNNVNNNNNN" * 4, seed=2)
    tall = np.where(signal < -0.5, 1.6 * signal, signal)  # 2.2 mV in beats of 1 mV
    assert of(lead_quality(tall, FS), Reason.SPIKE) == []


def test_noise_is_found_where_it_is_by_its_height_against_the_beats() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(0, 1, 10 * FS)
    signal = clean()
    signal[START : START + 10 * FS] += 0.2 * noise
    quality = lead_quality(signal, FS)
    assert {part.reason for part in quality.stretches} == {Reason.NOISE}
    ((start, stop),) = of(quality, Reason.NOISE)
    assert abs(start - START) < 0.6 * FS
    assert abs(stop - START - 10 * FS) < 0.6 * FS
    tall = 5 * clean()  # the same noise over beats of 5 mV
    tall[START : START + 10 * FS] += 0.2 * noise
    assert lead_quality(tall, FS).stretches == ()


def test_slow_wander_is_none_and_a_jump_is_marked_as_baseline() -> None:
    at = np.arange(60 * FS) / FS
    assert lead_quality(clean() + 2.0 * np.sin(2 * np.pi * 0.15 * at), FS).stretches == ()
    jumped = clean() + np.where(at > 30, 3.0, 0.0)
    quality = lead_quality(jumped, FS)
    assert {part.reason for part in quality.stretches} == {Reason.BASELINE}
    ((start, stop),) = of(quality, Reason.BASELINE)
    assert start < START < stop
    assert stop - start <= 2 * FS


def test_two_faults_at_once_are_both_named() -> None:
    signal = clean()
    signal[START : START + 20 * FS] += 0.3 * np.random.default_rng(0).normal(size=20 * FS)
    signal[START + 5 * FS : START + 6 * FS] = np.nan
    quality = lead_quality(signal, FS)
    assert of(quality, Reason.GAP) == [(START + 5 * FS, START + 6 * FS)]
    assert quality.reasons_in(START + 4 * FS, START + 7 * FS) == (Reason.GAP, Reason.NOISE)
    assert quality.reasons_in(0, FS) == ()
    seconds = quality.seconds()
    assert seconds["gap"] == pytest.approx(1.0)
    assert seconds["noise"] == pytest.approx(19.0, abs=1.0)
    assert quality.usable_s == pytest.approx(60 - sum(seconds.values()), abs=0.01)  # these two never overlap


def test_a_verdict_depends_on_seconds_around_only() -> None:
    """But for the rail, which is the lead's own extreme: what is far away changes nothing."""
    signal = clean(120)
    signal[60 * FS : 64 * FS] += 0.2 * np.random.default_rng(1).normal(size=4 * FS)
    part = lead_quality(signal[40 * FS : 84 * FS], FS).bad()[10 * FS : 34 * FS]
    np.testing.assert_array_equal(lead_quality(signal, FS).bad()[50 * FS : 74 * FS], part)


@pytest.mark.parametrize("samples", [0, 1, 2, 17, 18, 100, 359, 360, 719, 721])
@pytest.mark.parametrize("level", [0.0, 3.0, np.nan])
def test_short_and_still_signals(samples: int, level: float) -> None:
    quality = lead_quality(np.full(samples, level), FS)
    if not samples:
        assert quality.stretches == ()
    elif np.isnan(level):
        assert quality.stretches == (Stretch(0, samples, Reason.GAP),)
    else:
        assert quality.stretches == ((Stretch(0, samples, Reason.FLAT),) if samples >= FS else ())


VALUES = st.one_of(
    st.floats(-10, 10), st.floats(width=64, allow_nan=True, allow_infinity=True), st.sampled_from([0.0, np.nan, 5.115])
)


@settings(deadline=None, max_examples=150)
@given(signal=arrays(np.float64, st.integers(0, 1500), elements=VALUES), fs_hz=st.sampled_from([100.0, 257.3, 360.0]))
def test_any_signal_has_a_verdict_on_every_sample(signal: NDArray[np.float64], fs_hz: float) -> None:
    before = signal.copy()
    quality = lead_quality(signal, fs_hz)
    np.testing.assert_array_equal(signal, before)
    for part in quality.stretches:
        assert 0 <= part.start < part.stop <= len(signal)
    assert [part.start for part in quality.stretches] == sorted(part.start for part in quality.stretches)
    np.testing.assert_array_equal(quality.bad([Reason.GAP]), ~np.isfinite(signal))
    assert quality.usable_s * fs_hz == pytest.approx((~quality.bad()).sum())
    for reason in Reason:
        own = [part for part in quality.stretches if part.reason is reason]
        assert all(a.stop < b.start for a, b in pairwise(own))  # one reason's stretches are apart


@given(st.lists(st.booleans(), max_size=60))
def test_runs_are_the_true_stretches(values: list[bool]) -> None:
    mask = np.array(values, dtype=bool)
    rebuilt = np.zeros(len(mask), dtype=bool)
    for start, stop in runs(mask):
        assert not rebuilt[max(0, start - 1) : stop].any()
        rebuilt[start:stop] = True
    np.testing.assert_array_equal(rebuilt, mask)


@pytest.mark.mitdb
def test_116_is_at_the_rail_three_times_for_at_most_073_s(mitdb: Path) -> None:
    """Counted on the stored numbers: runs of 0 or 2047 of four samples and more."""
    import wfdb

    stored = wfdb.rdrecord(str(mitdb / "116"), physical=False).d_signal[:, 0]
    expected = [
        span
        for value in (0, 2047)
        for span in runs(stored == value)
        if span[1] - span[0] >= 8  # 0.02 s
    ]
    found = of(lead_quality(read_recording(mitdb / "116", ("MLII",)).signal_mv, 360.0), Reason.RAIL)
    assert found == sorted(expected)
    assert max(stop - start for start, stop in found) / 360 == pytest.approx(0.736, abs=0.001)


@pytest.mark.mitdb
@pytest.mark.parametrize("name", ["100", "103", "106", "113", "115", "119", "122", "123", "124", "219", "231", "234"])
def test_clean_records_are_usable(mitdb: Path, name: str) -> None:
    """Twelve records whose MLII nobody marked as noisy for more than nine seconds."""
    quality = lead_quality(read_recording(mitdb / name, ("MLII",)).signal_mv, 360.0)
    assert quality.usable_s / (quality.samples / 360) > 0.9999
    assert not set(quality.seconds()) - {"noise"}


@pytest.mark.mitdb
@pytest.mark.parametrize("name", ["104", "203", "232"])
def test_what_is_marked_is_mostly_what_the_annotators_marked(mitdb: Path, name: str) -> None:
    """Noise marks (``~``, subtype bit of the channel) of three noisy records; first channels."""
    import wfdb

    marks = wfdb.rdann(str(mitdb / name), "atr")
    noisy = np.zeros(650_000, dtype=bool)
    changes = [(s, t) for s, y, t in zip(marks.sample, marks.symbol, marks.subtype, strict=True) if y == "~"]
    for (start, subtype), stop in zip(changes, [s for s, _ in changes[1:]] + [650_000], strict=True):
        noisy[start:stop] = subtype == -1 or bool(int(subtype) & 0b10001)
    bad = lead_quality(read_recording(mitdb / name, ("MLII", "V5")).signal_mv, 360.0).bad()
    assert bad.sum() > 40 * 360
    assert (bad & noisy).sum() / bad.sum() > 0.8


@pytest.mark.parametrize("rate", [160, 188, 220, 240])
def test_a_clean_fast_rhythm_is_no_noise(rate: int) -> None:
    at_s = np.arange(0.3, 40, 60 / rate)
    time_s = np.arange(40 * FS) / FS
    signal = np.random.default_rng(rate).normal(0, 0.01, len(time_s))
    for offset_s, width_s, height_mv in ((-0.026, 0.01, -0.1), (0.0, 0.012, 1.0), (0.028, 0.01, -0.2)):
        signal += height_mv * np.exp(-0.5 * ((time_s[:, None] - at_s - offset_s) / width_s) ** 2).sum(axis=1)
    assert lead_quality(signal, FS).seconds() == {}
    signal += np.random.default_rng(1).normal(0, 0.3, len(time_s))
    assert lead_quality(signal, FS).seconds()["noise"] == pytest.approx(40.0, abs=0.2)


@pytest.mark.parametrize("mains_hz", [50, 60])
@pytest.mark.parametrize("fs_hz", [200, 250, 360, 1000])
def test_hum_without_a_beat_is_noise_and_hum_beside_beats_is_none(mains_hz: int, fs_hz: int) -> None:
    ecg = synthetic_ecg(fs_hz, 40).signals_mv[0]
    time_s = np.arange(len(ecg)) / fs_hz
    hum = 0.3 * np.sin(2 * np.pi * mains_hz * time_s)
    quiet = np.random.default_rng(2).normal(0, 0.003, len(ecg))
    assert lead_quality(hum + quiet, fs_hz).usable_s < 0.5
    assert lead_quality(ecg + hum, fs_hz).usable_s > 39.5
    off = np.where(time_s < 20, ecg, quiet) + hum  # the electrode comes off
    assert lead_quality(off, fs_hz).usable_s == pytest.approx(20, abs=3)
