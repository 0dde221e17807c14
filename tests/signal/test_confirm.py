"""Intervals between R peaks are confirmed where the signal bears them out."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray

from ecgfed.record.recording import Recording
from ecgfed.signal import confirm
from ecgfed.signal.confirm import confirmed_intervals
from ecgfed.signal.qrs import detect_qrs

FS = 360.0


def recording(*leads: NDArray[np.float64], names: tuple[str, ...] = ("MLII", "V1")) -> Recording:
    used = names[: len(leads)]
    return Recording("x", Path("x"), used[0], used, FS, np.stack(leads), ())


def two_leads(beats: int = 60, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lead = synthetic_signal("N" * beats, fs_hz=FS, seed=seed)[0]
    other = 0.6 * lead + 0.01 * np.random.default_rng(seed).standard_normal(len(lead))
    return lead, other


def test_a_clean_rhythm_is_confirmed() -> None:
    lead, other = two_leads()
    both = recording(lead, other)
    peaks = detect_qrs(both.signals_mv, FS)
    assert len(peaks) > 50
    assert confirmed_intervals(both, peaks).all()


@pytest.mark.parametrize("leads", [1, 2])
def test_an_interval_over_a_beat_that_was_missed_is_not_confirmed(leads: int) -> None:
    both = recording(*two_leads()[:leads])
    peaks = detect_qrs(both.signals_mv, FS)
    without = np.delete(peaks, 30)
    confirmed = confirmed_intervals(both, without)
    assert np.flatnonzero(~confirmed).tolist() == [29]


def test_a_beat_that_is_none_leaves_the_intervals_beside_it_unconfirmed() -> None:
    both = recording(*two_leads())
    peaks = detect_qrs(both.signals_mv, FS)
    more = np.insert(peaks, 31, (peaks[30] + peaks[31]) // 2)
    confirmed = confirmed_intervals(both, more)
    assert np.flatnonzero(~confirmed).tolist() == [30, 31]


def test_a_pause_in_which_nothing_moves_is_confirmed() -> None:
    lead, other = two_leads()
    at = detect_qrs(lead, FS)[30] + round(0.5 * FS)
    rng = np.random.default_rng(1)
    quiet = [0.005 * rng.standard_normal(round(4 * FS)) + one[at] for one in (lead, other)]
    both = recording(
        *(np.concatenate([one[:at], calm, one[at:]]) for one, calm in zip((lead, other), quiet, strict=True))
    )
    peaks = detect_qrs(both.signals_mv, FS)
    pause = int(np.diff(peaks).argmax())
    assert np.diff(peaks)[pause] > 4 * FS
    assert confirmed_intervals(both, peaks)[pause]


def test_a_pause_of_the_lead_in_use_alone_is_not_confirmed() -> None:
    """The lead in use falls off for five seconds; the other one, which was not looked at, goes on."""
    lead, other = two_leads()
    start = detect_qrs(lead, FS)[25] + round(0.3 * FS)
    off = lead.copy()
    off[start : start + round(5 * FS)] = lead[start]
    peaks = detect_qrs(off, FS)
    assert np.diff(peaks).max() > 5 * FS
    assert not confirmed_intervals(recording(off, other), peaks)[int(np.diff(peaks).argmax())]
    with_pulse = recording(off, other, names=("MLII", "PLETH"))  # no ECG: it is not asked
    assert confirmed_intervals(with_pulse, peaks)[int(np.diff(peaks).argmax())]


def test_movement_in_a_long_interval_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    lead, _ = two_leads()
    peaks = detect_qrs(lead, FS)
    monkeypatch.setattr(confirm, "INSIDE_ODDS", 100.0)  # leave it to what moves
    without = np.delete(peaks, [30, 31, 32])
    assert not confirmed_intervals(recording(lead), without)[29]


def test_few_beats() -> None:
    both = recording(*two_leads(10))
    assert confirmed_intervals(both, np.array([100], np.int64)).shape == (0,)
    assert confirmed_intervals(both, np.empty(0, np.int64)).shape == (0,)
