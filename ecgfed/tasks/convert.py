"""``convert``: convert a recording of any format into a WFDB record, verified by reading it back."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ecgfed.base.deprecation import renamed_fields, renamed_parameters
from ecgfed.base.errors import OptionError, param, spelled
from ecgfed.base.files import check_free, write_together
from ecgfed.base.text import shortened
from ecgfed.domain.beats.exclusions import Counted
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.anonymous import anonymised, check_keep
from ecgfed.domain.record.key_table import check_key, writing_key
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.reader import has_annotation, named_errors, read_annotation, read_recording
from ecgfed.domain.record.recording import Annotation, ReadOptions, Recording, read_options
from ecgfed.domain.record.wfdb_writer import WrittenLead, record_bytes, record_name
from ecgfed.tasks.anonymous import reserved_id
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded, excluded_as_json
from ecgfed.tasks.progress import SILENT, ProgressReporter, report_exclusions

#: A step above so many microvolt is coarse for an ECG, of which P waves and ST changes are a tenth of a millivolt.
_COARSE_UV = 10.0


@renamed_fields("0.3", "0.5", left_out="skipped")
@dataclass(frozen=True, repr=False)
class Conversion:
    """A converted record.

    Attributes:
        record: name of the record.
        source: path of the input.
        fs_hz: sampling frequency in Hz.
        duration_s: length in seconds.
        leads: gain and error of each lead.
        annotations: number of annotations in its ``.atr``; None without one.
        skipped: channels that were not written, each with the reason.
        files: the files.
        removed: with ``anonymize``: names and counts of the removed fields; otherwise None.
        notes: notes of the file reader, none with ``anonymize``, and leads written in steps of more than 10 µV.
        excluded: JSON-ready: numbers of channels and annotations read, used, and excluded by reason.
    """

    record: str
    source: Path
    fs_hz: float
    duration_s: float
    leads: tuple[WrittenLead, ...]
    annotations: int | None
    skipped: tuple[str, ...]
    files: tuple[Path, ...]
    removed: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    excluded: dict[str, Counted] = field(default_factory=dict)

    def __repr__(self) -> str:
        leads = shortened(", ".join(lead.name for lead in self.leads), 60)
        annotations = "no annotation" if self.annotations is None else f"{self.annotations:,} annotations"
        return f"Conversion({shortened(self.record, 60)!r}: {leads}; {self.duration_s:.1f} s; {annotations})"

    def to_dict(self) -> dict[str, object]:
        """Return the output of ``ecgfed convert --json``, without the computing time."""
        origin = {"from": str(self.source)} if self.removed is None else {"removed": list(self.removed)}
        return {
            "record": self.record,
            **origin,
            "fs_hz": self.fs_hz,
            "duration_s": round(self.duration_s, 3),
            "leads": [
                {
                    "name": lead.name,
                    "gain_per_mv": lead.gain,
                    "zero": lead.zero,
                    "step_uv": lead.step_uv,
                    "max_error_uv": round(lead.max_error_mv * 1000, 6),
                    "gaps": lead.gaps,
                }
                for lead in self.leads
            ],
            "annotations": self.annotations,
            "left_out": list(self.skipped),
            "notes": list(self.notes),
            "files": [str(file) for file in self.files],
            "excluded": self.excluded,
        }

    def _repr_html_(self) -> str:
        """Return a notebook's table: resolution and error of each lead."""
        head = "<tr><th>lead</th><th>steps a mV</th><th>a step</th><th>largest error</th><th>gaps</th></tr>"
        rows = "".join(
            f"<tr><td>{html.escape(lead.name)}</td><td>{lead.gain:g}</td><td>{lead.step_uv:g} µV</td>"
            f"<td>{lead.max_error_mv * 1000:.3g} µV</td><td>{lead.gaps:,}</td></tr>"
            for lead in self.leads
        )
        return f"<table><caption>{html.escape(self.record)}</caption>{head}{rows}</table>"


@renamed_parameters("0.3", "0.5", watch="progress")
def convert(
    recording: Recording | Path | str,
    out: Path | str,
    *,
    leads: str | Sequence[str] = (),
    annotator: str | None = None,
    how: ReadOptions | None = None,
    anonymize: bool = False,
    keep: str | Sequence[str] = (),
    key: Path | str | None = None,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
) -> Conversion:
    """Write a recording and its annotation as a 16-bit WFDB record, verified by reading it back.

    Args:
        recording: a recording, or its file, of any format that ``read_recording`` supports. All leads are written;
            the whole recording is held in memory.
        out: output folder for ``RECORD.hea``, ``RECORD.dat`` and ``RECORD.atr``.
        leads: for a file, the lead that determines the sampling frequency, in order of preference; default the first.
        annotator: suffix of the annotation file; ``edf`` for that of an EDF+ file; None: ``atr`` if present.
        how: sampling frequency, units and columns of CSV and NumPy files.
        anonymize: remove names, dates and free text, and name the record ``p0001`` or the next free number in
            ``out`` (docs/privacy.md).
        keep: with ``anonymize``: ``age`` (90 and older are merged), ``sex``, or both, if the header has them.
        key: with ``anonymize``: the key file to create or extend, readable by its owner only.
        overwrite: replace existing files, but never the recording itself.
        progress: receives progress, notes and warnings.

    Raises:
        OptionError: the files exist.
        RecordError: a recording or annotation that is unreadable, or not representable in WFDB.
        StorageError: the files cannot be written; nothing was changed.
        MissingExtraError: a package that reads or writes the format is not installed.

    Examples:
        >>> import ecgfed
        >>> ecgfed.convert("cohort-records/demo01", "converted")
        Conversion('demo01': MLII, V1; 60.0 s; 71 annotations)
    """
    keep, key = check_keep(keep), None if key is None else Path(key)
    for option, used in (("keep", bool(keep)), ("key", key is not None)):
        if used and not anonymize:
            raise OptionError(option, f"given without {param('anonymize')}", "both, or neither", code="missing")
    if key is not None:
        check_key(key, Path(out))
    source = recording.path if isinstance(recording, Recording) else Path(recording)
    if isinstance(recording, Recording):
        with named_errors(source):
            recording = recording.in_memory()
    else:
        recording = read_recording(
            source, lead_list(leads), every_lead=True, include_non_ecg=True, how=read_options(how)
        )
    annotation = _annotation(recording, annotator)
    for note in filter(None, (*recording.notes, end_note(annotation) if annotation else "")):
        progress.warn(note)
    if not anonymize:
        return _write_record(recording, annotation, record_name(recording.name), source, Path(out), overwrite, progress)
    with reserved_id(Path(out), key, source) as (name, rows), writing_key(key, rows):
        clean = anonymised(recording, annotation, name, keep=keep, leads=lead_list(leads))
        conversion = _write_record(clean.recording, clean.annotation, name, source, Path(out), overwrite, progress)
    return replace(conversion, removed=clean.removed)


def _write_record(
    recording: Recording,
    annotation: Annotation | None,
    name: str,
    source: Path,
    out: Path,
    overwrite: bool,
    progress: ProgressReporter,
) -> Conversion:
    """Write a record."""
    suffixes = ("hea", "dat", "atr") if annotation is not None else ("hea", "dat")
    targets = [out / f"{name}.{suffix}" for suffix in suffixes]
    check_free(targets, recording.files, overwrite=overwrite)
    files, written = record_bytes(recording, name, annotation)
    write_together(dict(zip(targets, files.values(), strict=True)))
    excluded = [channels_excluded([recording]), annotations_excluded([annotation])]
    report_exclusions(excluded[1:], progress)  # channels have warnings of their own
    for channel in recording.skipped:
        progress.warn(f"left out: {channel}")
    coarse = tuple(
        f"lead {lead.name} is written in steps of {lead.step_uv:g} µV: its values lie far apart, outliers among them"
        for lead in written
        if lead.step_uv > _COARSE_UV
    )
    for note in coarse:
        progress.warn(note)
    if annotation is None:
        progress.warn(spelled(f"no annotation beside it: name one with {param('annotator')}"))
    return Conversion(
        name,
        source,
        recording.fs_hz,
        recording.duration_s,
        tuple(written),
        None if annotation is None else len(annotation.sample),
        recording.skipped,
        tuple(targets),
        notes=(*recording.notes, *coarse),
        excluded=excluded_as_json(excluded),
    )


def _annotation(recording: Recording, annotator: str | None) -> Annotation | None:
    """Return the requested annotation, else ``atr`` if present, else None."""
    if annotator is None and not has_annotation(recording):
        return None
    return read_annotation(recording, annotator or "atr")
