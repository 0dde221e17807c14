"""Pacing detected in the signal, on synthetic spikes and on MIT-BIH's paced records."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from paced_recordings import paced_recording
from scipy.signal import resample_poly

from ecgfed import read_annotation, read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.pacing import (
    CLEAR_SCORE,
    EPISODE_CLEAR,
    MIN_ASSESSED,
    bands,
    beat_scores,
    detect_pacing,
    mean_score,
    pacing_of,
)
from ecgfed.domain.signal.pacing_features import GRID_HZ, GRID_SAMPLES, NAMES, resampling_matrix, window_features
from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.testing.ecg import synthetic_ecg

Floats = NDArray[np.float64]
PACED = {"102", "104", "107", "217"}


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0, 500.0, 1000.0])
@pytest.mark.parametrize("tail", [0.0, -0.3])
def test_spikes_before_wide_beats(fs_hz: float, tail: float) -> None:
    recording, r = paced_recording(fs_hz, slice(None), tail=tail)
    found = detect_pacing(recording, r)
    assert found.paced
    assert found.beats.mean() > 0.95
    [episode] = found.episodes
    assert episode.start_s < 2
    assert episode.stop_s > 88
    assert episode.beats == found.beats.sum()


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0, 500.0, 1000.0])
def test_wide_and_narrow_beats_without_spikes(fs_hz: float) -> None:
    wide, r = paced_recording(fs_hz, slice(None), height_mv=0)
    found = detect_pacing(wide, r)
    assert (bool(found), found.beats.sum(), found.episodes) == (False, 0, ())
    assert found.assessed > 90
    ecg = synthetic_ecg(fs_hz, 60)
    narrow = replace(wide, source=ecg.signals_mv)
    assert not detect_pacing(narrow, np.rint(ecg.r_s * fs_hz).astype(np.int64))


@pytest.mark.parametrize("fs_hz", [250.0, 360.0, 500.0])
@pytest.mark.parametrize(("faster", "rail_mv"), [(2.0, np.inf), (2.5, np.inf), (1.5, 0.6), (2.5, 0.6)])
def test_narrow_and_clipped_waves_are_no_spikes(fs_hz: float, faster: float, rail_mv: float) -> None:
    """A beat played faster is as narrow as a child's; an R wave clipped at a rail has edges as steep as a spike's."""
    ecg = synthetic_ecg(fs_hz / faster, 60 * faster)
    clipped_mv = np.clip(ecg.signals_mv, None, rail_mv)
    recording = Recording("fast", Path("fast"), "MLII", ("MLII", "V5"), fs_hz, clipped_mv, ())
    assert not detect_pacing(recording, np.rint(ecg.r_s * ecg.fs_hz).astype(np.int64))


@pytest.mark.mitdb
@pytest.mark.parametrize(("record", "rails"), [("100", False), ("212", False), ("215", True)])
def test_fast_and_clipped_records_are_not_paced(mitdb: Path, record: str, rails: bool) -> None:
    recording = _read(mitdb / f"{record}.hea", 360).only([0])
    mv = resample_poly(recording.signals_mv, 5, 9, axis=1)
    if rails:
        wander = 1.6 * np.sin(2 * np.pi * 0.05 * np.arange(recording.samples) / 360)
        mv = np.clip(recording.signals_mv + wander, -1.024, 1.0235)
    recording = replace(recording, source=mv)
    assert not detect_pacing(recording, find_peaks(recording))


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0])
def test_an_episode_in_an_unpaced_record(fs_hz: float) -> None:
    recording, r = paced_recording(fs_hz, slice(40, 65))
    found = detect_pacing(recording, r)
    assert not found.paced
    [episode] = found.episodes
    assert set(np.flatnonzero(found.beats)) <= set(range(40, 65))
    assert found.beats.sum() >= 23
    assert episode.start_s == pytest.approx(r[40] / fs_hz, abs=2)
    assert episode.stop_s == pytest.approx(r[64] / fs_hz, abs=2)
    few, r = paced_recording(fs_hz, slice(40, 40 + EPISODE_CLEAR - 1))
    assert not detect_pacing(few, r)


def test_rules_on_scores_by_hand() -> None:
    """More than 30% clearly paced; an episode bridges three beats; a short one counts in a paced record alone."""
    low, high = 0.1, CLEAR_SCORE + 0.05
    score = np.full(100, low)
    score[10:20] = score[24:34] = score[60:72] = high
    score[90] = high
    time_s = np.arange(100.0)
    found = pacing_of(score, time_s)
    assert found.paced
    assert found.beats.sum() == 33
    assert [(one.start_s, one.stop_s, one.beats) for one in found.episodes] == [
        (10, 19, 10),
        (24, 33, 10),
        (60, 71, 12),
    ]
    score[22] = high  # from 20 to 24 no more than three beats lie between paced ones
    assert [one.beats for one in pacing_of(score, time_s).episodes] == [21, 12]
    score[10:34] = low
    found = pacing_of(score, time_s)
    assert not found.paced
    assert [(one.start_s, one.beats) for one in found.episodes] == [(60, 12)]
    assert found.beats.sum() == 12  # not the lone one at 90
    assert not pacing_of(np.full(MIN_ASSESSED - 1, high), np.arange(MIN_ASSESSED - 1.0))
    assert pacing_of(np.full(MIN_ASSESSED, high), np.arange(float(MIN_ASSESSED))).paced
    assert not pacing_of(np.empty(0), np.empty(0))


def test_leads_without_samples_or_signal_take_no_part() -> None:
    recording, r = paced_recording(360.0, slice(None))
    whole = beat_scores(recording, r)
    spoiled = recording.signals_mv.copy()
    spoiled[1] = 0.01  # disconnected
    alone = beat_scores(recording.only([0]), r)
    np.testing.assert_array_equal(beat_scores(replace(recording, source=spoiled), r), alone)
    spoiled[1] = recording.signals_mv[1]
    spoiled[:, r[10] - 5 : r[10] + 5] = np.nan
    score = beat_scores(replace(recording, source=spoiled), r)
    assert np.isnan(score[10])
    np.testing.assert_allclose(np.delete(score, [9, 10, 11]), np.delete(whole, [9, 10, 11]))
    assert np.isnan(mean_score(np.array([[np.nan], [np.nan]])))[0]
    assert mean_score(np.array([[1.0], [np.nan]]))[0] == pytest.approx(1 / (1 + np.exp(-1.0)))


def test_gain_does_not_matter() -> None:
    recording, r = paced_recording(250.0, slice(None, 50))
    np.testing.assert_allclose(
        beat_scores(replace(recording, source=3.7 * recording.signals_mv), r), beat_scores(recording, r)
    )


def test_a_sampling_frequency_too_low_is_not_assessed() -> None:
    recording, r = paced_recording(100.0, slice(None))
    found = detect_pacing(recording, r)
    assert (found.assessed, bool(found)) == (0, False)


@pytest.mark.parametrize("fs_hz", [128.0, 257.0, 360.0, 1000.0])
def test_resampling_keeps_what_lies_below_the_limit_and_removes_the_rest(fs_hz: float) -> None:
    """A sine below the low-pass comes through as it is sampled on the grid; one above it disappears."""
    limit = 100.0 if fs_hz > 225 else 55.0
    weights = resampling_matrix(fs_hz, limit)
    before = int(np.ceil(0.22 * fs_hz))
    time_s = np.arange(-before, len(weights) - before) / fs_hz
    grid_s = np.arange(GRID_SAMPLES) / GRID_HZ - 0.16
    for hz in (3.0, 0.7 * limit):
        np.testing.assert_allclose(
            np.sin(2 * np.pi * hz * time_s) @ weights, np.sin(2 * np.pi * hz * grid_s), atol=0.02
        )
    if fs_hz > 500:
        assert np.abs(np.sin(2 * np.pi * 1.5 * limit * time_s) @ weights).max() < 0.02


def test_features_are_finite_and_named() -> None:
    rng = np.random.default_rng(0)
    windows = np.concatenate([rng.normal(size=(50, GRID_SAMPLES)), np.eye(GRID_SAMPLES), np.zeros((1, GRID_SAMPLES))])
    features = window_features(windows)
    assert features.shape == (len(windows), len(NAMES))
    assert np.isfinite(features[:-1]).all()
    assert np.isnan(features[-1]).all()
    assert [len(band.weights) for band in bands()] == [len(NAMES)] * 2


@pytest.mark.mitdb
@pytest.mark.slow
@pytest.mark.parametrize("fs_hz", [360, 250])
def test_mit_bih_paced_records_and_no_other(mitdb: Path, fs_hz: int) -> None:
    """All 48 records with our detector's peaks; patients left out are benchmarks/pacing's matter."""
    called, episodes = set(), set()
    for header in sorted(mitdb.glob("*.hea")):
        recording = _read(header, fs_hz)
        found = detect_pacing(recording, find_peaks(recording))
        if found.paced:
            called.add(header.stem)
        elif found:
            episodes.add(header.stem)
    assert called == PACED
    assert episodes == set()


@pytest.mark.mitdb
@pytest.mark.parametrize("record", sorted(PACED))
def test_paced_beats_of_the_reference(mitdb: Path, record: str) -> None:
    recording = _read(mitdb / f"{record}.hea", 360)
    beats = read_annotation(mitdb / record).beats()
    found = detect_pacing(recording, beats.sample)
    real = np.isin(beats.symbol, ["/", "f"]) & np.isfinite(found.score)
    assert found.beats[real].mean() > 0.94
    normal = beats.symbol == "N"
    if normal.any():
        assert found.beats[normal].mean() < 0.03


def _read(header: Path, fs_hz: int) -> Recording:
    """Return a record with every lead, at 250 Hz resampled from its 360."""
    leads = read_recording(header.with_suffix(""), every_lead=True)
    if fs_hz == 360:
        return leads
    return replace(leads, source=resample_poly(leads.signals_mv, 25, 36, axis=1), fs_hz=250.0, files=())
