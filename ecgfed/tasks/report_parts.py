"""From labelled beats to what a report holds: counts, strips, averages, the timeline."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ecgfed.base.text import count_of
from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.find import Events, find_events
from ecgfed.domain.events.hours import stretches
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.recording import AnyRecording
from ecgfed.domain.signal.filters import bridge_samples
from ecgfed.domain.signal.quality import LeadQuality, Reason, Stretch
from ecgfed.reports.recording_page import LARGE
from ecgfed.reports.recording_parts import ClassRow, Comparison, Drawn, LeadRow
from ecgfed.tasks.report_choice import STRIP_S, Choice, Span, around, busiest_starts, chosen_strips, rate_in
from ecgfed.tasks.report_labels import Labelled, Second
from ecgfed.tasks.report_signal import ShownLeads, average_beats, bin_width, moving_leads, strip_bytes

#: Columns of the timeline, and bytes that their strips may take.
_MOST_BINS, _MOST_BYTES = 300, 6_500_000
_WIDTHS_S = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)
#: Strips of disagreement.
_APART = 4


@dataclass(frozen=True, eq=False)
class Reading:
    """A recording, its labelled beats and what they add up to.

    Attributes:
        recording: with every lead.
        quality: of every lead.
        labelled: the beats.
        beats: the same, as counts are made of them.
        events: the counts.
        second: another reader of the same beats, or None.
    """

    recording: AnyRecording
    quality: Mapping[str, LeadQuality]
    labelled: Labelled
    beats: Beats
    events: Events
    second: Second | None = None


def reading_of(
    recording: AnyRecording,
    quality: Mapping[str, LeadQuality],
    labelled: Labelled,
    rules: EventRules,
    second: Second | None = None,
) -> Reading:
    """Count what there is to count.

    Args:
        recording: with every lead.
        quality: of every lead.
        labelled: the beats.
        rules: how they are counted.
        second: another reader of the same beats, or None.
    """
    bad = merged([*unusable_parts(recording, quality[recording.lead], labelled), *labelled.unmarked, *labelled.flutter])
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
        labelled.far,
        labelled.provisional,
    )
    events = find_events(beats, rules, withheld=labelled.withheld)
    return Reading(recording, quality, labelled, beats, events, second)


def unusable_parts(recording: AnyRecording, quality: LeadQuality, labelled: Labelled) -> list[tuple[int, int]]:
    """Return the stretches in which nothing is counted.

    A gap that the filter bridges hides no beat. Noise in which every wave is clearly a beat or none is the waves of a
    fast rhythm, which leave no rest between them.
    """
    fs_hz, least = recording.fs_hz, bridge_samples(recording.fs_hz)
    clear = [(one.start_s, one.stop_s) for one in labelled.lead_segments if recording.lead in one.leads]

    def counts(part: Stretch) -> bool:
        if part.reason == Reason.GAP:
            return part.stop - part.start <= least
        return part.reason == Reason.NOISE and any(
            start <= part.start / fs_hz and part.stop / fs_hz <= stop for start, stop in clear
        )

    return [(part.start, part.stop) for part in quality.stretches if not counts(part)]


def class_rows(reading: Reading) -> tuple[ClassRow, ...]:
    """Return every class with its counted beats."""
    labelled, beats = reading.labelled, reading.beats
    uncertain: list[int | None] = [None] * len(labelled.classes)
    if labelled.uncertain is not None:
        of_class = labelled.label[beats.assessed & labelled.uncertain]
        uncertain = list(np.bincount(of_class, minlength=len(labelled.classes)).tolist())
    return tuple(
        ClassRow(code, name, meaning, kind, reading.events.by_class[name], doubtful)
        for code, name, meaning, kind, doubtful in zip(
            labelled.codes, labelled.classes, labelled.meanings, labelled.kinds, uncertain, strict=True
        )
    )


def lead_rows(reading: Reading) -> tuple[LeadRow, ...]:
    """Return every lead's quality."""
    return tuple(
        LeadRow(
            name,
            found.usable_s,
            100 * found.usable_s * found.fs_hz / found.samples,
            found.seconds(),
            tuple((part.start / found.fs_hz, part.stop / found.fs_hz, str(part.reason)) for part in found.stretches),
        )
        for name, found in reading.quality.items()
    )


class Drawing:
    """Collects the strips of a page.

    Args:
        reading: what is shown.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.leads = ShownLeads.of(reading.recording, reading.quality)
        self.strips: list[dict[str, Any]] = []

    def gallery(self) -> tuple[Drawn, ...]:
        """Draw the strips that a report shows."""
        reading = self.reading
        chosen = chosen_strips(reading.beats, reading.events, reading.labelled.confidence)
        longest = reading.events.pauses.longest
        moving = [] if longest is None else moving_leads(self.leads, reading.beats.sample, longest)
        if moving:
            said = f"in {' and '.join(moving)} the signal moves meanwhile as in a beat: one may have been missed"
            chosen = tuple(
                replace(one, about=f"{one.about}; {said}") if any(span.kind == "pause" for span in one.spans) else one
                for one in chosen
            )
        return tuple(self._drawn(one) for one in chosen)

    def averages(self) -> tuple[Drawn, ...]:
        """Draw the average beat of each class."""
        found, labelled = [], self.reading.labelled
        counts = self.reading.events.by_class
        for number, (leads, many) in average_beats(self.leads, self.reading.beats).items():
            strip = {"start_s": 0.0, "leads": leads, "beats": [], "spans": []}
            options = {**LARGE, "pulse": False, "intervals": False, "seconds": False}
            title = f"{labelled.codes[number]}: {labelled.meanings[number] or labelled.classes[number]}"
            all_of = counts[labelled.classes[number]]
            about = count_of(many, "beat") if many == all_of else f"{many:,} of {all_of:,} beats, evenly spread"
            found.append(Drawn(title, about, self._add(strip, {**options, "name": f"Average beat {title}"})))
        return tuple(found)

    def comparison(self) -> Comparison | None:
        """Count where two readers disagree, and draw where the second is most sure of it."""
        reading, second = self.reading, self.reading.second
        if second is None:
            return None
        names = reading.labelled.names
        apart = np.flatnonzero((names != second.names) & reading.beats.assessed)
        pairs: dict[tuple[str, str], int] = {}
        for at in apart.tolist():
            pair = (str(names[at]), str(second.names[at]))
            pairs[pair] = pairs.get(pair, 0) + 1
        rows = tuple((one, two, many) for (one, two), many in sorted(pairs.items(), key=lambda item: -item[1]))
        strips = []
        for one, two, many in rows[:_APART]:
            places = apart[(names[apart] == one) & (second.names[apart] == two)]
            at = int(places[second.confidence[places].argmax()])
            middle = float(reading.beats.time_s[at])
            title = f"{one} or {two}: {count_of(many, 'beat')}"
            about = f"{second.by} is surest of {two} here, p {second.confidence[at]:.2f}; its labels stand below"
            span = Span(middle - 0.25, middle + 0.25, "event", f"{one} or {two}")
            strips.append(
                self._drawn(Choice(title, about, around(middle, reading.beats.duration_s), (span,)), both=True)
            )
        return Comparison(reading.labelled.by, second.by, int(reading.beats.assessed.sum()), rows, tuple(strips))

    def timeline(self) -> tuple[dict[str, Any], float]:
        """Return the timeline's data, with 10 s of each column, and how long a column is in seconds."""
        reading = self.reading
        most = int(min(_MOST_BINS, _MOST_BYTES // strip_bytes(self.leads, STRIP_S)))
        width = bin_width(reading.recording.duration_s, _WIDTHS_S, most)
        bins = stretches(reading.beats, width)
        strips = [self._strip(start, ()) for start in busiest_starts(reading.beats, width)]
        return {
            "duration_s": reading.recording.duration_s,
            "start_s": [one.start_s for one in bins],
            "stop_s": [one.stop_s for one in bins],
            "rate": [None if one.rate is None else round(one.rate, 1) for one in bins],
            "low": [None if one.longest_s is None else round(60 / one.longest_s, 1) for one in bins],
            "high": [None if one.shortest_s is None else round(60 / one.shortest_s, 1) for one in bins],
            "counts": [list(one.by_class) for one in bins],
            "unusable": [round(1 - one.usable_s / (one.stop_s - one.start_s), 4) for one in bins],
            "strips": strips,
        }, width

    def data(self, timeline: dict[str, Any]) -> dict[str, Any]:
        """Return what the page's scripts read."""
        labelled, counts = self.reading.labelled, list(self.reading.events.by_class.values())
        ectopic = [kind in (Kind.SUPRA, Kind.VENTRICULAR) for kind in labelled.kinds]
        calm = [0 if apart else count for count, apart in zip(counts, ectopic, strict=True)]
        codes = [*labelled.codes, *sorted(self._others() - set(labelled.codes))]
        return {
            "fs": self.leads.fs_hz,
            "leads": list(self.leads.names),
            "codes": codes,
            "ectopic": ectopic,
            "usual": int(np.argmax(calm)) if any(calm) else -1,  # written quietly: most of what is not ectopic
            "strips": self.strips,
            "timeline": timeline,
        }

    def _others(self) -> set[str]:
        second = self.reading.second
        return set() if second is None else {str(name) for name in np.unique(second.names)}

    def _drawn(self, one: Choice, *, both: bool = False) -> Drawn:
        rate = rate_in(self.reading.beats, one.start_s)
        about = [one.about] if one.about else []
        shown_s = min(STRIP_S, self.reading.beats.duration_s - one.start_s)
        about.append("no rate" if rate is None else f"{rate:.0f}/min in these {shown_s:.3g} s")
        about.append(f"lead{'s' * (len(self.leads.names) > 1)} {', '.join(self.leads.names)}")
        strip = self._strip(one.start_s, one.spans, both=both)
        options: dict[str, Any] = {"name": one.title}
        if both and self.reading.second is not None:
            options["readers"] = [self.reading.labelled.short, self.reading.second.short]
        return Drawn(one.title, "; ".join(about), self._add(strip, options), one.start_s)

    def _add(self, strip: dict[str, Any], options: dict[str, Any]) -> int:
        self.strips.append({"strip": strip, "options": options})
        return len(self.strips) - 1

    def _strip(self, start_s: float, spans: tuple[Span, ...], *, both: bool = False) -> dict[str, Any]:
        """Return 10 s in short: beats as [sample, class, flags, other reader's class].

        Flags: 1 uncertain, 2 in an unusable stretch, so that it is in no count.
        """
        fs_hz, first = self.leads.fs_hz, round(start_s * self.reading.recording.fs_hz)
        pointed = [
            {"start": _short((one.start_s - start_s) * fs_hz), "stop": _short((one.stop_s - start_s) * fs_hz)}
            | {"kind": one.kind, "text": one.text}
            for one in spans
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
        codes = [*labelled.codes, *sorted(self._others() - set(labelled.codes))] if both else []
        found = []
        for at in range(int(low), int(high)):
            doubt = labelled.uncertain is not None and bool(labelled.uncertain[at])
            flags = int(doubt) | 2 * (not self.reading.beats.assessed[at])
            place = _short((int(labelled.sample[at]) - first) / step)
            beat: list[Any] = [place, int(labelled.label[at]), flags]
            if both and second is not None:
                beat.append(codes.index(str(second.names[at])))
            found.append(beat)
        return found

    def _unusable(self, first: int) -> list[dict[str, Any]]:
        recording, step = self.reading.recording, self.leads.step
        last = first + round(STRIP_S * recording.fs_hz)
        parts = [(one.start, one.stop, str(one.reason)) for one in self.reading.quality[recording.lead].stretches]
        labelled = self.reading.labelled
        parts += [(start, stop, "no beats marked") for start, stop in labelled.unmarked]
        parts += [(start, stop, "possible flutter") for start, stop in labelled.flutter]
        return [
            {"start": _short((start - first) / step), "stop": _short((stop - first) / step)}
            | {"kind": "unusable", "text": text}
            for start, stop, text in parts
            if start < last and stop > first
        ]


def _short(number: float) -> float:
    """Return a number with few digits; whole ones as such."""
    value = round(number, 1)
    return int(value) if value == int(value) else value
