"""``inspect_recording``: signal quality and findings of a recording, without torch."""

import contextlib
import html
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import MissingExtraError, OptionError, RecordError, param
from ecgfed.base.files import write_bytes
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Counted
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.leads import ecg_alone, lead_list
from ecgfed.domain.record.reader import has_annotation, open_every_lead, open_recording, read_annotation
from ecgfed.domain.record.recording import Annotation, ReadingPool, ReadOptions, Recording, read_options
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.detectors import OURS, Detector, check_mains, detector_by_name
from ecgfed.domain.signal.findings import Finding, heart_rate, missing_lead, no_ecg, record_findings
from ecgfed.domain.signal.heartbeats import end_noise
from ecgfed.domain.signal.peaks import OnSamples, find_peaks
from ecgfed.domain.signal.quality import LeadQuality, Stretch
from ecgfed.reports.picture import Picture
from ecgfed.reports.quality_page import FORMATS, QualityPage, draw_quality, worst_start
from ecgfed.reports.strip import clock
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded, excluded_as_json
from ecgfed.tasks.progress import SILENT, ProgressReporter, minutes_reporter, report_exclusions
from ecgfed.tasks.records import seconds_of, with_beat_leads, with_lead

#: Default leads, those of the default cohort; the first lead if neither is present.
DEFAULT_LEADS = ("MLII", "II")
#: Leads analysed in parallel with the detector.
_AT_A_TIME = 2


@dataclass(frozen=True, repr=False, eq=False)
class Inspection:
    """Usable parts and findings of a recording.

    Attributes:
        recording: the recording with all leads.
        quality: lead name -> its segments of poor quality.
        detector: name of the detector.
        heart_rate_per_min: median heart rate of the chosen lead in beats per minute; None if undefined.
        findings: findings about the recording; not errors.
        picture: path of the picture, or None.
        excluded: JSON-ready: numbers of channels and annotations read, used, and excluded by reason.
    """

    recording: Recording
    quality: Mapping[str, LeadQuality]
    detector: str
    heart_rate_per_min: float | None
    findings: tuple[Finding, ...]
    picture: Path | None = None
    excluded: dict[str, Counted] = field(default_factory=dict)

    def __repr__(self) -> str:
        rate = "no heart rate" if self.heart_rate_per_min is None else f"{self.heart_rate_per_min:.0f}/min"
        lead, usable = self.recording.lead, usable_percent(self.quality[self.recording.lead])
        count = len(self.findings)
        what = f"{shortened(lead, 20)} {usable:g}% usable, {rate}, {count_of(count, 'finding')}"
        return f"Inspection({shortened(self.recording.name, 60)!r}: {what})"

    def to_dict(self) -> dict[str, object]:
        """Return the output of ``ecgfed inspect --json``, without the computing time."""
        recording, rate = self.recording, self.heart_rate_per_min
        return {
            "record": recording.name,
            "path": str(recording.path),
            "fs_hz": recording.fs_hz,
            "duration_s": round(recording.duration_s, 3),
            "lead": recording.lead,
            "detector": self.detector,
            "heart_rate_per_min": None if rate is None else round(rate, 1),
            "leads": [_lead_summary(name, quality) for name, quality in self.quality.items()],
            "left_out": list(recording.skipped),
            "notes": list(recording.notes),
            "findings": [asdict(finding) for finding in self.findings],
            "picture": None if self.picture is None else str(self.picture),
            "excluded": self.excluded,
        }

    def _repr_html_(self) -> str:
        """Return a notebook's table: usable seconds of each lead, with the findings."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{quality.usable_s:.1f} s</td><td>{usable_percent(quality):.2f}%</td>"
            f"<td>{html.escape(', '.join(f'{key} {s:.1f} s' for key, s in quality.seconds().items()))}</td></tr>"
            for name, quality in self.quality.items()
        )
        comment_lines = "".join(f"<li>{html.escape(finding.text)}</li>" for finding in self.findings)
        caption = f"<caption>{html.escape(self.recording.name)}</caption>"
        head = "<tr><th>lead</th><th>usable</th><th>share</th><th>amiss</th></tr>"
        return f"<table>{caption}{head}{rows}</table>{f'<ul>{comment_lines}</ul>' if comment_lines else ''}"

    def draw(self, at: float | str | None = None, *, form: str = "png") -> Picture:
        """Draw a page: an overview with a line per lead, and 10 s on ECG paper.

        Args:
            at: start of the 10 s, in seconds or as ``5:07.3``; default: where the quality is worst.
            form: ``png`` or ``svg``.

        Returns:
            The picture file's bytes, which a notebook shows.

        Raises:
            OptionError: a time beyond the end, or an unknown format.
            MissingExtraError: matplotlib is not installed.
        """
        if form not in FORMATS:
            raise OptionError("form", f"{form!r}", f"one of {', '.join(FORMATS)}", code="unknown-choice")
        recording = self.recording
        chosen = self.quality[recording.lead]
        start_s = worst_start(_Bad(chosen), recording.fs_hz) if at is None else _moment(at, recording)
        page = QualityPage(
            [_Lead(recording, row) for row in range(len(recording.leads))],
            recording.leads,
            recording.lead,
            recording.fs_hz,
            {
                name: [(*_edges_s(part, quality.fs_hz), str(part.reason)) for part in quality.stretches]
                for name, quality in self.quality.items()
            },
            title=f"Record {recording.name}, {clock(recording.duration_s)} at {recording.fs_hz:g} Hz; "
            f"{recording.lead} {usable_percent(chosen):g}% usable",
            footer="not filtered · research use only, not for diagnosis",
        )
        return Picture(draw_quality(page, start_s, form=form))


@renamed_parameters("0.3", "0.5", watch="progress")
def inspect_recording(
    recording: Recording | Path | str,
    *,
    leads: str | Sequence[str] | None = None,
    annotator: str = "atr",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    how: ReadOptions | None = None,
    picture: Path | str | None = None,
    at: float | str | None = None,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
) -> Inspection:
    """Report the usable parts of a recording, and findings with their location. Findings are not errors.

    Args:
        recording: a recording with all leads of interest, or its file.
        leads: lead names in order of preference; default MLII, II, else the first lead; for a ``Recording``, its
            lead in use.
        annotator: suffix of the annotation file, read if present.
        detector: R peak detector: a registered name (``ecgfed.domain.signal.detectors``), or a ``Detector``.
        mains_hz: mains frequency where the recording was made, 50 or 60 Hz; used by some detectors; default 60.
        how: sampling frequency, units and columns of CSV and NumPy files.
        picture: path of a picture to draw, ``.png`` or ``.svg``; see ``Inspection.draw``.
        at: start of the 10 s of the picture, in seconds or as ``5:07.3``; default: where the quality is worst.
        overwrite: replace an existing ``picture``.
        progress: receives progress, notes and warnings.

    Raises:
        OptionError: an invalid option, or an existing picture.
        RecordError: an unreadable recording, or none of the leads is present.
        StorageError: the picture could not be written.
        MissingExtraError: the package that reads the file, or matplotlib, is not installed.

    Examples:
        >>> import ecgfed
        >>> inspection = ecgfed.inspect_recording("cohort-records/demo01")
        >>> inspection
        Inspection('demo01': MLII 100% usable, 71/min, 0 findings)
        >>> inspection.quality["V1"].seconds()
        {}
    """
    target = None if picture is None else Path(picture)
    form = FORMATS[0] if target is None else _form(target, overwrite=overwrite)
    qrs_detector, mains_hz = detector_by_name(detector), check_mains(mains_hz)
    recording, selection = _read(recording, leads, read_options(how))
    if at is not None:
        _moment(at, recording)  # checked before the analysis
    with ReadingPool(min(_AT_A_TIME, len(recording.leads))) as pool:  # in parallel with the detector
        futures = {name: pool.submit(quality_of, recording, name) for name in recording.leads}
        on_samples = minutes_reporter(progress, "minutes read", recording)
        peaks = _peaks(recording, futures[recording.lead], qrs_detector, mains_hz, on_samples)
        quality = {name: future.result() for name, future in futures.items()}
    rate, findings, annotation = _judge(recording, selection, quality, annotator, peaks)
    excluded = [channels_excluded([recording]), annotations_excluded([annotation])]
    report_exclusions(excluded, progress)
    inspection = Inspection(
        recording, quality, qrs_detector.name, rate, tuple(findings), target, excluded=excluded_as_json(excluded)
    )
    if target is not None:
        write_bytes(target, inspection.draw(at, form=form))
    return inspection


def usable_percent(quality: LeadQuality) -> float:
    """Return the usable share of a lead in percent, with two decimals."""
    return round(100 * quality.usable_s * quality.fs_hz / quality.samples, 2)


def _form(target: Path, *, overwrite: bool) -> str:
    """Return the picture's format from its name; raises OptionError for others and for an existing file."""
    form = target.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise OptionError("out", f"{target}", " or ".join(f"a name that ends in .{name}" for name in FORMATS))
    if target.exists() and not overwrite:
        action = f"choose another, or pass {param('overwrite=True')}"
        raise OptionError("out", f"{target} exists", "a new file", action, code="exists")
    if not target.parent.is_dir():
        raise OptionError("out", f"{target.parent} is not a folder", "a folder to write into", "make it first")
    return form


def _read(
    recording: Recording | Path | str, leads: str | Sequence[str] | None, how: ReadOptions
) -> tuple[Recording, tuple[str, ...]]:
    """Return the recording with all leads, and the requested lead names."""
    selection = DEFAULT_LEADS if leads is None else lead_list(leads)
    if isinstance(recording, Recording):
        if leads is None:
            return ecg_alone(recording), (recording.lead,)
        return with_beat_leads(with_lead(recording, selection), leads), selection
    if leads is None:
        return open_every_lead(recording, selection, how=how), selection
    return with_beat_leads(open_recording(recording, selection, every_lead=True, how=how), leads), selection


def _moment(at: float | str, recording: Recording) -> float:
    """Return a time in the recording in seconds; raises OptionError if invalid or beyond the end."""
    moment = seconds_of(at, "at", "a time in the record, such as 5:00")
    if moment >= recording.duration_s:
        raise OptionError("at", f"{at}", f"less than {clock(recording.duration_s)}, the record's length")
    return moment


def _peaks(
    recording: Recording,
    quality: Future[LeadQuality],
    detector: Detector,
    mains_hz: float | None,
    on_samples: OnSamples | None,
) -> NDArray[np.int64]:
    """Return the R peaks of the lead in use; empty if the detector finds none."""
    with contextlib.suppress(RecordError):  # no beats: reported as a finding
        peaks = find_peaks(ecg_alone(recording), quality, detector=detector, mains_hz=mains_hz, on_samples=on_samples)
        return peaks[~end_noise(recording, peaks, detector)]
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class _Lead:
    """One lead as recorded; slicing reads a segment."""

    recording: Recording
    row: int

    def __len__(self) -> int:
        return self.recording.samples

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        start, stop, _ = stretch.indices(len(self))
        return self.recording.lead_mv(self.recording.leads[self.row], start, max(start, stop))


class _Bad:
    """Mask of poor quality of a lead; slicing computes a segment."""

    def __init__(self, quality: LeadQuality) -> None:
        self.samples, self.spans = quality.samples, quality.spans()

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, stretch: slice) -> NDArray[np.bool_]:
        start, stop, _ = stretch.indices(len(self))
        return self.spans.mask(start, max(start, stop))


def _judge(
    recording: Recording,
    selection: tuple[str, ...],
    quality: Mapping[str, LeadQuality],
    annotator: str,
    peaks: NDArray[np.int64],
) -> tuple[float | None, list[Finding], Annotation | None]:
    """Return the median heart rate of the lead in use, the findings, and the annotation."""
    bad = {name: lead_quality.spans() for name, lead_quality in quality.items()}
    findings = [Finding("file", None, f"{note[0].upper()}{note[1:]}.") for note in recording.notes]
    findings += missing_lead(recording, selection)
    if problem := no_ecg(recording):
        findings.append(Finding("no-ecg", recording.lead, f"{problem[0].upper()}{problem[1:]}."))
    annotation = None
    if has_annotation(recording, annotator):
        annotation, unreadable = _annotation(recording, annotator)
        findings += unreadable
    findings += record_findings(recording, peaks, [bad[name] for name in recording.leads], annotation)
    return heart_rate(peaks, recording.fs_hz, bad[recording.lead]), findings, annotation


def _annotation(recording: Recording, annotator: str) -> tuple[Annotation | None, list[Finding]]:
    """Read the annotation; an unreadable one is a finding, since the recording is readable."""
    try:
        annotation = read_annotation(recording, annotator)
        beyond = end_note(annotation)
        return annotation, [Finding("annotation", None, f"{beyond[0].upper()}{beyond[1:]}.")] if beyond else []
    except (RecordError, MissingExtraError) as problem:
        return None, [Finding("annotation", None, f"The annotation cannot be used: {problem.line}.")]


def _edges_s(part: Stretch, fs_hz: float) -> tuple[float, float]:
    return round(part.start / fs_hz, 3), round(part.stop / fs_hz, 3)


def _lead_summary(name: str, quality: LeadQuality) -> dict[str, object]:
    """Return the JSON output for one lead."""
    stretches = []
    for part in quality.stretches:
        start_s, stop_s = _edges_s(part, quality.fs_hz)
        stretches.append(
            {
                "start_s": start_s,
                "stop_s": stop_s,
                "start_sample": part.start,
                "stop_sample": part.stop,
                "reason": str(part.reason),
            }
        )
    return {
        "lead": name,
        "usable_s": round(quality.usable_s, 3),
        "usable_percent": usable_percent(quality),
        "seconds": quality.seconds(),
        "stretches": stretches,
    }
