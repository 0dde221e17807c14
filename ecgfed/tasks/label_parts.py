"""Contents of the labelling page: strips around the beats that may be queried, and pictures of the groups."""

from dataclasses import replace

import numpy as np

from ecgfed.base.language import tr, trn
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.labels.choose import Rule, shipped_rule
from ecgfed.domain.labels.page import LabelPage, page_data
from ecgfed.domain.labels.pictures import group_pictures
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.reports import label_page as html
from ecgfed.reports.signals import DrawnLeads
from ecgfed.tasks.grouped import GroupedBeats, displayed_leads, windows_on
from ecgfed.tasks.label_strips import label_strips


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
    """Return the labelling page for a grouped recording; it shows the leads that were used for grouping.

    Args:
        recording_id: hexadecimal id of the recording; the page stores labels under it.
        model: name of the model whose probabilities were used for grouping.
        count: number of labels to query.
        minutes: only beats of the first minutes were grouped; None if all were.
        rule: the query rule; default the one in the package.
        notices: warnings shown at the top of the page.
    """
    beats, first = grouped.beats, grouped.grouped
    recording, displayed = beats.recording, drawn_leads(beats)
    interval = beats.intervals_s[:first]
    return LabelPage(
        record=recording.name,
        recording=recording_id,
        model=model,
        fs_hz=recording.fs_hz,
        duration_s=recording.duration_s,
        count=count,
        leads=displayed.names,
        groups=grouped.groups,
        sample=beats.r_samples[:first],
        rule=rule or shipped_rule(),
        strips=label_strips(displayed, beats.r_samples, np.unique(grouped.groups.beat).tolist()),
        pictures=group_pictures(grouped.groups, [windows_on(beats, name, first) for name in displayed.names], interval),
        interval_s=interval,
        minutes=minutes,
        notices=notices,
        intended_use=str(grouped.bundle.manifest["intended_use"]),
    )


def drawn_leads(beats: RecordingBeats) -> DrawnLeads:
    """Return the leads that the page shows, with their quality, the lead in use first."""
    recording, names = beats.recording, tuple(displayed_leads(beats.recording))
    quality = {name: beats.quality if name == recording.lead else quality_of(recording, name) for name in names}
    return replace(DrawnLeads.of(recording, quality), names=names)


def label_page(page: LabelPage, *, file: str = "", ends: bool = True) -> str:
    """Return a labelling page as HTML, in the current language.

    Args:
        page: what it shows.
        file: where a server writes the labels (``label_server.py``), as the page names it; none for a page that is
            opened as a file and offers its labels as a download.
        ends: the server ends with the page.
    """
    minutes, seconds = divmod(round(page.duration_s), 60)
    length = f"{minutes}:{seconds:02d}"
    if page.minutes is not None:
        length = tr("the first {minutes:g} of {length}", minutes=page.minutes, length=length)
    summary = trn(
        "{n} beat in {length} min, {leads}; grouped with {model}; band-pass {low:g} to {high:g} Hz",
        "{n} beats in {length} min, {leads}; grouped with {model}; band-pass {low:g} to {high:g} Hz",
        len(page.groups.leaf),
        length=length,
        leads=tr(" and ").join(page.leads),
        model=page.model,
        low=0.5,
        high=40,
    )
    data = page_data(page) | {"served": bool(file), "file": file, **({} if ends else {"ends": False})}
    return html.label_page(data, summary=summary, intended_use=page.intended_use, notices=page.notices)
