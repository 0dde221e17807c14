"""A user's own recordings, of any format that is read, as a federation."""

import csv
import errno
import io
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from ecgfed.base.errors import CohortError, OptionError, RecordError, param
from ecgfed.base.safe_io import check_columns, open_regular, read_bounded
from ecgfed.domain.cohort.problems import Problems
from ecgfed.domain.cohort.sources import Source
from ecgfed.domain.record.kinds import FORMATS, is_of_kind, kind_of_suffix, may_be_recording
from ecgfed.domain.record.reader import format_of, read_comments, record_path
from ecgfed.domain.record.wfdb_header import segment_names

#: A line for each of 100,000 recordings has 10 MB.
_MAX_PATIENTS_BYTES = 16 << 20
#: Beside it a table of the same name holds what ``predict`` said, and is no recording.
PREDICTED = ".ecgfed"
#: Client ids become file names in a bundle.
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def _patients_from_csv(file: Path) -> dict[str, str]:
    where = f"{param('patients')} {file}"
    data = read_bounded(file, _MAX_PATIENTS_BYTES, OptionError, where)
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        columns = reader.fieldnames or []
        if not {"record", "patient"} <= set(columns):
            raise OptionError(where, f"columns {', '.join(columns) or 'none'}", "record and patient")
        check_columns(columns, ("record", "patient"), where, OptionError)
        patients: dict[str, str] = {}
        for row in reader:
            record, patient = (row["record"] or "").strip(), (row["patient"] or "").strip()
            if patients.setdefault(record, patient) != patient:
                found = f"record {record!r:.60} is of {patients[record]!r:.60} and of {patient!r:.60}"
                raise OptionError(where, found, "one patient", "correct one of its lines")
        return patients
    except (UnicodeDecodeError, csv.Error) as problem:
        raise OptionError(where, f"cannot be read ({problem})", "columns record and patient") from problem


def _patient_from_comment(record: Path, pattern: re.Pattern[str]) -> str:
    for comment in read_comments(record):
        if match := pattern.search(comment):
            return (match.group(1) or "").strip()
    where = record.with_name(record.name + ".hea") if format_of(record) == "wfdb" else record
    problem, action = f"no comment matches {pattern.pattern!r}", f"use {param('patients=FILE.csv')}"
    raise CohortError(where, problem, "one that names the patient", action)


def _records(folder: Path) -> list[Path]:
    """List a folder's WFDB records, without suffix; segments are parts of the record that names them."""
    headers = [path for path in folder.rglob("*") if path.suffix.casefold() == ".hea"]
    parts = {header.parent / name for header in headers for name in segment_names(header)}
    return [header.with_suffix("") for header in headers if header.with_suffix("") not in parts]


def _single_files(folder: Path, kinds: Sequence[str], annotator: str) -> list[Path]:
    """List the recordings of other formats, by content or else by suffix, leaving out annotations and predictions."""
    # marks that lie inside EDF+ (annotator edf) have no file of their own
    marks = tuple(end for end in (f"{annotator}.csv", annotator) if end.casefold() not in FORMATS["edf"])
    files = []
    for path in folder.rglob("*"):
        suffix = path.suffix.casefold()
        # A .txt is a recording only when it is named itself: folders hold readme and checksum files of that suffix.
        if suffix in (".txt", ".hea") or not may_be_recording(path) or path.name.endswith(marks) or not path.is_file():
            continue
        if suffix == ".csv" and path.with_suffix(PREDICTED).exists():
            continue
        kind = format_of(path)
        if kind != "wfdb" and kind in kinds and is_of_kind(path, kind):
            files.append(path)
    return files


def recordings_below(folder: Path, formats: Sequence[str] = (), annotator: str = "atr") -> list[Path]:
    """List the recordings of a folder and its sub-folders, whatever their format, in order of name.

    Args:
        folder: it.
        formats: names of formats (``ecgfed.domain.record.reader.FORMATS``): which to take; all of them for none.
        annotator: suffix of the annotation files, which are no recordings.

    Raises:
        OptionError: an unknown format.
        CohortError: no recording.
    """
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown:
        raise OptionError("formats", f"{unknown[0]!r}", f"one or more of {', '.join(FORMATS)}", code="unknown-choice")
    kinds = tuple(formats or FORMATS)
    recordings = [*(_records(folder) if "wfdb" in kinds else ()), *_single_files(folder, kinds, f".{annotator}")]
    if not recordings:
        suffixes = dict.fromkeys(suffix for kind in kinds for suffix in FORMATS[kind] if suffix != ".txt")
        problem = f"holds no WFDB record (*.hea), nor any other recording ({', '.join(suffixes)})"
        raise CohortError(folder, problem, action="check the path")
    return sorted(recordings)


def _why_not_read(path: Path) -> str:
    """Return why a file cannot be looked into; ``""`` where it can."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return (
                "is a pipe" if stat.S_ISFIFO(mode) else "is a socket" if stat.S_ISSOCK(mode) else "is no regular file"
            )
        open_regular(path).close()
    except OSError as problem:
        missing = path.is_symlink() and problem.errno in (errno.ENOENT, errno.ELOOP)
        return "is a broken link" if missing else f"cannot be read ({problem.strerror or problem})"
    return ""


def not_read_below(folder: Path, annotator: str = "atr") -> dict[Path, RecordError]:
    """Return an error for each file that may be a recording by its name and cannot be read, and each such folder.

    These are broken links, pipes, sockets, files and folders without permission, and links to folders elsewhere, which
    are not followed. Hidden files are left out, and so are the ``.dat`` files of a header, whose record fails itself.

    Args:
        folder: where recordings are looked for, sub-folders included.
        annotator: suffix of the annotation files, which are no recordings.
    """
    problems: list[OSError] = []
    reasons: dict[Path, str] = {}
    inside = os.path.realpath(folder)
    for place, folders, files in os.walk(folder, onerror=problems.append):
        for path in (Path(place, name) for name in folders):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
                reasons[path] = "is a link to another folder, which is not followed"
        headers = {Path(name).stem for name in files if name.casefold().endswith(".hea")}
        for path in (Path(place, name) for name in files if not name.startswith(".")):
            of_header = path.suffix.casefold() == ".hea" or (path.suffix.casefold() == ".dat" and path.stem in headers)
            marks = path.name.endswith((f".{annotator}.csv", f".{annotator}", ".txt"))
            if may_be_recording(path) and not of_header and not marks and (reason := _why_not_read(path)):
                reasons[path] = reason
    reasons |= {Path(problem.filename): f"cannot be listed ({problem.strerror})" for problem in problems}
    expected = "a file or folder that can be read"
    return {path: RecordError(path, reason, expected, "correct or remove it") for path, reason in reasons.items()}


def recordings_and_not_read(folder: Path, annotator: str = "atr") -> tuple[list[Path], dict[Path, RecordError]]:
    """Return what ``recordings_below`` and ``not_read_below`` list, in order of name, and the errors of the latter.

    Raises:
        CohortError: neither.
    """
    not_read = not_read_below(folder, annotator)
    try:
        recordings = recordings_below(folder, annotator=annotator)
    except CohortError:
        if not not_read:
            raise
        recordings = []
    return sorted({*recordings, *not_read}), not_read


def doubled(records: Sequence[Path]) -> dict[Path, CohortError]:
    """Return what is wrong with each recording that is there under another suffix already."""
    first_by_record: dict[Path, Path] = {}
    wrong = {}
    for path in records:
        if (duplicate := first_by_record.setdefault(record_path(path), path)) != path:
            problem = f"is also there as {duplicate.name}"
            wrong[path] = CohortError(path, problem, "one file a recording", f"choose with {param('formats')}")
    return wrong


def not_utf8(records: Sequence[Path]) -> dict[Path, RecordError]:
    """Return an error for each recording with a name that is not UTF-8: no list of results could state it."""
    return {
        path: RecordError(name, "has a name that is not UTF-8", "another name", "rename it")
        for path in records
        if (name := str(path).encode(errors="backslashreplace").decode()) != str(path)
    }


def folder_sources(
    folder: Path,
    *,
    patients: Path | None = None,
    comment: str | None = None,
    formats: tuple[str, ...] = (),
    annotator: str = "atr",
    ids: bool = True,
    problems: Problems | None = None,
) -> list[Source]:
    """List the clients of a folder of recordings, sub-folders included; one client a patient.

    Args:
        folder: every recording in it is taken; segments are parts of the record that names them.
        patients: CSV with columns ``record`` (with or without suffix) and ``patient``; every record must be in it.
        comment: regular expression with one group that finds the patient in a recording's comment lines.
            Without either, each record is a patient of its own.
        formats: names of formats (``ecgfed.domain.record.reader.FORMATS``): which to take; all of them for none.
        annotator: suffix of the annotation files, which are no recordings.
        ids: the patients' names become ids, and so must be fit for file names.
        problems: is given the recordings that cannot be used, which are then left out; without it they are errors. So
            are links to nothing and other files that cannot be read (``not_read_below``).

    Raises:
        OptionError: no such folder or format, an unusable CSV or expression.
        CohortError: no record, one that is there twice or without a patient, a patient's name that cannot name a file.
    """
    if not folder.is_dir():
        raise OptionError("DIR", f"{folder} is not a folder", "a folder of WFDB records or other recordings")
    table = _patients_from_csv(patients) if patients else None
    records = recordings_below(folder, formats, annotator)
    if patients is not None:
        records = [path for path in records if path.resolve() != patients.resolve()]
    pattern, twice = _pattern(comment) if comment else None, doubled(records)
    groups: dict[str, list[Path]] = {}
    for record in records:
        try:
            if record in twice:
                raise twice[record]
            patient = _patient(record, folder, table, pattern, patients)
            if not patient or (ids and not _SAFE_ID.fullmatch(patient)):
                expected = "letters, digits and . _ + -, up to 64"
                raise CohortError(record, f"patient {patient!r}", expected, f"rename it with {param('patients')}")
        except (CohortError, RecordError) as problem:
            if problems is None:
                raise
            problems.add(record, problem)
        else:
            groups.setdefault(patient, []).append(record)
    if problems is not None:
        for path, error in not_read_below(folder, annotator).items():
            if not formats or kind_of_suffix(path) in formats:
                problems.add(path, error)
    return [Source(patient, patient, tuple(paths)) for patient, paths in groups.items()]


def _pattern(comment: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(comment)
    except re.error as problem:
        raise OptionError("patient_comment", f"{comment!r} ({problem})", "a regular expression") from problem
    if pattern.groups != 1:
        raise OptionError("patient_comment", f"{comment!r} has {pattern.groups} groups", "one, around the patient")
    return pattern


def _patient(
    record: Path, folder: Path, table: dict[str, str] | None, pattern: re.Pattern[str] | None, patients: Path | None
) -> str:
    """Return whose a recording is: by the table, by a comment, or by its own name."""
    relative = record_path(record).relative_to(folder).as_posix()
    if table is not None:
        names = (record.relative_to(folder).as_posix(), relative, record.name, record_path(record).name)
        patient = next((table[name] for name in names if table.get(name)), "")
        if not patient:
            where = f"{param('patients')} {patients}"
            raise CohortError(where, f"has no patient for record {relative}", "every record")
        return patient
    return _patient_from_comment(record, pattern) if pattern else relative.replace("/", "_")
