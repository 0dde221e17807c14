"""Dividing one patient's beats into train, valid and test."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

TRAIN, VALID, TEST = 0, 1, 2
SPLIT_NAMES = ("train", "valid", "test")
TEST_SHARE = 0.2
VALID_SHARE = 0.1  # of what the test leaves
SplitKind = Literal["random", "chronological"]
SPLIT_KINDS: tuple[SplitKind, ...] = ("random", "chronological")


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
            ``chronological`` takes the last fifth of the beats for the test and the last tenth before it for valid.
        seed: decides the random split; the same seed gives the same split.
        test_share: of the beats, for the test.
        valid_share: of what the test leaves.

    Returns:
        (beats,) uint8: 0 train, 1 valid, 2 test.
    """
    split = np.full(len(label), TRAIN, dtype=np.uint8)
    if kind == "chronological":
        test = _share(len(label), test_share)
        valid = _share(len(label) - test, valid_share)
        split[len(label) - test :] = TEST
        split[len(label) - test - valid : len(label) - test] = VALID
        return split
    rng = np.random.default_rng(seed)
    for cls in np.unique(label):
        beats = rng.permutation(np.flatnonzero(label == cls))
        test = _share(len(beats), test_share)
        valid = _share(len(beats) - test, valid_share)
        split[beats[:test]] = TEST
        split[beats[test : test + valid]] = VALID
    return split
