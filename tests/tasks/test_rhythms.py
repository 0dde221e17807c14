"""Rhythm episodes in predictions, their files and reports; what they change of beats."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wfdb
from signal_rhythms import joined, recording, rhythm

import ecgfed
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rate_episodes import rate_episodes
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.recording import Annotation
from ecgfed.exports.device.predictions import Predictions
from ecgfed.tasks.rhythms import sure_episodes, with_rhythms, without_supraventricular

FS_HZ = 360.0


def test_fibrillation_in_predictions_files_and_report(tmp_path: Path) -> None:
    """Four minutes of fibrillation: one episode everywhere, and no supraventricular beat in it."""
    of, r_samples = joined(FS_HZ, (120, False), (240, True))
    predictions = ecgfed.predict(of)
    [episodes] = [found for found in predictions.rhythms if found.rhythm == "AF or flutter"]
    [(start_s, stop_s)] = episodes.episodes
    assert start_s == pytest.approx(120, abs=30)
    assert stop_s == of.duration_s
    inside = predictions.sample >= start_s * FS_HZ
    assert inside.sum() == pytest.approx((r_samples >= start_s * FS_HZ).sum(), abs=3)
    assert not np.isin(predictions.symbols[inside], list("AaJS")).any()
    predictions.save(tmp_path)
    told = json.loads((tmp_path / "x.json").read_text())
    assert told["rhythms"] == [found.to_dict() for found in predictions.rhythms]
    with (tmp_path / "x.rhythms.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["rhythm"] == "AF or flutter"]
    assert [(row["start_s"], row["stop_s"]) for row in rows] == [(f"{start_s}", f"{round(stop_s, 3)}")]
    marks = wfdb.rdann(str(tmp_path / "x"), "ecgfed")
    [number] = [number for number, symbol in enumerate(marks.symbol) if symbol == "+"]
    assert (marks.sample[number], marks.aux_note[number]) == (round(start_s * FS_HZ), "(AFIB")
    report = ecgfed.report(of)
    assert episodes.to_dict() in report.to_dict()["rhythms"]
    assert "AF or flutter" in report.html


def test_a_stopped_heart_is_no_beats_and_no_noise() -> None:
    """A rhythm stops for 45 s of a recorder's own noise, 10 uV: no lead is off, no beat is there."""
    lead, _ = rhythm(60, FS_HZ, atrial=False)
    silent = 0.01 * np.random.default_rng(0).standard_normal(round(45 * FS_HZ))
    of = recording(np.concatenate([lead, silent, lead])[None], FS_HZ)
    [stop] = [found for found in ecgfed.predict(of).rhythms if found.rhythm == "no beats"]
    assert np.array(stop.episodes) == pytest.approx(np.array([[60, 105]]), abs=1.5)
    assert stop.to_dict() in ecgfed.report(of).to_dict()["rhythms"]
    unplugged = replace(of, source=np.concatenate([lead, 0 * silent, lead])[None])
    assert "no beats" not in {found.rhythm for found in ecgfed.predict(unplugged).rhythms}


def test_labels_that_mark_rhythms_hide_no_standstill(tmp_path: Path) -> None:
    lead, _ = rhythm(120, FS_HZ, atrial=True)
    silent = 0.01 * np.random.default_rng(0).standard_normal(round(45 * FS_HZ))
    of = recording(np.concatenate([lead, silent, lead])[None], FS_HZ)
    ecgfed.predict(of).save(tmp_path)
    found = {one["rhythm"]: one for one in ecgfed.report(of, labels=tmp_path / "x.ecgfed").to_dict()["rhythms"]}
    assert found["AF"]["source"] == "labels"
    assert np.array(found["no beats"]["episodes"]) == pytest.approx(np.array([[120, 165]]), abs=1.5)


def test_a_supraventricular_beat_in_fibrillation_has_the_next_class() -> None:
    """By hand: of (N, S, V) = (.1, .7, .2), V has .2 / .3 without S."""
    probability = np.array([[0.1, 0.7, 0.2], [0.1, 0.7, 0.2], [0.9, 0.05, 0.05], [0.0, 1.0, 0.0]], np.float32)
    one = Predictions(probability.argmax(axis=1), probability, np.zeros(4, np.uint8), ("N", "S", "V"))
    other, count = without_supraventricular(one, BUILT_IN["aami5"], np.array([False, True, True, True]))
    assert count == 2
    assert other.names[:3] == ("S", "V", "N")
    assert other.probability[1] == pytest.approx([1 / 3, 0, 2 / 3])
    assert (other.probability[[0, 2]] == probability[[0, 2]]).all()
    assert other.probability[3].tolist() == [0.5, 0.0, 0.5]


def test_only_sure_episodes_are_marked() -> None:
    rhythm_of = RhythmEpisodes("AF or flutter", ((0.0, 30.0), (50.0, 90.0)), certainty=(0.9, 0.4))
    assert sure_episodes(rhythm_of).episodes == ((0.0, 30.0),)
    beats = Annotation(np.array([50, 3000, 9000]), np.array(["N", "N", "V"]), ("", "", ""), np.zeros(3, np.int64))
    marked = with_rhythms(beats, rhythm_of, [(8000, 10_000)], 100.0, 10_000)
    assert list(zip(marked.sample.tolist(), marked.symbol.tolist(), marked.note, strict=True)) == [
        (0, "+", "(AFIB"),
        (50, "N", ""),
        (3000, "+", "(U"),
        (3000, "N", ""),
        (8000, "[", ""),
        (9000, "V", ""),
        (9999, "]", ""),
    ]


def test_bradycardia_and_tachycardia_by_their_rules() -> None:
    """40 intervals each of 1.5 s (40/min), 0.8 s and 0.5 s (120/min); 59 s of tachycardia needs a rule of 15 s."""
    rr_s = np.repeat([1.5, 0.8, 0.5], 40)
    sample = np.concatenate([[0], np.cumsum(rr_s * 100)]).astype(np.int64)
    beats = Beats(
        sample, np.zeros(121, np.int64), ("N",), (Kind.NORMAL,), 100.0, int(sample[-1]) + 100, merged([(9200, 9210)])
    )
    [slow] = rate_episodes(beats, EventRules())
    # mean of k long and 8 - k normal intervals below 50/min: 9.6 s and more, k of 5 and more
    assert (slow.rhythm, slow.episodes, slow.source) == ("bradycardia", ((0.0, 62.4),), "rates")
    slow, fast = rate_episodes(beats, EventRules(rate_episode_s=10))
    assert fast.episodes == ((92.5, 112.0),)  # not across the unusable stretch
    assert not rate_episodes(beats, EventRules(bradycardia_per_min=40, tachycardia_per_min=120))


def test_no_rate_goes_across_a_standstill() -> None:
    """60/min before and after 20 s without a beat; of 5.9 s it is a pause, and with the 7 intervals around it slow."""
    for gap_s, slow in ((20.0, False), (5.9, True)):
        sample = np.concatenate([[0], np.cumsum([1.0] * 60 + [gap_s] + [1.0] * 60) * 100]).astype(np.int64)
        number = np.zeros(len(sample), np.int64)
        beats = Beats(sample, number, ("N",), (Kind.NORMAL,), 100.0, int(sample[-1]) + 100, merged([]))
        found = rate_episodes(beats, EventRules(rate_episode_s=10))
        assert [rhythm_of.rhythm for rhythm_of in found] == ["bradycardia"] * slow
