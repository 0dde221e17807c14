"""The beats of an edited report as a WFDB annotation, which ``personalize --labels`` and ``report --labels`` read."""

from pathlib import Path

import numpy as np

from ecgfed.domain.labels.user_labels import NO_BEAT
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.reports.edited import EditedBeats

SUFFIX = ".edited"


def annotation_file(page: Path) -> Path:
    """Return the annotation that is written beside a page."""
    return page.with_suffix(SUFFIX)


def edited_annotation(edited: EditedBeats, fs_hz: float) -> bytes:
    """Return a WFDB annotation of the edited beats, all of them labels that a person gave or accepted.

    Of a reviewed report it has every beat. Of a report that is not reviewed it has the beats that a person labelled or
    accepted, and the removed ones as ``|``, which are labels of no beat; nobody vouches for the others.

    Args:
        edited: the beats.
        fs_hz: sampling frequency of the recording.
    """
    labelled = edited.labelled
    if edited.edits.reviewed is not None:
        return annotation_bytes(Annotation(labelled.sample, labelled.names), fs_hz)
    sample = np.concatenate([labelled.sample[edited.by_person], edited.removed])
    symbol = np.concatenate([labelled.names[edited.by_person], np.full(len(edited.removed), NO_BEAT)])
    order = np.argsort(sample)
    return annotation_bytes(Annotation(sample[order], symbol[order]), fs_hz)
