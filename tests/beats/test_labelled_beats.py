"""Labels on beats: annotated positions, detected ones, and the match between the two."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecgfed.domain.beats.extract import LabelledBeats, match_peaks
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.signal.chunked_quality import lead_quality

MAP = BUILT_IN["mitbih12"]
SIGNAL = np.random.default_rng(0).normal(size=4000)


def annotation(marks: dict[int, str]) -> Annotation:
    return Annotation(np.array(list(marks), dtype=np.int64), np.array(list(marks.values())))


def labelled(marks: Annotation, detected: list[int] | None = None, *, rr_version: int = 2) -> LabelledBeats:
    """Label the annotated beats of ``SIGNAL``, or detected ones."""
    recording = Recording("r", Path("r"), "a", ("a",), 360.0, SIGNAL[None], ())
    r_samples = marks.beats().sample if detected is None else np.array(detected)
    quality, is_detected = lead_quality(SIGNAL, 360.0), detected is not None
    return RecordingBeats(recording, quality, marks, r_samples, is_detected, rr_version).labelled(MAP)


@pytest.mark.parametrize(
    ("detected", "annotated", "tolerance", "pairs"),
    [
        ([100, 200], [100, 200], 5, [(0, 0), (1, 1)]),
        ([100, 200], [95, 206], 5, [(0, 0)]),
        ([95, 105], [100], 5, [(0, 0)]),  # a tie: the earlier of the two
        ([100], [95, 105], 5, [(0, 0)]),
        ([98, 101], [100], 5, [(1, 0)]),  # the nearer, though it comes later
        ([100], [98, 101], 5, [(0, 1)]),
        ([10, 14], [13, 16], 5, [(1, 0)]),  # 14 takes 13, the nearest pair; 10 and 16 are then too far apart
        ([10, 30], [13, 31], 5, [(0, 0), (1, 1)]),
        ([], [5], 5, []),
        ([5], [], 5, []),
        ([100], [105], 5, [(0, 0)]),  # the tolerance itself counts
        ([100], [106], 5, []),
    ],
)
def test_matching_by_hand(
    detected: list[int], annotated: list[int], tolerance: int, pairs: list[tuple[int, int]]
) -> None:
    mine, theirs = match_peaks(np.array(detected, np.int64), np.array(annotated, np.int64), tolerance)
    assert list(zip(mine.tolist(), theirs.tolist(), strict=True)) == pairs


@settings(deadline=None, max_examples=100)
@given(st.sets(st.integers(0, 200), max_size=25), st.sets(st.integers(0, 200), max_size=25), st.integers(0, 20))
def test_matching_is_one_to_one_within_tolerance_and_leaves_no_free_pair(a: set[int], b: set[int], tol: int) -> None:
    detected, annotated = np.array(sorted(a), np.int64), np.array(sorted(b), np.int64)
    mine, theirs = match_peaks(detected, annotated, tol)
    assert len(set(mine.tolist())) == len(mine) == len(set(theirs.tolist()))
    assert (np.abs(detected[mine] - annotated[theirs]) <= tol).all()
    assert (np.diff(mine) > 0).all()
    free_mine = set(range(len(detected))) - set(mine.tolist())
    free_theirs = set(range(len(annotated))) - set(theirs.tolist())
    assert not any(abs(int(detected[i]) - int(annotated[j])) <= tol for i in free_mine for j in free_theirs)


def test_beats_take_their_symbols_class_and_other_marks_are_no_beats() -> None:
    marks = {100: "+", 500: "N", 800: "V", 900: "~", 1100: "Q", 1500: "A"}
    beats = labelled(annotation(marks))
    assert beats.sample.tolist() == [500, 800, 1500]
    assert [MAP.classes[i] for i in beats.label] == ["N", "V", "A"]
    assert beats.unclassified == {"Q": 1}
    assert beats.unmatched == (0, 0)
    assert beats.windows.window_mv.shape == (3, 1, 256)


def test_a_beat_without_a_class_still_counts_for_the_intervals() -> None:
    """The Q at 1100 stands between 800 and 1500: 400 / 360 s before the last beat."""
    marks = {500: "N", 800: "V", 1100: "Q", 1500: "A"}
    beats = labelled(annotation(marks), rr_version=1)
    np.testing.assert_allclose(beats.windows.rr_s[:, 0], [300 / 360, 300 / 360, 400 / 360], rtol=1e-6)
    np.testing.assert_allclose(beats.windows.rr_s[:, 1], [300 / 360, 300 / 360, 400 / 360], rtol=1e-6)


def test_detected_peaks_take_the_label_of_the_beat_within_150_ms() -> None:
    """54 samples at 360 Hz. 520 belongs to 500; 900 is near nothing; 1155 is 55 off; the beat at 2000 is missed."""
    marks = {500: "N", 800: "V", 1100: "A", 2000: "N"}
    beats = labelled(annotation(marks), [520, 800, 900, 1155], rr_version=1)
    assert beats.sample.tolist() == [520, 800]
    assert [MAP.classes[i] for i in beats.label] == ["N", "V"]
    assert beats.unmatched == (2, 2)
    # Intervals are those between detected peaks: 280, 100, 255 samples.
    np.testing.assert_allclose(beats.windows.rr_s[:, 1], [280 / 360, 100 / 360], rtol=1e-6)


def test_detected_positions_decide_where_the_window_lies() -> None:
    marks = annotation({500: "N", 1000: "N"})
    shifted = labelled(marks, [510, 1000]).windows.window_mv
    plain = labelled(marks).windows.window_mv
    np.testing.assert_array_equal(shifted[0, 0, :-10], plain[0, 0, 10:])


def test_a_recording_without_beats_gives_none() -> None:
    beats = labelled(annotation({100: "+"}))
    assert len(beats.label) == len(beats.sample) == len(beats.windows.window_mv) == 0
    assert beats.unclassified == {}
