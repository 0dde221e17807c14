"""``report``: a recording in, a page that a clinician reads out. No torch anywhere on this path."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.files import check_free
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rhythm import Pauses
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.opening import open_every_lead
from ecgfed.domain.record.recording import Annotation, AnyRecording, ReadOptions, read_options
from ecgfed.domain.signal.block_quality import quality_of
from ecgfed.domain.signal.confirm import second_look
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.domain.signal.flutter import flutter_text
from ecgfed.domain.signal.quality import LeadQuality
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.recording_parts import RecordingParts
from ecgfed.tasks.doubts import refuse_synthetic
from ecgfed.tasks.excluded import excluded_as_json
from ecgfed.tasks.inspect import DEFAULT_LEADS
from ecgfed.tasks.labels_checked import confirmed_labels, detected_peaks, mismatched_recording
from ecgfed.tasks.page_files import page_targets, write_page
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.predict import RecordingPredictions, opened_bundle, predict
from ecgfed.tasks.records import open_for_model
from ecgfed.tasks.report_about import about_recording, warnings_and_notes
from ecgfed.tasks.report_excluded import report_exclusions_of
from ecgfed.tasks.report_labels import (
    Labelled,
    OnThePage,
    Second,
    by_file,
    by_model,
    model_facts,
    read_labels,
    second_reader,
)
from ecgfed.tasks.report_parts import Drawing, Reading, class_rows, lead_rows, reading_of
from ecgfed.tasks.watch import NOBODY, Watch

USE = "Research use only, not for diagnosis; needs physician over-read."
#: What strips went through, in a few words.
_FILTER = "band-pass 0.5 to 40 Hz"
#: Leads that are judged at once, beside the detector.
_AT_A_TIME = 2


@dataclass(frozen=True, repr=False, eq=False)
class RecordingReport:
    """A recording's report.

    Attributes:
        recording: it.
        parts: what the report holds, ``parts.events`` every count.
        files: what was written.
        excluded: the beats, annotations and channels that were read, used and excluded, by reason.
    """

    recording: AnyRecording
    parts: RecordingParts
    files: tuple[Path, ...] = ()
    excluded: tuple[Exclusions, ...] = ()

    def __repr__(self) -> str:
        events = self.parts.events
        rate = "no heart rate" if events.rates.mean is None else f"{events.rates.mean:.0f}/min"
        many = len(self.parts.warnings)
        what = f"{count_of(events.counted, 'beat')}, {rate}, {count_of(many, 'warning')}"
        return f"RecordingReport({shortened(self.recording.name, 60)!r}: {what})"

    @cached_property
    def html(self) -> str:
        """The page: one HTML document that needs no other file and no network."""
        return recording_page(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, their rules and the warnings, JSON-ready; None is what was not assessed."""
        parts, events = self.parts, self.parts.events
        told: dict[str, Any] = {
            "record": parts.record,
            "lead": parts.lead,
            "lead_segments": [asdict(segment) for segment in parts.lead_segments],
            "duration_s": round(parts.duration_s, 3),
            "labelled_by": parts.labelled_by,
            "provisional": parts.provisional,
            "usable_s": {one.name: round(one.usable_s, 3) for one in parts.leads},
            "intended_use": parts.intended_use,
            "warnings": [{"code": code, "text": text} for code, text in parts.warnings],
            "notes": [{"code": code, "text": text} for code, text in parts.notes],
            "beats": events.total,
            "counted": events.counted,
            "excluded": excluded_as_json(self.excluded),
            "by_class": events.by_class,
            "uncertain_by_class": {one.name: one.uncertain for one in parts.classes},
            "rates": asdict(events.rates),
            "pauses": _pauses_dict(events.pauses),
            "variability": asdict(events.variability),
            "ventricular": _ectopy_dict(events.ventricular),
            "supraventricular": _ectopy_dict(events.supra),
            "to_review": {KIND_WORDS[kind]: _ectopy_dict(found) for kind, found in events.to_review.items()},
            "withheld": {KIND_WORDS[kind]: reason for kind, reason in events.withheld.items()},
            "rhythms": [rhythm.to_dict() for rhythm in parts.rhythms],
            "hours": [{**asdict(hour), **dict.fromkeys(_withheld_hours(events))} for hour in events.hours],
            "rules": asdict(events.rules),
            "files": [str(file) for file in self.files],
        }
        return {name: _as_json(value) for name, value in told.items()}


def _as_json(value: Any) -> Any:
    """Return a value with lists in place of tuples, as JSON reads it back."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    return [_as_json(one) for one in value] if isinstance(value, list | tuple) else value


def _ectopy_dict(found: Ectopy | None) -> dict[str, Any] | None:
    if found is None:
        return None
    review = sum(run.review for run in found.runs)
    runs = {"certain_runs": len(found.runs) - review, "runs_to_review": review}
    return {**asdict(found), **runs, "kind": Kind(found.kind).name.lower(), "percent": found.percent}


def _pauses_dict(pauses: Pauses) -> dict[str, Any]:
    """Return the pauses; an interval that was not confirmed has to be reviewed."""
    listed = {"found": (pauses.found, False), "not_confirmed": (pauses.not_confirmed, True)}
    marked = {name: [{**asdict(at), "review": review} for at in every] for name, (every, review) in listed.items()}
    return {**asdict(pauses), **marked}


def _withheld_hours(events: Events) -> list[str]:
    """Return the counts of an hour that are withheld."""
    names = {Kind.VENTRICULAR: "ventricular", Kind.SUPRA: "supra"}
    return [names[kind] for kind in events.withheld]


def report(
    recording: AnyRecording | Path | str,
    bundle: Bundle | Path | str | None = None,
    *,
    out: Path | str | None = None,
    patient: str | None = None,
    labels: Path | str | None = None,
    leads: str | Sequence[str] | None = None,
    peaks: str = "detected",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    annotator: str = "atr",
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    rules: EventRules | None = None,
    pdf: bool = False,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> RecordingReport:
    """Make a page of what a recording holds. Research use only, not for diagnosis.

    Args:
        recording: a recording, or its file.
        bundle: whose model labels the beats, default the model in the package; with ``labels`` it is compared with
            them, where one is named.
        out: the page to write, ``.html``; None writes nothing.
        patient: use this patient's own model, and show where the global one disagrees.
        labels: a WFDB annotation or a table of marks, in place of a model's labels.
        leads: lead names in order of preference; default the bundle's; with labels alone MLII, II or the first.
        peaks: ``detected`` or ``annotated`` R peaks for the model.
        detector: for detected peaks: a registered name, or a ``Detector`` of your own.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for detectors that ask; None is 60.
        annotator: suffix of the annotation file, for annotated peaks.
        how: what a CSV or NumPy file leaves open.
        trusted: public keys (PEM files), one of which has to have signed the bundle; None takes any bundle.
        force: let a model of synthetic patients answer for other recordings too.
        rules: how events are counted.
        pdf: also print the page beside it, through Chromium.
        overwrite: replace the page where it exists, but never the recording itself.
        watch: told what to keep in mind.

    Raises:
        EcgfedError: in one line, what cannot be used.

    Examples:
        >>> import ecgfed
        >>> ecgfed.report("cohort-records/demo01", "bundle", patient="demo01")  # doctest: +ELLIPSIS
        RecordingReport('demo01': ... beats, .../min, ... warnings)
    """
    targets = page_targets(out, pdf=pdf, overwrite=overwrite)
    browser = find_browser() if pdf else None
    opened = _opened(bundle, labels, patient, trusted)
    recording = _open(recording, opened, leads, read_options(how))
    check_free(targets, recording.files, overwrite=overwrite)
    if opened is not None:
        refuse_synthetic(opened, recording, force=force)
    rules = EventRules() if rules is None else rules
    with ThreadPoolExecutor(_AT_A_TIME) as pool:  # while the peaks are found
        others = {name: pool.submit(quality_of, recording, name) for name in recording.leads if name != recording.lead}
        if labels is not None:
            marks = read_labels(Path(labels), recording)
            own = quality_of(recording, recording.lead)
            labelled, second = _by_file(Path(labels), marks, recording, own, opened, patient, rules)
        else:
            marks = None
            assert opened is not None
            read = partial(
                predict,
                opened,
                recording,
                patient=patient,
                leads=leads,
                peaks=peaks,
                detector=detector,
                mains_hz=mains_hz,
                annotator=annotator,
                how=how,
                force=force,
                watch=OnThePage(watch),
            )
            labelled, own, second = _by_model(read, opened, recording, patient)
        judged = {recording.lead: own, **{name: found.result() for name, found in others.items()}}
    quality = {name: judged[name] for name in recording.leads}
    reading = reading_of(recording, quality, labelled, rules, second)
    parts = _parts(reading, opened, patient, marks)
    excluded = tuple(report_exclusions_of(reading, marks))
    for one in excluded:
        if one.line:
            watch.note(f"{one.line}.")
    found = RecordingReport(recording, parts, tuple(targets), excluded)
    if targets:
        write_page(targets, found.html, browser)
    return found


def _opened(
    bundle: Bundle | Path | str | None,
    labels: Path | str | None,
    patient: str | None,
    trusted: Path | str | Sequence[Path | str] | None,
) -> Bundle | None:
    """Return the bundle; of a report on a file's labels alone there is none."""
    if bundle is None and patient is not None:
        raise OptionError("--patient", "without --bundle", "the bundle that holds this patient's model")
    if bundle is None and labels is not None:
        return None
    opened = opened_bundle(bundle, trusted)
    opened.classifier(patient)  # an unknown patient is refused before the recording is read
    return opened


def _open(
    recording: AnyRecording | Path | str, bundle: Bundle | None, leads: str | Sequence[str] | None, how: ReadOptions
) -> AnyRecording:
    """Return the recording with every lead; the one in use is chosen as ``predict`` does."""
    if bundle is None and leads is None:
        return recording if isinstance(recording, AnyRecording) else open_every_lead(recording, DEFAULT_LEADS, how=how)
    return open_for_model(recording, () if bundle is None else bundle.leads, leads, how=how)


def _by_model(
    read: Callable[[], RecordingPredictions], bundle: Bundle, recording: AnyRecording, patient: str | None
) -> tuple[Labelled, LeadQuality, Second | None]:
    """Return the model's labels, the lead's quality, and of a patient's own model what the global one says.

    A recording in which no beat is found has a report too: that none was found.
    """
    try:
        found = read()
    except RecordError as problem:
        if not problem.where.startswith(f"{recording.path} lead "):  # what the detectors call the signal they are given
            raise
        return _nothing(bundle, recording, patient, problem), quality_of(recording, recording.lead), None
    second = None if patient is None else second_reader(bundle, None, found.cut)
    labelled = by_model(found, bundle)
    if found.cut.detected:
        again = second_look(recording, found.sample, None if found.pacing is None else found.pacing.beats)
        labelled = replace(labelled, confirmed=again.confirmed, doubted=again.doubted, lead_segments=again.segments)
    return labelled, found.cut.quality, second


def _nothing(bundle: Bundle, recording: AnyRecording, patient: str | None, problem: RecordError) -> Labelled:
    """Return labels of no beat, with the reason as a warning."""
    classifier = bundle.classifier(patient)
    nothing = np.empty(0, np.int64)
    cut = RecordingBeats(recording, LeadQuality(recording.samples, recording.fs_hz, ()), None, nothing, detected=True)
    empty = RecordingPredictions(
        label=nothing,
        probability=np.empty((0, len(classifier.classes)), np.float32),
        flags=np.empty(0, np.uint8),
        classes=classifier.classes,
        sample=nothing,
        fs_hz=recording.fs_hz,
        recording=recording,
        labels=bundle.labels,
        poor=(),
        cut=cut,
        about={"patient": patient},
    )
    said = f"No beat was found in {recording.lead} ({problem.reason}): is it an ECG, and is the electrode connected?"
    warnings: tuple[tuple[str, str], ...] = (("no-beats", said),)
    if cut.flutter:
        warnings = (("flutter", f"{flutter_text(cut.flutter, recording.fs_hz)}. Look at it first."), *warnings)
    return replace(by_model(empty, bundle), confidence=None, uncertain=None, warnings=warnings)


def _by_file(
    path: Path,
    marks: Annotation,
    recording: AnyRecording,
    quality: LeadQuality,
    bundle: Bundle | None,
    patient: str | None,
    rules: EventRules,
) -> tuple[Labelled, Second | None]:
    """Return a file's labels, and what a bundle's model says of the same beats."""
    labelled = by_file(path, marks, recording)
    peaks = detected_peaks(recording, quality)
    apart = tuple(mismatched_recording(path, labelled.sample, peaks, recording, quality))
    confirmed, unlike = confirmed_labels(
        path, labelled.sample, peaks, recording, pause_s=rules.pause_s, unmarked=labelled.unmarked
    )
    labelled = replace(labelled, confirmed=confirmed, warnings=(*apart, *unlike, *labelled.warnings))
    if bundle is None:
        return labelled, None
    cut = RecordingBeats(recording, quality, marks, labelled.sample, detected=False, rr_version=bundle.rr_version or 1)
    second = second_reader(bundle, patient, cut)
    return replace(labelled, warnings=(*labelled.warnings, *second.warnings)), second


def _parts(reading: Reading, bundle: Bundle | None, patient: str | None, marks: Annotation | None) -> RecordingParts:
    """Gather everything the page shows."""
    recording, labelled = reading.recording, reading.labelled
    with ThreadPoolExecutor(1) as pool:  # while the strips are drawn
        warnings = pool.submit(warnings_and_notes, reading, marks)
        drawing = Drawing(reading)
        gallery, averages, comparison = drawing.gallery(), drawing.averages(), drawing.comparison()
        timeline, width = drawing.timeline()
    return RecordingParts(
        recording.name,
        about_recording(reading, drawing.leads.names),
        USE if bundle is None else str(bundle.manifest["intended_use"]),
        labelled.by,
        labelled.provisional,
        *warnings.result(),
        recording.lead,
        lead_rows(reading),
        recording.duration_s,
        reading.events,
        class_rows(reading),
        gallery,
        averages,
        comparison,
        reading.labelled.rhythms or (),
        () if bundle is None else model_facts(bundle, patient, {"bundle": name_of(bundle.path)}),
        _FILTER,
        width,
        drawing.data(timeline),
        labelled.lead_segments,
    )
