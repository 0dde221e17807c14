"""Two beats are no nearer than 0.14 s (428/min): of two waves that are, one is a beat."""

import numpy as np
import pytest

from ecgfed.domain.signal.qrs import DELAY_S, detect_qrs
from ecgfed.domain.signal.qrs_features import REACH
from ecgfed.domain.signal.qrs_rhythm import BLOCKS_AHEAD
from ecgfed.domain.signal.qrs_segment import RELATIVE_REFRACTORY_S, Segment
from ecgfed.domain.signal.qrs_signal import BLOCK, NEEDED_AHEAD, RATE_HZ
from ecgfed.domain.signal.qrs_views import APART, ViewBeats


def test_of_two_waves_within_the_refractory_period_one_is_a_beat() -> None:
    """A rhythm of 75/min whose every beat is followed 0.12 s later by a wave of the same form, 0.8 times as high."""
    fs_hz, rng = 250.0, np.random.default_rng(0)
    time_s = np.arange(round(60 * fs_hz)) / fs_hz
    signal = rng.normal(0, 0.01, len(time_s))
    beats_s = np.arange(1, 59, 0.8)
    for at in beats_s:
        for delay_s, height_mv in ((0.0, 1.0), (0.12, 0.8)):
            signal += height_mv * np.exp(-0.5 * ((time_s - at - delay_s) / 0.012) ** 2)
    peaks = detect_qrs(signal, fs_hz)
    assert len(peaks) == len(beats_s)
    assert np.diff(peaks).min() >= 0.14 * fs_hz


@pytest.mark.parametrize(
    ("gap_s", "scores", "beats"),
    [
        (0.135, (3.0, 2.0), [0]),  # the surer of two within 0.14 s, however sure both are
        (0.135, (2.0, 3.0), [1]),
        (0.14, (3.0, 2.0), [0, 1]),  # a run of 428/min
        (0.18, (0.1, 3.0), [1]),  # a P wave and its QRS complex
        (0.18, (0.5, 3.0), [0, 1]),
        (0.185, (0.1, 3.0), [0, 1]),
    ],
)
def test_the_weaker_of_two_waves_is_refractory_for_longer(
    gap_s: float, scores: tuple[float, float], beats: list[int]
) -> None:
    """The times of docs/qrs.md, on the detector's grid of 200 Hz."""
    at = np.array([100, 100 + round(200 * gap_s)])
    segment = Segment(200.0, 1, 0, 0)
    accepted = segment._refractory(ViewBeats(at, np.zeros(2, np.int64), np.array(scores, np.float32), at), 1000)
    assert accepted == at[beats].tolist()


@pytest.mark.parametrize("distance", [28, 34, 36, 37])
@pytest.mark.parametrize("scores", [(0.1, 3.0), (3.0, 0.1), (2.0, 3.0)])
def test_a_block_that_ends_between_two_waves_changes_nothing(distance: int, scores: tuple[float, float]) -> None:
    """Of two waves the first may be decided with one block and the second with the next, as in a stream."""
    for first in range(200 - distance, 200):
        at = np.array([first, first + distance])
        beats = ViewBeats(at, np.zeros(2, np.int64), np.array(scores, np.float32), at)
        whole, stream = Segment(200.0, 1, 0, 0), Segment(200.0, 1, 0, 0)
        expected = whole._refractory(beats, 1000)
        parts = [stream._refractory(beats.some(np.array([row])), stop) for row, stop in ((0, 200), (1, 1000))]
        assert [*parts[0], *parts[1]] == expected


def test_the_last_decision_is_within_the_stated_delay() -> None:
    """Of several leads, the beat that just misses the end of a decided block, its R peak as far ahead as it may be."""
    relative = round(RELATIVE_REFRACTORY_S * RATE_HZ)
    waited = (relative - 1) + APART + (1 + BLOCKS_AHEAD) * BLOCK + NEEDED_AHEAD
    refined_s = 0.008 + 2 / 100  # and two samples of the slowest recorder
    assert (waited + REACH) / RATE_HZ + refined_s <= DELAY_S
