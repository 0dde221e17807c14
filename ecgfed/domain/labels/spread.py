"""What the labels of a few beats say of all: each beat takes the label of the answered beat nearest it in the tree."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.labels.choose import LabelledTree
from ecgfed.domain.labels.groups import Groups


def spread(groups: Groups, label: Mapping[int, str]) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Give every beat a label.

    A beat takes the label of the answered beats in the smallest group that holds it and one of them. Where these have
    several labels, its smallest group takes the label of the answered beat that its own beat is nearest to.

    Args:
        groups: of the recording.
        label: answered beat -> its label, one at least.

    Returns:
        (beats,) labels, and (beats,) the answered beat that each is from: itself for an answered one.
    """
    tree = LabelledTree.of(groups, label)
    origin = np.full(len(groups), -1, np.int64)
    for group in np.unique(groups.leaf).tolist():
        origin[group] = tree.nearest(group)[1]
    origins = origin[groups.leaf]
    labelled = np.array(sorted(label), dtype=np.int64)
    origins[labelled] = labelled
    names = {beat: label[beat] for beat in labelled.tolist()}
    return np.array([names[beat] for beat in origins.tolist()], dtype=np.str_), origins
