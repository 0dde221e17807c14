"""A synthetic record, and labels of some of its beats as a person would give them who knows what they are."""

from pathlib import Path

import numpy as np
import wfdb
from numpy.typing import NDArray

from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.labels.choose import next_group
from ecgfed.domain.labels.user_labels import UserLabel, label_table
from ecgfed.domain.record.reader import open_recording
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats, recording_id

#: Two and a half minutes: normal beats, two kinds of others.
SYMBOLS = "N" * 40 + "NNVNNNANNV" * 10 + "N" * 40


def grouped_of(
    record: Path, bundle: Path | None = None, minutes: float | None = None, added: NDArray[np.int64] | None = None
) -> GroupedBeats:
    """Group the beats of a record as the verbs do."""
    options = BeatOptions(())
    recording = open_recording(record, ("MLII",), every_lead=True)
    return grouped_beats(recording, options, None if bundle is None else str(bundle), minutes=minutes, added=added)


def truth_of(record: Path, grouped: GroupedBeats) -> list[str]:
    """What the record's annotation says of each beat; ``|`` where it has no mark near."""
    marks = wfdb.rdann(str(record), "atr")
    at, symbol = np.asarray(marks.sample), list(marks.symbol)
    near = round(0.15 * grouped.beats.recording.fs_hz)
    nearest = [int(np.abs(at - peak).argmin()) for peak in grouped.beats.r_samples.tolist()]
    peaks = grouped.beats.r_samples.tolist()
    return [symbol[j] if abs(int(at[j]) - peak) <= near else "|" for j, peak in zip(nearest, peaks, strict=True)]


def answers_of(grouped: GroupedBeats, truth: list[str], count: int) -> dict[int, str]:
    """Answer as many beats as are asked for, as the page asks for them."""
    label: dict[int, str] = {}
    while len(label) < count and (group := next_group(grouped.groups, label)) is not None:
        beat = int(grouped.groups.beat[group])
        label[beat] = truth[beat]
    return label


def table_of(grouped: GroupedBeats, label: dict[int, str], recording: str | None = None) -> bytes:
    """The table that the page would save."""
    known = recording_id(grouped.beats.recording) if recording is None else recording
    at = grouped.beats.r_samples
    given = [UserLabel(int(at[beat]), symbol, 1, "clinician", known) for beat, symbol in label.items()]
    return label_table(given, grouped.beats.recording.fs_hz)
