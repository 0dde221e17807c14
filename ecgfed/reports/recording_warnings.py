"""The warnings and notes of a report, and its header."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ecgfed import __version__
from ecgfed.base.text import count_of
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
from ecgfed.reports.markup import PageTimes, clock
from ecgfed.reports.twelve_leads import limb_lead_warnings

#: The row of the header that names the channels that were not read.
LEFT_OUT = "Left out"
#: From this share on, unusable seconds or beats are a warning.
_MUCH = 0.01
#: Low confidence, or beats unlike those of training, are a warning above this share of all beats; otherwise a note
#: beside the counts concerned.
_MOST = 0.5
#: Codes of warnings that change no figure of the headline: listed as notes.
_NOTES = {"biphasic", "inverted", "lead-by-place", "lead-not-scored", "modified-lead", "resampled", "took-part"}
_NOTES |= {"fibrillation", "unknown-training", "unusable-seconds"}
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
    rows = [
        ("Length", f"{clock(recording.duration_s)} at {recording.fs_hz:g} Hz"),
        ("Lead read", recording.lead + (f" (requested as {recording.requested_as})" if recording.requested_as else "")),
        ("Other leads", ", ".join(remaining_leads) or "none"),
        ("Labels", f"by {reading.labelled.by}{' (provisional)' if reading.labelled.provisional else ''}"),
        ("Times", times_text(start, recording.duration_s)),
        ("Made by", f"ecgfed {__version__}"),
    ]
    if segments := reading.labelled.lead_segments:
        seconds = {name: 0.0 for part in segments for name in part.leads}
        for part in segments:
            for name in part.leads:
                seconds[name] += part.stop_s - part.start_s
        shares = ", ".join(f"{name} {total / recording.duration_s:.0%}" for name, total in seconds.items())
        rows.append(("Leads used to detect beats", f"{shares or 'none'} of the time: while their waves are clear"))
    if len(drawn_leads) < len(recording.leads):
        rows.append(("Leads drawn", ", ".join(drawn_leads)))
    if recording.skipped:
        rows.append((LEFT_OUT, ", ".join(recording.skipped)))
    return tuple(rows)


def times_text(start: Start, duration_s: float) -> str:
    """Return in words what the times of a page are."""
    if start.time is None:
        day = f"begun on {start.date.isoformat()}; " if start.date else ""
        return f"{day}counted from the start of the recording, whose time of day is not stated"
    day = f"on {start.date.isoformat()} " if start.date else ""
    text = f"time of day; the recording begins {day}at {start.time.isoformat('seconds')}"
    begins = start_s(start) or 0.0
    return f'{text}; "day 2" begins at the first midnight' if begins + duration_s >= 86400 else text


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
        text = f"{not_confirmed_text(unconfirmed, known)} Rates are of the rest."
        warnings = [(_UNCONFIRMED, text), *(warning for warning in warnings if warning[0] != _UNCONFIRMED)]
    warnings += [*_unusable_share(reading, times), *limb_lead_warnings(reading)]
    if (problem := no_ecg(recording)) and "no-ecg" not in dict(warnings):
        warnings.append(("no-ecg", f"{problem[0].upper()}{problem[1:]}."))
    if "file" not in dict(warnings):
        warnings += [("file", f"{note[0].upper()}{note[1:]}.") for note in recording.notes]
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
        reasons = ", ".join(lead.seconds()) or "no beat can be told"
        text = f"Nothing of {reading.recording.lead} can be used ({reasons}): no heartbeat can be told from it."
        return [("left-out", text)]
    all_beats = f"{reading.events.total:,} beats lie there and are in no count"
    beats = f"{lost:,} of {all_beats}" if lost else "no beat lies there"
    text = f"{lost_s:.1f} s ({share:.1%}) of {reading.recording.lead} cannot be used: {beats}."
    if share > UNUSABLE_SHARE:
        text += f" Of more than {UNUSABLE_SHARE:.0%}, lowest and highest rate and longest interval are not confirmed."
        whole = ectopy(replace(reading.beats, unusable=merged(())), Kind.VENTRICULAR, reading.events.rules)
        run = None if whole is None else whole.longest
        if run is not None and not reading.beats.known[run.first : run.last].all():
            rate = f"{count_of(run.beats, 'beat')} at {run.per_min:.0f}/min, from {times.text(run.start_s)}"
            text += f" A possible ventricular run lies there, to be reviewed: {rate}."
    return [("left-out", text)]


def _count_warnings(events: Events, times: PageTimes, *, provisional: bool) -> Iterator[tuple[str, str]]:
    """Warn of ends without a beat, of unconfirmed pauses, and of rates that hardly any heart reaches."""
    for end in events.pauses.ends if events.total else ():
        yield (
            "no-beat-at-an-end",
            f"No beat is marked from {times.text(end.start_s)} to {times.text(end.stop_s)} ({end.value:.1f} s): "
            "asystole, a lead that came off, or labels that stop there. Rates and burdens are of the rest.",
        )
    long = [interval for interval in events.pauses.not_confirmed if interval.value >= events.rules.pause_s]
    if long:
        worst = max(long, key=lambda interval: interval.value)
        yield (
            "pause-not-confirmed",
            f"{count_of(len(long), 'interval')} as long as a pause could not be confirmed, the longest "
            f"{worst.value:.1f} s at {times.text(worst.start_s)}: asystole, beats that were missed, or noise. Look at "
            "it first; lowest rate and longest interval are of the rest.",
        )
    fastest = events.rates.highest
    if provisional and fastest is not None and fastest.value >= FAST_PER_MIN:
        yield (
            "fast-waves",
            f"The rate reaches {fastest.value:.0f}/min at {times.text(fastest.start_s)}: waves that are no beats "
            "(flutter, fibrillation, noise) may have been counted as beats there. Look at it first.",
        )
