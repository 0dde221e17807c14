"""The content of a report from labelled beats: counts, strips, averages, the timeline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ecgfed.base.language import tr, tr_later, translated, trn
from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.find import Events, find_events
from ecgfed.domain.events.hours import time_bins
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.patient_event import PatientEvent
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.labels.edits import Edits
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.quality import LeadQuality, Reason, Stretch, runs
from ecgfed.reports.added_beats import NOT_READ
from ecgfed.reports.edited import EditedBeats, apply_edits
from ecgfed.reports.labelled import Labelled, Second
from ecgfed.reports.recording_page import LARGE
from ecgfed.reports.recording_parts import ClassSummary, Drawn, LeadRow, ListedEvent, ReaderComparison
from ecgfed.reports.signals import DrawnLeads, DrawnTwelve, average_beats, bin_width, moving_leads, strip_bytes
from ecgfed.reports.strip_selection import (
    STRIP_S,
    SelectedStrip,
    Span,
    around,
    busiest_starts,
    rate_in,
    select_strips,
    with_comments,
)

#: Columns of the timeline at most, and bytes of their strips at most.
_MOST_BINS, _MOST_BYTES = 300, 6_500_000
#: Bytes of strips of other events at most.
_MOST_EVENT_BYTES = 4_000_000
_WIDTHS_S = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)
#: Strips of disagreement at most.
_APART = 4
#: Missing samples of up to so many seconds hide no QRS complex, the narrowest of which last 0.06 s.
GAP_S = 0.04


@dataclass(frozen=True, eq=False)
class Reading:
    """A recording, its labelled beats and their counts.

    Attributes:
        recording: with every lead.
        quality: of every lead.
        labelled: the labelled beats.
        beats: the same beats as input of the counts.
        events: the counts.
        second: another reader of the same beats, or None.
        edited: the labels before and after the edits of a physician; None without edits.
        patient_events: what the patient marked on the recorder or wrote in a diary.
    """

    recording: Recording
    quality: Mapping[str, LeadQuality]
    labelled: Labelled
    beats: Beats
    events: Events
    second: Second | None = None
    edited: EditedBeats | None = None
    patient_events: tuple[PatientEvent, ...] = ()


def reading_of(
    recording: Recording,
    quality: Mapping[str, LeadQuality],
    labelled: Labelled,
    rules: EventRules,
    second: Second | None = None,
    edits: Edits | None = None,
) -> Reading:
    """Return the counts of a recording's labelled beats. Which stretches are unusable does not depend on edits.

    Args:
        recording: with every lead.
        quality: of every lead.
        labelled: the labelled beats.
        rules: the rules of counting.
        second: another reader of the same beats, or None.
        edits: of a physician, or None.

    Raises:
        RecordError: an edit of a beat or an episode that the report does not have.
    """
    bad = merged([*unusable_parts(recording, quality[recording.lead], labelled), *labelled.unmarked, *labelled.flutter])
    edited = None if edits is None else apply_edits(labelled, second, edits, recording.fs_hz)
    if edited is not None:
        labelled, second = edited.labelled, edited.second
    beats = Beats(
        labelled.sample,
        labelled.label,
        labelled.classes,
        labelled.kinds,
        recording.fs_hz,
        recording.samples,
        bad,
        labelled.uncertain,
        labelled.confirmed,
        labelled.doubted,
        labelled.probability,
        labelled.out_of_distribution,
        labelled.provisional,
        labelled.rejected,
        labelled.undetected,
    )
    events = find_events(beats, rules, withheld=labelled.withheld, rhythms=labelled.rhythms or ())
    return Reading(recording, quality, labelled, beats, events, second, edited)


def unusable_parts(recording: Recording, quality: LeadQuality, labelled: Labelled) -> list[tuple[int, int]]:
    """Return the segments in which nothing is counted and across which no interval is measured.

    Missing samples are counted only where they are too few to hide a QRS complex (``GAP_S``), noise only where the
    waves of every beat in it are clear: a fast rhythm without a rest between beats.
    """
    fs_hz = recording.fs_hz
    clear = [(segment.start_s, segment.stop_s) for segment in labelled.lead_segments if recording.lead in segment.leads]

    def counts(part: Stretch) -> bool:
        if part.reason == Reason.GAP:
            return part.stop - part.start <= GAP_S * fs_hz
        return part.reason == Reason.NOISE and any(
            start <= part.start / fs_hz and part.stop / fs_hz <= stop for start, stop in clear
        )

    pulses = [] if labelled.pulses is None else runs(labelled.pulses)
    calibration = [(int(labelled.sample[first]), int(labelled.sample[last - 1]) + 1) for first, last in pulses]
    return [*calibration, *((part.start, part.stop) for part in quality.stretches if not counts(part))]


def class_rows(reading: Reading) -> tuple[ClassSummary, ...]:
    """Return each class with the number of its counted beats."""
    labelled, beats = reading.labelled, reading.beats
    uncertain: list[int | None] = [None] * len(labelled.classes)
    if labelled.uncertain is not None:
        of_class = labelled.label[beats.assessed & labelled.uncertain]
        uncertain = list(np.bincount(of_class, minlength=len(labelled.classes)).tolist())
    return tuple(
        ClassSummary(code, name, meaning, kind, reading.events.by_class[name], doubtful)
        for code, name, meaning, kind, doubtful in zip(
            labelled.codes, labelled.classes, labelled.meanings, labelled.kinds, uncertain, strict=True
        )
    )


def lead_rows(reading: Reading) -> tuple[LeadRow, ...]:
    """Return the quality of each lead."""
    rows = []
    for name, quality in reading.quality.items():
        fs_hz = quality.fs_hz
        stretches = tuple((part.start / fs_hz, part.stop / fs_hz, str(part.reason)) for part in quality.stretches)
        percent = 100 * quality.usable_s * fs_hz / quality.samples
        rows.append(LeadRow(name, quality.usable_s, percent, quality.seconds(), stretches))
    return tuple(rows)


class Drawing:
    """Collects the strips of a page.

    Args:
        reading: the recording and its counts.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.leads = DrawnLeads.of(reading.recording, reading.quality)
        self.twelve = DrawnTwelve.of(reading.recording, reading.quality, self.leads.step)
        self.strips: list[dict[str, Any]] = []
        second = set[str]() if reading.second is None else set(reading.second.names.tolist()) - {NOT_READ}
        self._codes = [*reading.labelled.codes, *sorted(second - set(reading.labelled.codes))]

    def gallery(self) -> tuple[Drawn, ...]:
        """Draw the strips of the gallery."""
        reading = self.reading
        chosen = select_strips(reading.beats, reading.events, reading.labelled.confidence, reading.patient_events)
        longest = reading.events.pauses.longest
        moving = [] if longest is None else moving_leads(self.leads, reading.beats.sample, longest)
        if moving:
            note = tr(
                "in {leads} the signal moves meanwhile as in a beat: one may have been missed",
                leads=tr(" and ").join(moving),
            )
            chosen = tuple(
                replace(strip, caption=tr("; ").join((strip.caption, note)))
                if any(span.kind == "pause" for span in strip.spans)
                else strip
                for strip in chosen
            )
        if reading.edited is not None:
            chosen = with_comments(chosen, reading.edited.edits.strips, reading.recording.fs_hz)
        return tuple(self._drawn(strip) for strip in chosen)

    def averages(self) -> tuple[Drawn, ...]:
        """Draw the average beat of each class."""
        drawn, labelled = [], self.reading.labelled
        counts = self.reading.events.by_class
        for at, (leads, count) in average_beats(self.leads, self.reading.beats).items():
            strip = {"start_s": 0.0, "leads": leads, "beats": [], "spans": []}
            options = {**LARGE, "pulse": False, "intervals": False, "seconds": False}
            meaning = translated(labelled.meanings[at]) or labelled.classes[at]
            title = tr("{where}: {reason}", where=labelled.codes[at], reason=meaning)
            all_of = counts[labelled.classes[at]]
            caption = trn("{n} beat", "{n} beats", count)
            if count != all_of:
                caption = tr("{n} of {total} beats, evenly spread", n=count, total=all_of)
            name = tr("Average beat {title}", title=title)
            drawn.append(Drawn(title, caption, self._add(strip, {**options, "name": name})))
        return tuple(drawn)

    def comparison(self) -> ReaderComparison | None:
        """Count where two readers disagree, and draw where the second is most confident."""
        reading, second = self.reading, self.reading.second
        if second is None:
            return None
        names, both = reading.labelled.names, reading.beats.assessed & (second.names != NOT_READ)
        differ = np.flatnonzero((names != second.names) & both)
        pairs = Counter(zip(names[differ].tolist(), second.names[differ].tolist(), strict=True))
        rows = tuple((*pair, count) for pair, count in pairs.most_common())
        strips = []
        for first_code, second_code, count in rows[:_APART]:
            of_pair = differ[(names[differ] == first_code) & (second.names[differ] == second_code)]
            at = int(of_pair[second.confidence[of_pair].argmax()])
            middle = float(reading.beats.time_s[at])
            either = tr("{first} or {second}", first=first_code, second=second_code)
            title = trn("{codes}: {n} beat", "{codes}: {n} beats", count, codes=either)
            caption = tr(
                "{reader} gives {code} its highest confidence here, p {probability:.2f}; its labels are below",
                reader=second.by,
                code=second_code,
                probability=float(second.confidence[at]),
            )
            span = Span(middle - 0.25, middle + 0.25, "event", either)
            strip = SelectedStrip(title, caption, around(middle, reading.beats.duration_s), (span,))
            strips.append(self._drawn(strip, both=True))
        return ReaderComparison(reading.labelled.by, second.by, int(both.sum()), rows, tuple(strips))

    def sheet(self, start_s: float) -> dict[str, Any]:
        """Return 10 s of the twelve leads; requires ``twelve``."""
        assert self.twelve is not None
        return {**self._strip(start_s, ()), "spans": [], "leads": self.twelve.strip(start_s)}

    def of_events(self, events: Sequence[ListedEvent]) -> list[dict[str, Any]]:
        """Return strips of the events that no strip of the gallery shows, those to review first, within a size."""
        hidden = sorted((event for event in events if event.strip is None), key=lambda event: not event.review)
        strips, last_s = list[dict[str, Any]](), max(0.0, self.reading.beats.duration_s - STRIP_S)
        for event in hidden[: int(_MOST_EVENT_BYTES // strip_bytes(self.leads, STRIP_S))]:
            strips.append(self._strip(min(max(0.0, event.start_s - 2.0), last_s), ()))
        return strips

    def timeline(self) -> tuple[dict[str, Any], float]:
        """Return the timeline's data, with a strip of 10 s per column, and the width of a column in seconds."""
        reading = self.reading
        max_bins = int(min(_MOST_BINS, _MOST_BYTES // strip_bytes(self.leads, STRIP_S)))
        width = bin_width(reading.recording.duration_s, _WIDTHS_S, max_bins)
        bins = time_bins(reading.beats, width)
        strips = [self._strip(start, ()) for start in busiest_starts(reading.beats, width)]
        return {
            "duration_s": reading.recording.duration_s,
            "start_s": [time_bin.start_s for time_bin in bins],
            "stop_s": [time_bin.stop_s for time_bin in bins],
            "rate": [None if time_bin.rate is None else round(time_bin.rate, 1) for time_bin in bins],
            "low": [None if time_bin.longest_s is None else round(60 / time_bin.longest_s, 1) for time_bin in bins],
            "high": [None if time_bin.shortest_s is None else round(60 / time_bin.shortest_s, 1) for time_bin in bins],
            "counts": [list(time_bin.by_class) for time_bin in bins],
            "unusable": [round(1 - time_bin.usable_s / (time_bin.stop_s - time_bin.start_s), 4) for time_bin in bins],
            "strips": strips,
        }, width

    def data(self, timeline: dict[str, Any] | None, events: Sequence[ListedEvent]) -> dict[str, Any]:
        """Return the data of the page's scripts, with every event for the timeline: kind, name, start, stop, review."""
        labelled, counts = self.reading.labelled, list(self.reading.events.by_class.values())
        ectopic = [kind in (Kind.SUPRA, Kind.VENTRICULAR) for kind in labelled.kinds]
        calm = [0 if is_ectopic else count for count, is_ectopic in zip(counts, ectopic, strict=True)]
        return {
            "fs": self.leads.fs_hz,
            "leads": list(self.leads.names),
            "codes": self._codes,
            "ectopic": ectopic,
            "usual": int(np.argmax(calm)) if any(calm) else -1,  # the most frequent class not ectopic, drawn lightly
            "strips": self.strips,
            "timeline": timeline,
            "events": [
                [event.kind, event.name, round(event.start_s, 3), round(event.stop_s, 3), int(event.review)]
                for event in events
            ],
        }

    def _drawn(self, strip_choice: SelectedStrip, *, both: bool = False) -> Drawn:
        rate = rate_in(self.reading.beats, strip_choice.start_s)
        caption = [strip_choice.caption] if strip_choice.caption else []
        seconds = min(STRIP_S, self.reading.beats.duration_s - strip_choice.start_s)
        if rate is None:
            caption.append(tr("no rate"))
        else:
            caption.append(tr("{rate:.0f}/min in these {seconds:.3g} s", rate=rate, seconds=seconds))
        names = self.leads.names
        caption.append(
            tr("lead {leads}", leads=names[0]) if len(names) == 1 else tr("leads {leads}", leads=", ".join(names))
        )
        strip = self._strip(strip_choice.start_s, strip_choice.spans, both=both)
        if self.twelve is not None:
            strip["twelve"] = self.twelve.strip(strip_choice.start_s)
        options: dict[str, Any] = {"name": strip_choice.title}
        if both and self.reading.second is not None:
            options["readers"] = [tr(self.reading.labelled.short), tr(self.reading.second.short)]
        number = self._add(strip, options)
        return Drawn(strip_choice.title, tr("; ").join(caption), number, strip_choice.start_s, strip_choice.printed)

    def _add(self, strip: dict[str, Any], options: dict[str, Any]) -> int:
        self.strips.append({"strip": strip, "options": options})
        return len(self.strips) - 1

    def _strip(self, start_s: float, spans: tuple[Span, ...], *, both: bool = False) -> dict[str, Any]:
        """Return 10 s; beats are [sample, class, flags, second's class], flags 1 uncertain, 2 not counted."""
        fs_hz, first = self.leads.fs_hz, round(start_s * self.reading.recording.fs_hz)
        pointed = [
            {"start": _short((span.start_s - start_s) * fs_hz), "stop": _short((span.stop_s - start_s) * fs_hz)}
            | {"kind": span.kind, "text": span.text}
            for span in spans
        ]
        return {
            "start_s": round(first / self.reading.recording.fs_hz, 4),
            "leads": self.leads.strip(start_s, STRIP_S),
            "beats": self._beats(first, both=both),
            "spans": [*self._unusable(first), *pointed],
        }

    def _beats(self, first: int, *, both: bool) -> list[list[Any]]:
        labelled, second, step = self.reading.labelled, self.reading.second, self.leads.step
        last = first + round(STRIP_S * self.reading.recording.fs_hz)
        low, high = np.searchsorted(labelled.sample, [first, last])
        rows = []
        for at in range(int(low), int(high)):
            uncertain = labelled.uncertain is not None and bool(labelled.uncertain[at])
            flags = int(uncertain) | 2 * (not self.reading.beats.assessed[at])
            beat = [_short((int(labelled.sample[at]) - first) / step), int(labelled.label[at]), flags]
            name = NOT_READ if not both or second is None else str(second.names[at])
            rows.append([*beat, *([] if name == NOT_READ else [self._codes.index(name)])])
        return rows

    def _unusable(self, first: int) -> list[dict[str, Any]]:
        recording, labelled, step = self.reading.recording, self.reading.labelled, self.leads.step
        last = first + round(STRIP_S * recording.fs_hz)
        stretches = self.reading.quality[recording.lead].stretches
        parts = [(stretch.start, stretch.stop, str(stretch.reason)) for stretch in stretches]
        parts += [(start, stop, tr_later("no beats marked")) for start, stop in labelled.unmarked]
        parts += [(start, stop, tr_later("possible flutter")) for start, stop in labelled.flutter]
        return [
            {"start": _short((start - first) / step), "stop": _short((stop - first) / step)}
            | {"kind": "unusable", "text": translated(text)}
            for start, stop, text in parts
            if start < last and stop > first
        ]


def _short(number: float) -> float:
    """Return a number rounded to one decimal, integers without it."""
    value = round(number, 1)
    return int(value) if value == int(value) else value
