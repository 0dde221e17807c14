"""The labels that a person gave to some beats of a recording, at the R peaks that were found in it. No torch."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.extract import MATCH_S, match_peaks
from ecgfed.domain.labels.answers import CANNOT_TELL, NO_BEAT, SYMBOLS, column_names, read_answers
from ecgfed.domain.record.annotations import SYMBOL_COLUMNS
from ecgfed.domain.record.reader import FORMATS
from ecgfed.domain.record.recording import AnyRecording
from ecgfed.tasks.grouped import GroupedBeats, recording_id
from ecgfed.tasks.labels_checked import SPREAD, models_labels
from ecgfed.tasks.report_labels import read_labels

#: Of more labels than this share lying at no beat they are hardly of this recording.
MOST_APART = 0.1
#: What a person may save a table as instead.
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_OTHER = "is it another recording's, or another --lead or --detector that finds the beats?"


@dataclass(frozen=True, eq=False)
class Marks:
    """Labels as a file has them.

    Attributes:
        sample: (labels,) int64 increasing.
        symbol: (labels,) symbols of ``ecgfed.domain.labels.answers.SYMBOLS``.
        confirmed: samples of the labels that a person gave twice.
    """

    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    confirmed: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Answered:
    """Labels at beats.

    Attributes:
        label: number of a beat -> its label, those in groups alone.
        apart: labels that lie at no beat.
        later: labels past the first minutes, which do not count.
        confirmed: those of the beats whose label a person gave twice.
        without_signal: number among all beats of a beat without signal -> its label: it is of this beat alone, and
            nothing is learned from it.
    """

    label: dict[int, str]
    apart: int
    later: int
    confirmed: frozenset[int] = frozenset()
    without_signal: dict[int, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many labels there are of each symbol, the most frequent first."""
        return dict(Counter(self.label.values()).most_common())


def read_marks(path: Path, recording: AnyRecording) -> Marks:
    """Read the labels of a recording: the table that ``label`` saves, a WFDB annotation, or a table of marks.

    Args:
        path: the file.
        recording: the recording they are of.

    Raises:
        RecordError: it cannot be read, holds no label, is of another recording, or nobody gave these labels: a model
            did, or ``personalize`` spread them.
    """
    if path.suffix.casefold() in (*FORMATS["csv"], *_SPREADSHEETS):
        names = column_names(path)
        if "label" in names:
            return _of_answers(path, recording)
        if names and not set(names) & set(SYMBOL_COLUMNS):
            expected = "sample and label, as 'ecgfed label' saves them, or sample and symbol"
            raise RecordError(path, f"has the columns {', '.join(names)[:100]}", expected)
    found = read_labels(path, recording, whole=False)
    if (told := models_labels(path, found)) is not None:
        spread = told[1][0][0] == SPREAD
        whose = "labels that 'ecgfed personalize' spread" if spread else "a model's labels, which nobody has read over"
        raise RecordError(path, f"holds {whose}", "those that a person gave")
    keep = np.isin(found.symbol, sorted(SYMBOLS))
    sample, first = np.unique(found.sample[keep], return_index=True)
    return Marks(sample, found.symbol[keep][first])


def _of_answers(path: Path, recording: AnyRecording) -> Marks:
    answers = read_answers(path, recording.fs_hz)
    here = recording_id(recording)
    if other := next((one.recording for one in answers if one.recording not in ("", here)), ""):
        found = f"holds labels of another recording ({shortened(other, 20)})"
        raise RecordError(path, found, f"those of {recording.name} ({here})", "name the recording they were given for")
    if answers[-1].sample >= recording.samples:
        found = f"has a label at sample {answers[-1].sample}"
        expected = f"0 to {recording.samples - 1}, the recording's length"
        raise RecordError(path, found, expected, "check that the labels belong to this recording")
    sample = np.array([one.sample for one in answers], dtype=np.int64)
    confirmed = frozenset(one.sample for one in answers if one.source == "confirmed")
    return Marks(sample, np.array([one.label for one in answers], dtype=np.str_), confirmed)


def at_beats(marks: Marks, path: Path, grouped: GroupedBeats, minutes: float | None) -> Answered:
    """Give each label to the R peak within 150 ms.

    Args:
        marks: the labels.
        path: their file, for messages.
        grouped: the recording's beats; those in groups are those of the first minutes.
        minutes: how long labels count, None for all.

    Raises:
        RecordError: no label is left, or more than a tenth lie at no beat.
    """
    recording, peaks = grouped.all_beats.recording, grouped.all_beats.r_samples
    use, theirs = match_peaks(peaks, marks.sample, round(MATCH_S * recording.fs_hz))
    end = np.inf if minutes is None else minutes * 60 * recording.fs_hz
    alone = np.setdiff1d(np.arange(len(marks.sample)), theirs)
    alone = alone[(marks.sample[alone] < end) & (marks.symbol[alone] != NO_BEAT)]  # no beat: as the detector says
    later = len(marks.sample) - int((marks.sample < end).sum())
    signal = grouped.all_answers.classified[use]
    silent = zip(use[~signal].tolist(), theirs[~signal].tolist(), strict=True)
    without_signal = {beat: str(marks.symbol[j]) for beat, j in silent if marks.sample[j] < end}
    beats, theirs = np.searchsorted(grouped.rows, use[signal]), theirs[signal]
    label = {int(i): str(marks.symbol[j]) for i, j in zip(beats, theirs, strict=True) if i < grouped.grouped}
    confirmed = {int(i) for i, j in zip(beats, theirs, strict=True) if int(marks.sample[j]) in marks.confirmed}
    count = len(label) + len(alone) + len(without_signal)
    if len(alone) > MOST_APART * count:
        found = f"{len(alone):,} of {count:,} labels lie at no beat of {recording.name}"
        raise RecordError(path, found, "each within 150 ms of an R peak", _OTHER)
    if not set(label.values()) - {CANNOT_TELL}:
        where = "" if minutes is None else f" in the first {count_of(minutes, 'minute')}"
        where += f" whose signal {recording.lead} shows" if without_signal else ""
        raise RecordError(path, f"says of no beat what it is{where}", "labels of some beats", "label some more")
    return Answered(dict(sorted(label.items())), len(alone), later, frozenset(confirmed & set(label)), without_signal)
