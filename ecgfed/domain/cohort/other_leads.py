"""Which beats of a recording's other leads are training examples (docs/decisions/0080).

A beat that one lead shows, the others show too: what is scored in the first lead may be trained on in none.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY
from ecgfed.domain.cohort.check import TOO_POOR
from ecgfed.domain.cohort.clients import FIRST_LEAD
from ecgfed.domain.cohort.split import TRAIN


def in_training(
    mark: NDArray[np.int64], first_mark: NDArray[np.int64], split: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Return which beats of another lead may be trained on.

    Args:
        mark: (beats,) sample numbers of the annotated beats of the other lead.
        first_mark: (beats of the first lead,) those of the first lead.
        split: (beats of the first lead,) theirs: 0 train, 1 valid, 2 test.

    Returns:
        (beats,) bool: those that are training beats of the first lead; of beats that the first lead does not show,
        those whose neighbours in the first lead, before and after, are.
    """
    order = np.argsort(first_mark, kind="stable")
    before, after = (np.searchsorted(first_mark, mark, side, sorter=order) for side in ("left", "right"))
    missing = before == after
    low = np.where(missing, np.maximum(before - 1, 0), before)
    high = np.where(missing, np.minimum(after + 1, len(split)), after)
    others = np.concatenate([[0], np.cumsum(split[order] != TRAIN)])
    return np.asarray((low < high) & (others[high] == others[low]))


def training_beats(
    entry: Mapping[str, Any], flags: NDArray[np.uint8], trains: NDArray[np.bool_], first_lead: str
) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """Return which beats of another lead become training examples, and its entry in ``records``.

    Args:
        entry: what ``cohort.json`` would say of the recording if it were read in this lead alone.
        flags: (beats,) uint8 flags of its beats.
        trains: (beats,) bool, those that may be trained on (``in_training``).
        first_lead: name of the recording's first lead.
    """
    poor, counted = (flags & FLAG_POOR_QUALITY).astype(bool), entry["excluded"].get("beats", {"excluded": {}})
    silent = counted["excluded"].get("no_signal", 0)
    unusable = bool(len(flags)) and poor.sum() + silent >= TOO_POOR * (len(flags) + silent)
    keep = trains & (not unusable)
    stated: dict[str, Any] = {**entry, FIRST_LEAD: first_lead, "beats": int(keep.sum())}
    if "beats" in entry["excluded"]:
        dropped = int((~keep).sum())
        reason = {"poor_lead" if unusable else "not_training": dropped} if dropped else {}
        beats = {**counted, "used": counted["used"] - dropped, "excluded": {**counted["excluded"], **reason}}
        stated["excluded"] = {**entry["excluded"], "beats": beats}
        stated["poor_quality"] = {**entry["poor_quality"], "beats": int(poor[keep].sum())}
    return keep, stated
