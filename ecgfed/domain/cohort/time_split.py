"""A chronological split of recordings: which annotated beats are in which part, before a window is cut.

The annotation alone decides it, so that peaks that are detected, and other leads, are divided at the same times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.extract import Labels
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.cohort.sources import PrepareOptions
from ecgfed.domain.cohort.split import GAP_S, IN_GAP, split_by_time
from ecgfed.domain.record.reader import open_recording, read_annotation


@dataclass(frozen=True)
class TimeSplit:
    """The parts of one recording.

    Attributes:
        mark: (beats,) int64 increasing sample numbers of the annotated beats of a class.
        split: (beats,) uint8: 0 train, 1 valid, 2 test, 3 (``IN_GAP``) between two parts.
    """

    mark: NDArray[np.int64]
    split: NDArray[np.uint8]

    def of(self, mark: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the part of some of the annotated beats, by their sample numbers."""
        return self.split[np.searchsorted(self.mark, mark)]


def marks_of(path: Path, options: PrepareOptions) -> tuple[NDArray[np.int64], float]:
    """Return the sample numbers of a recording's annotated beats of a class, and its sampling frequency in Hz."""
    beats = options.beats
    recording = open_recording(path, beats.leads, every_lead=beats.every_lead, how=beats.how)
    annotated = read_annotation(recording, beats.annotator).beats()
    return annotated.sample[options.labels.encode(annotated.symbol) >= 0], recording.fs_hz


def time_splits(marks: Sequence[tuple[NDArray[np.int64], float]]) -> list[TimeSplit]:
    """Split one client's recordings, in their order, by ``split_by_time`` with a gap of ``GAP_S``.

    Args:
        marks: of each recording, see ``marks_of``.
    """
    time_s = np.concatenate([mark / fs_hz for mark, fs_hz in marks])
    recording = np.repeat(np.arange(len(marks)), [len(mark) for mark, _ in marks])
    split = split_by_time(time_s, GAP_S, recording)
    return [TimeSplit(mark, split[recording == number]) for number, (mark, _) in enumerate(marks)]


def by_part(
    cut: RecordingBeats, labelled: Labels, split: NDArray[np.uint8]
) -> list[tuple[RecordingBeats, NDArray[np.int64]]]:
    """Return the beats of each part, as of a recording that holds these beats alone.

    So RR features of one part are made of its own beats: neither intervals nor references reach into another one.

    Args:
        cut: the recording's beats.
        labelled: those that are labelled and in no gap.
        split: (labelled,) their parts, in runs.

    Returns:
        For each part in order of time its beats, those without a label between them included, and the numbers of the
        labelled ones among these.
    """
    edges = np.flatnonzero(np.diff(split)) + 1
    firsts, lasts = [0, *edges.tolist()], [*edges.tolist(), len(split)]
    parts = []
    for first, last in zip(firsts, lasts, strict=True):
        start = 0 if first == 0 else int(labelled.keep[first])
        stop = len(cut.r_samples) if last == len(split) else int(labelled.keep[last - 1]) + 1
        parts.append((replace(cut, r_samples=cut.r_samples[start:stop]), labelled.keep[first:last] - start))
    return parts


def without_gap(labelled: Labels, split: NDArray[np.uint8]) -> tuple[Labels, NDArray[np.uint8], int]:
    """Return the labelled beats that are in no gap, their parts, and how many others there are."""
    use = split != IN_GAP
    some = replace(labelled, keep=labelled.keep[use], label=labelled.label[use], mark=labelled.mark[use])
    return some, split[use], int((~use).sum())
