"""Answers worth a second look: most like an answer of the kind that it is easily taken for, F and V or S and N.

On MIT-BIH's DS1 few answers are so, and those that a person gets wrong are often among them
(``benchmarks/clinical/second.py``). ``web/choose.js`` is the same rule.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from ecgfed.domain.labels.choose import KIND_OF
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.spread import spread

#: Kinds that people confuse.
PAIRS = (frozenset("FV"), frozenset("SN"))
#: An answer of fewer beats is not asked again, and of more than so many answers none.
LEAST_BEATS, MOST_CONTESTED = 5, 3
#: Of more answers nobody wants to be asked again: a whole annotation.
MOST_COMPARED = 400


@dataclass(frozen=True)
class Contested:
    """An answer to confirm.

    Attributes:
        beat: the answered beat.
        rival: the answered beat most like it, which is of the other kind.
        beats: how many beats take its label.
    """

    beat: int
    rival: int
    beats: int


def contested(groups: Groups, label: Mapping[int, str], confirmed: Set[int] = frozenset()) -> list[Contested]:
    """Return answers to ask again, those that most beats depend on first, ``MOST_CONTESTED`` at most.

    Args:
        groups: of the recording.
        label: answered beat -> its label.
        confirmed: answers that were given twice.
    """
    labelled = np.array(sorted(label), dtype=np.int64)
    if not 2 <= len(labelled) <= MOST_COMPARED:
        return []
    kind = [KIND_OF.get(label[beat], "") for beat in labelled.tolist()]
    distance = cdist(groups.points.at[labelled], groups.points.at[labelled])
    np.fill_diagonal(distance, np.inf)
    origins, counts = np.unique(spread(groups, label)[1], return_counts=True)
    represented = dict(zip(origins.tolist(), counts.tolist(), strict=True))
    candidates = [
        Contested(beat, int(labelled[nearest]), represented.get(beat, 0))
        for beat, beat_kind, nearest in zip(labelled.tolist(), kind, distance.argmin(1).tolist(), strict=True)
        if frozenset((beat_kind, kind[nearest])) in PAIRS and beat not in confirmed
    ]
    worth = [beat_kind for beat_kind in candidates if beat_kind.beats >= LEAST_BEATS]
    return sorted(worth, key=lambda beat_kind: (-beat_kind.beats, beat_kind.beat))[:MOST_CONTESTED]
