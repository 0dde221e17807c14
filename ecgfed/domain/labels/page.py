"""What a labelling page shows, and the data of its scripts."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import tr_later
from ecgfed.domain.labels.choose import Rule
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.label_errors import PARTS, leaf_spreads, packaged_model
from ecgfed.domain.labels.likeness import KINDS
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT

#: Labels that can be given: WFDB's symbol, the key where it is another one, words.
LABELS: tuple[tuple[str, str, str], ...] = (
    ("N", "", tr_later("normal")),
    ("L", "", tr_later("left bundle branch block")),
    ("R", "", tr_later("right bundle branch block")),
    ("A", "", tr_later("atrial premature")),
    ("a", "", tr_later("aberrated atrial premature")),
    ("J", "", tr_later("junctional premature")),
    ("j", "", tr_later("junctional escape")),
    ("e", "", tr_later("atrial escape")),
    ("V", "", tr_later("ventricular premature")),
    ("F", "", tr_later("fusion of ventricular and normal")),
    ("/", "", tr_later("paced beat")),
    (NO_BEAT, "x", tr_later("no beat (artifact)")),
    (CANNOT_TELL, "", tr_later("cannot tell")),
)


@dataclass(frozen=True, eq=False)
class LabelPage:
    """What a labelling page shows.

    Attributes:
        record: the recording's name, as text.
        recording: its identity, hexadecimal.
        model: whose answers the groups rest on.
        fs_hz: the recording's sampling frequency.
        duration_s: how long it is.
        count: labels asked for.
        leads: names of the leads that are shown, the one in use first.
        groups: its beats.
        sample: (beats,) int64 R peaks.
        rule: that chooses.
        strips: beat that stands for a group -> its surroundings (``tasks/label_strips.py``).
        pictures: group -> what is shown of it (``domain/labels/pictures.py``).
        interval_s: (beats,) seconds from the beat before, NaN where nobody knows it.
        minutes: only beats of the first minutes are in groups; None where all are.
        notices: warnings to be read first.
        intended_use: in one sentence.
    """

    record: str
    recording: str
    model: str
    fs_hz: float
    duration_s: float
    count: int
    leads: tuple[str, ...]
    groups: Groups
    sample: NDArray[np.int64]
    rule: Rule
    strips: Mapping[int, Mapping[str, Any]]
    pictures: Mapping[int, Mapping[str, Any]]
    interval_s: NDArray[np.float64]
    minutes: float | None = None
    notices: tuple[str, ...] = ()
    intended_use: str = "Research use only, not for diagnosis"


def page_data(page: LabelPage) -> dict[str, Any]:
    """Return what the page's scripts read, JSON-ready."""
    groups, at = page.groups, page.groups.points.at
    known = page.interval_s[np.isfinite(page.interval_s)]
    spreads = leaf_spreads(groups)
    tree = [
        {"parent": parent if parent >= 0 else None, "size": size, "beat": beat, "prior": prior}
        | ({"spread": spreads[group].tolist()} if group in spreads else {})
        for group, (parent, size, beat, prior) in enumerate(
            zip(groups.parent.tolist(), groups.size.tolist(), groups.beat.tolist(), groups.prior.tolist(), strict=True)
        )
    ]
    points = {
        str(beat): {
            "sample": int(page.sample[beat]),
            "time_s": float(f"{int(page.sample[beat]) / page.fs_hz:.3f}"),  # as the table of labels says it
            "leaf": int(groups.leaf[beat]),
            "at": at[beat].tolist(),
        }
        for beat in np.unique(groups.beat).tolist()
    }
    return {
        "version": 1,
        "record": page.record,
        "recording": page.recording,
        "digest": _digest(groups),
        "file_name": labels_name(page.record),
        "fs": page.fs_hz,
        "beats": len(groups.leaf),
        "count": page.count,
        "leads": list(page.leads),
        "interval_ms": round(1000 * float(np.median(known))) if len(known) else None,
        "labels": [{"symbol": symbol, "key": key, "words": words} for symbol, key, words in LABELS],
        "groups": tree,
        "points": points,
        "parts": {name: [groups.points.parts[name].start, groups.points.parts[name].stop] for name in PARTS},
        "rule": {**page.rule.as_json(), "kinds": list(KINDS)},
        "errors": packaged_model().as_json(),
        "strips": {str(beat): strip for beat, strip in page.strips.items()},
        "pictures": {str(group): picture for group, picture in page.pictures.items()},
    }


def labels_name(record: str, reader: str = "") -> str:
    """Return the name of the labels' file of a record, and of a second reader."""
    return f"{record}-labels{'-' * bool(reader)}{reader}.csv"


def _digest(groups: Groups) -> str:
    """Return what tells this tree from another one of the same recording: answers name its groups."""
    parts = (groups.parent, groups.beat, groups.leaf)
    return hashlib.sha256(b"".join(np.asarray(part, "<i8").tobytes() for part in parts)).hexdigest()[:32]
