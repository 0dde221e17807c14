"""Episodes of atrial fibrillation, on signals whose rhythm is known, and the features by formulas of their own."""

from dataclasses import replace

import numpy as np
import pytest
from signal_rhythms import joined, recording, rhythm

from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.signal.rhythm import (
    averaged,
    cell_windows,
    episodes,
    fibrillation,
    log_odds,
    recording_features,
    signal_features,
)
from ecgfed.domain.signal.rhythm_features import NAMES, beat_waves, on_grid, window_features


@pytest.mark.parametrize("fs_hz", [128.0, 360.0, 1000.0])
def test_fibrillation_between_sinus_rhythm(fs_hz: float) -> None:
    """One episode of three minutes, each end right within a window."""
    found = fibrillation(*joined(fs_hz, (200, False), (180, True), (200, False)))
    assert len(found.episodes) == 1
    assert found.episodes[0] == pytest.approx((200, 380), abs=30)
    assert found.seconds == pytest.approx(180, abs=30)
    assert 0.5 < found.certainty[0] <= 1


def test_fibrillation_with_ventricular_beats_and_sinus_rhythm_with_premature_ones() -> None:
    """One beat in six is wide; one interval in five is shorter by 0.25 s, and the next one longer."""
    lead, r_samples = rhythm(240, 250.0, atrial=True)
    time_s = np.arange(len(lead)) / 250.0
    for at_s in (r_samples / 250.0)[::6]:
        lead -= 2 * np.exp(-0.5 * ((time_s - at_s) / 0.06) ** 2)
    assert fibrillation(recording(lead[None], 250.0), r_samples).episodes == ((0.0, 240.0),)
    rng = np.random.default_rng(1)
    rr_s, early = 0.8 + rng.normal(0, 0.01, 400), 2 * np.flatnonzero(rng.random(200) < 0.4)
    rr_s[early], rr_s[early + 1] = rr_s[early] - 0.25, rr_s[early + 1] + 0.25
    lead, r_samples = rhythm(240, 250.0, atrial=False, rr_s=rr_s)
    assert not fibrillation(recording(lead[None], 250.0), r_samples).episodes


@pytest.mark.parametrize("seed", [34, 53, 65])
def test_a_strip_of_sinus_rhythm_with_frequent_premature_beats_is_none(seed: int) -> None:
    """A third of the beats come early, at 0.55 to 0.8 of the interval; every beat has its P wave."""
    rng, rr_s, early = np.random.default_rng(seed), [], False
    interval_s = rng.uniform(0.65, 1.05)
    while len(rr_s) < 200:
        before, early = early, not early and rng.random() < 0.35 / 0.65
        times = (0.55, 0.8) if early else (1.0, 1.15) if before else None
        rr_s.append(interval_s * (1 + 0.03 * rng.standard_normal() if times is None else rng.uniform(*times)))
    lead, _ = rhythm(30, 250.0, atrial=False, seed=seed, rr_s=np.array(rr_s))
    assert not cut_beats(recording(lead[None], 250.0), BeatOptions()).fibrillation.episodes


def test_beats_of_many_shapes_are_not_assessed() -> None:
    """As peaks of noise are, whatever their intervals."""
    of, r_samples = joined(250.0, (60, True))
    r_s, windows_s, rng = r_samples / 250.0, np.array([[0.0, 60.0]]), np.random.default_rng(0)
    qrs_mv, p_mv = beat_waves(on_grid(of.read(0, of.samples)[0], 250.0), r_s)
    assert np.isfinite(window_features(r_s, qrs_mv, p_mv, windows_s)).all()
    others = np.where(rng.random(len(qrs_mv))[:, None] < 0.6, rng.standard_normal(qrs_mv.shape), qrs_mv)
    assert np.isnan(window_features(r_s, others, p_mv, windows_s)).all()


@pytest.mark.parametrize(("seconds", "atrial"), [(12, True), (30, True), (60, True), (12, False), (60, False)])
def test_a_strip_is_judged_as_a_whole(seconds: float, atrial: bool) -> None:
    found = fibrillation(*joined(300.0, (seconds, atrial)))
    assert found.episodes == (((0.0, seconds),) if atrial else ())


def test_a_strip_shorter_than_those_measured_is_not_assessed() -> None:
    """Eight beats of a bigeminy were called fibrillation."""
    assert fibrillation(*joined(300.0, (9.0, True))).episodes
    assert not fibrillation(*joined(300.0, (8.9, True))).episodes


def test_a_p_wave_in_one_lead_is_enough() -> None:
    """A bigeminy-like irregular rhythm whose P waves the second lead shows scores lower than by the first alone."""
    lead, r_samples = rhythm(120, 250.0, atrial=True)
    other, _ = rhythm(120, 250.0, atrial=False)
    both = recording(np.stack([lead, other]), 250.0)
    windows = cell_windows(120)
    one, two = (log_odds(recording_features(of, r_samples, windows)) for of in (both.only([0]), both))
    assert (two <= one).all()


def test_what_is_paced_or_flutter_or_missing_is_not_assessed() -> None:
    of, r_samples = joined(250.0, (120, True))
    assert fibrillation(of, r_samples).episodes == ((0.0, 120.0),)
    assert not fibrillation(of, r_samples, np.ones(len(r_samples), np.bool_)).episodes
    assert not fibrillation(of, r_samples, flutter=((0, of.samples),)).episodes
    assert not fibrillation(replace(of, source=np.full((1, of.samples), np.nan)), r_samples).episodes
    assert not fibrillation(of, r_samples[:3]).episodes


def test_many_short_unreadable_spans_count_together() -> None:
    of, r_samples = joined(250.0, (120, True))
    spans = [(start, start + 200) for start in range(0, of.samples, 250)]  # 80% of it
    assert not fibrillation(of, r_samples, flutter=spans).episodes
    assert fibrillation(of, r_samples, flutter=[(start, start + 50) for start, _ in spans]).episodes


def test_an_episode_without_spans() -> None:
    of = RhythmEpisodes("AF", ((0.0, 100.0), (150.0, 200.0)), certainty=(0.9, 0.6))
    cut = of.without([(40.0, 70.0), (90.0, 93.0), (96.0, 160.0)], 6.0)
    assert cut.episodes == ((0.0, 40.0), (70.0, 96.0), (160.0, 200.0))
    assert cut.certainty == (0.9, 0.9, 0.6)
    assert of.without([(-5.0, 300.0)], 6.0).episodes == ()
    assert of.without([(-5.0, 98.0), (20.0, 30.0)], 6.0).episodes == ((150.0, 200.0),)  # 2 s are no episode
    assert replace(of, episodes=((0.0, 3.0),), certainty=(0.9,)).without([], 6.0).episodes == ((0.0, 3.0),)


def test_an_episode_ends_where_the_signal_can_no_longer_be_read() -> None:
    of = RhythmEpisodes("AF", ((0.0, 100.0), (150.0, 200.0)), certainty=(0.9, 0.6))
    trimmed = of.trimmed([(-1.0, 4.0), (40.0, 70.0), (93.0, 120.0), (190.0, 195.0)], 6.0)
    assert (trimmed.episodes, trimmed.certainty) == (((4.0, 93.0), (150.0, 200.0)), of.certainty)
    assert of.trimmed([(3.0, 200.0)], 6.0).episodes == ()  # of the first 3 s are left
    assert of.trimmed([(100.0, 150.0), (200.0, 300.0)], 6.0).episodes == of.episodes
    lead, _ = rhythm(300, 250.0, atrial=True)
    lead[96 * 250 : 164 * 250] = np.random.default_rng(0).normal(0, 0.5, 68 * 250)
    found = cut_beats(recording(lead[None], 250.0), BeatOptions()).fibrillation
    assert np.array(found.episodes) == pytest.approx(np.array([[0, 96], [164, 300]]), abs=0.5)


def test_noise_is_no_fibrillation_and_none_lasts_through_a_standstill_or_a_gap() -> None:
    """The detector takes peaks of noise for beats: their intervals are as irregular as those of fibrillation."""
    rng = np.random.default_rng(0)
    noise = recording(rng.normal(0, 0.5, (1, 120 * 360)), 360.0)
    assert len(cut_beats(noise, BeatOptions()).r_samples) > 100
    assert not cut_beats(noise, BeatOptions()).fibrillation.episodes
    lead, _ = rhythm(300, 250.0, atrial=True)
    lead[100 * 250 : 130 * 250] = rng.normal(0, 0.01, 30 * 250)
    lead[200 * 250 : 240 * 250] = np.nan
    found = cut_beats(recording(lead[None], 250.0), BeatOptions()).fibrillation
    assert found.episodes
    assert not found.inside(np.array([115.0, 220.0])).any()
    assert found.inside(np.array([50.0, 160.0, 280.0])).all()


def test_the_gain_does_not_matter() -> None:
    of, r_samples = joined(250.0, (90, True))
    louder = recording_features(replace(of, source=3 * of.read(0, of.samples)), r_samples, cell_windows(90))
    assert louder == pytest.approx(recording_features(of, r_samples, cell_windows(90)), abs=1e-6)


def test_a_long_recording_in_parts_has_the_features_of_the_whole() -> None:
    of, r_samples = joined(200.0, (700, False), (700, True))
    windows = cell_windows(of.duration_s)
    whole = signal_features(of.read(0, of.samples), 200.0, r_samples, windows)
    assert recording_features(of, r_samples, windows) == pytest.approx(whole, abs=1e-6)


def test_features_of_intervals_by_hand() -> None:
    """All beats alike: quantiles of the differences as numpy has them, the sample entropy by counting."""
    lead, r_samples = rhythm(30, 250.0, atrial=True, seed=3)
    r_s = r_samples / 250.0
    row = window_features(r_s, *beat_waves(on_grid(lead, 250.0), r_s), np.array([[0.0, 30.0]]))[0]
    of = dict(zip(NAMES, row.tolist(), strict=True))
    rr = np.diff(r_s)
    change = np.abs(np.diff(rr)) / rr.mean()
    assert of["prevailing"] == 1.0
    for share in (75, 90):
        assert of[f"difference_{share}"] == pytest.approx(np.log(np.quantile(change, share / 100) + 0.005))
    one = two = 0
    for i in range(len(rr) - 1):
        for j in range(len(rr) - 1):
            if i != j and abs(rr[i] - rr[j]) < 0.03:
                one += 1
                two += abs(rr[i + 1] - rr[j + 1]) < 0.03
    assert of["sample_entropy"] == pytest.approx(np.log((one + 1) / (two + 1)) + np.log(0.06 / rr.mean()))
    short = [interval < 0.85 * np.median(rr) for interval in rr]
    assert of["premature"] == pytest.approx(np.mean(short))
    steady = [rr[i] for i in range(len(rr)) if not short[i] and (i == 0 or not short[i - 1])]
    near = max(sum(abs(a - b) < 0.06 * rr.mean() for b in steady) - 1 for a in steady)
    assert of["steady_mode"] == pytest.approx(near / (len(steady) - 1))
    wave = beat_waves(on_grid(lead, 250.0), r_s)[1][1:][rr >= 0.97 * np.median(rr)]
    wave -= wave.mean(axis=1, keepdims=True)
    rest = np.sqrt(np.median(((wave - wave.mean(axis=0)) ** 2).mean(axis=1)))
    height = np.median(np.ptp(beat_waves(on_grid(lead, 250.0), r_s)[0], axis=1))
    assert of["rest_late"] == pytest.approx(np.log(rest / height + 0.001))
    lags = [np.median(np.abs(rr[lag:] - rr[:-lag])) for lag in range(1, 5)]
    assert of["lags"] == pytest.approx(np.log(min(lags) / rr.mean() + 0.005))


def test_episodes_by_hysteresis() -> None:
    """Above 0.5 for 30 s and more, above 0.87 in between; one window not assessed is bridged."""
    odds = np.full(60, -5.0)
    odds[10:20], odds[30:32], odds[40:50] = 5.0, 5.0, 1.0  # an episode, one too short, one never sure
    odds[14] = np.nan
    assert averaged(np.array([0.0, 0, 9, 0, 0]))[2] == 3.0
    (start, stop), *others = episodes(odds, 600.0).episodes
    assert not others
    assert (start, stop) == (100.0, 200.0)
    assert not episodes(np.full(60, np.nan), 600.0).episodes
