"""A labelling page of a real recording, as ``ecgfed label`` makes one, for tests of the page and of its scripts."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.labels.choose import Rule
from ecgfed.domain.labels.groups import LEAVES, Groups
from ecgfed.domain.labels.page import LabelPage
from ecgfed.domain.record.reader import open_recording, read_annotation
from ecgfed.tasks.grouped import grouped_beats
from ecgfed.tasks.label_parts import label_page_of


def page_of(
    path: Path, *, count: int = 20, leaves: int = LEAVES, rule: Rule | None = None, notices: tuple[str, ...] = ()
) -> tuple[LabelPage, NDArray[np.str_]]:
    """Return the page of a WFDB record with reference beats, and their symbols."""
    recording = open_recording(path, ("MLII", "V5"), every_lead=True)
    grouped = grouped_beats(recording, BeatOptions(("MLII", "V5"), "annotated"), leaves=leaves)
    page = label_page_of(
        grouped, recording_id="0123456789abcdef" * 2, model="ecgfed/model", count=count, rule=rule, notices=notices
    )
    marks = read_annotation(recording, "atr").beats()
    assert np.array_equal(marks.sample[grouped.rows], page.sample)  # beats without signal are not asked about
    return page, marks.symbol[grouped.rows]


def reference(groups: Groups, symbol: NDArray[np.str_]) -> dict[int, str]:
    """Return the label that a person who knows the reference gives each beat that may be asked for."""
    return {beat: str(symbol[beat]) for beat in np.unique(groups.beat).tolist()}
