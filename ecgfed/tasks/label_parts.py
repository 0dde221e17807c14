"""What the labelling page shows of a grouped recording: strips of beats that may be asked for, pictures of groups."""

from dataclasses import replace

import numpy as np

from ecgfed.domain.labels.choose import Rule, shipped_rule
from ecgfed.domain.labels.page import LabelPage
from ecgfed.domain.labels.pictures import group_pictures
from ecgfed.domain.signal.block_quality import quality_of
from ecgfed.tasks.grouped import GroupedBeats, displayed_leads, windows_on
from ecgfed.tasks.label_strips import label_strips
from ecgfed.tasks.report_signal import ShownLeads


def label_page_of(
    grouped: GroupedBeats,
    *,
    recording_id: str,
    model: str,
    count: int,
    minutes: float | None = None,
    rule: Rule | None = None,
    notices: tuple[str, ...] = (),
) -> LabelPage:
    """Return the labelling page of a recording's groups; it shows the leads that the groups are made of.

    Args:
        grouped: the beats.
        recording_id: what tells this recording from any other one, hexadecimal: answers are kept under it.
        model: whose answers the groups rest on, as text.
        count: labels to ask for.
        minutes: only beats of the first minutes were grouped; None where all were.
        rule: that chooses; default the one in the package.
        notices: warnings to be read first.
    """
    beats, first = grouped.beats, grouped.grouped
    recording, names = beats.recording, tuple(displayed_leads(beats.recording))
    quality = {name: beats.quality if name == recording.lead else quality_of(recording, name) for name in names}
    shown_signals = replace(ShownLeads.of(recording, quality), names=names)
    interval = beats.intervals_s[:first]
    return LabelPage(
        record=recording.name,
        recording=recording_id,
        model=model,
        fs_hz=recording.fs_hz,
        duration_s=recording.duration_s,
        count=count,
        leads=names,
        groups=grouped.groups,
        sample=beats.r_samples[:first],
        rule=rule or shipped_rule(),
        strips=label_strips(shown_signals, beats.r_samples, np.unique(grouped.groups.beat).tolist()),
        pictures=group_pictures(grouped.groups, [windows_on(beats, name, first) for name in names], interval),
        interval_s=interval,
        minutes=minutes,
        notices=notices,
        intended_use=str(grouped.bundle.manifest["intended_use"]),
    )
