"""The warnings and notes of a report, and its header."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ecgfed import __version__
from ecgfed.base.language import (
    capitalized,
    date_text,
    joined_message,
    message,
    messages,
    number,
    tr,
    tr_later,
    translated,
)
from ecgfed.domain.events.beats import merged
from ecgfed.domain.events.ectopy import ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import FAST_PER_MIN, UNUSABLE_SHARE
from ecgfed.domain.record.metadata import Start
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.signal.confirm import not_confirmed_text
from ecgfed.domain.signal.findings import Finding, missing_lead, no_ecg, record_findings
from ecgfed.reports.drawing import Reading
from ecgfed.reports.markup import PageTime, PageTimes, clock
from ecgfed.reports.twelve_leads import limb_lead_warnings, no_sheet

#: The row of the header that names the channels that were not read.
LEFT_OUT = tr_later("Left out")
#: From this share on, unusable seconds or beats are a warning.
_MUCH = 0.01
#: Low confidence, or beats unlike those of training, are a warning above this share of all beats; otherwise a note
#: beside the counts concerned.
_MOST = 0.5
#: Codes of warnings that change no figure of the headline: listed as notes.
_NOTES = {"biphasic", "inverted", "lead-by-place", "lead-not-scored", "modified-lead", "resampled", "took-part"}
_NOTES |= {"fibrillation", "no-twelve-leads", "unknown-training", "unusable-seconds"}
_UNCONFIRMED = "intervals-not-confirmed"
#: Codes of predictions that already name the lead read in place of the requested one.
_OF_THE_LEAD = {"other-lead", "modified-lead", "lead-by-place", "lead-not-scored"}


def recording_header(reading: Reading, drawn_leads: Sequence[str], start: Start) -> tuple[tuple[str, str], ...]:
    """Return names and values of a report's header.

    Args:
        reading: the recording and its counts.
        drawn_leads: names of the leads on strips.
        start: when the recording begins, as far as it may be shown.
    """
    recording = reading.recording
    remaining_leads = [name for name in recording.leads if name != recording.lead]
    lead = recording.lead
    if recording.requested_as:
        lead = tr("{lead} (requested as {name})", lead=lead, name=recording.requested_as)
    by, provisional = tr_later("by {reader}"), tr_later("by {reader} (provisional)")
    labels = provisional if reading.labelled.provisional else by
    rows = [
        (tr("Length"), tr("{time} at {fs:g} Hz", time=clock(recording.duration_s), fs=recording.fs_hz)),
        (tr("Lead read"), lead),
        (tr("Other leads"), ", ".join(remaining_leads) or tr("none")),
        (tr("Labels"), tr(labels, reader=translated(reading.labelled.by))),
        (tr("Times"), times_text(start, recording.duration_s)),
        (tr("Made by"), f"ecgfed {__version__}"),
    ]
    if segments := reading.labelled.lead_segments:
        seconds = {name: 0.0 for part in segments for name in part.leads}
        for part in segments:
            for name in part.leads:
                seconds[name] += part.stop_s - part.start_s
        shares = ", ".join(f"{name} {number(total / recording.duration_s, '.0%')}" for name, total in seconds.items())
        text = tr("{leads} of the time: while their waves are clear", leads=shares or tr("none"))
        rows.append((tr("Leads used to detect beats"), text))
    if len(drawn_leads) < len(recording.leads):
        rows.append((tr("Leads drawn"), ", ".join(drawn_leads)))
    if recording.skipped:
        rows.append((tr(LEFT_OUT), ", ".join(recording.skipped)))
    return tuple(rows)


def times_text(start: Start, duration_s: float) -> str:
    """Return in words what the times of a page are."""
    if start.time is None:
        if start.date is None:
            return tr("counted from the start of the recording, whose time of day is not stated")
        return tr(
            "begun on {date}; counted from the start of the recording, whose time of day is not stated",
            date=date_text(start.date),
        )
    time = start.time.isoformat("seconds")
    if start.date is None:
        text = tr("time of day; the recording begins at {time}", time=time)
    else:
        date = date_text(start.date)
        text = tr("time of day; the recording begins on {date} at {time}", date=date, time=time)
    begins = start_s(start) or 0.0
    if begins + duration_s < 86400:
        return text
    return tr('{text}; "day 2" begins at the first midnight', text=text)


def start_s(start: Start) -> float | None:
    """Return a start in seconds from midnight; None where its time of day is not known."""
    at = start.time
    return None if at is None else 3600.0 * at.hour + 60 * at.minute + at.second + at.microsecond / 1e6


def warnings_and_notes(
    reading: Reading, marks: Annotation | None, times: PageTimes
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the warnings of a report, and the notes, which change no figure of its headline."""
    recording = reading.recording
    warnings = [
        *_count_warnings(reading.events, times, provisional=reading.labelled.provisional),
        *reading.labelled.warnings,
    ]
    unconfirmed, known = int((reading.beats.plausible & ~reading.beats.measured).sum()), int(reading.beats.known.sum())
    if unconfirmed > _MOST * known:
        text = message("{sentence} Rates are of the rest.", sentence=not_confirmed_text(unconfirmed, known))
        warnings = [(_UNCONFIRMED, text), *(warning for warning in warnings if warning[0] != _UNCONFIRMED)]
    warnings += [*_unusable_share(reading, times), *_unusable_leads(reading), *limb_lead_warnings(reading)]
    warnings += no_sheet(recording)
    if (problem := no_ecg(recording)) and "no-ecg" not in dict(warnings):
        warnings.append(("no-ecg", message("{sentence}.", sentence=capitalized(problem))))
    if "file" not in dict(warnings):
        warnings += [("file", message("{sentence}.", sentence=capitalized(note))) for note in recording.notes]
    bad = [reading.quality[name].spans() for name in recording.leads]
    findings: list[Finding] = [
        *missing_lead(recording, (recording.requested_as or recording.lead,)),
        *record_findings(recording, reading.labelled.sample, bad, marks, reading.labelled.pacing),
    ]
    codes = {code for code, _ in warnings}
    if codes & _OF_THE_LEAD:
        codes.add("missing-lead")
    if "left-out" in codes:  # covers the same seconds
        warnings = [(code, text) for code, text in warnings if code != "unusable-seconds"]
    of_recording = [(finding.kind, finding.text) for finding in findings if finding.kind not in codes]
    every = dict.fromkeys([*warnings, *of_recording])
    of_beats = {"far-beats": reading.labelled.out_of_distribution, "uncertain-beats": reading.labelled.uncertain}
    few = {code for code, beats in of_beats.items() if beats is None or not len(beats) or float(beats.mean()) <= _MOST}
    notes = tuple(warning for warning in every if warning[0] in _NOTES | few)
    return tuple(warning for warning in every if warning not in notes), notes


def _unusable_share(reading: Reading, times: PageTimes) -> list[tuple[str, str]]:
    """Warn of the unusable share of the lead and the uncounted beats, where either exceeds ``_MUCH``."""
    lead = reading.quality[reading.recording.lead]
    lost_samples = int(np.diff(reading.beats.unusable, axis=1).sum())
    lost_s, lost = lost_samples / lead.fs_hz, reading.events.total - reading.events.counted
    share = reading.beats.unusable_share
    if share < _MUCH and lost <= _MUCH * reading.events.total:
        return []
    if lost_samples >= lead.samples:
        reasons = joined_message(
            [message(reason) for reason in lead.seconds()] or [message("no beat can be made out")], ", "
        )
        text = message(
            "Nothing of {lead} can be used ({reasons}): no beat can be made out in it.",
            lead=reading.recording.lead,
            reasons=reasons,
        )
        return [("left-out", text)]
    values = {"seconds": lost_s, "share": share, "lead": reading.recording.lead}
    if lost:
        text = message(
            "{seconds:.1f} s ({share:.1%}) of {lead} cannot be used: {n} of {total} beats lie there and are in no "
            "count.",
            **values,
            n=lost,
            total=reading.events.total,
        )
    else:
        text = message("{seconds:.1f} s ({share:.1%}) of {lead} cannot be used: no beat lies there.", **values)
    sentences = [text]
    if share > UNUSABLE_SHARE:
        sentences.append(
            message(
                "Of more than {share:.0%}, lowest and highest rate and longest interval are not confirmed.",
                share=UNUSABLE_SHARE,
            )
        )
        whole = ectopy(replace(reading.beats, unusable=merged(())), Kind.VENTRICULAR, reading.events.rules)
        run = None if whole is None else whole.longest
        if run is not None and not reading.beats.known[run.first : run.last].all():
            sentences.append(
                messages(
                    "A possible ventricular run lies there, to be reviewed: {n} beat at {rate:.0f}/min, from {time}.",
                    "A possible ventricular run lies there, to be reviewed: {n} beats at {rate:.0f}/min, from {time}.",
                    run.beats,
                    rate=run.per_min,
                    time=PageTime(times, run.start_s),
                )
            )
    return [("left-out", joined_message(sentences, " "))]


def _unusable_leads(reading: Reading) -> Iterator[tuple[str, str]]:
    """Warn of leads beside the one in use of which nothing can be used."""
    others = {name: of for name, of in reading.quality.items() if name != reading.recording.lead}
    each = [
        message("{lead} ({reasons})", lead=name, reasons=joined_message([message(why) for why in of.seconds()], ", "))
        for name, of in others.items()
        if not of.usable_s
    ]
    if each:
        yield "unusable-leads", message("Nothing can be used of {leads}.", leads=joined_message(each, ", "))


def _count_warnings(events: Events, times: PageTimes, *, provisional: bool) -> Iterator[tuple[str, str]]:
    """Warn of ends without a beat, of unconfirmed pauses, and of rates that hardly any heart reaches."""
    for end in events.pauses.ends if events.total else ():
        yield (
            "no-beat-at-an-end",
            message(
                "No beat is marked from {start} to {stop} ({seconds:.1f} s): asystole, a lead that came off, or labels "
                "that stop there. Rates and burdens are of the rest.",
                start=PageTime(times, end.start_s),
                stop=PageTime(times, end.stop_s),
                seconds=end.value,
            ),
        )
    long = [interval for interval in events.pauses.not_confirmed if interval.value >= events.rules.pause_s]
    if long:
        worst = max(long, key=lambda interval: interval.value)
        yield (
            "pause-not-confirmed",
            messages(
                "{n} interval as long as a pause could not be confirmed, the longest {seconds:.1f} s at {time}: "
                "asystole, beats that were missed, or noise. Look at it first; lowest rate and longest interval are "
                "of the rest.",
                "{n} intervals as long as a pause could not be confirmed, the longest {seconds:.1f} s at {time}: "
                "asystole, beats that were missed, or noise. Look at it first; lowest rate and longest interval are "
                "of the rest.",
                len(long),
                seconds=worst.value,
                time=PageTime(times, worst.start_s),
            ),
        )
    fastest = events.rates.highest
    if provisional and fastest is not None and fastest.value >= FAST_PER_MIN:
        yield (
            "fast-waves",
            message(
                "The rate reaches {rate:.0f}/min at {time}: waves that are no beats (flutter, fibrillation, noise) may "
                "have been counted as beats there. Look at it first.",
                rate=fastest.value,
                time=PageTime(times, fastest.start_s),
            ),
        )
