"""Where an RR interval is void: against gaps, flutter, shutdown and the ends, worked by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.beats.intervals import HIDES_S, LONGEST_S, intervals_s, unmarked_spans
from ecgfed.domain.record.recording import Annotation

FS_HZ = 100.0
R = np.array([100, 180, 260, 340, 420])


def lost(*spans: tuple[int, int]) -> NDArray[np.bool_]:
    mask = np.zeros(600, dtype=bool)
    for start, stop in spans:
        mask[start:stop] = True
    return mask


def test_a_whole_recording_has_two_void_intervals() -> None:
    np.testing.assert_array_equal(intervals_s(R, FS_HZ), [np.nan, 0.8, 0.8, 0.8, 0.8, np.nan])


@pytest.mark.parametrize("beats", [0, 1])
def test_fewer_than_two_beats_have_no_interval(beats: int) -> None:
    found = intervals_s(R[:beats], FS_HZ)
    assert len(found) == beats + 1
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("span", "void"),
    [
        ((190, 250), [2]),
        ((190, 200), []),  # 0.10 s hides no beat
        ((190, 205), [2]),  # 0.15 s may
        ((172, 190), []),  # 0.18 s, but 0.08 s before a beat and 0.10 s after it
        ((200, 400), [2, 3, 4]),
        ((0, 90), []),
        ((430, 600), []),
    ],
)
def test_a_gap_that_may_hide_a_beat_voids_its_interval(span: tuple[int, int], void: list[int]) -> None:
    assert np.isclose(HIDES_S, 0.15)
    found = intervals_s(R, FS_HZ, lost(span))
    assert np.flatnonzero(np.isnan(found[1:-1])).tolist() == [i - 1 for i in void]


def test_two_short_gaps_are_no_long_one() -> None:
    assert np.isfinite(intervals_s(R, FS_HZ, lost((190, 200), (230, 240)))[2])


def test_lead_off_of_300_s_is_no_interval() -> None:
    """Found by trying: the next beat had RR 300.85 s, and a ratio of 369.6."""
    r = np.array([100, 180, 260, 260 + 30_085, 260 + 30_169])
    off = np.zeros(31_000, dtype=bool)
    off[300:30_300] = True
    for mask in (off, None):  # a detector may find nothing where noise is no gap: ten seconds are the longest
        np.testing.assert_allclose(intervals_s(r, FS_HZ, mask), [np.nan, 0.8, 0.8, np.nan, 0.84, np.nan])
    assert LONGEST_S == 10


def annotation(marks: list[tuple[int, str, int]]) -> Annotation:
    return Annotation(
        np.array([at for at, _, _ in marks]),
        np.array([symbol for _, symbol, _ in marks], dtype=np.str_),
        subtype=np.array([subtype for _, _, subtype in marks]),
    )


def test_flutter_and_shutdown_are_unmarked() -> None:
    marks = [(100, "N", 0), (190, "[", 0), (220, "!", 0), (250, "]", 0), (300, "~", 0x33), (390, "~", 0), (420, "N", 0)]
    spans = unmarked_spans(annotation(marks), 600)
    assert spans == [(190, 251), (300, 391)]
    np.testing.assert_array_equal(np.isnan(intervals_s(R, FS_HZ, void=spans)), [1, 0, 1, 1, 1, 1])


def test_noise_is_not_shutdown_and_what_does_not_end_goes_on() -> None:
    assert unmarked_spans(annotation([(100, "~", 1), (200, "~", 0)]), 600) == []
    assert unmarked_spans(annotation([(100, "~", 0x30)]), 600) == [(100, 600)]
    assert unmarked_spans(annotation([(100, "[", 0)]), 600) == [(100, 600)]
