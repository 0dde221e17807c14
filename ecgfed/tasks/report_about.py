"""What a report says of a recording as a whole: its header, and what speaks against the counts."""

from collections.abc import Iterator, Sequence

from ecgfed import __version__
from ecgfed.base.text import count_of
from ecgfed.domain.events.beats import merged
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.rhythm import FAST_PER_MIN
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.signal.findings import Finding, missing_lead, record_findings
from ecgfed.reports.markup import clock
from ecgfed.tasks.records import no_ecg
from ecgfed.tasks.report_parts import Reading, unusable_parts

#: From this share on what cannot be used is a warning.
_MUCH = 0.01
#: Low confidence, or beats unlike those of training, is a warning where it is of more than this share of all beats;
#: else it stands beside the counts that it touches.
_MOST = 0.5
#: Codes that change no figure of the headline: they are listed as notes.
_NOTES = {
    "biphasic",
    "inverted",
    "lead-by-place",
    "modified-lead",
    "resampled",
    "took-part",
    "unknown-training",
    "unusable-seconds",
}
#: Codes of predictions that say already which lead was read in place of the one wanted.
_OF_THE_LEAD = {"other-lead", "modified-lead", "lead-by-place"}


def about_recording(reading: Reading, shown: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return names and values of a report's header; ``shown`` are the leads that are drawn."""
    recording = reading.recording
    others = [name for name in recording.leads if name != recording.lead]
    rows = [
        ("Length", f"{clock(recording.duration_s)} at {recording.fs_hz:g} Hz"),
        ("Lead read", recording.lead + (f" (asked for as {recording.requested_as})" if recording.requested_as else "")),
        ("Other leads", ", ".join(others) or "none"),
        ("Labels", f"by {reading.labelled.by}{' (provisional)' if reading.labelled.provisional else ''}"),
        ("Start time", "not known to this report; times count from the start"),
        ("Made by", f"ecgfed {__version__}"),
    ]
    if segments := reading.labelled.lead_segments:
        seconds = {name: 0.0 for part in segments for name in part.leads}
        for part in segments:
            for name in part.leads:
                seconds[name] += part.stop_s - part.start_s
        shares = ", ".join(f"{name} {total / recording.duration_s:.0%}" for name, total in seconds.items())
        rows.append(
            ("Leads with a say in what is a beat", f"{shares or 'none'} of the time: while their waves are clear")
        )
    if len(shown) < len(recording.leads):
        rows.append(("Leads drawn", ", ".join(shown)))
    if recording.skipped:
        rows.append(("Left out", ", ".join(recording.skipped)))
    return tuple(rows)


def warnings_and_notes(
    reading: Reading, marks: Annotation | None
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the warnings of a report, and the notes: what changes no figure of its headline."""
    every = _every_warning(reading, marks)
    notes = tuple(one for one in every if _is_note(one[0], reading))
    return tuple(one for one in every if one not in notes), notes


def _is_note(code: str, reading: Reading) -> bool:
    """Say whether a warning changes no figure: most beats are as the model knows them, and it is sure of most."""
    labelled = reading.labelled
    share = {"far-beats": labelled.far, "uncertain-beats": labelled.uncertain}
    if code in share:
        of_beats = share[code]
        return of_beats is None or not len(of_beats) or float(of_beats.mean()) <= _MOST
    return code in _NOTES


def _every_warning(reading: Reading, marks: Annotation | None) -> tuple[tuple[str, str], ...]:
    """Return what speaks against the labels, then what is known of the recording as a whole."""
    recording = reading.recording
    found = [*_of_the_counts(reading.events, provisional=reading.labelled.provisional), *reading.labelled.warnings]
    found += _left_out(reading)
    if (amiss := no_ecg(recording)) and "no-ecg" not in dict(found):
        found.append(("no-ecg", f"{amiss[0].upper()}{amiss[1:]}."))
    if "file" not in dict(found):
        found += [("file", f"{note[0].upper()}{note[1:]}.") for note in recording.notes]
    bad = [reading.quality[name].spans() for name in recording.leads]
    findings: list[Finding] = [
        *missing_lead(recording, (recording.requested_as or recording.lead,)),
        *record_findings(recording, reading.labelled.sample, bad, marks),
    ]
    said = {code for code, _ in found}
    if said & _OF_THE_LEAD:
        said.add("missing-lead")
    if "left-out" in said:  # says of the same seconds what became of them
        found = [one for one in found if one[0] != "unusable-seconds"]
    return tuple(dict.fromkeys([*found, *((one.kind, one.text) for one in findings if one.kind not in said)]))


def _left_out(reading: Reading) -> list[tuple[str, str]]:
    """Say how much of the lead cannot be used, and how many beats are in no count for it, where that is much."""
    lead = reading.quality[reading.recording.lead]
    lost_samples = sum(
        stop - start for start, stop in merged(unusable_parts(reading.recording, lead, reading.labelled))
    )
    lost_s, lost = lost_samples / lead.fs_hz, reading.events.total - reading.events.counted
    share = lost_s * lead.fs_hz / lead.samples
    if share < _MUCH and lost <= _MUCH * reading.events.total:
        return []
    beats = (
        f"{lost:,} of {reading.events.total:,} beats lie there and are in no count" if lost else "no beat lies there"
    )
    text = f"{lost_s:.1f} s ({share:.1%}) of {reading.recording.lead} cannot be used: {beats}."
    return [("left-out", text)]


def _of_the_counts(events: Events, *, provisional: bool) -> Iterator[tuple[str, str]]:
    """Warn of stretches at an end without a beat, and of rates that no heart has."""
    for one in events.pauses.ends if events.total else ():
        yield (
            "no-beat-at-an-end",
            f"No beat is marked from {clock(one.start_s)} to {clock(one.stop_s)} ({one.value:.1f} s): asystole, a lead "
            "that came off, or labels that stop there. Rates and burdens are of the rest.",
        )
    long = [one for one in events.pauses.not_confirmed if one.value >= events.rules.pause_s]
    if long:
        worst = max(long, key=lambda one: one.value)
        yield (
            "pause-not-confirmed",
            f"{count_of(len(long), 'interval')} as long as a pause could not be confirmed, the longest "
            f"{worst.value:.1f} s at {clock(worst.start_s)}: asystole, beats that were missed, or noise. Look at it "
            "first; lowest rate and longest interval are of the rest.",
        )
    fastest = events.rates.highest
    if provisional and fastest is not None and fastest.value >= FAST_PER_MIN:
        yield (
            "fast-waves",
            f"The rate reaches {fastest.value:.0f}/min at {clock(fastest.start_s)}: waves that are no beats (flutter, "
            "fibrillation, noise) may have been counted as beats there. Look at it first.",
        )
