"""The MIT-BIH Arrhythmia Database as a federation: one client a patient (or a record), 45 (46) with lead MLII.

Moody and Mark, IEEE Eng Med Biol 20(3):45-50, 2001; Goldberger et al., Circulation 101(23):e215, 2000.
doi 10.13026/C2F305, licence ODC-By 1.0.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from ecgfed.base.errors import CohortError, OptionError, RecordError, param
from ecgfed.base.files import sha256
from ecgfed.domain.cohort.build import PrepareOptions, Source
from ecgfed.domain.record.leads import choose_lead
from ecgfed.domain.record.wfdb_header import read_header

SUFFIXES = (".hea", ".dat", ".atr")
#: 201 and 202 are recordings of one person (the database's directory; same tape).
SAME_PATIENT = {"202": "201"}
#: Beats per symbol on the 46 records with MLII, of the published 109,494 on all 48.
_COUNTS_ON_MLII = (74790, 8075, 7259, 7124, 3620, 2546, 803, 260, 229, 150, 106, 83, 16, 15, 2)
BEATS_ON_MLII = dict(zip("NLRV/AFfjaEJeQS", _COUNTS_ON_MLII, strict=True))


@cache
def published_sha256() -> dict[str, str]:
    """Return the published SHA-256 of every record file of version 1.0.0: ``100.dat`` -> digits."""
    text = package_files("ecgfed.domain.cohort").joinpath("mitdb-1.0.0.sha256").read_text(encoding="ascii")
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


@cache
def record_names() -> tuple[str, ...]:
    """Return the 48 record names in order."""
    return tuple(sorted({Path(name).stem for name in published_sha256()}))


def digests(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the ``sha256`` of the files of some records, as ``wrong_files`` takes them."""
    files = (path.with_name(f"{path.name}{suffix}") for path in paths for suffix in SUFFIXES)
    return [{"sha256": {file.name: sha256(file)}} for file in files if file.is_file()]


def wrong_files(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the files that are not byte for byte the published ones.

    Args:
        records: as ``cohort.json`` lists them, each with the ``sha256`` of the files it was read from.
    """
    published = published_sha256()
    read = {name: digest for record in records for name, digest in record["sha256"].items()}
    return sorted(name for name, digest in read.items() if published.get(name, digest) != digest)


def mitbih_sources(source: Path, options: PrepareOptions, by: str = "patient") -> tuple[list[Source], list[str]]:
    """List the clients of a folder that holds MIT-BIH records.

    Args:
        source: folder with ``NNN.hea``, ``NNN.dat``, ``NNN.atr``; it may hold some of the 48 only.
        options: the leads decide who takes part.
        by: ``patient`` (45 clients with MLII, 201 and 202 joined) or ``record`` (46, as in the GRP-FED paper).

    Returns:
        The clients, and the records left out for want of the lead.

    Raises:
        OptionError: no such folder, another ``by``, one record of a patient held out without the other.
        CohortError: no MIT-BIH record in it, or none with the lead.
    """
    if by not in ("record", "patient"):
        raise OptionError("by", f"{by!r}", "patient or record", code="unknown-choice")
    for name in options.holdout if by == "patient" else ():
        if name in SAME_PATIENT:
            patient = SAME_PATIENT[name]
            problem, action = f"{name} is of the same person as {patient}", f"or pass {param('by')} record"
            raise OptionError("holdout", problem, f"{patient}, for both", action)
    if not source.is_dir():
        raise OptionError("source", f"{source} is not a folder", "a folder with 100.hea, 100.dat, ...")
    names = [name for name in record_names() if (source / f"{name}.hea").is_file()]
    if not names:
        expected = "100.hea, 100.dat, 100.atr, ..."
        raise CohortError(source, "holds no MIT-BIH record", expected, f"check {param('source')}")
    without: list[str] = []
    leads: set[str] = set()
    groups: dict[str, list[Path]] = {}
    for name in names:
        header = read_header(source / name)
        leads.update(header.sig_name)
        try:
            choose_lead(header.sig_name, source / name, options.beats.leads)
        except RecordError:
            without.append(name)
            continue
        groups.setdefault(SAME_PATIENT.get(name, name) if by == "patient" else name, []).append(source / name)
    if not groups:
        problem, known = f"no record has lead {' or '.join(options.beats.leads)}", f"one of {', '.join(sorted(leads))}"
        raise CohortError(source, problem, known, f"name it with {param('leads')}", code="unknown-lead")
    clients = [Source(key, SAME_PATIENT.get(key, key), tuple(paths)) for key, paths in groups.items()]
    return clients, without


def count_check(sources: list[Source], options: PrepareOptions) -> Callable[[dict[str, int]], None] | None:
    """Return a check of the class counts against the database's published ones, where they apply.

    They apply to annotated peaks on the full set of 46 records with MLII.

    Args:
        sources: the clients with their records, of ``mitbih_sources``.
        options: how the cohort is made; its classes decide which symbols are counted together.

    Returns:
        A function of the beats found of each class, which raises CohortError where they are other numbers; None where
        there are no published numbers to compare with.
    """
    records = [path for source in sources for path in source.records]
    full = {path.name for path in records} == set(record_names()) - {"102", "104"}
    if not full or options.beats.peaks != "annotated" or options.beats.annotator != "atr":
        return None
    expected = dict.fromkeys(options.labels.classes, 0)
    for symbol, count in BEATS_ON_MLII.items():
        if symbol in options.labels.symbols:
            expected[options.labels.symbols[symbol]] += count

    def check(counts: dict[str, int]) -> None:
        """Raise CohortError where the beats of a class are not as many as published."""
        if counts != expected:
            differing = [f"{c} {counts[c]} (not {expected[c]})" for c in expected if counts[c] != expected[c]]
            problem = f"beats differ from the published database: {', '.join(differing)}"
            raise CohortError(records[0].parent, problem, action="fetch the database again")

    return check
