"""Where leads disagree, where there is no heartbeat, and where a line is flat: what the detector calls a beat."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from spoiled_signals import beats_and_none

from ecgfed.device import QrsDetector, detect_qrs
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.qrs_flat import FlatLine
from ecgfed.domain.signal.qrs_views import ActiveBlocks, LeadVote, View, ViewBeats, views_of

FS_HZ = 360.0


def near(peaks_s: NDArray[np.float64], at_s: float) -> bool:
    return bool(np.abs(peaks_s - at_s).min() < 0.1)


@pytest.mark.parametrize("fs_hz", [250.0, 360.0])
@pytest.mark.parametrize("leads", [(0,), (0, 1), (0, 1, 2)])
def test_no_beat_is_lost_to_another_lead_or_after_a_flat_line_and_none_is_in_noise(
    fs_hz: float, leads: tuple[int, ...]
) -> None:
    signals, times, where = beats_and_none(fs_hz)
    found = detect_qrs(signals[list(leads)], fs_hz) / fs_hz
    missed = [at for at in times if not near(found, at)]
    moved = where["movement"]
    assert all(moved.start / fs_hz < at < moved.stop / fs_hz for at in missed)
    assert len(missed) <= 1  # of 18 while the second lead moves
    extra = [at for at in found if not near(times, at)]
    assert all(abs(at - where["rail"].start / fs_hz) < 0.2 for at in extra)  # the step of 5 mV
    assert len(extra) <= 1


def by_hand(signals_mv: NDArray[np.float64], fs_hz: float) -> NDArray[np.bool_]:
    """The rule, sample by sample: the six parts before, and this one so far, lie within 40 microvolt on every lead."""
    width, samples = round(fs_hz / 2), signals_mv.shape[1]
    whole = np.rint(signals_mv * 1000)
    flat = np.zeros(samples, np.bool_)
    for at in range(6 * width, samples):
        seen = whole[:, (at // width - 6) * width : at + 1]
        before = seen[:, : 6 * width]
        ranges = [np.ptp(row[np.isfinite(row)]) if np.isfinite(row).any() else 0 for row in seen]
        flat[at] = max(ranges) <= 40 and np.isfinite(before).any()
    return flat


@pytest.mark.parametrize("seed", range(4))
def test_flat_lines_are_marked_by_the_rule_in_any_chunks(seed: int) -> None:
    rng, fs_hz = np.random.default_rng(seed), 50.0
    signals = np.rint(rng.choice([15, 19, 20, 21, 30]) * rng.uniform(-1, 1, (1 + seed % 2, 2000))) / 1000 + 0.7
    for at in rng.integers(0, 1900, 4):
        signals[rng.integers(len(signals)) :, at : at + rng.integers(1, 150)] = rng.choice([np.nan, 0.7, 5.0])
    signals[:, 1000:1300] = np.nan
    expected = by_hand(signals, fs_hz)
    for sizes in ([2000], [1] * 2000, rng.integers(1, 90, 200).tolist()):
        line, made, at = FlatLine(fs_hz, len(signals)), [], 0
        for size in sizes:
            made.append(line.mask(signals[:, at : at + size]))
            at += size
        np.testing.assert_array_equal(np.concatenate(made), expected)


def test_forty_microvolts_are_flat_wherever_they_lie() -> None:
    """1.040 - 1.000 mV is more than 0.04 in float64, 0.040 - 0.000 is not."""
    for level in (0.0, 1.0, -3.0, 5.12):
        for height, flat in ((0.040, True), (0.041, False)):
            signal = np.tile([level, level + height], 1000)[None]
            assert FlatLine(100.0, 1).mask(signal)[300:].all() == flat


@pytest.mark.parametrize("seed", range(3))
def test_any_chunks_give_the_same_peaks_where_leads_disagree(seed: int) -> None:
    rng, fs_hz = np.random.default_rng(seed), [250.0, 360.0, 128.0][seed]
    signals, _, _ = beats_and_none(fs_hz, seed)
    whole = detect_qrs(signals, fs_hz, lead=seed)
    assert len(whole) > 100
    detector, found, at = QrsDetector(fs_hz, 3, lead=seed), [], 0
    while at < signals.shape[1]:
        size = int(rng.integers(1, [3000, 400, 20_000][seed]))
        found.append(detector.push(signals[:, at : at + size]))
        at += size
    np.testing.assert_array_equal(np.concatenate([*found, detector.finish()]), whole)


def a_view(row: int, at: list[int], score: list[float]) -> View:
    view = View([row], 0)
    view.at, view.score = np.array(at, np.int64), np.array(score, np.float32)
    return view


def test_votes_by_hand() -> None:
    """Scores count from 10 s to 0.35 s before, up to 4 each; the mean over 4 to the eighth power is the trust."""
    view = a_view(0, [900, 1000, 1500, 2931, 2985, 3019], [9.0, 9.0, -2.0, -7.0, 1.5, 2.5])
    votes = view.votes(np.array([500, 1069, 2901, 2960, 3000, 3001, 3002]))
    of_1500 = (2 / 4) ** 8
    # 3000: of 1000 and 1500; 3001: of 1500 alone, for 2931 is 70 samples before, which is not long enough
    expected = [-8.0, -8.0, -8.0 * (6 / 8) ** 8, -8.0 * (6 / 8) ** 8, 2.5 * (6 / 8) ** 8, 2.5 * of_1500]
    np.testing.assert_array_equal(votes, [*expected, 2.5 * (6 / 8) ** 8])


def test_leads_alone_outvote_one_that_is_unsure() -> None:
    """Three views; the second lead moves: its scores are small, and so is its weight."""
    every = list(range(0, 2000, 100))
    active = ActiveBlocks(0, np.ones((2, 20), np.bool_))

    def accepted(together: float, first: float, second: float, on: ActiveBlocks = active) -> bool:
        views = [a_view(0, [*every, 2100], [*([2.0] * 20), together])]
        views += [a_view(0, [*every, 2100], [*([6.0] * 20), first]), a_view(1, every, [0.5] * 20)]
        views[2].at, views[2].score = np.append(views[2].at, 2100), np.append(views[2].score, np.float32(second))
        vote, nothing = LeadVote(3), np.empty(0, np.int64)
        none = ViewBeats(nothing, nothing, np.empty(0, np.float32), nothing)
        alone = ViewBeats(np.array([2100]), np.array([1]), np.array([first], np.float32), np.array([0]))
        vote.take([none, alone, none])
        return bool(len(vote.decide(views, 2200, on).at))

    assert accepted(together=-4.0, first=3.0, second=-7.0)  # -4 / 2^8 + 3 - 7 / 8^8
    assert accepted(together=-4.0, first=0.1, second=-7.0)
    assert not accepted(together=-4.0, first=0.01, second=-7.0)
    off = ActiveBlocks(0, np.array([[False] * 20, [True] * 20]))
    assert not accepted(together=-4.0, first=3.0, second=-7.0, on=off)  # the lead that has it shows nothing


def test_views_are_all_leads_and_the_first_three_alone() -> None:
    assert [view.rows.tolist() for view in views_of(1, 0)] == [[0]]
    assert [view.rows.tolist() for view in views_of(2, 1)] == [[0, 1], [1], [0]]
    assert [view.rows.tolist() for view in views_of(5, 3)] == [[0, 1, 2, 3, 4], [3], [0], [1]]


@pytest.mark.mitdb
def test_movement_in_v1_hides_no_beat_of_record_200(mitdb: Path) -> None:
    """True: no interval above 1.32 s; with the leads' sum alone 4.89 s, across six clean QRS of MLII."""
    signals = read_recording(mitdb / "200", ("MLII",), every_lead=True).signals_mv
    peaks = detect_qrs(np.asarray(signals, np.float64), FS_HZ)
    assert np.diff(peaks).max() / FS_HZ < 1.7
