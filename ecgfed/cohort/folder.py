"""A user's own WFDB records as a federation."""

import csv
import re
from pathlib import Path

from ecgfed.cohort.build import Source
from ecgfed.errors import CohortError, OptionError
from ecgfed.record.wfdb_files import read_header

#: Client ids become file names in a bundle.
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def _patients_from_csv(file: Path) -> dict[str, str]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            columns = reader.fieldnames or []
            if not {"record", "patient"} <= set(columns):
                raise OptionError(f"--patients {file}", f"columns {', '.join(columns) or 'none'}", "record and patient")
            return {(row["record"] or "").strip(): (row["patient"] or "").strip() for row in reader}
    except FileNotFoundError:
        raise OptionError("--patients", f"{file} does not exist", "a CSV with columns record and patient") from None
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise OptionError(
            f"--patients {file}", f"cannot be read ({problem})", "columns record and patient"
        ) from problem


def _patient_from_comment(record: Path, pattern: re.Pattern[str]) -> str:
    for comment in read_header(record).comments or ():
        if match := pattern.search(comment):
            return (match.group(1) or "").strip()
    raise CohortError(
        record.with_name(record.name + ".hea"),
        f"no comment matches {pattern.pattern!r}",
        "one that names the patient",
        "use --patients FILE.csv",
    )


def folder_sources(folder: Path, *, patients: Path | None = None, comment: str | None = None) -> list[Source]:
    """List the clients of a folder of WFDB records, sub-folders included; one client a patient.

    Args:
        folder: every ``*.hea`` in it is a record.
        patients: CSV with columns ``record`` and ``patient``; every record must be in it.
        comment: regular expression with one group that finds the patient in a header's comment lines.
            Without either, each record is a patient of its own.

    Raises:
        OptionError: no such folder, an unusable CSV or expression.
        CohortError: no record, a record without a patient, a patient's name that cannot name a file.
    """
    if not folder.is_dir():
        raise OptionError("DIR", f"{folder} is not a folder", "a folder of WFDB records")
    records = sorted(path.with_suffix("") for path in folder.rglob("*.hea"))
    if not records:
        raise CohortError(folder, "holds no WFDB record (*.hea)", action="check the folder")
    table = _patients_from_csv(patients) if patients else None
    try:
        pattern = re.compile(comment) if comment else None
    except re.error as problem:
        raise OptionError("--patient-comment", f"{comment!r} ({problem})", "a regular expression") from problem
    if pattern and pattern.groups != 1:
        raise OptionError("--patient-comment", f"{comment!r} has {pattern.groups} groups", "one, around the patient")
    groups: dict[str, list[Path]] = {}
    for record in records:
        relative = record.relative_to(folder).as_posix()
        if table is not None:
            patient = table.get(relative) or table.get(record.name) or ""
            if not patient:
                raise CohortError(f"--patients {patients}", f"has no patient for record {relative}", "every record")
        elif pattern is not None:
            patient = _patient_from_comment(record, pattern)
        else:
            patient = relative.replace("/", "_")
        if not _SAFE_ID.fullmatch(patient):
            raise CohortError(
                record, f"patient {patient!r}", "letters, digits and . _ + -, up to 64", "rename it with --patients"
            )
        groups.setdefault(patient, []).append(record)
    return [Source(patient, patient, tuple(paths)) for patient, paths in groups.items()]
