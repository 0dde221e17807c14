"""Possible AV block on signals whose P waves and QRS complexes are placed by hand, and on MIT-BIH's annotated block."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.beats.path import BeatOptions, read_beats
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.domain.signal.av_block import av_block

FS_HZ, PR_S = 250.0, 0.16


def signal_of(p_s: NDArray[np.float64], r_s: NDArray[np.float64], seconds: float, seed: int) -> Recording:
    """Return a lead with a P wave at each time of ``p_s``, a QRS complex and a T wave at each of ``r_s``."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * FS_HZ)) / FS_HZ
    mv = 0.01 * rng.standard_normal(len(t)) + 0.1 * np.sin(2 * np.pi * 0.2 * t)
    waves = [(p_s, 0.15, 0.025), (r_s, 1.0, 0.012), (r_s + 0.04, -0.2, 0.012), (r_s + 0.3, 0.3, 0.05)]
    for times, height_mv, width_s in waves:
        for at in times:
            near = slice(max(0, round((at - 0.3) * FS_HZ)), round((at + 0.3) * FS_HZ))
            mv[near] += height_mv * np.exp(-0.5 * ((t[near] - at) / width_s) ** 2)
    return Recording("made", Path("made"), "II", ("II",), FS_HZ, mv[None], ())


def atrial_s(cycle_s: float, seconds: float, seed: int) -> NDArray[np.float64]:
    """Return the times of P waves of a sinus rhythm, which varies by 2%."""
    cycles = cycle_s * (1 + 0.02 * np.random.default_rng(seed).standard_normal(int(seconds / cycle_s)))
    at = 1 + np.cumsum(cycles)
    return at[at < seconds - 1]


def episodes_of(p_s: NDArray[np.float64], r_s: NDArray[np.float64], seed: int = 0) -> tuple[tuple[float, float], ...]:
    recording = signal_of(p_s, r_s, 120.0, seed)
    return av_block(recording, np.round(r_s * FS_HZ).astype(np.int64)).episodes


@pytest.mark.parametrize("cycle_s", [0.75, 0.85, 0.95])
def test_every_third_beat_blocked_between_40_and_80_s(cycle_s: float) -> None:
    p_s = atrial_s(cycle_s, 120.0, 1)
    r_s = p_s + PR_S
    inside = np.flatnonzero((r_s > 40) & (r_s < 80))[::3]
    [(start, stop)] = episodes_of(p_s, np.delete(r_s, inside))
    assert start == pytest.approx(r_s[inside[0] - 1], abs=0.01)
    assert stop == pytest.approx(r_s[inside[-1] + 1], abs=0.01)


def test_conduction_of_two_to_one() -> None:
    p_s = atrial_s(0.8, 120.0, 2)
    [(start, stop)] = episodes_of(p_s, p_s[::2] + PR_S)
    assert start < 5
    assert stop > 115


@pytest.mark.parametrize("cycle_s", [0.6, 0.9, 1.2, 1.5, 1.9])
def test_sinus_rhythm_has_none(cycle_s: float) -> None:
    p_s = atrial_s(cycle_s, 120.0, 3)
    assert episodes_of(p_s, p_s + PR_S) == ()


def test_pauses_without_p_waves_are_no_av_block() -> None:
    """Sinoatrial block: the P waves are missing with their beats."""
    p_s = np.delete(atrial_s(0.9, 120.0, 4), np.s_[10::4])
    assert episodes_of(p_s, p_s + PR_S) == ()


def test_early_p_waves_that_are_not_conducted_are_no_av_block() -> None:
    """Blocked premature beats: the P wave is early, and the pause shorter than two cycles."""
    p_s = atrial_s(1.0, 120.0, 5)
    early = np.arange(10, len(p_s), 4)
    p_s[early] -= 0.35
    assert episodes_of(p_s, np.delete(p_s + PR_S, early)) == ()


def test_two_blocked_beats_are_no_episode() -> None:
    p_s = atrial_s(0.8, 120.0, 6)
    assert episodes_of(p_s, np.delete(p_s + PR_S, [50, 55])) == ()


def test_what_is_excluded_is_not_assessed() -> None:
    p_s = atrial_s(0.8, 120.0, 2)
    r_s = p_s[::2] + PR_S
    recording = signal_of(p_s, r_s, 120.0, 0)
    episodes = av_block(recording, np.round(r_s * FS_HZ).astype(np.int64), [(0.0, 60.0)]).episodes
    assert len(episodes) == 1
    assert episodes[0][0] >= 60


def test_block_that_mit_bih_marks_in_231_and_none_elsewhere(mitdb: Path) -> None:
    """Se 78%, +P 99% of the time marked BII; 100, 107 (paced), 119 (bigeminy), 123 (slow) and 201 (AF) have none."""
    marks = read_annotation_file(mitdb / "231.atr")
    changes = [(at / 360, note) for at, note in zip(marks.sample.tolist(), marks.note, strict=True) if note[:1] == "("]
    stops = [start for start, _ in changes[1:]] + [1806.0]
    marked = [(start, stop) for (start, note), stop in zip(changes, stops, strict=True) if note.startswith("(BII")]
    found = read_beats(mitdb / "231", BeatOptions(leads=("MLII",))).av_block
    both = sum(max(0.0, min(b, d) - max(a, c)) for a, b in marked for c, d in found.episodes)
    assert both > 0.7 * sum(b - a for a, b in marked)
    assert both > 0.95 * found.seconds
    for name in ("100", "107", "119", "123", "201"):
        assert not read_beats(mitdb / name, BeatOptions(leads=("MLII",))).av_block.episodes
