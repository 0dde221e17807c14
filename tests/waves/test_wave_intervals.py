"""Intervals of the average beat by class and hour, against those that were drawn, and why some are not assessed."""

import json

import numpy as np
import pytest
from waves.beats_by_rule import Beat, recorded

import ecgfed
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.recording import Annotation

NONE = RhythmEpisodes("AF or flutter", ())


def labelled(r_samples: np.ndarray, symbol: str = "N") -> Annotation:
    return Annotation(r_samples, np.full(len(r_samples), symbol))


def test_intervals_are_those_that_were_drawn() -> None:
    beat = Beat()
    recording, r_samples = recorded(beat)
    (average,) = ecgfed.wave_intervals(recording, labelled(r_samples), rhythm=NONE).averages
    assert (average.label, average.beats) == ("N", 40)
    assert average.averaged >= 38
    drawn = {
        "pr_ms": 1000 * (beat.qrs[0] - beat.p[0]),
        "qrs_ms": 1000 * (beat.qrs[1] - beat.qrs[0]),
        "qt_ms": 1000 * (beat.t[1] - beat.qrs[0]),
    }
    for name, length in drawn.items():
        measured = getattr(average, name)
        assert measured.value == pytest.approx(length, abs=25), name
        assert measured.sd < 15
        assert measured.beats >= 38


def test_qtc_is_the_textbooks_formula_of_the_averages_own_qt() -> None:
    recording, r_samples = recorded(Beat(), rr_s=np.full(60, 0.64))
    (average,) = ecgfed.wave_intervals(recording, labelled(r_samples), rhythm=NONE).averages
    assert average.rr_s == pytest.approx(0.64)
    assert average.qt_ms.value is not None
    assert average.qtc_bazett_ms.value == pytest.approx(average.qt_ms.value / 0.8)
    assert average.qtc_fridericia_ms.value == pytest.approx(average.qt_ms.value / 0.64 ** (1 / 3))


@pytest.mark.parametrize("st_mv", [-0.2, 0.0, 0.15])
def test_the_st_level_is_the_one_that_was_drawn(st_mv: float) -> None:
    recording, r_samples = recorded(Beat(st_mv=st_mv), wander_mv=0.1)
    (average,) = ecgfed.wave_intervals(recording, labelled(r_samples), rhythm=NONE).averages
    assert average.st_mv.value == pytest.approx(st_mv, abs=0.03)


def test_each_class_and_each_hour_has_its_own_average() -> None:
    recording, r_samples = recorded(Beat(), rr_s=np.full(60, 0.8))
    symbols = np.where(np.arange(60) % 3, "N", "V")
    waves = ecgfed.wave_intervals(recording, Annotation(r_samples, symbols), rhythm=NONE)
    assert [(average.label, average.beats) for average in waves.averages] == [("N", 40), ("V", 20)]
    hours = ecgfed.tasks.waves.average_beats  # an hour of its own length
    labels = ecgfed.tasks.waves.LabelledWaves(
        r_samples,
        np.zeros(60, np.int64),
        ["N"],
        waves.delineation.points,
        waves.delineation.usable,
        np.zeros(60, np.bool_),
    )
    parts = list(hours(recording, "II", labels, bin_s=20.0))
    assert [part.start_s for part in parts] == [0.0, 20.0, 40.0]
    assert sum(part.beats for part in parts) == 60


def test_what_forbids_an_interval_is_stated() -> None:
    def reasons(recording: ecgfed.Recording, beats: Annotation, rhythm: RhythmEpisodes = NONE) -> dict[str, str]:
        (average,) = ecgfed.wave_intervals(recording, beats, rhythm=rhythm).averages
        return {name: getattr(average, name).not_assessed for name in ("pr_ms", "qrs_ms", "qt_ms", "qtc_bazett_ms")}

    recording, r_samples = recorded(Beat())
    assert set(reasons(recording, labelled(r_samples[:5])).values()) == {"too few beats"}
    fibrillating = RhythmEpisodes("AF or flutter", ((0.0, recording.duration_s),))
    in_fibrillation = reasons(recording, labelled(r_samples), fibrillating)
    assert in_fibrillation.pop("qrs_ms") == ""
    assert set(in_fibrillation.values()) == {"atrial fibrillation or flutter"}
    without_p, r_samples = recorded(Beat(p_mv=0.0))
    assert reasons(without_p, labelled(r_samples)) == {
        "pr_ms": "no P wave", "qrs_ms": "", "qt_ms": "", "qtc_bazett_ms": ""
    }  # fmt: skip
    noisy, r_samples = recorded(Beat(), noise_mv=0.4)
    assert set(reasons(noisy, labelled(r_samples)).values()) == {"noise"}


def test_beats_of_another_shape_do_not_change_the_average() -> None:
    recording, r_samples = recorded(Beat(), rr_s=np.full(60, 0.8))
    (alone,) = ecgfed.wave_intervals(recording, labelled(r_samples), rhythm=NONE).averages
    signal = recording.signal_mv.copy()
    for r in r_samples[5::15].tolist():  # four of sixty are turned over
        signal[r - 25 : r + 25] *= -1
    mixed = ecgfed.Recording("m", recording.path, "II", ("II",), 250.0, signal[None], ())
    (average,) = ecgfed.wave_intervals(mixed, labelled(r_samples), rhythm=NONE).averages
    assert average.averaged <= alone.averaged - 4
    before_the_next = slice(average.r - 60, average.r + 110)
    np.testing.assert_allclose(average.window_mv[before_the_next], alone.window_mv[before_the_next], atol=0.01)


def test_json_has_numbers_and_reasons() -> None:
    recording, r_samples = recorded(Beat(p_mv=0.0))
    waves = ecgfed.wave_intervals(recording, labelled(r_samples), rhythm=NONE)
    stored = json.loads(json.dumps(waves.to_dict(), allow_nan=False))
    assert stored["averages"][0]["pr_ms"]["not_assessed"] == "no P wave"
    assert stored["located"]["p_peak"] < stored["located"]["qrs_onset"] == stored["usable"]
