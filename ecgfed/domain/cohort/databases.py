"""PhysioNet's databases as federations: names, places, and which files are the published ones.

A database is one entry of ``DATABASES``; everything else is one code path (docs/decisions/0076).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path, PurePosixPath
from typing import Any

from ecgfed.base.errors import CohortError, OptionError, RecordError, param
from ecgfed.base.files import sha256
from ecgfed.base.safe_io import read_bounded
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.labels import BUILT_IN, LabelMap
from ecgfed.domain.cohort.clients import DATABASE_TEXTS
from ecgfed.domain.cohort.sources import PrepareOptions, Source
from ecgfed.domain.record.leads import choose_lead
from ecgfed.domain.record.wfdb_header import read_header

_GOLDBERGER = "Goldberger et al., PhysioBank, PhysioToolkit, and PhysioNet, Circulation 101(23):e215-e220, 2000"
#: The list of digests in every folder of PhysioNet; that of the largest database here has 2 MB.
SUMS = "SHA256SUMS.txt"
_MAX_SUMS_BYTES = 16 << 20
_SUM = re.compile(r"([0-9a-f]{64})  ?\*?(\S.*)")


@dataclass(frozen=True, eq=False)
class Database:
    """A database of PhysioNet.

    Attributes:
        kind: its name on the command line and in ``cohort.json``.
        title: what it is called.
        summary: one sentence on the cohort that is made of it.
        path: its folder on PhysioNet, with the version.
        example: name of a record, for messages.
        records: regular expression of the record names.
        leads: names in order of preference by default; none for the first ECG of each record.
        classes: label map by default.
        citation: who to cite.
        doi: of the database.
        signal: suffix of the signal files.
        complete: whether the package has the digest of every file; else PhysioNet's list is fetched first.
        folder: of the records below ``path``.
        same_patient: record -> the record that names the patient of both.
        copies: regular expression of records that are excerpts of another database here, which are left out.
        copies_of: that database.
        record_labels: label of a recording -> classes of AAMI that do not occur in it, of a database without beats.
        references: names of the table of these labels, the newest first.
        licence: its licence.
    """

    kind: str
    title: str
    summary: str
    path: str
    example: str
    records: str
    leads: tuple[str, ...]
    classes: str
    citation: str
    doi: str
    signal: str = ".dat"
    complete: bool = False
    folder: str = ""
    same_patient: Mapping[str, str] = field(default_factory=dict)
    copies: str = ""
    copies_of: str = ""
    record_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    licence: str = "ODC-By 1.0"

    @property
    def url(self) -> str:
        """Its folder on PhysioNet."""
        return f"https://physionet.org/files/{self.path}/"

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of a record's files."""
        return (".hea", self.signal) if self.record_labels else (".hea", self.signal, ".atr")

    @property
    def source_line(self) -> str:
        """What to print beside a cohort: name, licence and citation."""
        return f"{self.title}, licence {self.licence}. Cite {self.citation}; doi {self.doi}."

    @property
    def version(self) -> str:
        """Its version."""
        return PurePosixPath(self.path).name

    def as_json(self) -> dict[str, str]:
        """Return what ``cohort.json`` says of it."""
        return dict(zip(DATABASE_TEXTS, (self.title, self.version, self.licence, self.citation, self.doi), strict=True))

    def holds(self, name: str) -> bool:
        """Return whether a path, relative to the database or to a copy of its records, is of one of its records."""
        path = PurePosixPath(name)
        in_folder = path.parent.name == "" or (self.folder != "" and path.parts[0] == self.folder)
        is_record = path.suffix in self.suffixes and re.fullmatch(self.records, path.stem) is not None
        return (is_record and in_folder and ".." not in path.parts) or name in self.references


MITBIH = Database(
    "mitbih",
    "MIT-BIH Arrhythmia Database",
    "Make a cohort from the MIT-BIH Arrhythmia Database: 45 patients, 12 classes, 105,045 beats by default.",
    "mitdb/1.0.0",
    "100",
    "[12][0-9]{2}",
    ("MLII",),
    "mitbih12",
    f"Moody and Mark, IEEE Eng Med Biol 20(3):45-50, 2001, and {_GOLDBERGER}",
    "10.13026/C2F305",
    complete=True,
    same_patient={"202": "201"},  # the database's directory: one person, the same tape
)
SVDB = Database(
    "svdb",
    "MIT-BIH Supraventricular Arrhythmia Database",
    "Make a cohort from the MIT-BIH Supraventricular Arrhythmia Database: 78 half-hour records, a patient each.",
    "svdb/1.0.0",
    "800",
    "8[0-9]{2}",
    ("ECG1", "ECG2"),
    "aami5",
    "Greenwald, Improved detection and classification of arrhythmias in noise-corrupted electrocardiograms using "
    f"contextual information, PhD thesis, Harvard-MIT, 1990, and {_GOLDBERGER}",
    "10.13026/C2V30W",
)
QTDB = Database(
    "qtdb",
    "QT Database",
    "Make a cohort from the QT Database: 15 minutes each from several databases and recorders, nearly all normal.",
    "qtdb/1.0.0",
    "sele0106",
    "sele?[0-9]+",
    (),
    "aami5",
    f"Laguna et al., Computers in Cardiology 24:673-676, 1997, and {_GOLDBERGER}",
    "10.13026/C24K53",
    copies="sel[128][0-9]{2}",
    copies_of="MIT-BIH Arrhythmia or Supraventricular Arrhythmia Database",
)
CINC2017 = Database(
    "cinc2017",
    "PhysioNet/CinC Challenge 2017, training set",
    "Make a cohort from the Challenge 2017: 8,528 strips of a hand-held recorder with a label each and none of a beat.",
    "challenge-2017/1.0.0",
    "A00001",
    "A[0-9]{5}",
    (),
    "aami5",
    f"Clifford et al., Computing in Cardiology 44, 2017, and {_GOLDBERGER}",
    "10.22489/CinC.2017.065-469",
    signal=".mat",
    folder="training",
    # normal rhythm has no ectopic beat; in fibrillation no beat is premature of the atria; others and noise say nothing
    record_labels={"N": ("S", "V", "F"), "A": ("S",), "O": (), "~": ()},
    references=("REFERENCE-v3.csv", "REFERENCE.csv"),
)
DATABASES = {database.kind: database for database in (MITBIH, SVDB, QTDB, CINC2017)}


@cache
def package_sha256(database: Database) -> dict[str, str]:
    """Return the published SHA-256 that the package has of a database's files: ``100.dat`` -> digits."""
    file = package_files("ecgfed.domain.cohort").joinpath(f"{database.path.replace('/', '-')}.sha256")
    text = file.read_text(encoding="ascii") if file.is_file() else ""
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def listed_sha256(file: Path, database: Database) -> dict[str, str]:
    """Return the digests of a database's records in a ``SHA256SUMS.txt``: path in the list -> digits.

    Raises:
        CohortError: the file is larger than any such list, or no text.
    """
    try:
        text = read_bounded(file, _MAX_SUMS_BYTES, CohortError, file).decode()
    except UnicodeDecodeError:
        raise CohortError(file, "is no list of digests", "lines of a SHA-256 and a name", "fetch it again") from None
    entries = {match[2]: match[1] for line in text.splitlines() if (match := _SUM.fullmatch(line))}
    return {name: digest for name, digest in entries.items() if database.holds(name)}


def published_sha256(database: Database, source: Path) -> dict[str, str]:
    """Return the published SHA-256 by file name: the package's, and those of ``SHA256SUMS.txt`` in the folder."""
    sums = source / SUMS
    in_list = listed_sha256(sums, database) if sums.is_file() else {}
    return {**{PurePosixPath(name).name: digest for name, digest in in_list.items()}, **package_sha256(database)}


def read_files(source: Path, paths: Iterable[Path], database: Database) -> dict[str, str]:
    """Return the SHA-256 of the files of some records in a folder, and of the table of their labels, by file name."""
    files = [path.with_name(f"{path.name}{suffix}") for path in paths for suffix in database.suffixes]
    files += [source / name for name in database.references]
    return {file.name: sha256(file) for file in files if file.is_file()}


def excluded_classes(database: Database, record_label: str, labels: LabelMap) -> list[str]:
    """Return the classes that do not occur in a recording with a label: those all of whose symbols do not."""
    absent, aami = database.record_labels[record_label], BUILT_IN["aami5"].symbols
    possible = {name for symbol, name in labels.symbols.items() if aami.get(symbol) not in absent}
    return [name for name in labels.classes if name not in possible]


def wrong_files(read: Mapping[str, str], published: Mapping[str, str]) -> list[str]:
    """Return the files that are not byte for byte the published ones; both by file name, SHA-256."""
    return sorted(name for name, digest in read.items() if published.get(name, digest) != digest)


def record_names(database: Database, source: Path) -> list[str]:
    """Return the names of a database's records in a folder, excerpts of another database included, in order."""
    names = {path.stem for path in source.glob("*.hea") if re.fullmatch(database.records, path.stem)}
    if database.complete:
        names &= {Path(name).stem for name in package_sha256(database)}
    return sorted(names)


@dataclass(frozen=True)
class Members:
    """The clients of a database.

    Attributes:
        clients: with their records.
        without_lead: records left out for want of the lead.
        copies: records left out as excerpts of another database, whose patients would be there twice.
    """

    clients: list[Source]
    without_lead: list[str]
    copies: list[str]


def database_sources(database: Database, source: Path, options: PrepareOptions, by: str = "patient") -> Members:
    """List the clients of a folder that holds records of a database, or some of them.

    Args:
        database: it.
        source: folder with the records.
        options: the leads decide who takes part.
        by: ``patient`` (of MIT-BIH 45 clients with MLII, 201 and 202 joined) or ``record`` (46, as in the GRP-FED
            paper).

    Raises:
        OptionError: no such folder, another ``by``, one record of a patient held out without the other.
        CohortError: no record of the database in it, or none with the lead.
    """
    if by not in ("record", "patient"):
        raise OptionError("by", f"{by!r}", "patient or record", code="unknown-choice")
    same_patient = database.same_patient if by == "patient" else {}
    for name in options.holdout:
        if name in same_patient:
            problem, action = f"{name} is of the same person as {same_patient[name]}", f"or pass {param('by')} record"
            raise OptionError("holdout", problem, f"{same_patient[name]}, for both", action)
    example = ", ".join(f"{database.example}{suffix}" for suffix in database.suffixes)
    if not source.is_dir():
        raise OptionError("source", f"{source} is not a folder", f"a folder with {example}, ...")
    names = record_names(database, source)
    if not names:
        problem = f"holds no record of the {database.title}"
        raise CohortError(source, problem, f"{example}, ...", f"check {param('source')}")
    members = Members([], [], [name for name in names if database.copies and re.fullmatch(database.copies, name)])
    leads: set[str] = set()
    groups: dict[str, list[Path]] = {}
    for name in (name for name in names if name not in members.copies):
        header = read_header(source / name)
        leads.update(header.sig_name)
        try:
            choose_lead(header.sig_name, source / name, options.beats.leads)
        except RecordError:
            members.without_lead.append(name)
            continue
        groups.setdefault(same_patient.get(name, name), []).append(source / name)
    if not groups:
        if not leads:
            raise CohortError(source, f"all of its records are excerpts of the {database.copies_of}", "others too")
        problem, known = f"no record has lead {' or '.join(options.beats.leads)}", f"one of {', '.join(sorted(leads))}"
        raise CohortError(source, problem, known, f"name it with {param('leads')}", code="unknown-lead")
    stated = read_record_labels(database, source) if database.record_labels else {}
    if without := sorted(groups.keys() - stated.keys()) if database.record_labels else []:
        expected = f"a label of each recording in {' or '.join(database.references)}"
        raise CohortError(source, f"has no label of {listed(without, 5)}", expected, "complete the table")
    for key, paths in groups.items():
        patient, label = database.same_patient.get(key, key), stated.get(key, "")
        absent = excluded_classes(database, label, options.labels) if label else ()
        members.clients.append(Source(key, patient, tuple(paths), record_label=label, excluded_classes=tuple(absent)))
    return members


def read_record_labels(database: Database, source: Path) -> dict[str, str]:
    """Return the labels of recordings by record; raises CohortError for a table that is missing or damaged."""
    file = next((source / name for name in database.references if (source / name).is_file()), None)
    if file is None:
        expected = f"{' or '.join(database.references)}, the labels of its recordings"
        raise CohortError(source, "holds no table of labels", expected, "copy it into the folder")
    labels: dict[str, str] = {}
    for line in read_bounded(file, _MAX_SUMS_BYTES, CohortError).decode("utf-8", "replace").splitlines():
        record, _, label = line.strip().partition(",")
        if label not in database.record_labels or labels.setdefault(record, label) != label:
            expected = f"a record and one of {', '.join(database.record_labels)}, once for each record"
            raise CohortError(file, f"has the line {line!r:.60}", expected, "fetch it again")
    return labels


def database_json(database: Database, members: Members, by: str, *, anonymous: bool) -> dict[str, Any]:
    """Return what ``cohort.json`` says of a database and of the records left out."""
    left_out = {"without_lead": members.without_lead, "copies": members.copies}
    counted = {
        name: [count_of(len(names), "record")] * bool(names) if anonymous else names for name, names in left_out.items()
    }
    return {
        **({"by": by} if database.same_patient else {}),
        "database": database.as_json(),
        "without_lead": counted["without_lead"],
        "without_lead_count": len(members.without_lead),
        **({"copies": counted["copies"], "copies_count": len(members.copies)} if members.copies else {}),
    }
