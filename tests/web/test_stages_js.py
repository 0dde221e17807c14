"""The JavaScript runtime beside Python, stage by stage, on the same signals: filter, detector, quality, RR, windows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from node_runtime import in_node, of, own
from spoiled_signals import beats_and_none, spoiled

from ecgfed.domain.beats import alike
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.context_stream import ContextStream
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import IN_STRIP, STRIP_SAMPLES, beside_of, rr_features
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal import filters
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.peaks import detect_around_gaps
from ecgfed.domain.signal.qrs import detect_qrs

pytestmark = pytest.mark.browser
#: Sampling frequencies of recorders, and one that has nothing in common with 360 Hz.
RATES_HZ = (100.0, 125.0, 128.0, 180.0, 200.0, 250.0, 257.31, 300.0, 360.0, 500.0, 977.0, 1000.0)
#: Sums of products round by their order, which is another one in Python (Fourier transforms): millivolt.
ROUNDING_MV = 1e-12


def test_the_taps_and_the_filtered_signal_are_pythons() -> None:
    signal, _ = synthetic_signal("NNVNN" * 3, fs_hz=360.0)
    jobs = [of("filters.js", "bandPassTaps", fs) for fs in RATES_HZ]
    jobs += [of("filters.js", "bandPass", signal, fs) for fs in RATES_HZ]
    found = in_node(*jobs)
    for fs, taps, filtered in zip(RATES_HZ, found, found[len(RATES_HZ) :], strict=False):
        expected = filters.band_pass_taps(fs)
        assert taps.shape == expected.shape
        assert np.abs(taps - expected).max() < 1e-15
        assert np.abs(filtered - filters.band_pass(signal, fs)).max() < ROUNDING_MV


def test_a_long_gap_is_held_on_both_sides() -> None:
    """Beyond ten seconds nothing waits for its end: the value before it, in its last five seconds the one behind it."""
    signal = np.concatenate([[1.0, 2.0], np.full(100, np.nan), [8.0, 9.0]])
    found, lost = in_node(
        of("filters.js", "fillGaps", signal, 40), of("filters.js", "fillGaps", np.full(20, np.nan), 40)
    )
    assert np.array_equal(lost, filters.fill_gaps(np.full(20, np.nan))[0])
    assert np.array_equal(found, np.concatenate([[1.0], np.full(81, 2.0), np.full(21, 8.0), [9.0]]))
    assert np.array_equal(found, filters.fill_gaps(signal, 40)[0])


@pytest.mark.parametrize("fs_hz", RATES_HZ)
def test_peaks_quality_windows_and_rr_of_a_spoiled_recording_are_pythons(fs_hz: float) -> None:
    signals = spoiled(fs_hz, seed=int(fs_hz))
    versions = (1, 2, 3)
    found = in_node(*(own("cut", signals, fs_hz, 0, version) for version in versions))
    quality = lead_quality(signals[0], fs_hz)
    peaks = detect_around_gaps(signals, fs_hz, quality, lead=0)
    assert len(peaks) > 50
    expected = sorted((one.start, one.stop, str(one.reason)) for one in quality.stretches)
    assert {reason for _, _, reason in expected} >= {"gap", "flat", "rail", "spike", "noise", "baseline"}
    for version, one in zip(versions, found, strict=True):
        windows = windows_around(signals[0], fs_hz, peaks, quality, rr_version=version)
        assert one["peaks"] == peaks.tolist()
        assert sorted((s["start"], s["stop"], s["reason"]) for s in one["stretches"]) == expected
        assert one["flags"] == windows.flags.tolist()
        assert np.abs(np.stack(one["windowMv"]) - windows.window_mv[:, 0]).max() < 1e-6
        assert np.abs(np.stack(one["rr"]) - windows.rr_s).max() < 2e-5


@pytest.mark.parametrize("lead", [0, 1])
def test_peaks_do_not_depend_on_chunks(lead: int) -> None:
    signals = spoiled(360.0, seed=4)
    expected = detect_qrs(signals, 360.0, lead=lead).tolist()
    sizes: list[list[int]] = [[10**9], [90], [1, 3, 7000, 2], [361]]
    assert in_node(*(own("detected", signals, 360.0, lead, one) for one in sizes)) == [expected] * len(sizes)


@pytest.mark.parametrize(("fs_hz", "rows"), [(360.0, [0, 1, 2]), (250.0, [1, 0]), (257.31, [0]), (128.0, [0, 1, 2, 1])])
def test_peaks_where_leads_disagree_or_nothing_beats_are_pythons(fs_hz: float, rows: list[int]) -> None:
    """Movement on one lead, one that is off, noise of 10 microvolt, 0 mV, the rail; whole and in chunks."""
    signals = beats_and_none(fs_hz, seed=len(rows))[0][rows]
    sizes: list[list[int]] = [[10**9], [90, 7], [40_000, 1]]
    for lead in range(min(len(rows), 2)):
        expected = detect_qrs(signals, fs_hz, lead=lead).tolist()
        assert len(expected) > 100
        assert in_node(*(own("detected", signals, fs_hz, lead, one) for one in sizes)) == [expected] * len(sizes)


@pytest.mark.parametrize("seed", range(3))
def test_peaks_of_flat_lines_and_noise_of_any_length_are_pythons(seed: int) -> None:
    rng, jobs, expected = np.random.default_rng(seed), [], []
    for fs_hz in (100.0, 250.0, 360.0):
        signals = spoiled(fs_hz, seed=seed, beats="NNNVNN" * 8) * rng.choice([1.0, 0.05])
        for _ in range(6):
            at, lasting = int(rng.integers(signals.shape[1])), round(float(rng.choice([0.5, 3.02, 3.5, 8.0])) * fs_hz)
            part = signals[:, at : at + lasting]
            part[:] = rng.choice([0.0, 5.0]) + rng.choice([0.0, 0.004, 0.012]) * rng.standard_normal(part.shape)
        jobs.append(of("qrs.js", "detectQrs", signals, fs_hz, 1))
        expected.append(detect_qrs(signals, fs_hz, lead=1).tolist())
    assert in_node(*jobs) == expected


def test_rr_features_of_version_1_are_pythons() -> None:
    rng = np.random.default_rng(0)
    trains = [np.cumsum(rng.integers(100, 500, many)) for many in (0, 1, 2, 3, 11, 200)]
    found = in_node(*(of("rr.js", "rrFeatures", peaks.tolist(), 250.0) for peaks in trains))
    for peaks, one in zip(trains, found, strict=True):
        expected = rr_features(peaks / 250.0)
        assert len(one) == len(expected)
        assert np.array_equal(np.array(one, np.float32).reshape(-1, 4), expected)


@pytest.mark.parametrize(("seed", "version"), [(0, 2), (1, 2), (2, 2), (0, 3), (1, 3)])
def test_context_features_are_pythons_however_the_beats_come(seed: int, version: int) -> None:
    rng = np.random.default_rng(seed)
    many = 1300
    shapes = rng.standard_normal((3, STRIP_SAMPLES)).cumsum(axis=1) / 8
    kind = rng.choice(3, many, p=[0.8, 0.15, 0.05])
    around = (shapes[kind] + 0.05 * rng.standard_normal((many, STRIP_SAMPLES))).astype(np.float32)
    window, beside = around[:, IN_STRIP], beside_of(around) if version == 3 else np.empty((many, 0), np.float32)
    before = np.where(kind == 1, 0.5, 0.8) * rng.uniform(0.9, 1.1, many)
    before[rng.choice(many, 30, replace=False)] = np.nan
    usable = rng.random(many) > 0.02
    usable[300:400] = False  # too few around for a median
    stream = ContextStream(version)
    expected = np.concatenate([stream.push(before, window[:, None], usable, beside), stream.finish()])
    sizes: list[list[int]] = [[many], [1, 40, 3]]
    jobs = [own("context", before, window, beside, usable, one, version) for one in sizes]
    found: list[Any] = in_node(*jobs)
    for one in found:
        made = np.stack(one)
        assert made.shape == expected.shape == (many, len(RR_NAMES[version]))
        assert np.abs(made - expected).max() < 2e-5
    assert all(np.array_equal(np.stack(one), np.stack(found[0])) for one in found)


@pytest.mark.parametrize(("many", "seed"), [(1, 0), (7, 1), (40, 2), (900, 3), (4500, 4)])
def test_alike_beats_are_pythons(many: int, seed: int) -> None:
    """Points to the last bit, groups the same, of one stretch and two."""
    rng = np.random.default_rng(seed)
    shapes = rng.standard_normal((3, len(RR_NAMES[3]))).cumsum(axis=1) / 4  # some beyond the limit of a difference
    kind = rng.choice(3, many, p=[0.8, 0.15, 0.05])
    rr = (shapes[kind] + 0.05 * rng.standard_normal((many, shapes.shape[1]))).astype(np.float32)
    points = alike.points(rr)
    some = min(many, 300)
    found = in_node(*(of("alike.js", "pointOf", beat) for beat in rr[:some]))
    assert np.array_equal(np.stack(found), points[:some])
    probability = rng.dirichlet(np.ones(5), many).astype(np.float32)
    probability[0] = [1, 0, 0, 0, 0]
    silent = rng.random(many) < 0.02
    jobs = [of("alike.js", "averaged", list(probability), list(points), silent.tolist())]
    jobs.append(of("alike.js", "groupsOf", list(points[:4096].astype(np.float64))))
    averaged, groups = in_node(*jobs)
    assert groups == alike._groups(points[:4096].astype(np.float64)).tolist()
    assert np.abs(np.stack(averaged) - alike.averaged(probability, points, ~silent)).max() < 1e-6


def test_beats_without_signal_are_pythons() -> None:
    """The electrode off in noise and in a flat line, at the rail, and calibration pulses."""
    for fs_hz in (250.0, 360.0):
        signal, peaks = synthetic_signal("NNNNV" * 30, fs_hz=fs_hz, seed=4)
        rng, second = np.random.default_rng(4), round(fs_hz)
        signal[10 * second : 18 * second] = 0.004 * rng.standard_normal(8 * second)
        signal[30 * second : 37 * second] = 0.5
        signal[50 * second : 53 * second] = 9.0
        for start in range(70 * second, 80 * second, second):
            signal[start : start + second] = 0.0
            signal[start + second // 4 : start + second // 2] = 1.0
        peaks = np.unique(np.append(peaks, np.arange(70 * second, 80 * second, second) + second // 4 + 10))
        recording = Recording("r", Path("r"), "MLII", ("MLII",), fs_hz, signal[None], ())
        beats = RecordingBeats(recording, lead_quality(signal, fs_hz), None, peaks, True)
        (found,) = in_node(own("silent", signal, fs_hz, peaks.tolist()))
        assert found == beats.windows.no_signal.tolist()
        assert beats.pulses.sum() >= 5
        assert 10 < sum(found) - beats.pulses.sum() < 60
