"""Labelled beats with those that a physician added; ``web/edits.js`` has the same rules for the page."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.domain.labels.edits import Edits
from ecgfed.reports.labelled import Labelled, Second

#: Name that a second reader, who did not see an added beat, has for it.
NOT_READ = ""
_T = TypeVar("_T", bound=np.generic)


def with_added(
    labelled: Labelled, second: Second | None, edits: Edits
) -> tuple[Labelled, Second | None, NDArray[np.bool_]]:
    """Return the beats with the added ones, which have the first class until the edits label them.

    An interval that an added beat divides is confirmed in both parts or in neither; no beat is undetected in either.

    Args:
        labelled: the labels before editing.
        second: another reader of the same beats, or None; an added beat is ``NOT_READ`` to it.
        edits: the edits.

    Returns:
        the beats; the second reader of them; (beats,) bool, which beats were added.

    Raises:
        RecordError: a beat is added where the report already has one.
    """
    new = np.array([edit.samples[0] for edit in edits.of_beats if edit.added], np.int64)
    if not len(new):
        return labelled, second, np.zeros(len(labelled.sample), np.bool_)
    sample, first, times = np.unique(np.concatenate([labelled.sample, new]), return_index=True, return_counts=True)
    if (times[np.isin(sample, new)] > 1).any():
        at = sample[np.isin(sample, new) & (times > 1)][0]
        raise RecordError(edits.path, f"adds a beat at sample {at}", "a place without a beat", "relabel the beat there")
    added = first >= len(labelled.sample)
    before = np.cumsum(~added) - 1  # number of the last beat before editing, up to each beat

    def filled(values: NDArray[_T]) -> NDArray[_T]:
        result = np.zeros((len(sample), *values.shape[1:]), values.dtype)
        result[~added] = values
        return result

    def known(values: NDArray[_T] | None) -> NDArray[_T] | None:
        return None if values is None else filled(values)

    confirmed = labelled.confirmed
    if confirmed is not None:
        # outside the first and the last beat there is no interval before editing
        confirmed = np.concatenate([[True], confirmed, [True]])[before[:-1] + 1]
    undetected = labelled.undetected
    if undetected is not None:
        undetected = np.where(added[1:] | added[:-1], 0, np.append(undetected, 0)[before[:-1]]).astype(np.uint8)
    changed = replace(
        labelled,
        sample=sample,
        confirmed=confirmed,
        undetected=undetected,
        label=filled(labelled.label),
        confidence=known(labelled.confidence),
        uncertain=known(labelled.uncertain),
        doubted=known(labelled.doubted),
        out_of_distribution=known(labelled.out_of_distribution),
        no_signal=known(labelled.no_signal),
        pulses=known(labelled.pulses),
        probability=known(labelled.probability),
    )
    if second is not None:
        names = np.full(len(sample), NOT_READ, second.names.dtype)
        names[~added] = second.names
        second = replace(second, names=names, confidence=filled(second.confidence))
    return changed, second, added
