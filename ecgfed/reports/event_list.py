"""Every run, pause, rhythm episode and patient event of a report, in order of time."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from ecgfed.base.language import (
    joined_message,
    message,
    messages,
    name_message,
    tr,
    tr_later,
    translated,
    trn,
    trn_later,
)
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.certainty import episode_name
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.patient_event import RECORDER, PatientEvent
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes, to_review
from ecgfed.reports.markup import NOT_ASSESSED, Cell, joined
from ecgfed.reports.recording_parts import Drawn, ListedEvent, RecordingParts
from ecgfed.reports.strip_selection import STRIP_S

#: So many seconds before and after a patient event its rate and its context are of.
AROUND_S = 30.0
EVENT_HEAD = (
    *(tr_later("Event"), tr_later("From"), tr_later("Length"), tr_later("Beats"), tr_later("Rate")),
    *(tr_later("Confidence"), tr_later("Strip")),
)
#: Counts of ectopic beats around a patient event: all, with those of low confidence, and why there is none.
_AROUND = {
    Kind.VENTRICULAR: (
        trn_later("{n} ventricular", "{n} ventricular"),
        trn_later("{n} ventricular ({low} of low confidence)", "{n} ventricular ({low} of low confidence)"),
        (tr_later("ventricular withheld"), tr_later("ventricular not assessed")),
    ),
    Kind.SUPRA: (
        trn_later("{n} supraventricular", "{n} supraventricular"),
        trn_later("{n} supraventricular ({low} of low confidence)", "{n} supraventricular ({low} of low confidence)"),
        (tr_later("supraventricular withheld"), tr_later("supraventricular not assessed")),
    ),
}
_RUNS_OF = {
    Kind.VENTRICULAR: tr_later("Runs of ventricular beats: {reason}."),
    Kind.SUPRA: tr_later("Runs of supraventricular beats: {reason}."),
}


def event_list(
    beats: Beats,
    events: Events,
    rhythms: Sequence[RhythmEpisodes],
    gallery: Sequence[Drawn],
    patient_events: Sequence[PatientEvent] = (),
) -> tuple[ListedEvent, ...]:
    """Return every run, pause, rhythm episode and patient event, in order of time.

    Runs of a kind whose counts are withheld are among them, all to be reviewed.

    Args:
        beats: all beats.
        events: their counts.
        rhythms: the rhythms and their episodes.
        gallery: the strips of the page, to which events lead.
        patient_events: what the patient marked on the recorder or wrote in a diary.
    """
    rows = [row for kind, counts in _assessed(events).items() for row in _runs(beats, kind, counts, gallery)]
    pauses = events.pauses
    for kind, intervals in (
        (tr_later("pause"), pauses.intervals),
        (tr_later("interval not confirmed"), pauses.not_confirmed),
        (tr_later("no beat at an end"), pauses.ends),
    ):
        rows += [_interval(kind, interval, gallery) for interval in intervals]
    for rhythm in rhythms:
        rows += _episodes(beats, rhythm, gallery)
    rows += [_patient_event(beats, events, rhythms, event, gallery) for event in patient_events]
    return tuple(sorted(rows, key=lambda row: (row.start_s, row.stop_s, row.kind)))


def event_rows(parts: RecordingParts) -> list[Sequence[Cell]]:
    """Return the rows of the table of events; its head is ``EVENT_HEAD``."""
    titles = {drawn.number: drawn.title for drawn in parts.gallery}
    return [
        (
            _name(event),
            parts.times.moment(event.start_s),
            "-" if event.kind == RECORDER else _length(event),
            "-" if event.beats is None else event.beats,
            "-" if event.per_min is None else tr("{rate:.0f}/min", rate=event.per_min),
            _confidence(event),
            "-"
            if event.strip is None
            else Markup('<a href="#strip-{}">{}</a>').format(event.strip, joined(titles[event.strip])),
        )
        for event in parts.event_list
    ]


def not_listed(events: Events) -> tuple[str, ...]:
    """Return a sentence for everything that the list of events lacks, and why."""
    sentences = []
    for kind in KIND_WORDS:
        if kind not in _assessed(events):
            reason = translated(events.withheld.get(kind, NOT_ASSESSED))
            sentences.append(tr(_RUNS_OF[kind], reason=reason))
    if count := events.pauses.not_assessed:
        sentences.append(
            trn(
                "{n} interval as long as a pause touches an unusable stretch: beats may be missing there, and it is "
                "not listed.",
                "{n} intervals as long as a pause touch an unusable stretch: beats may be missing there, and none is "
                "listed.",
                count,
            )
        )
    return tuple(sentences)


def _assessed(events: Events) -> dict[Kind, Ectopy]:
    """Return the counts of each kind, those to be reviewed in place of withheld ones."""
    both = {**events.ectopic, **events.to_review}
    return {kind: counts for kind, counts in both.items() if counts is not None}


def _runs(beats: Beats, kind: Kind, counts: Ectopy, gallery: Sequence[Drawn]) -> list[ListedEvent]:
    probability = None if beats.probability is None else beats.kind_probability(kind)
    return [
        ListedEvent(
            f"{KIND_WORDS[kind]} run",
            run.name,
            run.start_s,
            run.stop_s,
            run.beats,
            run.per_min,
            None if probability is None else float(probability[run.first : run.last + 1].mean()),
            run.review,
            run.uncertain,
            run.cut,
            _strip_at(run.start_s, gallery),
            undetected=run.undetected,
        )
        for run in counts.runs
    ]


def _interval(kind: str, interval: At, gallery: Sequence[Drawn]) -> ListedEvent:
    review = kind != "pause" or not interval.confirmed
    strip = _strip_at(interval.start_s, gallery)
    return ListedEvent(kind, kind, interval.start_s, interval.stop_s, review=review, strip=strip)


def _episodes(beats: Beats, rhythm: RhythmEpisodes, gallery: Sequence[Drawn]) -> list[ListedEvent]:
    """Return the episodes of a rhythm: the counted beats in each (None without any), the rate of usable intervals."""
    rows = []
    for number, (start, stop) in enumerate(rhythm.episodes):
        first, last = (int(at) for at in np.searchsorted(beats.time_s, [start, stop]))
        inside = slice(first, max(first, last - 1))
        rr = beats.rr_s[inside][beats.known[inside]]
        certainty = rhythm.certainty[number] if rhythm.certainty else None
        rows.append(
            ListedEvent(
                "rhythm",
                episode_name(rhythm, number),
                start,
                stop,
                int(beats.assessed[first:last].sum()) or None,
                60 * len(rr) / float(rr.sum()) if len(rr) else None,
                certainty,
                to_review(rhythm),
                strip=_strip_at(start, gallery),
            )
        )
    return rows


def _patient_event(
    beats: Beats, events: Events, rhythms: Sequence[RhythmEpisodes], event: PatientEvent, gallery: Sequence[Drawn]
) -> ListedEvent:
    """Return a patient event with the rate of the measured intervals around it, and what is there."""
    start, stop = event.time_s - AROUND_S, event.time_s + AROUND_S
    first, last = (int(at) for at in np.searchsorted(beats.time_s, [start, stop]))
    inside, intervals = slice(first, last), slice(first, max(first, last - 1))
    rr = beats.rr_s[intervals][beats.measured[intervals]]
    context = []
    for kind, (every, with_low, (withheld, not_assessed)) in _AROUND.items():
        of_kind = beats.assessed[inside] & (beats.kind[inside] == kind)
        low = 0 if beats.uncertain is None else int((of_kind & beats.uncertain[inside]).sum())
        if events.ectopic[kind] is None:
            context.append(message(withheld if kind in events.withheld else not_assessed))
        elif of_kind.any():
            forms, values = (with_low, {"low": low}) if low else (every, {})
            context.append(messages(*forms, int(of_kind.sum()), **values))
    if not beats.assessed[inside].any():
        context = [message("no beat counted")]
    elif not context:
        low = 0 if beats.uncertain is None else int((beats.assessed[inside] & beats.uncertain[inside]).sum())
        unsure = events.rules.mostly_low(low, int(beats.assessed[inside].sum()))
        context = [message("ectopic beats not assessed") if unsure else message("no ectopic beat")]
    for rhythm in rhythms:
        if any(begin < stop and end > start for begin, end in rhythm.episodes):
            name = name_message(rhythm.rhythm)
            context.append(message("{rhythm} (to review)", rhythm=name) if to_review(rhythm) else name)
    return ListedEvent(
        RECORDER,
        event.source,
        event.time_s,
        event.time_s,
        per_min=60 * len(rr) / float(rr.sum()) if len(rr) else None,
        strip=_strip_at(event.time_s, gallery),
        text=event.text,
        context=joined_message(context, ", "),
    )


def _name(event: ListedEvent) -> str:
    """Return the name of an event; of a patient event with its text and what is around it."""
    if event.kind != RECORDER:
        return translated(event.name)
    name = translated(event.name)
    if event.text:
        name = tr("{where}: {reason}", where=name, reason=event.text)
    return tr(
        "{event}; within {seconds:g} s: {context}", event=name, seconds=AROUND_S, context=translated(event.context)
    )


def _strip_at(time_s: float, gallery: Sequence[Drawn]) -> int | None:
    """Return the number of the first strip that shows a time."""
    shown = (drawn for drawn in gallery if drawn.at_s is not None and drawn.at_s <= time_s < drawn.at_s + STRIP_S)
    return next((drawn.number for drawn in shown), None)


def _length(event: ListedEvent) -> str:
    text = tr("{seconds:.2f} s", seconds=round(event.stop_s - event.start_s, 6))
    return tr("at least {text}", text=text) if event.cut else text


def _confidence(event: ListedEvent) -> str:
    parts = [tr("to review")] if event.review else []
    if event.confidence is not None:
        certainty, probability = tr_later("certainty {value:.2f}"), tr_later("mean probability {value:.2f}")
        parts.append(tr(certainty if event.kind == "rhythm" else probability, value=event.confidence))
    if event.uncertain:
        parts.append(tr("{n} of low confidence", n=event.uncertain))
    if event.undetected:
        parts.append(tr("one beat may be undetected"))
    return ", ".join(parts) or "-"
