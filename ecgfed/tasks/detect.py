"""``detect``: find the R peaks of recordings, and optionally write WFDB annotation files."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import EcgfedError, OptionError
from ecgfed.base.files import check_free, sha256, write_together
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.record.leads import ecg_alone, lead_list
from ecgfed.domain.record.reader import open_every_lead, open_recording, record_path
from ecgfed.domain.record.recording import Annotation, ReadOptions, Recording, read_options
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.domain.signal.detectors import OURS, Detector, check_mains, detector_by_name
from ecgfed.domain.signal.findings import no_ecg
from ecgfed.domain.signal.heartbeats import end_noise
from ecgfed.domain.signal.peaks import OnSamples, find_peaks
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.progress import SILENT, ProgressReporter, minutes_reporter, report_exclusions
from ecgfed.tasks.records import record_paths, with_beat_leads, with_lead

#: Default leads, those of the default cohort; the first lead if neither is present.
DEFAULT_LEADS = ("MLII", "II")
SUFFIX = "qrs"


@dataclass(frozen=True, repr=False, eq=False)
class RecordPeaks:
    """The R peaks of one recording.

    Attributes:
        record: name of the record.
        lead: the lead on which the peaks are located.
        sample: (beats,) int64 increasing sample numbers.
        fs_hz: sampling frequency in Hz.
        duration_s: length of the recording in seconds.
        file: the annotation file, if one was written.
        notes: notes of the file reader.
        sha256: file name -> SHA-256.
    """

    record: str
    lead: str
    sample: NDArray[np.int64]
    fs_hz: float
    duration_s: float
    file: Path | None = None
    notes: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        where = f"{shortened(self.record, 60)!r}: {count_of(len(self.sample), 'beat')} on {shortened(self.lead, 20)}"
        return f"RecordPeaks({where} in {self.duration_s:.1f} s)"

    def annotation(self) -> Annotation:
        """Return the peaks as an annotation, all with the symbol N."""
        return Annotation(self.sample, np.full(len(self.sample), "N"))

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready summary without the peaks."""
        return {
            "record": self.record,
            "sha256": dict(self.sha256),
            "lead": self.lead,
            "beats": len(self.sample),
            "file": None if self.file is None else str(self.file),
            "duration_s": round(self.duration_s, 3),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Detections:
    """Results of ``detect``.

    Attributes:
        records: the peaks of each recording, in input order.
        detector: name of the detector.
        mains_hz: mains frequency, 50 or 60 Hz; None if not specified.
        excluded: JSON-ready: numbers of beats and channels read, used, and excluded by reason.
        failed: ``file``, ``problem``, ``code`` and, if there is one, ``parameter`` of each recording that cannot be
            used, if there are several.
    """

    records: tuple[RecordPeaks, ...]
    detector: str
    mains_hz: float | None
    excluded: dict[str, Counted] = field(default_factory=dict)
    failed: tuple[dict[str, str], ...] = ()

    def __repr__(self) -> str:
        beats = sum(len(record.sample) for record in self.records)
        what = count_of(len(self.records), "recording")
        failed = f"; {len(self.failed)} failed" if self.failed else ""
        return f"Detections({what}: {count_of(beats, 'beat')} by {shortened(self.detector, 60)}{failed})"

    def to_dict(self) -> dict[str, object]:
        """Return the output of ``ecgfed detect --json``."""
        return {
            "detector": self.detector,
            "mains_hz": self.mains_hz,
            "records": [record.to_dict() for record in self.records],
            "excluded": self.excluded,
            "failed": list(self.failed),
        }

    def _repr_html_(self) -> str:
        """Return a notebook's table: beats of each recording."""
        rows = "".join(
            f"<tr><td>{html.escape(peaks.record)}</td><td>{html.escape(peaks.lead)}</td><td>{len(peaks.sample):,}</td></tr>"
            for peaks in self.records
        )
        head = "<tr><th>record</th><th>lead</th><th>beats</th></tr>"
        problems = "".join(f"<li>{html.escape(failure['problem'])}</li>" for failure in self.failed)
        listed = f"<ul>{problems}</ul>" if problems else ""
        return f"<table><caption>R peaks by {html.escape(self.detector)}</caption>{head}{rows}</table>{listed}"


@renamed_parameters("0.3", "0.5", watch="progress")
def detect(
    records: Recording | Path | str | Sequence[Recording | Path | str],
    out: Path | str | None = None,
    *,
    leads: str | Sequence[str] | None = None,
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    suffix: str = SUFFIX,
    how: ReadOptions | None = None,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
) -> Detections:
    """Find the R peaks of recordings.

    Of several recordings, those that cannot be used are listed with the reason; for a single one it is an error.

    Args:
        records: one or several recordings, their files, or folders of WFDB records.
        out: output folder for annotation files, ``RECORD.SUFFIX``, of the usable recordings; None writes no files.
        leads: the lead on which peaks are located, in order of preference; default MLII, II, the first lead; for a
            ``Recording``, its lead in use.
        detector: a registered name (``ecgfed.domain.signal.detectors``), or a ``Detector``.
        mains_hz: mains frequency where the recording was made, 50 or 60 Hz; used by some detectors; default 60.
        suffix: suffix of the annotation files.
        how: sampling frequency, units and columns of CSV and NumPy files.
        overwrite: replace existing files, but never a recording itself.
        progress: receives progress, notes and warnings.

    Raises:
        OptionError: an invalid option, or existing files.
        RecordError: a single recording that is unreadable, has none of the leads, or has no beats.
        StorageError: the files cannot be written; nothing was changed.

    Examples:
        >>> import ecgfed
        >>> detections = ecgfed.detect("cohort-records", "peaks")
        >>> detections
        Detections(3 recordings: 247 beats by ecgfed)
        >>> [peaks.file.name for peaks in detections.records]
        ['demo01.qrs', 'demo02.qrs', 'demo03.qrs']
    """
    qrs_detector, mains_hz = detector_by_name(detector), check_mains(mains_hz)
    if not re.fullmatch(r"[A-Za-z]+", suffix) or suffix in ("hea", "dat", "atr"):
        raise OptionError("suffix", f"{suffix!r}", "letters (WFDB allows no others), not hea, dat or atr")
    selection = None if leads is None else lead_list(leads)
    requested = _sources(records)
    targets = None if out is None else [Path(out) / f"{_name(source)}.{suffix}" for source in requested]
    if targets is not None:
        check_free(targets, overwrite=overwrite)
        if len({str(target).casefold() for target in targets}) < len(targets):
            raise OptionError("RECORDS", "two records have the same name", "different names", "use two calls")
    results: list[RecordPeaks] = []
    files: list[Path] = []
    counted: list[tuple[Exclusions, Exclusions]] = []
    failed: list[dict[str, str]] = []
    for number, source in enumerate(requested):
        try:
            recording = _opened(source, selection, read_options(how))
            files += recording.files
            before_s = sum(result.duration_s for result in results)
            single = len(requested) == 1
            on_samples = minutes_reporter(progress, "minutes read", recording, offset_s=before_s, single=single)
            peaks, exclusions = _peaks_of(recording, qrs_detector, mains_hz, on_samples, progress)
        except EcgfedError as problem:
            if len(requested) == 1:
                raise
            name = str(source) if isinstance(source, Path) else source.name
            failed.append({"file": name, **problem.as_json()})
        else:
            results.append(peaks if targets is None else replace(peaks, file=targets[number]))
            counted.append(exclusions)
        progress.update("records", number + 1, len(requested), _name(source))
    if targets is not None:
        check_free(targets, files, overwrite=overwrite)
        located = [(result.file, result) for result in results if result.file is not None]
        write_together({file: annotation_bytes(result.annotation(), result.fs_hz) for file, result in located})
    beats, channels = zip(*counted, strict=True) if counted else ((), ())
    excluded = [Exclusions.summed(beats, "beat"), Exclusions.summed(channels, "channel")]
    report_exclusions(excluded, progress)
    return Detections(tuple(results), qrs_detector.name, mains_hz, excluded_as_json(excluded), tuple(failed))


def _peaks_of(
    recording: Recording,
    detector: Detector,
    mains_hz: float | None,
    on_samples: OnSamples | None,
    progress: ProgressReporter,
) -> tuple[RecordPeaks, tuple[Exclusions, Exclusions]]:
    """Return the R peaks of a recording, and the excluded beats and channels."""
    if problem := no_ecg(recording):
        progress.warn(f"{recording.name}: {problem}")
    for note in recording.notes:
        progress.warn(f"{recording.name}: {note}")
    at = find_peaks(recording, detector=detector, mains_hz=mains_hz, on_samples=on_samples)
    noise = end_noise(recording, at, detector)
    peaks = RecordPeaks(
        recording.name,
        recording.lead,
        at[~noise],
        recording.fs_hz,
        recording.duration_s,
        notes=recording.notes,
        sha256={file.name: sha256(file) for file in recording.files},
    )
    beats = Exclusions("beat", len(at), {"end_noise": int(noise.sum())})
    return peaks, (beats, channels_excluded([recording]))


def _sources(records: Recording | Path | str | Sequence[Recording | Path | str]) -> list[Recording | Path]:
    sources = [records] if isinstance(records, Recording | Path | str) else list(records)
    if not sources:
        raise OptionError("RECORDS", "none given", "one or more recordings")
    requested: list[Recording | Path] = []
    for source in sources:
        requested += [source] if isinstance(source, Recording) else record_paths([Path(source)])
    unique = {id(source) if isinstance(source, Recording) else source: source for source in requested}
    return list(unique.values())


def _name(source: Recording | Path) -> str:
    return source.name if isinstance(source, Recording) else record_path(source).name


def _opened(source: Recording | Path, leads: tuple[str, ...] | None, how: ReadOptions) -> Recording:
    """Return a recording with all leads and the lead in use chosen."""
    if leads is None:
        opened = source if isinstance(source, Recording) else open_every_lead(source, DEFAULT_LEADS, how=how)
    elif isinstance(source, Recording):
        opened = with_lead(source, leads)
    else:
        opened = open_recording(source, leads, every_lead=True, how=how)
    return ecg_alone(with_beat_leads(opened, leads))
