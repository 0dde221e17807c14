"""Intervals between R peaks are confirmed where the signal bears them out."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray

from ecgfed.domain.events.rhythm import LeadSegment
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal import confirm
from ecgfed.domain.signal.confirm import second_look
from ecgfed.domain.signal.qrs import detect_qrs

FS = 360.0


def recording(*leads: NDArray[np.float64], names: tuple[str, ...] = ("MLII", "V1")) -> Recording:
    used = names[: len(leads)]
    return Recording("x", Path("x"), used[0], used, FS, np.stack(leads), ())


def two_leads(beats: int = 60, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lead = synthetic_signal("N" * beats, fs_hz=FS, seed=seed)[0]
    other = 0.6 * lead + 0.01 * np.random.default_rng(seed).standard_normal(len(lead))
    return lead, other


def with_pause(seconds: float, noise_uv: float) -> list[NDArray[np.float64]]:
    """Two leads whose heart stops for so long after its 31st beat."""
    leads = two_leads()
    at, rng = detect_qrs(leads[0], FS)[30] + round(0.5 * FS), np.random.default_rng(1)
    calm = [noise_uv / 1000 * rng.standard_normal(round(seconds * FS)) + one[at] for one in leads]
    return [np.concatenate([one[:at], quiet, one[at:]]) for one, quiet in zip(leads, calm, strict=True)]


def test_a_clean_rhythm_is_confirmed() -> None:
    lead, other = two_leads()
    both = recording(lead, other)
    peaks = detect_qrs(both.signals_mv, FS)
    assert len(peaks) > 50
    assert second_look(both, peaks).confirmed.all()


@pytest.mark.parametrize("leads", [1, 2])
def test_an_interval_over_a_beat_that_was_missed_is_not_confirmed(leads: int) -> None:
    both = recording(*two_leads()[:leads])
    peaks = detect_qrs(both.signals_mv, FS)
    without = np.delete(peaks, 30)
    confirmed = second_look(both, without).confirmed
    assert np.flatnonzero(~confirmed).tolist() == [29]


def test_a_beat_that_no_lead_shows_is_doubted_and_leaves_the_intervals_beside_it_unconfirmed() -> None:
    both = recording(*two_leads())
    peaks = detect_qrs(both.signals_mv, FS)
    look = second_look(both, np.insert(peaks, 31, (peaks[30] + peaks[31]) // 2))
    assert np.flatnonzero(~look.confirmed).tolist() == [30, 31]
    assert np.flatnonzero(look.doubted).tolist() == [31]
    assert not second_look(both, peaks).doubted.any()


def test_a_pause_of_the_lead_in_use_alone_is_not_confirmed() -> None:
    """The lead in use falls off for five seconds; the other one, which was not looked at, goes on."""
    lead, other = two_leads()
    start = detect_qrs(lead, FS)[25] + round(0.3 * FS)
    off = lead.copy()
    off[start : start + round(5 * FS)] = lead[start]
    peaks = detect_qrs(off, FS)
    assert np.diff(peaks).max() > 5 * FS
    assert not second_look(recording(off, other), peaks).confirmed[int(np.diff(peaks).argmax())]
    with_pulse = recording(off, other, names=("MLII", "PLETH"))  # no ECG: it is not asked
    assert second_look(with_pulse, peaks).confirmed[int(np.diff(peaks).argmax())]


def test_movement_in_a_long_interval_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    lead, _ = two_leads()
    peaks = detect_qrs(lead, FS)
    monkeypatch.setattr(confirm, "INSIDE_ODDS", 100.0)  # leave it to what moves
    without = np.delete(peaks, [30, 31, 32])
    assert not second_look(recording(lead), without).confirmed[29]


def test_few_beats() -> None:
    both = recording(*two_leads(10))
    assert second_look(both, np.array([100], np.int64)).confirmed.shape == (0,)
    assert second_look(both, np.empty(0, np.int64)).confirmed.shape == (0,)


def test_the_leads_that_had_a_say() -> None:
    """The second lead is ruined by noise from 20 to 40 s; a lead that was not to be looked at has no say."""
    lead, other = two_leads()
    other[round(20 * FS) : round(40 * FS)] += 0.8 * np.random.default_rng(2).standard_normal(round(20 * FS))
    both = recording(lead, other)
    peaks = detect_qrs(both.signals_mv, FS)
    whole = len(lead) / FS
    segments = second_look(both, peaks).segments
    assert segments[0].start_s == 0
    assert segments[-1].stop_s == pytest.approx(whole, abs=1e-3)
    assert all(one.stop_s == two.start_s for one, two in pairwise(segments))
    assert {one.leads for one in segments if one.start_s >= 20 and one.stop_s <= 40} == {("MLII",)}
    assert {one.leads for one in segments if one.stop_s <= 20} == {("MLII", "V1")}
    alone = replace(both, beat_leads=("MLII",))
    assert second_look(alone, peaks).segments == (LeadSegment(0.0, round(whole, 3), ("MLII",)),)


@pytest.mark.parametrize("other", [0.0, 0.3, float("nan"), 5.0])
def test_a_dead_second_lead_takes_nothing_away(other: float) -> None:
    lead, _ = two_leads()
    both = recording(lead, np.full(len(lead), other))
    assert second_look(both, detect_qrs(both.signals_mv, FS)).confirmed.all()


@pytest.mark.parametrize("seconds", [5.0, 15.0, 30.0, 60.0])
@pytest.mark.parametrize("noise_uv", [2.0, 10.0])
def test_a_long_asystole_is_a_pause(seconds: float, noise_uv: float) -> None:
    both = recording(*with_pause(seconds, noise_uv))
    peaks = detect_qrs(both.signals_mv, FS)
    pause = int(np.diff(peaks).argmax())
    assert np.diff(peaks)[pause] > seconds * FS
    assert second_look(both, peaks).confirmed[pause]


def test_muscle_noise_in_another_lead_does_not_undo_a_pause() -> None:
    leads = with_pause(4, 5)
    peaks = detect_qrs(leads[0], FS)
    leads[1][round(15 * FS) : round(40 * FS)] += 0.4 * np.random.default_rng(2).standard_normal(round(25 * FS))
    assert second_look(recording(*leads), peaks).confirmed[int(np.diff(peaks).argmax())]


def test_a_paced_beat_whose_other_lead_is_later_is_confirmed() -> None:
    """The second lead's QRS stands 0.14 s behind the R peak, as behind a spike in records 102 and 107."""
    lead, other = two_leads()
    both = recording(lead, np.roll(other, round(0.14 * FS)))
    peaks = detect_qrs(lead, FS)
    inside = slice(2, -2)  # the roll brings the signal's end to its start
    assert not second_look(both, peaks).confirmed[inside].any()
    assert second_look(both, peaks, np.ones(len(peaks), np.bool_)).confirmed[inside].all()


def test_a_beat_that_leaves_the_rhythm_as_it_is_needs_every_lead() -> None:
    """An artefact like a QRS, in the middle between two beats: of one lead it is none that is sure, of both it is."""
    lead, other = two_leads()
    peaks = detect_qrs(np.stack([lead, other]), FS)
    middle = int(peaks[30] + peaks[31]) // 2
    reach = round(0.06 * FS)
    copies = [one[peaks[30] - reach : peaks[30] + reach + 1] for one in (lead, other)]
    in_one, in_both = [lead.copy(), other], [lead.copy(), other.copy()]
    for leads, which in ((in_one, (0,)), (in_both, (0, 1))):
        for number in which:
            window = np.hanning(2 * reach + 1)
            leads[number][middle - reach : middle + reach + 1] += copies[number] * window
    more = np.insert(peaks, 31, middle)
    assert np.flatnonzero(~second_look(recording(*in_one), more).confirmed).tolist() == [30, 31]
    assert second_look(recording(*in_both), more).confirmed[30:32].all()


@pytest.mark.parametrize("noise_uv", [0.0, 10.0, 20.0, 60.0])
@pytest.mark.parametrize("leads", [1, 2])
def test_beats_at_a_tenth_of_their_height_leave_no_confirmed_pause(noise_uv: float, leads: int) -> None:
    """From 20 to 28 s every wave is a tenth as high; noise beside them."""
    signals = [one.copy() for one in two_leads()[:leads]]
    peaks = detect_qrs(np.stack(signals), FS)
    start, stop = round(20 * FS), round(28 * FS)
    rng = np.random.default_rng(3)
    for one in signals:
        one[start:stop] = 0.1 * one[start:stop] + noise_uv / 1000 * rng.standard_normal(stop - start)
    missed = peaks[(peaks < start) | (peaks >= stop)]
    pause = int(np.diff(missed).argmax())
    assert np.diff(missed)[pause] > 8 * FS
    assert not second_look(recording(*signals), missed).confirmed[pause]
