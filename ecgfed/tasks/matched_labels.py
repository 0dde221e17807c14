"""Match the labels that a person gave to a few beats with the detected R peaks. No torch."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import RecordError, param
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.extract import MATCH_S, match_peaks
from ecgfed.domain.labels.edits import ADDED
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT, SYMBOLS, column_names, read_user_labels
from ecgfed.domain.record.annotations import SYMBOL_COLUMNS
from ecgfed.domain.record.reader import FORMATS
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.tasks.grouped import GroupedBeats, recording_id
from ecgfed.tasks.labels_checked import SPREAD, model_labels
from ecgfed.tasks.report_labels import read_labels

#: Maximum share of labels without a beat; above it, the labels are assumed to be of another recording.
MAX_UNMATCHED = 0.1
#: Extensions of spreadsheet files.
SPREADSHEETS = (".xlsx", ".xls", ".ods")
_OTHER = f"check the recording, {param('leads')} and {param('detector')}"


@dataclass(frozen=True, eq=False)
class FileLabels:
    """Labels in a file.

    Attributes:
        sample: (labels,) int64 increasing.
        symbol: (labels,) symbols of ``ecgfed.domain.labels.user_labels.SYMBOLS``.
        confirmed: samples of the labels that the person confirmed.
        added: (beats,) int64 increasing, samples of beats that the person added while editing a report.
    """

    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    confirmed: frozenset[int] = frozenset()
    added: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


@renamed_fields("0.3", "0.5", apart="unmatched", later="past_minutes")
@dataclass(frozen=True, eq=False)
class MatchedLabels:
    """Labels matched with beats.

    Attributes:
        label: number of a grouped beat -> its label.
        unmatched: number of labels without a beat.
        past_minutes: number of labels after the first minutes, which are ignored.
        confirmed: the beats whose label the person confirmed.
        without_signal: beat without signal, numbered among all beats -> its label, which is not propagated and not used
            for training.
    """

    label: dict[int, str]
    unmatched: int
    past_minutes: int
    confirmed: frozenset[int] = frozenset()
    without_signal: dict[int, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Number of labels per symbol, the most frequent first."""
        return dict(Counter(self.label.values()).most_common())


def read_label_file(path: Path, recording: Recording) -> FileLabels:
    """Read the labels of a recording: a table saved by ``label``, a WFDB annotation, or a table of annotations.

    Raises:
        RecordError: the file cannot be read, has no label, belongs to another recording, or has labels that were made
            by a model or propagated by ``personalize``.
    """
    if path.suffix.casefold() in (*FORMATS["csv"], *SPREADSHEETS):
        names = column_names(path)
        if "label" in names:
            labels = read_user_labels(path, recording.fs_hz)
            this_id = recording_id(recording)
            if id_of_labels := next((label.recording for label in labels if label.recording not in ("", this_id)), ""):
                problem = f"holds labels of another recording ({shortened(id_of_labels, 20)})"
                allowed = f"those of {recording.name} ({this_id})"
                raise RecordError(path, problem, allowed, "name the recording they were given for")
            if labels[-1].sample >= recording.samples:
                problem = f"has a label at sample {labels[-1].sample}"
                expected = f"0 to {recording.samples - 1}, the recording's length"
                raise RecordError(path, problem, expected, "check that the labels belong to this recording")
            sample = np.array([label.sample for label in labels], dtype=np.int64)
            confirmed = frozenset(label.sample for label in labels if label.source == "confirmed")
            return FileLabels(sample, np.array([label.label for label in labels], dtype=np.str_), confirmed)
        if names and not set(names) & set(SYMBOL_COLUMNS):
            expected = "sample and label, as 'ecgfed label' saves them, or sample and symbol"
            raise RecordError(path, f"has the columns {', '.join(names)[:100]}", expected)
    annotation = read_labels(path, recording, complete=False)
    refuse_model_labels(path, annotation)
    keep = np.isin(annotation.symbol, sorted(SYMBOLS))
    sample, first = np.unique(annotation.sample[keep], return_index=True)
    is_added = np.array([note == ADDED for note in annotation.note] or [False] * len(keep), np.bool_)
    added = np.unique(annotation.sample[keep & is_added & (annotation.symbol != NO_BEAT)])
    symbol = annotation.symbol[keep][first]
    # a beat removed and added beside its place was moved: the R peak found there is that beat
    no_beat = np.flatnonzero(symbol == NO_BEAT)
    moved = no_beat[match_peaks(added, sample[no_beat], round(MATCH_S * recording.fs_hz))[1]]
    return FileLabels(np.delete(sample, moved), np.delete(symbol, moved), added=added)


def refuse_model_labels(path: Path, annotation: Annotation) -> None:
    """Raise RecordError where a model made the labels of a file, or ``personalize`` propagated them."""
    if (checked := model_labels(path, annotation)) is not None:
        spread = checked[1][0][0] == SPREAD
        kind = "labels propagated by 'ecgfed personalize'" if spread else "a model's labels, which nobody has reviewed"
        raise RecordError(path, f"holds {kind}", "labels given by a person")


def match_labels(file_labels: FileLabels, path: Path, grouped: GroupedBeats, minutes: float | None) -> MatchedLabels:
    """Match each label with the R peak within 150 ms.

    Args:
        path: their file, for error messages.
        grouped: the beats of the recording.
        minutes: use the labels of the first minutes only, None for all.

    Raises:
        RecordError: no label remains, or more than a tenth of them has no beat.
    """
    recording, peaks = grouped.all_beats.recording, grouped.all_beats.r_samples
    beat_index, label_index = match_peaks(peaks, file_labels.sample, round(MATCH_S * recording.fs_hz))
    end = np.inf if minutes is None else minutes * 60 * recording.fs_hz
    without_beat = np.setdiff1d(np.arange(len(file_labels.sample)), label_index)
    is_beat = file_labels.symbol[without_beat] != NO_BEAT  # else the detector agrees
    without_beat = without_beat[(file_labels.sample[without_beat] < end) & is_beat]
    past_minutes = len(file_labels.sample) - int((file_labels.sample < end).sum())
    signal = grouped.all_predictions.classified[beat_index]
    silent = zip(beat_index[~signal].tolist(), label_index[~signal].tolist(), strict=True)
    without_signal = {beat: str(file_labels.symbol[j]) for beat, j in silent if file_labels.sample[j] < end}
    beats, label_index = np.searchsorted(grouped.rows, beat_index[signal]), label_index[signal]
    label = {int(i): str(file_labels.symbol[j]) for i, j in zip(beats, label_index, strict=True) if i < grouped.grouped}
    pairs = zip(beats.tolist(), file_labels.sample[label_index].tolist(), strict=True)
    confirmed = {beat for beat, sample in pairs if sample in file_labels.confirmed}
    count = len(label) + len(without_beat) + len(without_signal)
    if len(without_beat) > MAX_UNMATCHED * count:
        problem = f"{len(without_beat):,} of {count:,} labels lie at no beat of {recording.name}"
        raise RecordError(path, problem, "each within 150 ms of an R peak", _OTHER)
    if not set(label.values()) - {CANNOT_TELL}:
        where = "" if minutes is None else f" in the first {count_of(minutes, 'minute')}"
        where += f" whose signal {recording.lead} shows" if without_signal else ""
        reason = f"says of no beat what it is{where}"
        raise RecordError(path, reason, "labels of some beats", "label some more", code="no-beats")
    label, confirmed = dict(sorted(label.items())), confirmed & set(label)
    return MatchedLabels(label, len(without_beat), past_minutes, frozenset(confirmed), without_signal)
