"""``detect``: recordings in, their R peaks out; as WFDB annotation files where somebody wants them."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import EcgfedError, OptionError
from ecgfed.base.files import check_free, sha256, write_together
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.opening import open_every_lead, open_recording
from ecgfed.domain.record.reader import ecg_alone, record_path
from ecgfed.domain.record.recording import Annotation, AnyRecording, ReadOptions, read_options
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.domain.signal.detectors import OURS, Detector, check_mains, detector_by_name
from ecgfed.domain.signal.heartbeats import end_noise
from ecgfed.domain.signal.long_peaks import OnSamples, find_peaks
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.records import looked_at, no_ecg, record_paths, with_lead
from ecgfed.tasks.watch import NOBODY, Watch, minutes_told, report_exclusions

#: What a model of the default cohort is trained on; the first lead where there is neither.
DEFAULT_LEADS = ("MLII", "II")
SUFFIX = "qrs"


@dataclass(frozen=True, repr=False, eq=False)
class RecordPeaks:
    """The R peaks of one recording.

    Attributes:
        record: its name.
        lead: the lead they were put on.
        sample: (beats,) int64 increasing sample numbers.
        fs_hz: sampling frequency in Hz.
        duration_s: length of the recording in seconds.
        file: the annotation file, where one was written.
        notes: what the reader noted of the recording's file.
        sha256: name of each of the recording's files -> its digest.
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
        """Return the peaks as an annotation: a detector says N to all."""
        return Annotation(self.sample, np.full(len(self.sample), "N"))

    def to_dict(self) -> dict[str, object]:
        """Return counts and names, JSON-ready, without the peaks themselves."""
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
    """What ``detect`` found.

    Attributes:
        records: the peaks of each recording, in the order they were given.
        detector: who found them.
        mains_hz: 50 or 60, as it was said; None where nobody did.
        excluded: JSON-ready: the beats and channels that were read, used and excluded, by reason.
        failed: of each recording that cannot be used, its ``file`` and the ``problem`` in one line; none of one alone.
    """

    records: tuple[RecordPeaks, ...]
    detector: str
    mains_hz: float | None
    excluded: dict[str, Counted] = field(default_factory=dict)
    failed: tuple[dict[str, str], ...] = ()

    def __repr__(self) -> str:
        beats = sum(len(one.sample) for one in self.records)
        what = count_of(len(self.records), "recording")
        failed = f"; {len(self.failed)} failed" if self.failed else ""
        return f"Detections({what}: {count_of(beats, 'beat')} by {shortened(self.detector, 60)}{failed})"

    def to_dict(self) -> dict[str, object]:
        """Return what ``ecgfed detect --json`` prints."""
        return {
            "detector": self.detector,
            "mains_hz": self.mains_hz,
            "records": [one.to_dict() for one in self.records],
            "excluded": self.excluded,
            "failed": list(self.failed),
        }

    def _repr_html_(self) -> str:
        """A notebook's table: beats of each recording."""
        rows = "".join(
            f"<tr><td>{html.escape(one.record)}</td><td>{html.escape(one.lead)}</td><td>{len(one.sample):,}</td></tr>"
            for one in self.records
        )
        head = "<tr><th>record</th><th>lead</th><th>beats</th></tr>"
        wrong = "".join(f"<li>{html.escape(one['problem'])}</li>" for one in self.failed)
        listed = f"<ul>{wrong}</ul>" if wrong else ""
        return f"<table><caption>R peaks by {html.escape(self.detector)}</caption>{head}{rows}</table>{listed}"


def detect(
    records: AnyRecording | Path | str | Sequence[AnyRecording | Path | str],
    out: Path | str | None = None,
    *,
    leads: str | Sequence[str] | None = None,
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    suffix: str = SUFFIX,
    how: ReadOptions | None = None,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> Detections:
    """Find the R peaks of recordings.

    Of several, one that cannot be used is listed with the reason, and the others are done; of one alone it is an error.

    Args:
        records: recordings, their files, or folders of WFDB records; one or several.
        out: folder for the annotation files, ``RECORD.SUFFIX``, one of each recording that can be used; None writes
            nothing.
        leads: the lead to put the peaks on, in order of preference; default MLII, II, the first one; of a recording
            that has been read its own.
        detector: a registered name (``ecgfed.domain.signal.detectors``), or a ``Detector``.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for detectors that ask; None is 60.
        suffix: of the annotation files.
        how: what CSV and NumPy files leave open.
        overwrite: replace files of these names, but never a recording itself.
        watch: told of the progress.

    Raises:
        OptionError: an option that cannot be, or the files are there already.
        RecordError: the one recording cannot be read, has none of the leads, or holds no beat.
        StorageError: the disk refuses; nothing was changed.

    Examples:
        >>> import ecgfed
        >>> found = ecgfed.detect("cohort-records", "peaks")
        >>> found
        Detections(3 recordings: 247 beats by ecgfed)
        >>> [one.file.name for one in found.records]
        ['demo01.qrs', 'demo02.qrs', 'demo03.qrs']
    """
    qrs_detector, mains_hz = detector_by_name(detector), check_mains(mains_hz)
    if not re.fullmatch(r"[A-Za-z]+", suffix) or suffix in ("hea", "dat", "atr"):
        raise OptionError("--suffix", f"{suffix!r}", "letters (WFDB allows no others), not hea, dat or atr")
    selection = None if leads is None else lead_list(leads)
    requested = _asked(records)
    targets = None if out is None else [Path(out) / f"{_name(one)}.{suffix}" for one in requested]
    if targets is not None:
        check_free(targets, overwrite=overwrite)
        if len({str(target).casefold() for target in targets}) < len(targets):
            raise OptionError("RECORDS", "two records have the same name", "one of each", "name them in two calls")
    found: list[RecordPeaks] = []
    files: list[Path] = []
    counted: list[tuple[Exclusions, Exclusions]] = []
    failed: list[dict[str, str]] = []
    for number, one in enumerate(requested):
        try:
            recording = _opened(one, selection, read_options(how))
            files += recording.files
            before_s = sum(other.duration_s for other in found)
            told = minutes_told(watch, "minutes read", recording, before_s=before_s, alone=len(requested) == 1)
            peaks, exclusions = _peaks_of(recording, qrs_detector, mains_hz, told, watch)
        except EcgfedError as problem:
            if len(requested) == 1:
                raise
            failed.append({"file": str(one) if isinstance(one, Path) else one.name, "problem": problem.line})
        else:
            found.append(peaks if targets is None else replace(peaks, file=targets[number]))
            counted.append(exclusions)
        watch.progress("records", number + 1, len(requested), _name(one))
    if targets is not None:
        check_free(targets, files, overwrite=overwrite)
        written = {one.file: annotation_bytes(one.annotation(), one.fs_hz) for one in found if one.file is not None}
        write_together(written)
    beats, channels = zip(*counted, strict=True) if counted else ((), ())
    excluded = [Exclusions.summed(beats, "beat"), Exclusions.summed(channels, "channel")]
    report_exclusions(excluded, watch)
    return Detections(tuple(found), qrs_detector.name, mains_hz, excluded_as_json(excluded), tuple(failed))


def _peaks_of(
    recording: AnyRecording, detector: Detector, mains_hz: float | None, told: OnSamples | None, watch: Watch
) -> tuple[RecordPeaks, tuple[Exclusions, Exclusions]]:
    """Return the R peaks of a recording, and which beats and channels were excluded."""
    if amiss := no_ecg(recording):
        watch.warn(f"{recording.name}: {amiss}")
    for note in recording.notes:
        watch.warn(f"{recording.name}: {note}")
    at = find_peaks(recording, detector=detector, mains_hz=mains_hz, on_samples=told)
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


def _asked(records: AnyRecording | Path | str | Sequence[AnyRecording | Path | str]) -> list[AnyRecording | Path]:
    given = [records] if isinstance(records, AnyRecording | Path | str) else list(records)
    if not given:
        raise OptionError("RECORDS", "none given", "one or more recordings")
    requested: list[AnyRecording | Path] = []
    for one in given:
        requested += [one] if isinstance(one, AnyRecording) else record_paths([Path(one)])
    each = {id(one) if isinstance(one, AnyRecording) else one: one for one in requested}
    return list(each.values())


def _name(one: AnyRecording | Path) -> str:
    return one.name if isinstance(one, AnyRecording) else record_path(one).name


def _opened(one: AnyRecording | Path, leads: tuple[str, ...] | None, how: ReadOptions) -> AnyRecording:
    """Return a recording with every lead, one of them chosen."""
    if isinstance(one, AnyRecording):
        if leads is None:
            return ecg_alone(one)
        return ecg_alone(looked_at(with_lead(one, leads), leads))
    if leads is None:
        return ecg_alone(open_every_lead(one, DEFAULT_LEADS, how=how))
    return ecg_alone(looked_at(open_recording(one, leads, every_lead=True, how=how), leads))
