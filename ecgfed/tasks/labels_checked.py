"""What speaks against a file of labels: that a model made them, that they are of another recording, that they stop."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.files import read_json
from ecgfed.gate import check_columns
from ecgfed.record.recording import Annotation, AnyRecording
from ecgfed.record.tables import read_text
from ecgfed.signal.long_peaks import find_peaks
from ecgfed.signal.quality import LeadQuality
from ecgfed.tasks.own_files import COLUMNS, SOURCES
from ecgfed.tasks.predict import SUFFIX, UNCERTAIN
from ecgfed.text import shortened

#: A label and an R peak that are so near are of one beat, as EC57 has it.
_MATCH_S = 0.15
#: Below this share of labels at a QRS complex, or of complexes with a label, they are hardly of one recording.
_ALIKE = 0.8
#: Warnings taken over from a model's own file, and the letters of each.
_MOST, _LETTERS = 20, 400

#: The code of the warning that labels were spread from a few.
SPREAD = "spread-labels"
Warned = tuple[tuple[str, str], ...]


def models_labels(path: Path, marks: Annotation) -> tuple[NDArray[np.bool_] | None, Warned] | None:
    """Say which beats a model was unsure of, and what it warned of, where ``predict`` wrote a file; None of any other.

    Of one that ``personalize --labels`` wrote: which labels it doubts, and how many of them a person gave.

    Args:
        path: the file.
        marks: what it says.

    Returns:
        (beats,) bool in the order of ``marks.beats()``, None where the file does not tell; warnings (code, sentence).
    """
    beats = marks.beats()
    if path.suffix == f".{SUFFIX}":
        return beats.subtypes == UNCERTAIN, _told(path)
    if marks.note and set(marks.note) <= set(SOURCES):  # whatever the file is called now
        return beats.subtypes == UNCERTAIN, _spread(path, Counter(marks.note))
    if path.suffix.casefold() != ".csv":
        return None
    lines = read_text(path).splitlines()
    delimiter = next((mark for mark in "\t;" if lines and mark in lines[0]), ",")  # a spreadsheet may have changed it
    rows = csv.DictReader(lines, delimiter=delimiter)
    names = set(rows.fieldnames or ())
    if not ({"sample", "probability", "uncertain"} <= names or set(COLUMNS) <= names):
        return None
    check_columns(rows.fieldnames or (), (*COLUMNS, "probability"), path, RecordError)
    table = list(rows)
    doubtful = {row["sample"] for row in table if row["uncertain"] in ("1", "true")}
    told = _spread(path, Counter(row["source"] for row in table)) if set(COLUMNS) <= names else _told(path)
    return np.array([str(at) in doubtful for at in beats.sample.tolist()], np.bool_), told


def _spread(path: Path, count: Mapping[str, int]) -> Warned:
    """Return how many labels of a file that ``personalize --labels`` wrote a person gave."""
    seen, of_group, of_model = (count.get(name, 0) for name in SOURCES)
    text = (
        f"Of the beats of {path.name}, a person labelled {seen:,}; {of_group:,} have the label of the one that "
        f"they are like, {of_model:,} a model's: nobody has read these over."
    )
    return ((SPREAD, text),)


def _told(path: Path) -> Warned:
    """Return that these are a model's labels, and what ``predict`` warned of in the JSON that it wrote beside them."""
    beside = path.with_suffix(".json")
    said = [("model-labels", f"The labels of {path.name} are a model's: nobody has read them over.")]
    try:
        warnings = read_json(beside, RecordError)["warnings"] if beside.is_file() else []
        said += [
            (shortened(str(one["code"]), _LETTERS), shortened(str(one["text"]), _LETTERS)) for one in warnings[:_MOST]
        ]
    except (RecordError, TypeError, KeyError):
        said.append(("unknown-training", f"{beside.name}, where its warnings stand, cannot be read."))
    return tuple(said)


def other_recording(
    path: Path, sample: NDArray[np.int64], recording: AnyRecording, quality: LeadQuality
) -> Iterator[tuple[str, str]]:
    """Warn where labels and the QRS complexes that our detector finds are not of one recording.

    Args:
        path: the labels' file.
        sample: (beats,) int64 increasing, where it marks beats.
        recording: the recording; the lead in use is looked at.
        quality: of that lead.
    """
    try:
        peaks = find_peaks(recording, quality)
    except RecordError:  # no beat can be found: the report says so by its quality
        return
    lost, near = quality.spans(), round(_MATCH_S * recording.fs_hz)
    labels, found = (one[lost.overlap(one, one + 1) == 0] for one in (sample, peaks))
    found = found[(found >= sample[0] - near) & (found <= sample[-1] + near)]
    if not len(labels) or not len(found):
        return
    at_qrs, labelled = _share_near(labels, found, near), _share_near(found, labels, near)
    if min(at_qrs, labelled) < _ALIKE:
        yield (
            "labels-apart",
            f"{at_qrs:.0%} of the labels of {path.name} lie at a QRS complex that the detector finds, and "
            f"{labelled:.0%} of these complexes have a label: do they belong to this recording?",
        )


def _share_near(some: NDArray[np.int64], others: NDArray[np.int64], near: int) -> float:
    """Return the share of some increasing samples that have one of the others within ``near``."""
    after = np.searchsorted(others, some)
    left = some - others[np.maximum(after - 1, 0)]
    right = others[np.minimum(after, len(others) - 1)] - some
    return float((np.minimum(np.abs(left), np.abs(right)) <= near).mean())
