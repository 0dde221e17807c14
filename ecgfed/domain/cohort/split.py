"""Dividing one patient's beats into train, valid and test."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

TRAIN, VALID, TEST = 0, 1, 2
#: Of a beat between two parts of a chronological split; no cohort has it.
IN_GAP = 3
SPLIT_NAMES = ("train", "valid", "test")
TEST_SHARE = 0.2
VALID_SHARE = 0.1  # of what the test leaves
SplitKind = Literal["random", "chronological"]
SPLIT_KINDS: tuple[SplitKind, ...] = ("random", "chronological")
#: Least time between R peaks of two parts of a chronological split, in seconds. A beat is at most 1.6 s of the filtered
#: lead (the strip of RR features 3), and a filtered sample depends on 2 s of the recording on either side: from 5.6 s
#: on no recorded sample is in beats of both parts (docs/decisions/0110).
GAP_S = 6.0


def _share(count: int, share: float) -> int:
    """Round half up: 2 beats leave none for the test, 3 leave one."""
    return int(np.floor(count * share + 0.5))


def split_beats(
    label: NDArray[np.integer],
    kind: SplitKind,
    seed: int,
    *,
    test_share: float = TEST_SHARE,
    valid_share: float = VALID_SHARE,
) -> NDArray[np.uint8]:
    """Split one client's beats.

    Args:
        label: (beats,) class numbers in order of time.
        kind: ``random`` stratifies by class, so that of a class with one or two beats all go to train;
            ``chronological`` is ``split_by_time`` without a gap.
        seed: decides the random split; the same seed gives the same split.
        test_share: of the beats, for the test.
        valid_share: of what the test leaves.

    Returns:
        (beats,) uint8: 0 train, 1 valid, 2 test.
    """
    if kind == "chronological":
        return split_by_time(np.arange(len(label)), test_share=test_share, valid_share=valid_share)
    split = np.full(len(label), TRAIN, dtype=np.uint8)
    rng = np.random.default_rng(seed)
    for cls in np.unique(label):
        beats = rng.permutation(np.flatnonzero(label == cls))
        test = _share(len(beats), test_share)
        valid = _share(len(beats) - test, valid_share)
        split[beats[:test]] = TEST
        split[beats[test : test + valid]] = VALID
    return split


def split_by_time(
    time: NDArray[np.integer] | NDArray[np.floating],
    gap: float = 0.0,
    recording: NDArray[np.integer] | None = None,
    *,
    test_share: float = TEST_SHARE,
    valid_share: float = VALID_SHARE,
) -> NDArray[np.uint8]:
    """Split one client's examples by time: the first part trains, then comes valid, then test.

    The last ``test_share`` is the test, and as many examples before its gap are valid as without a gap: the training
    examples alone become fewer.

    Args:
        time: (examples,) time of each, not decreasing within a recording.
        gap: least time between examples of different parts of one recording.
        recording: (examples,) not decreasing; times of different recordings are not compared. None is one recording.
        test_share: of the examples, for the test.
        valid_share: of what the test leaves.

    Returns:
        (examples,) uint8: 0 train, 1 valid, 2 test, 3 (``IN_GAP``) in a gap. All train where the gaps leave nothing to
        train on.
    """
    count = len(time)
    recording = np.zeros(count, np.int64) if recording is None else recording
    split = np.full(count, TRAIN, np.uint8)

    def before(first: int) -> int:
        """Return how many examples lie the gap or more before the example ``first``."""
        if first == count:
            return first
        apart = (recording[:first] < recording[first]) | (time[:first] <= time[first] - gap)
        return int(apart.sum())

    test = count - _share(count, test_share)
    split[test:] = TEST
    last = before(test)
    valid = last - min(last, _share(test, valid_share))
    split[last:test], split[valid:last] = IN_GAP, VALID
    trained = before(valid) if valid < last else last
    split[trained:valid] = IN_GAP
    if not trained:
        split[:] = TRAIN
    return split
