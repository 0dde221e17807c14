"""Waves are located where they were drawn, whatever the recorder; those that are not there are not."""

import numpy as np
import pytest
from waves.beats_by_rule import Beat, recorded

import ecgfed
from ecgfed.base.errors import OptionError, RecordError
from ecgfed.domain.waves.lead import delineate_lead
from ecgfed.domain.waves.points import POINTS

#: How far the median over beats may be from where a wave was drawn, in ms.
WITHIN_MS = {"p_onset": 20, "p_end": 25, "qrs_onset": 12, "qrs_end": 15, "t_end": 20}


def medians_ms(waves: ecgfed.Delineation) -> dict[str, float]:
    from_r = (waves.points.array() - waves.sample[:, None]) * 1000 / waves.fs_hz
    return dict(zip(POINTS, np.nanmedian(from_r, axis=0).tolist(), strict=True))


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0, 1000.0])
@pytest.mark.parametrize(
    "beat",
    [
        Beat(),
        Beat(p=(-0.26, -0.15), qrs=(-0.06, 0.08), t=(0.22, 0.44)),
        Beat(t_mv=-0.3),
        Beat(p_mv=-0.12),
        Beat(st_mv=0.15),
    ],
    ids=["usual", "wide", "t-negative", "p-negative", "st-elevated"],
)
def test_waves_are_where_they_were_drawn(beat: Beat, fs_hz: float) -> None:
    recording, r_samples = recorded(beat, fs_hz)
    located = medians_ms(ecgfed.delineate(recording, r_samples))
    for name, drawn in beat.points_ms().items():
        assert located[name] == pytest.approx(drawn, abs=WITHIN_MS[name] + 500 / fs_hz), name


def test_gain_offset_and_a_moving_baseline_change_little() -> None:
    recording, r_samples = recorded(Beat())
    usual = medians_ms(ecgfed.delineate(recording, r_samples))
    wandering, _ = recorded(Beat(), wander_mv=0.3)
    other = medians_ms(ecgfed.delineate(wandering, r_samples))
    for name in POINTS:
        assert other[name] == pytest.approx(usual[name], abs=12), name
    louder = ecgfed.Recording("rule", recording.path, "II", ("II",), 250.0, 2 * recording.signals_mv + 3.0, ())
    assert medians_ms(ecgfed.delineate(louder, r_samples)) == usual


def test_a_longer_beat_gives_longer_intervals() -> None:
    """A T wave that ends 60 ms later is located 60 ms later."""
    ends = []
    for stop in (0.34, 0.40):
        recording, r_samples = recorded(Beat(t=(stop - 0.18, stop)))
        ends.append(medians_ms(ecgfed.delineate(recording, r_samples))["t_end"])
    assert ends[1] - ends[0] == pytest.approx(60, abs=6)


def test_a_wave_that_is_not_there_is_not_located() -> None:
    recording, r_samples = recorded(Beat(p_mv=0.0, t_mv=0.0), noise_mv=0.004)
    points = ecgfed.delineate(recording, r_samples).points
    assert np.isfinite(points.p_peak).mean() < 0.1
    assert np.isfinite(points.t_peak).mean() < 0.1
    assert np.isfinite(points.qrs_onset).all()


def test_waves_at_random_before_the_beat_are_no_p_waves() -> None:
    """As in fibrillation: what does not repeat is no P wave, however high."""
    rng = np.random.default_rng(3)
    recording, r_samples = recorded(Beat(p_mv=0.0), rr_s=rng.uniform(0.75, 0.85, 60))
    t_s, signal = np.arange(recording.samples) / 250, recording.signal_mv.copy()
    for start in np.arange(0.0, t_s[-1], 0.17) + rng.uniform(-0.06, 0.06, len(np.arange(0.0, t_s[-1], 0.17))):
        signal += 0.08 * np.exp(-(((t_s - start) / 0.03) ** 2) / 2)
    waves = ecgfed.delineate(ecgfed.Recording("f", recording.path, "II", ("II",), 250.0, signal[None], ()), r_samples)
    assert np.isfinite(waves.points.p_peak).mean() < 0.25


def test_beats_in_noise_and_at_the_ends_have_no_points() -> None:
    recording, r_samples = recorded(Beat())
    signal = recording.signal_mv.copy()
    start, stop = int(r_samples[10]) - 100, int(r_samples[15]) + 100
    signal[start:stop] = np.nan
    signal = signal[: int(r_samples[-1]) + 40]
    broken = ecgfed.Recording("gap", recording.path, "II", ("II",), 250.0, signal[None], ())
    waves = ecgfed.delineate(broken, r_samples)
    assert not waves.usable[10:16].any()
    assert not waves.usable[-1]
    assert np.isnan(waves.points.array()[~waves.usable]).all()
    assert waves.usable[:9].all()


def test_blocks_of_beats_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    recording, r_samples = recorded(Beat(), rr_s=np.random.default_rng(1).uniform(0.7, 0.9, 60), noise_mv=0.01)
    usable = np.ones(len(r_samples), np.bool_)
    whole = delineate_lead(recording, "II", r_samples, usable).array()
    monkeypatch.setattr("ecgfed.domain.waves.lead._AT_ONCE", 7)
    np.testing.assert_allclose(delineate_lead(recording, "II", r_samples, usable).array(), whole)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_beats(count: int) -> None:
    recording, r_samples = recorded(Beat())
    waves = ecgfed.delineate(recording, r_samples[:count])
    assert waves.points.array().shape == (count, 7)
    assert np.isnan(waves.points.p_peak).all()  # it cannot be told whether it repeats


@pytest.mark.parametrize("peaks", [np.array([5, 3]), np.array([10**9]), np.array([1.5]), np.array([-1, 4])])
def test_peaks_of_something_else_are_refused(peaks: np.ndarray) -> None:
    with pytest.raises(OptionError, match="peaks"):
        ecgfed.delineate(recorded(Beat())[0], peaks)


def test_a_low_sampling_frequency_is_refused() -> None:
    recording, r_samples = recorded(Beat(), 90.0)
    with pytest.raises(RecordError, match="100 Hz"):
        ecgfed.delineate(recording, r_samples)
