"""The front door: a recording and its annotation, whatever their format."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ecgfed.errors import OptionError, RecordError
from ecgfed.record.annotations import read_csv_annotation
from ecgfed.record.checks import check_heart_rate
from ecgfed.record.csv_files import read_csv
from ecgfed.record.edf_files import edf_comments, has_edf_annotations, read_edf, read_edf_annotation
from ecgfed.record.leads import lead_list
from ecgfed.record.numpy_files import read_numpy
from ecgfed.record.recording import Annotation, AnyRecording, ReadOptions, Recording, read_options
from ecgfed.record.tables import read_table
from ecgfed.record.wfdb_files import read_annotation_file
from ecgfed.record.wfdb_files import read_recording as read_wfdb
from ecgfed.record.wfdb_header import read_header, record_base

#: The suffixes of each format; a path with none of them is a WFDB record's.
FORMATS = {"wfdb": (".hea", ".dat"), "edf": (".edf",), "csv": (".csv", ".tsv", ".txt"), "numpy": (".npy", ".npz")}
#: The annotator that means the annotations inside an EDF+ file.
INSIDE_EDF = "edf"
_TABLES = (".csv", ".tsv", ".txt")


def format_of(path: Path | str) -> str:
    """Return the format that a path's suffix names, ``wfdb`` where it names none."""
    suffix = Path(path).suffix.casefold()
    return next((kind for kind, suffixes in FORMATS.items() if suffix in suffixes), "wfdb")


def record_path(path: Path | str) -> Path:
    """Return a recording's path without the suffix of its format: its name, and where its annotation lies."""
    return record_base(path) if format_of(path) == "wfdb" else Path(path).with_suffix("")


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system and the memory refuse into one line."""
    try:
        yield
    except OSError as problem:
        raise RecordError(path, f"cannot be read ({problem.strerror or problem})", action="check the file") from problem
    except MemoryError as problem:
        raise RecordError(path, "does not fit into memory", action="cut it into parts") from problem


def read_recording(
    path: Path | str,
    leads: str | Sequence[str] | None = None,
    *,
    every_lead: bool = False,
    how: ReadOptions | None = None,
) -> Recording:
    """Read a recording in millivolt, gaps as NaN.

    Args:
        path: ``.hea``, ``.dat`` or no suffix: WFDB; ``.edf``; ``.csv``, ``.tsv``, ``.txt``; ``.npy``, ``.npz``.
        leads: lead names in order of preference, the first one present is chosen; for none its first lead, unless that
            is named as something else than an ECG's and another one is.
        every_lead: read the others too, as far as they are voltages at the same sampling frequency.
        how: what a CSV or NumPy file leaves open.

    Raises:
        RecordError: a file that cannot be used; one line names it and says what was found and expected.
        OptionError: units in ``how`` that are none, or ``how`` is of another type.
        MissingExtraError: WFDB or EDF, and the packages that read them are not installed.
    """
    if not isinstance(path, str | Path):
        raise OptionError("recording", f"of type {type(path).__name__}", "a path, or what read_recording returned")
    path, kind, leads, how = Path(path), format_of(path), lead_list(leads), read_options(how)
    with named_errors(path):
        if kind == "wfdb":
            return read_wfdb(path, leads, every_lead=every_lead)
        if kind == "edf":
            return read_edf(path, leads, every_lead=every_lead, how=how)
        if kind == "csv":
            return read_csv(path, leads, every_lead=every_lead, how=how)
        return read_numpy(path, leads, every_lead=every_lead, how=how)


def read_every_lead(path: Path | str, preferred: tuple[str, ...], *, how: ReadOptions | None = None) -> Recording:
    """Read all leads; the chosen one is the first of ``preferred`` that is there, else the recording's first."""
    recording = read_recording(path, (), every_lead=True, how=how)
    return replace(recording, lead=next((name for name in preferred if name in recording.leads), recording.lead))


def read_comments(path: Path | str) -> tuple[str, ...]:
    """Return a recording's comment lines alone: a WFDB header's, a table's, what an EDF header says of the patient."""
    path, kind = Path(path), format_of(path)
    with named_errors(path):
        if kind == "wfdb":
            return tuple(read_header(path).comments or ())
        if kind == "edf":
            return edf_comments(path)
        return read_table(path).comments if kind == "csv" else ()


def check_annotator(annotator: str) -> None:
    """Refuse an annotator that is no suffix of a file; raises OptionError."""
    if not annotator or "/" in annotator or annotator.startswith("."):
        raise OptionError("--annotator", f"{annotator!r}", "the suffix of an annotation file, such as atr")


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
    usual = base.with_name(f"{base.name}.{annotator}")
    beside = [usual, base.with_name(f"{base.name}.{annotator}.csv")]
    if path != base and format_of(path) != "wfdb":
        beside.append(path.with_name(f"{path.name}.{annotator}"))
    found = [file for file in beside if file.is_file() and file != path]
    if len(found) > 1:
        names = " and ".join(file.name for file in found)
        raise RecordError(usual, f"{names} are both there", "one annotation", "move the other away")
    if not found and inside and path.is_file() and _is_edf_plus(path):
        return path
    return found[0] if found else usual


def has_annotation(recording: AnyRecording, annotator: str = "atr") -> bool:
    """Say whether there is an annotation for a recording, beside it or, with any mark in it, inside EDF+."""
    file = annotation_file(recording.path, annotator)
    if file != recording.path:
        return file.is_file()
    return has_edf_annotations(file)


def _is_edf_plus(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(196)[192:196] == b"EDF+"


def read_annotation(recording: AnyRecording | Path | str, annotator: str = "atr") -> Annotation:
    """Read a recording's annotation, from where ``annotation_file`` finds it.

    Args:
        recording: the recording, which says where it lies, or its path: then it is read first, for its length.
        annotator: suffix of the annotation file; ``edf`` for the annotations inside an EDF+ file.

    Raises:
        RecordError: none, one that cannot be read or reaches past the recording, beats at a rate no heart has.
        OptionError: an annotator that is no suffix.
        MissingExtraError: WFDB or EDF, and the packages that read them are not installed.
    """
    if not isinstance(recording, AnyRecording):
        recording = read_recording(recording)
    with named_errors(recording.path):
        file, samples = annotation_file(recording.path, annotator), recording.samples
        if file == recording.path:
            annotation = read_edf_annotation(file, recording.fs_hz, samples=samples)
        elif file.suffix.casefold() in _TABLES:
            annotation = read_csv_annotation(file, recording.fs_hz, samples=samples)
        else:
            annotation = read_annotation_file(file, samples=samples)
    check_heart_rate(annotation.beats().sample, recording.fs_hz, file)
    return annotation
