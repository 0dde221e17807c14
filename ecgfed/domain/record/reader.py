"""The front door: a recording and its annotation, whatever their format."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.platform import reuse_freed_memory
from ecgfed.base.safe_io import name_problem
from ecgfed.domain.record.aecg_files import aecg_comments, read_aecg
from ecgfed.domain.record.annotations import before_end, read_csv_annotation
from ecgfed.domain.record.checks import check_heart_rate
from ecgfed.domain.record.csv_files import read_csv
from ecgfed.domain.record.dicom_files import dicom_comments, read_dicom
from ecgfed.domain.record.edf_files import edf_comments, has_edf_annotations, read_edf, read_edf_annotation
from ecgfed.domain.record.groups import LeadSelection
from ecgfed.domain.record.ishne_files import ishne_comments, read_ishne
from ecgfed.domain.record.kinds import FORMATS as FORMATS
from ecgfed.domain.record.kinds import kind_of_content, kind_of_suffix, name_without_suffix
from ecgfed.domain.record.leads import NoLeadError, lead_list
from ecgfed.domain.record.muse_files import muse_comments, read_muse
from ecgfed.domain.record.numpy_files import read_numpy
from ecgfed.domain.record.recording import Annotation, ReadOptions, Recording, read_options
from ecgfed.domain.record.scp_files import read_scp, scp_comments
from ecgfed.domain.record.tables import read_table
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.domain.record.wfdb_files import read_recording as read_wfdb
from ecgfed.domain.record.wfdb_grammar import read_lines
from ecgfed.domain.record.wfdb_header import beside, header_path, read_header, record_base

_HOSPITAL = {"dicom": read_dicom, "aecg": read_aecg, "muse": read_muse, "scp": read_scp, "ishne": read_ishne}
_COMMENTS = {
    "dicom": dicom_comments,
    "aecg": aecg_comments,
    "muse": muse_comments,
    "scp": scp_comments,
    "ishne": ishne_comments,
}
#: The annotator that means the annotations inside an EDF+ file.
INSIDE_EDF = "edf"
#: Samples of a lead from which on an opened recording stays on disk: 70 minutes at 250 Hz, 8 MB a lead.
LONG = 1 << 20
_TABLES = (".csv", ".tsv", ".txt")


def format_of(path: Path | str) -> str:
    """Return the format of a recording: ``wfdb`` where a header is there, else by content, else by suffix."""
    path = Path(path)
    named = kind_of_suffix(path) or "wfdb"
    try:
        if named == "wfdb" and header_path(path).is_file():
            return named
    except (OSError, ValueError):  # a name that no file can have
        return named
    return kind_of_content(path) or named


def record_path(path: Path | str) -> Path:
    """Return a recording's path without the suffix of its format: its name, and where its annotation lies."""
    path = Path(path)
    return record_base(path) if format_of(path) == "wfdb" else path.with_name(name_without_suffix(path))


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system and the memory refuse into one line."""
    try:
        yield
    except OSError as problem:
        raise RecordError(path, f"cannot be read ({problem.strerror or problem})", action="check the file") from problem
    except MemoryError as problem:
        raise RecordError(path, "does not fit into memory", action="cut it into parts") from problem


@renamed_parameters("0.3", "0.5", others="include_non_ecg")
def read_recording(
    path: Path | str,
    leads: str | Sequence[str] | None = None,
    *,
    every_lead: bool = False,
    include_non_ecg: bool = False,
    how: ReadOptions | None = None,
) -> Recording:
    """Read a recording in millivolt, gaps as NaN.

    Args:
        path: ``.hea``, ``.dat`` or no suffix: WFDB; ``.edf``, ``.bdf``; ``.csv``, ``.tsv``, ``.txt``; ``.npy``,
            ``.npz``; of hospitals ``.dcm``, ``.dicom`` (DICOM), ``.xml`` (HL7 aECG, GE MUSE), ``.scp`` (SCP-ECG),
            ``.ecg`` (ISHNE). Content comes before the suffix: EDF called ``.rec`` and DICOM without one are read.
        leads: lead names in order of preference, or a place, ``#2``; the first one present is chosen, under its own
            name before another one of the same lead (``Recording.requested_as``). For none the first ECG: what is named
            as something else, or is no voltage, is none.
        every_lead: read the other ECGs too, as far as they are voltages at the same sampling frequency.
        include_non_ecg: with every lead: also what is named as something else, a respiration in millivolt.
        how: what a CSV or NumPy file leaves open; ``repair`` to read what is there of a file that was cut short.

    Raises:
        RecordError: a file that cannot be used; one line names it and says what was found and expected.
        OptionError: units in ``how`` that are none, or ``how`` is of another type.
        MissingExtraError: WFDB, EDF or DICOM, and the package that reads it is not installed.
    """
    recording = _lazily(path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
    with named_errors(recording.path):
        return recording.in_memory()


@renamed_parameters("0.3", "0.5", least="min_samples")
def open_recording(
    path: Path | str,
    leads: str | Sequence[str] | None = None,
    *,
    every_lead: bool = False,
    how: ReadOptions | None = None,
    min_samples: int | None = None,
) -> Recording:
    """Open a recording as ``read_recording`` does, but read one of ``min_samples`` samples or more lazily, in blocks.

    WFDB records of one segment in an uncompressed format, EDF, BDF and ``.npy`` files can be read in blocks. Other
    formats and shorter recordings are read at once. Both ways return the same samples, bit for bit.

    Args:
        path: as of ``read_recording``; so are all arguments but the last.
        leads: see there.
        every_lead: see there.
        how: see there.
        min_samples: samples of a lead from which on the recording stays on disk; default ``LONG``.

    Raises:
        RecordError: as ``read_recording``; a checksum that a WFDB header states has been compared.
        OptionError: see there.
        MissingExtraError: see there.

    Examples:
        >>> import ecgfed
        >>> ecgfed.open_recording("cohort-records/demo01").read(0, 360).shape
        (1, 360)
    """
    recording = _lazily(path, leads, every_lead=every_lead, include_non_ecg=False, how=how)
    if recording.samples >= (LONG if min_samples is None else min_samples):
        reuse_freed_memory()
        return recording
    with named_errors(recording.path):
        return recording.in_memory()


def _lazily(
    path: Path | str,
    leads: str | Sequence[str] | None,
    *,
    every_lead: bool,
    include_non_ecg: bool,
    how: ReadOptions | None,
) -> Recording:
    """Return a recording, lazy where its format can be read by blocks."""
    if not isinstance(path, str | Path):
        raise OptionError("recording", f"of type {type(path).__name__}", "a path, or what read_recording returned")
    path, kind, leads, how = Path(path), format_of(path), lead_list(leads), read_options(how)
    with named_errors(path):
        if kind == "wfdb":
            return read_wfdb(path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
        if kind == "edf":
            return read_edf(path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
        if kind == "csv":
            return read_csv(path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
        if kind == "numpy":
            return read_numpy(path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
        return _HOSPITAL[kind](path, LeadSelection(leads, every_lead, include_non_ecg))


def open_every_lead(
    path: Path | str, preferred: tuple[str, ...], *, how: ReadOptions | None = None, min_samples: int | None = None
) -> Recording:
    """Open all leads; the chosen one is the first of ``preferred`` that is there, else the recording's first ECG.

    They are asked for first: the chosen lead decides what is read beside it, so a file's first ECG may hide them.
    What else is wrong with a preferred lead is an error here too, as for who asks for it by name.
    """
    try:
        return open_recording(path, preferred, every_lead=True, how=how, min_samples=min_samples)
    except NoLeadError:
        return open_recording(path, every_lead=True, how=how, min_samples=min_samples)


def read_comments(path: Path | str) -> tuple[str, ...]:
    """Return a recording's comment lines alone: a WFDB header's, a table's, what others say of the patient."""
    path, kind = Path(path), format_of(path)
    with named_errors(path):
        if kind == "wfdb":
            return tuple(read_header(path).comments or ())
        if kind == "edf":
            return edf_comments(path)
        if kind in _COMMENTS:
            return _COMMENTS[kind](path)
        return read_table(path).comments if kind == "csv" else ()


def check_annotator(annotator: str) -> None:
    """Refuse an annotator that is no suffix of a file; raises OptionError."""
    if not annotator or name_problem(f"record.{annotator}") or annotator.startswith("."):
        raise OptionError("annotator", f"{annotator!r:.60}", "the suffix of an annotation file, such as atr")


def annotation_file(path: Path | str, annotator: str = "atr") -> Path:
    """Return the file that holds a recording's annotation.

    For recording ``208.edf`` and annotator ``atr`` that is the one there is of ``208.atr`` and ``208.edf.atr`` (WFDB)
    and ``208.atr.csv``; ``208.edf`` itself for the annotator ``edf``, or where it is EDF+ and none of those is there.

    Raises:
        OptionError: an annotator that is no suffix.
        RecordError: none of them is there, or more than one.
    """
    check_annotator(annotator)
    path = Path(path)
    base, inside = record_path(path), format_of(path) == "edf"
    if inside and annotator.casefold() == INSIDE_EDF:
        return path
    usual = beside(base.parent, f"{base.name}.{annotator}")
    possible = [usual, base.with_name(f"{base.name}.{annotator}.csv")]
    if path != base and format_of(path) != "wfdb":
        possible.append(path.with_name(f"{path.name}.{annotator}"))
    files = [file for file in possible if file.is_file() and file != path]
    if len(files) > 1:
        names = " and ".join(file.name for file in files)
        raise RecordError(usual, f"{names} are both there", "one annotation", "move the other away")
    if not files and inside and path.is_file() and is_edf_plus(path):
        return path
    return files[0] if files else usual


def has_annotation(recording: Recording, annotator: str = "atr") -> bool:
    """Say whether there is an annotation for a recording, beside it or, with any mark in it, inside EDF+."""
    file = annotation_file(recording.path, annotator)
    if file != recording.path:
        return file.is_file()
    return has_edf_annotations(file)


def _frames_hz(recording: Recording) -> float | None:
    """Return the frames a second of a WFDB record, in which its annotations count time; None for any other file."""
    if format_of(recording.path) != "wfdb" or not header_path(recording.path).is_file():
        return None
    return read_lines(header_path(recording.path)).fs_hz


def is_edf_plus(path: Path) -> bool:
    """Say whether an EDF or BDF file states that it is of the extended format, which holds annotations."""
    with path.open("rb") as stream:
        return stream.read(196)[192:196] in (b"EDF+", b"BDF+")


def read_annotation(recording: Recording | Path | str, annotator: str = "atr") -> Annotation:
    """Read a recording's annotation, from where ``annotation_file`` finds it.

    Args:
        recording: the recording, which says where it lies, or its path: then it is read first, for its length.
        annotator: suffix of the annotation file; ``edf`` for the annotations inside an EDF+ file.

    Raises:
        RecordError: none, one that cannot be read or reaches past the recording, beats at a rate no heart has.
        OptionError: an annotator that is no suffix.
        MissingExtraError: WFDB or EDF, and the packages that read them are not installed.
    """
    if not isinstance(recording, Recording):
        recording = read_recording(recording)
    with named_errors(recording.path):
        file = annotation_file(recording.path, annotator)
        repaired = any(note.startswith("repaired") for note in recording.notes)
        samples = None if repaired else recording.samples  # the annotation is of all that was recorded
        if file == recording.path:
            annotation = read_edf_annotation(file, recording.fs_hz, samples=samples)
        elif file.suffix.casefold() in _TABLES:
            annotation = read_csv_annotation(file, recording.fs_hz, samples=samples)
        else:
            counted_hz = _frames_hz(recording)
            annotation = read_annotation_file(file, fs_hz=recording.fs_hz, counted_hz=counted_hz, samples=samples)
    if repaired:
        annotation = before_end(annotation, recording.samples)
    check_heart_rate(annotation.beats().sample, recording.fs_hz, file)
    return annotation
