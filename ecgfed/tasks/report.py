"""``report``: a page for clinicians from one recording. This path does not import torch."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.files import check_free
from ecgfed.base.options import flat_options
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.path import RecordingBeats, RecordingOptions
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rhythm import At, Pauses
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.opening import open_every_lead
from ecgfed.domain.record.recording import Annotation, AnyRecording, ReadOptions
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.confirm import second_look
from ecgfed.domain.signal.flutter import flutter_text
from ecgfed.domain.signal.quality import LeadQuality
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.recording_parts import RecordingParts
from ecgfed.tasks.excluded import excluded_as_json
from ecgfed.tasks.inspect import DEFAULT_LEADS
from ecgfed.tasks.labels_checked import confirmed_labels, detected_peaks, mismatched_recording
from ecgfed.tasks.page_files import page_targets, write_page
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.predict import RecordingPredictions, opened_bundle, predict
from ecgfed.tasks.prediction_warnings import refuse_synthetic
from ecgfed.tasks.progress import SILENT, ProgressReporter
from ecgfed.tasks.records import open_for_model
from ecgfed.tasks.report_excluded import report_exclusions_of
from ecgfed.tasks.report_labels import Labelled, OnThePage, Second, by_file, by_model, read_labels, second_reader
from ecgfed.tasks.report_model import model_rows
from ecgfed.tasks.report_parts import Drawing, Reading, class_rows, lead_rows, reading_of
from ecgfed.tasks.report_warnings import recording_header, warnings_and_notes

USE = "Research use only, not for diagnosis; needs physician over-read."
#: The filter of the strips.
_FILTER = "band-pass 0.5 to 40 Hz"
#: Leads whose quality is assessed in parallel, beside the detector.
_AT_A_TIME = 2


@dataclass(frozen=True, repr=False, eq=False)
class RecordingReport:
    """A recording's report.

    Attributes:
        recording: the recording.
        parts: the content of the report; ``parts.events`` holds every count.
        files: the written files.
        excluded: the beats, annotations and channels that were read, used and excluded, by reason.
    """

    recording: AnyRecording
    parts: RecordingParts
    files: tuple[Path, ...] = ()
    excluded: tuple[Exclusions, ...] = ()

    def __repr__(self) -> str:
        events = self.parts.events
        rate = "no heart rate" if events.rates.mean is None else f"{events.rates.mean:.0f}/min"
        warning_count = len(self.parts.warnings)
        what = f"{count_of(events.counted, 'beat')}, {rate}, {count_of(warning_count, 'warning')}"
        return f"RecordingReport({shortened(self.recording.name, 60)!r}: {what})"

    @cached_property
    def html(self) -> str:
        """The page: one self-contained HTML document."""
        return recording_page(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, their rules and the warnings, JSON-ready; None where not assessed."""
        parts, events = self.parts, self.parts.events
        values: dict[str, Any] = {
            "record": parts.record,
            "lead": parts.lead,
            "lead_segments": [asdict(segment) for segment in parts.lead_segments],
            "duration_s": round(parts.duration_s, 3),
            "labelled_by": parts.labelled_by,
            "provisional": parts.provisional,
            "usable_s": {row.name: round(row.usable_s, 3) for row in parts.leads},
            "intended_use": parts.intended_use,
            "warnings": [{"code": code, "text": text} for code, text in parts.warnings],
            "notes": [{"code": code, "text": text} for code, text in parts.notes],
            "beats": events.total,
            "counted": events.counted,
            "excluded": excluded_as_json(self.excluded),
            "by_class": events.by_class,
            "uncertain_by_class": {row.name: row.uncertain for row in parts.classes},
            "rates": asdict(events.rates),
            "pauses": _pauses_dict(events.pauses),
            "variability": asdict(events.variability),
            "ventricular": _ectopy_dict(events.ventricular),
            "supraventricular": _ectopy_dict(events.supra),
            "to_review": {KIND_WORDS[kind]: _ectopy_dict(ectopy) for kind, ectopy in events.to_review.items()},
            "withheld": {KIND_WORDS[kind]: reason for kind, reason in events.withheld.items()},
            "rhythms": [rhythm.to_dict() for rhythm in parts.rhythms],
            "hours": [{**asdict(hour), **dict.fromkeys(_withheld_hours(events))} for hour in events.hours],
            "rules": events.rules.to_dict(),
            "files": [str(file) for file in self.files],
        }
        return {name: _as_json(value) for name, value in values.items()}


def _as_json(value: Any) -> Any:
    """Return a value with lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value


def _ectopy_dict(ectopy: Ectopy | None) -> dict[str, Any] | None:
    if ectopy is None:
        return None
    review = sum(run.review for run in ectopy.runs)
    runs = {"certain_runs": len(ectopy.runs) - review, "runs_to_review": review}
    return {**asdict(ectopy), **runs, "kind": Kind(ectopy.kind).name.lower(), "percent": ectopy.percent}


def _pauses_dict(pauses: Pauses) -> dict[str, Any]:
    """Return the pauses; intervals that were not confirmed are to be reviewed."""

    def rows(intervals: Iterable[At], *, review: bool) -> list[dict[str, Any]]:
        return [{**asdict(interval), "review": review} for interval in intervals]

    return {
        "found": rows(pauses.intervals, review=False),
        "longest": None if pauses.longest is None else asdict(pauses.longest),
        "not_assessed": pauses.not_assessed,
        "ends": [asdict(end) for end in pauses.ends],
        "not_confirmed": rows(pauses.not_confirmed, review=True),
    }


def _withheld_hours(events: Events) -> list[str]:
    """Return the names of the withheld counts of an hour."""
    names = {Kind.VENTRICULAR: "ventricular", Kind.SUPRA: "supra"}
    return [names[kind] for kind in events.withheld]


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(RecordingOptions)
def report(
    recording: AnyRecording | Path | str,
    bundle: Bundle | Path | str | None = None,
    *,
    out: Path | str | None = None,
    patient: str | None = None,
    labels: Path | str | None = None,
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    rules: EventRules | None = None,
    pdf: bool = False,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> RecordingReport:
    """Make a report page of a recording. Research use only, not for diagnosis.

    Args:
        recording: a recording, or its file.
        bundle: the bundle whose model labels the beats, default the model in the package; with ``labels``, a bundle is
            optional and its model is compared with them.
        out: the page to write, ``.html``; None writes nothing.
        patient: use this patient's personal model, and show where the global one disagrees.
        labels: a WFDB annotation or a table of labels, in place of a model's.
        how: how the recording is read: ``ReadOptions``, or all options of the last lines.
        trusted: public keys (PEM files), one of which must have signed the bundle; None accepts any bundle.
        force: allow a model of synthetic patients for other recordings.
        rules: how events are counted.
        pdf: also print the page to a PDF beside it, with Chromium.
        overwrite: replace an existing page, but never the recording itself.
        progress: receives progress, notes and warnings.
        options: the fields of ``RecordingOptions``; they take precedence over ``how``.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.

    Examples:
        >>> import ecgfed
        >>> ecgfed.report("cohort-records/demo01", "bundle", patient="demo01")  # doctest: +ELLIPSIS
        RecordingReport('demo01': ... beats, .../min, ... warnings)
    """
    targets = page_targets(out, pdf=pdf, overwrite=overwrite)
    browser = find_browser() if pdf else None
    opened = _opened(bundle, labels, patient, trusted)
    asked = RecordingOptions.merged(how, options, "report")
    recording = _open(recording, opened, asked.leads, asked.read_options)
    check_free(targets, recording.files, overwrite=overwrite)
    if opened is not None:
        refuse_synthetic(opened, recording, force=force)
    rules = EventRules() if rules is None else rules
    with ThreadPoolExecutor(_AT_A_TIME) as pool:  # while the detector runs
        pending = {name: pool.submit(quality_of, recording, name) for name in recording.leads if name != recording.lead}
        if labels is not None:
            marks = read_labels(Path(labels), recording)
            lead_quality = quality_of(recording, recording.lead)
            labelled, second = _by_file(Path(labels), marks, recording, lead_quality, opened, patient, rules)
        else:
            marks = None
            assert opened is not None
            read = partial(
                predict, opened, recording, patient=patient, how=asked, force=force, progress=OnThePage(progress)
            )
            labelled, lead_quality, second = _by_model(read, opened, recording, patient)
        assessed = {recording.lead: lead_quality, **{name: task.result() for name, task in pending.items()}}
    quality = {name: assessed[name] for name in recording.leads}
    reading = reading_of(recording, quality, labelled, rules, second)
    parts = _parts(reading, opened, patient, marks)
    excluded = tuple(report_exclusions_of(reading, marks))
    for exclusions in excluded:
        if exclusions.line:
            progress.note(f"{exclusions.line}.")
    result = RecordingReport(recording, parts, tuple(targets), excluded)
    if targets:
        write_page(targets, result.html, browser)
    return result


def _opened(
    bundle: Bundle | Path | str | None,
    labels: Path | str | None,
    patient: str | None,
    trusted: Path | str | Sequence[Path | str] | None,
) -> Bundle | None:
    """Return the bundle; None for a report on a file's labels alone."""
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
    """Return the recording with every lead; the lead in use is chosen as in ``predict``."""
    if bundle is None and leads is None:
        return recording if isinstance(recording, AnyRecording) else open_every_lead(recording, DEFAULT_LEADS, how=how)
    return open_for_model(recording, () if bundle is None else bundle.leads, leads, how=how)


def _by_model(
    read: Callable[[], RecordingPredictions], bundle: Bundle, recording: AnyRecording, patient: str | None
) -> tuple[Labelled, LeadQuality, Second | None]:
    """Return the model's labels, the lead's quality, and for a personal model the global model as second reader.

    A recording without detected beats has a report too, which says so.
    """
    try:
        predictions = read()
    except RecordError as error:
        if not error.where.startswith(f"{recording.path} lead "):  # how detectors name the signal
            raise
        return _without_beats(bundle, recording, patient, error), quality_of(recording, recording.lead), None
    second = None if patient is None else second_reader(bundle, None, predictions.cut)
    labelled = by_model(predictions, bundle)
    if predictions.cut.detected:
        paced = None if predictions.pacing is None else predictions.pacing.beats
        second_analysis = second_look(recording, predictions.sample, paced)
        labelled = replace(
            labelled,
            confirmed=second_analysis.confirmed,
            doubted=second_analysis.doubted,
            lead_segments=second_analysis.segments,
        )
    return labelled, predictions.cut.quality, second


def _without_beats(bundle: Bundle, recording: AnyRecording, patient: str | None, error: RecordError) -> Labelled:
    """Return empty labels, with the reason as a warning."""
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
        metadata={"patient": patient},
    )
    text = f"No beat was found in {recording.lead} ({error.reason}): is it an ECG, and is the electrode connected?"
    warnings: tuple[tuple[str, str], ...] = (("no-beats", text),)
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
    """Return a file's labels, and a bundle's model as second reader of the same beats."""
    labelled = by_file(path, marks, recording)
    peaks = detected_peaks(recording, quality)
    mismatch = tuple(mismatched_recording(path, labelled.sample, peaks, recording, quality))
    confirmed, unlike = confirmed_labels(
        path, labelled.sample, peaks, recording, pause_s=rules.pause_s, unmarked=labelled.unmarked
    )
    labelled = replace(labelled, confirmed=confirmed, warnings=(*mismatch, *unlike, *labelled.warnings))
    if bundle is None:
        return labelled, None
    cut = RecordingBeats(recording, quality, marks, labelled.sample, detected=False, rr_version=bundle.rr_version or 1)
    second = second_reader(bundle, patient, cut)
    return replace(labelled, warnings=(*labelled.warnings, *second.warnings)), second


def _parts(reading: Reading, bundle: Bundle | None, patient: str | None, marks: Annotation | None) -> RecordingParts:
    """Return the content of the page."""
    recording, labelled = reading.recording, reading.labelled
    with ThreadPoolExecutor(1) as pool:  # while the strips are drawn
        warnings = pool.submit(warnings_and_notes, reading, marks)
        drawing = Drawing(reading)
        gallery, averages, comparison = drawing.gallery(), drawing.averages(), drawing.comparison()
        timeline, width = drawing.timeline()
    return RecordingParts(
        recording.name,
        recording_header(reading, drawing.leads.names),
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
        () if bundle is None else model_rows(bundle, patient),
        _FILTER,
        width,
        drawing.data(timeline),
        labelled.lead_segments,
    )
