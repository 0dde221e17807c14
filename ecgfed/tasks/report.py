"""``report``: a page for clinicians from one recording. This path does not import torch."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, param
from ecgfed.base.language import message, page_language, tr_later
from ecgfed.base.options import flat_options, merged, taken
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.labels.edits import read_edits
from ecgfed.domain.record.reader import open_every_lead
from ecgfed.domain.record.recording import ReadingPool, ReadOptions, Recording
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.disclosure import check_length, full_disclosure
from ecgfed.reports.drawing import reading_of
from ecgfed.reports.edited import digest_of
from ecgfed.reports.editing import editing_data
from ecgfed.reports.options import ReportOptions
from ecgfed.reports.recording_report import RecordingReport, parts_of
from ecgfed.reports.signals import DrawnLeads
from ecgfed.tasks.grouped import recording_id
from ecgfed.tasks.inspect import DEFAULT_LEADS
from ecgfed.tasks.predict import opened_bundle, predict
from ecgfed.tasks.prediction_warnings import refuse_synthetic
from ecgfed.tasks.progress import SILENT, ProgressReporter
from ecgfed.tasks.records import open_for_model, with_usable_lead
from ecgfed.tasks.report_events import patient_events_of
from ecgfed.tasks.report_excluded import report_exclusions_of
from ecgfed.tasks.report_files import ReportFiles
from ecgfed.tasks.report_labels import OnThePage, read_by_file, read_by_model, read_labels
from ecgfed.tasks.report_model import model_rows
from ecgfed.tasks.report_patient import shown_of

USE = tr_later("Research use only, not for diagnosis; needs physician over-read.")
#: Leads whose quality is assessed in parallel, beside the detector.
_AT_A_TIME = 2


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(ReportOptions, RecordingOptions)
def report(
    recording: Recording | Path | str,
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
        overwrite: replace existing files, but never the recording itself.
        progress: receives progress, notes and warnings.
        options: the fields of ``ReportOptions``, and those of ``RecordingOptions``, which take precedence over ``how``.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.

    Examples:
        >>> import ecgfed
        >>> ecgfed.report("cohort-records/demo01", "bundle", patient="demo01")  # doctest: +ELLIPSIS
        RecordingReport('demo01': ... beats, .../min, ... warnings)
    """
    stated = merged(ReportOptions, None, taken(options, ReportOptions), "report")
    resolved = RecordingOptions.merged(how, options, "report")
    shown, rules = shown_of(stated), EventRules() if rules is None else rules
    edits = None if stated.edits is None else read_edits(Path(stated.edits))
    files = ReportFiles.of(stated, out, resolved.leads, pdf=pdf, overwrite=overwrite)
    opened = _opened(bundle, labels, patient, trusted)
    recording = _open(recording, opened, resolved.leads, resolved.read_options)
    files.check(recording, stated.diary)
    start = shown.page_start(recording.metadata)
    patient_events = patient_events_of(recording, stated.diary, shown, start)
    if stated.full_disclosure:
        check_length(recording.duration_s)
    signal = recording_id(recording)
    if edits is not None:
        edits.check_recording(signal, recording.samples)
    if opened is not None:
        refuse_synthetic(opened, recording, force=force)
    marks = None if labels is None else read_labels(Path(labels), recording)
    with ReadingPool(_AT_A_TIME) as pool:  # while the detector runs
        pending = {name: pool.submit(quality_of, recording, name) for name in recording.leads if name != recording.lead}
        if labels is not None and marks is not None:
            lead_quality = quality_of(recording, recording.lead)
            labelled, second = read_by_file(Path(labels), marks, recording, lead_quality, opened, patient, rules)
        else:
            assert opened is not None
            page_progress = OnThePage(progress)
            read = partial(
                predict, opened, recording, patient=patient, how=resolved, force=force, progress=page_progress
            )
            labelled, lead_quality, second = read_by_model(read, opened, recording, patient)
        assessed = {recording.lead: lead_quality, **{name: task.result() for name, task in pending.items()}}
    digest = digest_of(labelled, recording.fs_hz)
    if edits is not None:
        edits.check_beats(digest)
    quality = {name: assessed[name] for name in recording.leads}
    reading = reading_of(recording, quality, labelled, rules, second, edits)
    reading = replace(reading, patient_events=patient_events.events)
    use = USE if opened is None else str(opened.manifest["intended_use"])
    with page_language(stated.language):
        model = () if opened is None else model_rows(opened, patient)
        parts = parts_of(reading, marks, model=model, intended_use=use, start=start)
        data = {**parts.data, "editing": editing_data(reading, signal, digest)}
    notes = tuple(("patient-events", note) for note in patient_events.notes)
    if stated.full_disclosure:
        disclosure = full_disclosure(DrawnLeads.of(recording, quality))
        data["disclosure"] = disclosure.data
        parts = replace(parts, disclosure=disclosure)
    parts = replace(parts, patient=shown.patient(recording.metadata), data=data, notes=(*parts.notes, *notes))
    if stated.header:
        parts = replace(parts, header_lines=recording.comments)
    excluded = tuple(report_exclusions_of(reading, marks))
    for line in filter(None, (exclusions.line for exclusions in excluded)):
        progress.note(message("{sentence}.", sentence=line))
    result = RecordingReport(recording, parts, files.paths, excluded)
    files.write(result, reading, shown.start_of(recording.metadata), progress)
    return result


def _opened(
    bundle: Bundle | Path | str | None,
    labels: Path | str | None,
    patient: str | None,
    trusted: Path | str | Sequence[Path | str] | None,
) -> Bundle | None:
    """Return the bundle; None for a report on a file's labels alone."""
    if bundle is None and patient is not None:
        expected = "the bundle that holds this patient's model"
        raise OptionError("patient", f"without {param('bundle')}", expected, code="missing")
    if bundle is None and labels is not None:
        return None
    opened = opened_bundle(bundle, trusted)
    opened.classifier(patient)  # an unknown patient is refused before the recording is read
    return opened


def _open(
    recording: Recording | Path | str, bundle: Bundle | None, leads: str | Sequence[str] | None, how: ReadOptions
) -> Recording:
    """Return the recording with every lead; the lead in use is chosen as in ``predict``."""
    if bundle is None and leads is None:
        if isinstance(recording, Recording):
            return recording
        return with_usable_lead(open_every_lead(recording, DEFAULT_LEADS, how=how), DEFAULT_LEADS)
    return open_for_model(recording, () if bundle is None else bundle.leads, leads, how=how)
