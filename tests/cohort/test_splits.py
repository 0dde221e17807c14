"""Train, valid and test of one patient."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from ecgfed.domain.cohort.split import TEST, TRAIN, VALID, split_beats, split_by_time


def counts(split: np.ndarray) -> tuple[int, int, int]:
    return int((split == TRAIN).sum()), int((split == VALID).sum()), int((split == TEST).sum())


@pytest.mark.parametrize(
    ("beats", "expected"),
    [
        *((0, (0, 0, 0)), (1, (1, 0, 0)), (2, (2, 0, 0)), (3, (2, 0, 1)), (4, (3, 0, 1)), (5, (4, 0, 1))),
        *((6, (4, 1, 1)), (7, (5, 1, 1)), (10, (7, 1, 2)), (100, (72, 8, 20)), (1000, (720, 80, 200))),
    ],
)
@pytest.mark.parametrize("kind", ["random", "chronological"])
def test_shares_by_hand(kind: str, beats: int, expected: tuple[int, int, int]) -> None:
    """A fifth to the test, a tenth of the rest to valid, halves rounded up: one class, so both kinds agree."""
    split = split_beats(np.zeros(beats, int), kind, 0)  # type: ignore[arg-type]
    assert counts(split) == expected
    assert split.dtype == np.uint8


def test_chronological_keeps_the_order_of_time() -> None:
    split = split_beats(np.arange(10) % 3, "chronological", 0)
    assert split.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 2, 2]
    np.testing.assert_array_equal(split, split_beats(np.arange(10) % 3, "chronological", 99))


def test_the_seed_decides_and_nothing_else() -> None:
    label = np.random.default_rng(0).integers(0, 3, 300)
    first = split_beats(label, "random", 7)
    np.random.seed(1)  # noqa: NPY002  a stranger's seed must not matter
    np.testing.assert_array_equal(first, split_beats(label, "random", 7))
    assert (first != split_beats(label, "random", 8)).any()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 4), max_size=200), st.integers(0, 2**32 - 1))
def test_each_class_is_shared_out_on_its_own(labels: list[int], seed: int) -> None:
    label = np.array(labels, dtype=np.int16)
    split = split_beats(label, "random", seed)
    assert len(split) == len(label)
    for cls in set(labels):
        train, valid, test = counts(split[label == cls])
        beats = labels.count(cls)
        assert abs(test - beats / 5) <= 0.5
        assert abs(valid - (beats - test) / 10) <= 0.5
        assert train >= max(test, valid)


def test_class_shares_are_those_of_scikit_learn() -> None:
    label = np.repeat([0, 1, 2, 3], [703, 211, 48, 20])
    mine = split_beats(label, "random", 3)
    _, theirs = train_test_split(label, test_size=0.2, stratify=label, random_state=3)
    assert np.abs(np.bincount(label[mine == TEST]) - np.bincount(theirs)).max() <= 1


def test_the_random_split_draws_from_the_whole_recording() -> None:
    split = split_beats(np.zeros(1000, int), "random", 0)
    for quarter in np.split(split, 4):
        assert 25 <= int((quarter == TEST).sum()) <= 75


def test_a_chronological_split_with_a_gap_by_hand() -> None:
    """Beats at 0, 1, ..., 19 s with a gap of 2 s: 4 of 20 test, 2 valid (1.6 of 16), and two gaps of a beat each."""
    split = split_by_time(np.arange(20.0), 2.0)
    assert split.tolist() == [0] * 12 + [3] + [1] * 2 + [3] + [2] * 4
    # beats 2.5 s apart are apart enough: nobody is left out
    assert (split_by_time(2.5 * np.arange(20.0), 2.5) == split_by_time(np.arange(20.0))).all()


def test_a_gap_is_within_a_recording() -> None:
    """The last 4 of 20 beats are the second recording's: the first one's are as far away as recordings are."""
    recording = np.repeat([0, 1], [16, 4])
    split = split_by_time(np.concatenate([np.arange(16.0), np.arange(4.0)]), 2.0, recording)
    assert split.tolist() == [0] * 13 + [3] + [1] * 2 + [2] * 4


def test_where_gaps_leave_nothing_to_train_on_all_is_for_training() -> None:
    assert split_by_time(np.arange(10.0), 60.0).tolist() == [0] * 10


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0.1, 3), max_size=120), st.floats(0, 8), st.floats(0, 0.5), st.floats(0, 0.5))
def test_parts_are_in_order_and_the_gap_apart(
    intervals: list[float], gap: float, test_share: float, valid_share: float
) -> None:
    time = np.cumsum(intervals)
    split = split_by_time(time, gap, test_share=test_share, valid_share=valid_share)
    plain = split_beats(np.zeros(len(time), int), "chronological", 0, test_share=test_share, valid_share=valid_share)
    if not len(time):
        return
    of = [time[split == part] for part in (TRAIN, VALID, TEST)]
    ends = [(part.min(), part.max()) for part in of if len(part)]
    assert all(later[0] - earlier[1] >= gap - 1e-9 for earlier, later in pairwise(ends))
    if len(of[0]) == len(time):
        return
    assert len(of[2]) == (plain == TEST).sum()
    assert len(of[1]) <= (plain == VALID).sum()
