"""Checks of a label file: labels made by a model, labels of another recording, labels that contradict the signal."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.files import read_json
from ecgfed.base.language import message, messages
from ecgfed.base.safe_io import check_columns
from ecgfed.base.text import shortened
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.tables import lines_of, read_text
from ecgfed.domain.signal.confirm import INSIDE_S
from ecgfed.domain.signal.heartbeats import end_noise, without_heartbeat
from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.domain.signal.quality import LeadQuality
from ecgfed.domain.signal.spans import Spans
from ecgfed.reports.markup import ELAPSED, PageTime
from ecgfed.tasks.predict import SUFFIX, UNCERTAIN
from ecgfed.tasks.propagated_labels import COLUMNS, SOURCES

#: A label and an R peak within this time (s) belong to the same beat, as in EC57.
_MATCH_S = 0.15
#: Below this share of labels at a QRS complex, or of complexes with a label, another recording is suspected.
_MIN_MATCHED = 0.8
#: Maximum number of warnings copied from a file of predictions, and of characters in each.
_MAX_WARNINGS, _MAX_LETTERS = 20, 400

#: Code of the warning about propagated labels.
SPREAD = "spread-labels"
Warned = tuple[tuple[str, str], ...]


def model_labels(path: Path, marks: Annotation) -> tuple[NDArray[np.bool_] | None, Warned] | None:
    """Return the beats of low confidence and the warnings of a file that a model wrote; None for any other file.

    Such files are written by ``predict``, and by ``personalize --labels``, whose warning counts the labels by a person.

    Returns:
        (beats,) bool in the order of ``marks.beats()``, None if the file has no such information; warnings
        (code, sentence).
    """
    beats = marks.beats()
    if path.suffix == f".{SUFFIX}":
        return beats.subtypes == UNCERTAIN, _model_warnings(path)
    if marks.note and set(marks.note) <= set(SOURCES):  # the file may have been renamed
        return beats.subtypes == UNCERTAIN, _propagation_warning(path, Counter(marks.note))
    if path.suffix.casefold() != ".csv":
        return None
    lines = lines_of(read_text(path))
    delimiter = next((mark for mark in "\t;" if lines and mark in lines[0]), ",")  # of a spreadsheet, too
    rows = csv.DictReader(lines, delimiter=delimiter)
    names = set(rows.fieldnames or ())
    if not ({"sample", "probability", "uncertain"} <= names or set(COLUMNS) <= names):
        return None
    check_columns(rows.fieldnames or (), (*COLUMNS, "probability"), path, RecordError)
    table = list(rows)
    low_confidence = {row["sample"] for row in table if row["uncertain"] in ("1", "true")}
    sources = Counter(row["source"] for row in table) if set(COLUMNS) <= names else None
    warnings = _model_warnings(path) if sources is None else _propagation_warning(path, sources)
    return np.array([str(at) in low_confidence for at in beats.sample.tolist()], np.bool_), warnings


def _propagation_warning(path: Path, count: Mapping[str, int]) -> Warned:
    """Return a warning with the sources of the labels in a file by ``personalize --labels``."""
    by_person, by_group, by_model = (count.get(name, 0) for name in SOURCES)
    text = message(
        "Of the beats of {file}, a person labelled {by_person}; {by_group} have a propagated label and {by_model} a "
        "model's, which nobody has reviewed.",
        file=path.name,
        by_person=by_person,
        by_group=by_group,
        by_model=by_model,
    )
    return ((SPREAD, text),)


def _model_warnings(path: Path) -> Warned:
    """Return a warning that a model made the labels, and those in the JSON file that ``predict`` wrote beside them."""
    json_file = path.with_suffix(".json")
    text: str = message("The labels of {file} are a model's, which nobody has reviewed.", file=path.name)
    warnings = [("model-labels", text)]
    try:
        stored = read_json(json_file, RecordError)["warnings"] if json_file.is_file() else []
        for entry in stored[:_MAX_WARNINGS]:
            code, text = (shortened(str(entry[key]), _MAX_LETTERS) for key in ("code", "text"))
            warnings.append((code, text))
    except (RecordError, TypeError, KeyError):
        warnings.append(
            ("unknown-training", message("{file}, with its warnings, cannot be read.", file=json_file.name))
        )
    return tuple(warnings)


def detected_peaks(recording: Recording, quality: LeadQuality) -> NDArray[np.int64]:
    """Return the R peaks found by the default detector, (peaks,) int64, possibly empty."""
    try:
        peaks = find_peaks(ecg_alone(recording), quality)
    except RecordError:  # no beat detected: the report shows the signal quality instead
        return np.empty(0, np.int64)
    return peaks[~end_noise(recording, peaks)]


def mismatched_recording(
    path: Path, sample: NDArray[np.int64], peaks: NDArray[np.int64], recording: Recording, quality: LeadQuality
) -> Iterator[tuple[str, str]]:
    """Warn if the labels do not match the QRS complexes found by the default detector.

    Args:
        path: the label file.
        sample: (beats,) int64 increasing, samples of its beats.
        peaks: (peaks,) int64 increasing, from ``detected_peaks``.
        recording: the recording, whose lead in use is compared.
    """
    lost, near = quality.spans(), round(_MATCH_S * recording.fs_hz)
    labels, detected = (samples[lost.overlap(samples, samples + 1) == 0] for samples in (sample, peaks))
    detected = detected[(detected >= sample[0] - near) & (detected <= sample[-1] + near)]
    if not len(labels) or not len(detected):
        return
    at_qrs, labelled = _share_near(labels, detected, near), _share_near(detected, labels, near)
    if min(at_qrs, labelled) < _MIN_MATCHED:
        yield (
            "labels-apart",
            message(
                "{at_qrs:.0%} of the labels of {file} lie at a QRS complex that the detector finds, and "
                "{labelled:.0%} of these complexes have a label: do they belong to this recording?",
                at_qrs=at_qrs,
                file=path.name,
                labelled=labelled,
            ),
        )


def confirmed_labels(
    path: Path,
    sample: NDArray[np.int64],
    peaks: NDArray[np.int64],
    recording: Recording,
    *,
    pause_s: float,
    unmarked: Sequence[tuple[int, int]] = (),
) -> tuple[NDArray[np.bool_], Warned]:
    """Compare the intervals between labels with the signal.

    An interval is not confirmed if it is as long as a pause and the default detector finds a QRS complex inside it, or
    if no lead shows a QRS complex at either of its labels.

    Args:
        sample: (beats,) int64 increasing, samples of its beats.
        peaks: (peaks,) int64 increasing, from ``detected_peaks``.
        pause_s: minimum duration of a pause in seconds.
        unmarked: segments (start, stop) in samples that were not annotated: a pause is not assumed there.

    Returns:
        (beats - 1,) bool, confirmed intervals; warnings (code, sentence).
    """
    fs_hz, rr = recording.fs_hz, np.diff(sample)
    confirmed, warnings = np.ones(len(rr), np.bool_), []
    if not len(rr) or not len(peaks):
        return confirmed, ()
    margin = round(INSIDE_S * fs_hz)
    first, last = np.searchsorted(peaks, sample[:-1] + margin), np.searchsorted(peaks, sample[1:] - margin)
    hidden = (last > first) & (rr >= pause_s * fs_hz) & ~Spans.merged(unmarked).overlap(sample[:-1], sample[1:])
    if hidden.any():
        warnings.append(
            (
                "labels-miss-beats",
                messages(
                    "In {n} pause between labels of {file} the detector finds a QRS complex without a label, the "
                    "first at {time} from the start: such a pause is not confirmed.",
                    "In {n} pauses between labels of {file} the detector finds a QRS complex without a label, the "
                    "first at {time} from the start: such a pause is not confirmed.",
                    int(hidden.sum()),
                    file=path.name,
                    time=PageTime(ELAPSED, float(sample[:-1][hidden][0] / fs_hz)),
                ),
            )
        )
    alone = ~_near(sample, peaks, round(_MATCH_S * fs_hz))
    empty = np.zeros(len(sample), np.bool_)
    empty[alone] = without_heartbeat(recording, peaks, sample[alone])
    if empty.any():
        warnings.append(
            (
                "labels-without-signal",
                messages(
                    "No lead shows a QRS complex at {n} label of {file}, the first at {time} from the start: the "
                    "intervals beside them are not confirmed.",
                    "No lead shows a QRS complex at {n} labels of {file}, the first at {time} from the start: the "
                    "intervals beside them are not confirmed.",
                    int(empty.sum()),
                    file=path.name,
                    time=PageTime(ELAPSED, float(sample[empty][0] / fs_hz)),
                ),
            )
        )
    return confirmed & ~hidden & ~empty[:-1] & ~empty[1:], tuple(warnings)


def _share_near(samples: NDArray[np.int64], reference: NDArray[np.int64], near: int) -> float:
    """Return the share of increasing samples that have a reference sample within ``near``."""
    return float(_near(samples, reference, near).mean())


def _near(samples: NDArray[np.int64], reference: NDArray[np.int64], near: int) -> NDArray[np.bool_]:
    """Return which of the increasing samples have a reference sample within ``near``, (samples,) bool."""
    index = np.searchsorted(reference, samples)
    before = samples - reference[np.maximum(index - 1, 0)]
    behind = reference[np.minimum(index, len(reference) - 1)] - samples
    return np.asarray(np.minimum(np.abs(before), np.abs(behind)) <= near)
