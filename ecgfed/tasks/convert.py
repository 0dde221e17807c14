"""``convert``: a recording of any format in, a WFDB record out, read back before it is kept."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.text import shortened
from ecgfed.domain.beats.exclusions import Counted
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.anonymous import anonymised, check_keep
from ecgfed.domain.record.key_table import check_key, writing_key
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.reader import has_annotation, named_errors, read_annotation, read_recording
from ecgfed.domain.record.recording import Annotation, AnyRecording, LongRecording, ReadOptions, Recording, read_options
from ecgfed.domain.record.wfdb_writer import WrittenLead, record_bytes, record_name
from ecgfed.tasks.anonymous import reserved_id
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded, excluded_as_json
from ecgfed.tasks.watch import NOBODY, Watch, report_exclusions


@dataclass(frozen=True, repr=False)
class Conversion:
    """A WFDB record that was written, and how.

    Attributes:
        record: its name.
        source: what it was made from.
        fs_hz: sampling frequency in Hz.
        duration_s: length in seconds.
        leads: how each lead was written.
        annotations: marks in its ``.atr``, None where there is none.
        left_out: channels that could not be written beside the others, each with the reason.
        files: the files.
        removed: with ``anonymize``: which fields left, names of fields and counts; None where none was to.
        notes: what the reader noted of the file; nothing with ``anonymize``.
        excluded: JSON-ready: channels and annotations that were read, used and excluded, by reason.
    """

    record: str
    source: Path
    fs_hz: float
    duration_s: float
    leads: tuple[WrittenLead, ...]
    annotations: int | None
    left_out: tuple[str, ...]
    files: tuple[Path, ...]
    removed: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    excluded: dict[str, Counted] = field(default_factory=dict)

    def __repr__(self) -> str:
        leads = shortened(", ".join(lead.name for lead in self.leads), 60)
        marks = "no annotation" if self.annotations is None else f"{self.annotations:,} annotations"
        return f"Conversion({shortened(self.record, 60)!r}: {leads}; {self.duration_s:.1f} s; {marks})"

    def to_dict(self) -> dict[str, object]:
        """Return what ``ecgfed convert --json`` prints, without the seconds it took."""
        about = {"from": str(self.source)} if self.removed is None else {"removed": list(self.removed)}
        return {
            "record": self.record,
            **about,
            "fs_hz": self.fs_hz,
            "duration_s": round(self.duration_s, 3),
            "leads": [
                {
                    "name": one.name,
                    "gain_per_mv": one.gain,
                    "zero": one.zero,
                    "step_uv": one.step_uv,
                    "max_error_uv": round(one.max_error_mv * 1000, 6),
                    "gaps": one.gaps,
                }
                for one in self.leads
            ],
            "annotations": self.annotations,
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "files": [str(file) for file in self.files],
            "excluded": self.excluded,
        }

    def _repr_html_(self) -> str:
        """A notebook's table: how finely each lead was written."""
        head = "<tr><th>lead</th><th>steps a mV</th><th>a step</th><th>largest error</th><th>gaps</th></tr>"
        rows = "".join(
            f"<tr><td>{html.escape(one.name)}</td><td>{one.gain:g}</td><td>{one.step_uv:g} µV</td>"
            f"<td>{one.max_error_mv * 1000:.3g} µV</td><td>{one.gaps:,}</td></tr>"
            for one in self.leads
        )
        return f"<table><caption>{html.escape(self.record)}</caption>{head}{rows}</table>"


def convert(
    recording: AnyRecording | Path | str,
    out: Path | str,
    *,
    leads: str | Sequence[str] = (),
    annotator: str | None = None,
    how: ReadOptions | None = None,
    anonymize: bool = False,
    keep: str | Sequence[str] = (),
    key: Path | str | None = None,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> Conversion:
    """Write a recording and its annotation as a WFDB record of 16 bits, read back and compared first.

    Args:
        recording: a recording, all of whose leads are written, or its file, of any format that ``read_recording``
            knows. All of it is held in memory, of a long one too.
        out: folder for ``RECORD.hea``, ``RECORD.dat`` and ``RECORD.atr``.
        leads: of a file, the lead whose sampling frequency the record gets, in order of preference; default the first.
        annotator: suffix of the annotation file; ``edf``: inside an EDF+ file; None: ``atr`` where there is one.
        how: what a CSV or NumPy file leaves open.
        anonymize: leave out names, dates and free text, and call the record ``p0001``, or the next number that is
            free in ``out`` (docs/privacy.md).
        keep: with ``anonymize``: ``age`` (90 and older are one), ``sex``, or both, where the header says them.
        key: with ``anonymize``: a table of who is who to write or to go on with, readable by its owner only.
        overwrite: replace files of these names, but never the recording itself.
        watch: told what was left out.

    Raises:
        OptionError: the files are there already.
        RecordError: a recording or annotation that cannot be read, or that WFDB cannot hold.
        StorageError: the disk refuses; nothing was changed.
        MissingExtraError: what reads or writes it is not installed.

    Examples:
        >>> import ecgfed
        >>> ecgfed.convert("cohort-records/demo01", "converted")
        Conversion('demo01': MLII, V1; 60.0 s; 71 annotations)
    """
    keep, key = check_keep(keep), None if key is None else Path(key)
    _check_privacy(anonymize, keep, key, Path(out))
    source = recording.path if isinstance(recording, AnyRecording) else Path(recording)
    if isinstance(recording, LongRecording):
        recording = _in_memory(recording)
    elif not isinstance(recording, Recording):
        recording = read_recording(
            source, lead_list(leads), every_lead=True, include_non_ecg=True, how=read_options(how)
        )
    annotation = _annotation(recording, annotator)
    for note in filter(None, (*recording.notes, end_note(annotation) if annotation else "")):
        watch.warn(note)
    if not anonymize:
        return _written(recording, annotation, record_name(recording.name), source, Path(out), overwrite, watch)
    with reserved_id(Path(out), key, source) as (name, rows), writing_key(key, rows):
        clean = anonymised(recording, annotation, name, keep=keep, leads=lead_list(leads))
        made = _written(clean.recording, clean.annotation, name, source, Path(out), overwrite, watch)
    return replace(made, removed=clean.removed)


def _in_memory(long: LongRecording) -> Recording:
    """Read a recording that stays on the disk; raises RecordError."""
    with named_errors(long.path):
        about = {field.name: getattr(long, field.name) for field in fields(Recording) if field.name != "signals_mv"}
        return Recording(signals_mv=long.signals_mv, **about)


def _check_privacy(anonymize: bool, keep: Sequence[str], key: Path | None, out: Path) -> None:
    """Refuse what goes with ``--anonymize`` alone, and a key that would travel with the record; raises OptionError."""
    for option, given in (("--keep", bool(keep)), ("--key", key is not None)):
        if given and not anonymize:
            raise OptionError(option, "given without --anonymize", "both, or neither")
    if key is not None:
        check_key(key, out)


def _written(
    recording: Recording,
    annotation: Annotation | None,
    name: str,
    source: Path,
    out: Path,
    overwrite: bool,
    watch: Watch,
) -> Conversion:
    """Write a record, and say what became of it."""
    suffixes = ("hea", "dat", "atr") if annotation is not None else ("hea", "dat")
    targets = [out / f"{name}.{suffix}" for suffix in suffixes]
    check_free(targets, recording.files, overwrite=overwrite)
    files, written = record_bytes(recording, name, annotation)
    write_together(dict(zip(targets, files.values(), strict=True)))
    excluded = [channels_excluded([recording]), annotations_excluded([annotation])]
    report_exclusions(excluded[1:], watch)  # each channel has a warning of its own
    for channel in recording.skipped:
        watch.warn(f"left out: {channel}")
    if annotation is None:
        watch.warn("no annotation beside it: name one with --annotator")
    return Conversion(
        name,
        source,
        recording.fs_hz,
        recording.duration_s,
        tuple(written),
        None if annotation is None else len(annotation.sample),
        recording.skipped,
        tuple(targets),
        notes=recording.notes,
        excluded=excluded_as_json(excluded),
    )


def _annotation(recording: Recording, annotator: str | None) -> Annotation | None:
    """Return the annotation asked for, or the one there is, or None."""
    if annotator is None and not has_annotation(recording):
        return None
    return read_annotation(recording, annotator or "atr")
