"""QTDB's manual annotations (``q1c``) by beat, and how far located points are from them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.reader import open_every_lead
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.domain.waves.points import POINTS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ANNOTATOR = "q1c"
#: No record has these; the first lead is the one in use.
LEADS = ("MLII", "II")
#: A wave belongs to a QRS complex from so long before it to so long behind it.
P_WITHIN_S, T_WITHIN_S = 0.45, 0.70
#: Beats around the annotated ones whose samples are looked at.
AROUND = 30


@dataclass(frozen=True, eq=False)
class Annotated:
    """A record of QTDB with its manual annotations.

    Attributes:
        recording: the record, every lead in memory.
        qrs: (beats,) int64 samples of the annotated QRS complexes.
        points: (beats, 7) samples of the annotated points, NaN where the annotator marked none.
    """

    recording: Recording
    qrs: Ints
    points: Floats


def names(source: Path) -> tuple[list[str], list[str]]:
    """Return the records for choosing constants, and those for measuring: every second one by name, in turn."""
    every = sorted(file.stem for file in source.glob(f"*.{ANNOTATOR}"))
    return every[::2], every[1::2]


def read(source: Path, name: str) -> Annotated:
    """Read a record and its annotations."""
    marks = read_annotation_file(source / f"{name}.{ANNOTATOR}")
    recording = open_every_lead(source / name, LEADS).in_memory()
    qrs = np.flatnonzero(marks.symbol == "N")
    points = np.array([_points(marks, at, recording.fs_hz) for at in qrs.tolist()])
    return Annotated(recording, marks.sample[qrs], points)


def _points(marks: Annotation, at: int, fs_hz: float) -> list[float]:
    """Return the points of the QRS complex that mark ``at`` is: of the nearest P before it, and the first T behind."""
    beat, known = int(marks.sample[at]), dict.fromkeys(POINTS, np.nan)

    def wave(number: int, peak: str, onset: str, end: str) -> None:
        known[peak] = float(marks.sample[number])
        if number and marks.symbol[number - 1] == "(":
            known[onset] = float(marks.sample[number - 1])
        if number + 1 < len(marks.symbol) and marks.symbol[number + 1] == ")":
            known[end] = float(marks.sample[number + 1])

    wave(at, "", "qrs_onset", "qrs_end")
    before = [n for n in range(at) if marks.symbol[n] == "p" and 0 < beat - marks.sample[n] <= P_WITHIN_S * fs_hz]
    rest = range(at + 1, len(marks.symbol))
    behind = [n for n in rest if marks.symbol[n] == "t" and 0 < marks.sample[n] - beat <= T_WITHIN_S * fs_hz]
    if before:
        wave(before[-1], "p_peak", "p_onset", "p_end")
    if behind:
        wave(behind[0], "t_peak", "", "t_end")
    return [known[name] for name in POINTS]


def nearest(peaks: Ints, qrs: Ints) -> Ints:
    """Return the number of the nearest R peak to each annotated QRS complex."""
    behind = np.clip(np.searchsorted(peaks, qrs), 1, len(peaks) - 1)
    return np.where(qrs - peaks[behind - 1] < peaks[behind] - qrs, behind - 1, behind)


def closer(errors: Floats) -> Floats:
    """Return the smaller error of the leads for each point: (leads, beats, 7) -> (beats, 7), NaN where none has it."""
    size = np.where(np.isnan(errors), np.inf, np.abs(errors))
    return np.take_along_axis(errors, size.argmin(axis=0)[None], axis=0)[0]


#: How the leads of a record are taken: the closer one for each point, as we understand Martinez et al., or one alone.
WAYS: dict[str, Callable[[Floats], Floats]] = {
    "closer lead": closer,
    "first lead": lambda errors: errors[0],
    "second lead": lambda errors: errors[1],
}


def summary(errors: Iterable[Floats], annotated: Iterable[Floats]) -> dict[str, dict[str, Any]]:
    """Return what is stated of each point: errors (beats, 7) in ms, and annotated points (beats, 7), by record.

    ``mean`` and ``sd`` are means over records of each one's mean and standard deviation, as Martinez et al. have them;
    ``pooled_sd`` is of all beats together.
    """
    by_record, known = list(errors), [np.isfinite(points) for points in annotated]
    result = {}
    for column, name in enumerate(POINTS):
        parts = [part[:, column][np.isfinite(part[:, column])] for part in by_record]
        parts = [part for part in parts if len(part)]
        every, beats = np.concatenate(parts), int(sum(mask[:, column].sum() for mask in known))
        result[name] = {
            "beats": beats,
            "mean": round(float(np.mean([part.mean() for part in parts])), 1),
            "sd": round(float(np.mean([part.std() for part in parts])), 1),
            "pooled_sd": round(float(every.std()), 1),
            "missed_percent": round(100 * (1 - len(every) / beats), 2),
        }
    return result
