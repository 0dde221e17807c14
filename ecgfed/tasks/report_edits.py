"""The beats of an edited report as a WFDB annotation, which ``personalize --labels`` and ``report --labels`` read."""

from pathlib import Path

import numpy as np

from ecgfed.domain.labels.edits import ADDED
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
    accepted, and the removed ones as ``|``, which are labels of no beat; nobody vouches for the others. Added beats
    have the note ``added``: ``personalize`` takes them as R peaks, which the detector does not find.

    Args:
        edited: the beats.
        fs_hz: sampling frequency of the recording.
    """
    labelled = edited.labelled
    sample, symbol, added = labelled.sample, labelled.names, edited.added
    if edited.edits.reviewed is None:
        person, removed = edited.by_person, edited.removed
        sample = np.concatenate([sample[person], removed])
        order = np.argsort(sample)
        sample = sample[order]
        symbol = np.concatenate([symbol[person], np.full(len(removed), NO_BEAT)])[order]
        added = np.concatenate([added[person], np.zeros(len(removed), np.bool_)])[order]
    note = tuple(ADDED if one else "" for one in added.tolist()) if added.any() else ()
    return annotation_bytes(Annotation(sample, symbol, note), fs_hz)
