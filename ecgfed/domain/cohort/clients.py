"""Clients as ``cohort.json`` names them, and checks of what it says of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgfed.base.errors import CohortError
from ecgfed.base.safe_io import check_labels, check_name

AGAIN = "prepare the cohort again"
#: Key of a record's entry in ``cohort.json`` that is of another lead than the first: the name of the first.
FIRST_LEAD = "first_lead"
#: What ``cohort.json`` says of the database that a cohort was made from.
DATABASE_TEXTS = ("title", "version", "licence", "citation", "doi")


@dataclass(frozen=True)
class Client:
    """One client of the federation: usually one patient, on MIT-BIH one record.

    Attributes:
        index: its number, the value in ``client.npy``.
        id: the name used in options, tables and file names.
        patient: whose beats these are.
        records: the recordings they came from.
        holdout: kept out of training altogether, as a new patient.
        site: name of its site in a joined cohort, else "".
        record_label: what is known of its whole recording where no beat is labelled, such as ``A``; else "".
    """

    index: int
    id: str
    patient: str
    records: tuple[str, ...]
    holdout: bool
    site: str = ""
    record_label: str = ""


def is_counted(value: object) -> bool:
    """Whether a value of a JSON file counts something by name."""
    return isinstance(value, dict) and all(type(count) is int and count >= 0 for count in value.values())


def is_exclusions(value: object) -> bool:
    """Whether a value of a JSON file is what ``Exclusions.as_json`` writes, by kind."""
    if not isinstance(value, dict) or not all(isinstance(entry, dict) for entry in value.values()):
        return False
    for entry in value.values():
        read, used, excluded = entry.get("read"), entry.get("used"), entry.get("excluded")
        if (
            not is_counted({"read": read, "used": used})
            or not is_counted(excluded)
            or read != used + sum(excluded.values())
        ):
            return False
    return True


def of_first_lead(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of ``records`` that are of the first lead of a recording: one for each recording."""
    return [record for record in records if FIRST_LEAD not in record]


def check_records(records: Sequence[Mapping[str, Any]], where: Path) -> None:
    """Refuse ``records`` whose counts are none, or that are of another lead without a name."""
    for record in records:
        if FIRST_LEAD in record:
            check_labels([record[FIRST_LEAD], record.get("lead")], "lead", where, CohortError)
        if not is_counted(record.get("left_out", {})):
            problem = f"left_out of record {record['name']} is {record['left_out']!r:.100}"
            raise CohortError(where, problem, "symbols with their numbers of beats", AGAIN)
        if not is_exclusions(record.get("excluded", {})):
            problem = f"excluded of record {record['name']} is {record['excluded']!r:.100}"
            raise CohortError(where, problem, "read, used and excluded of each kind, which add up", AGAIN)


def check_excluded(excluded: dict[Any, Any], clients: tuple[Client, ...], classes: list[Any], where: Path) -> None:
    """Refuse ``excluded_classes`` of clients without a label of the recording, or of other classes than it has."""
    weak = {client.id for client in clients if client.record_label}
    for client, names in excluded.items():
        if client not in weak or not isinstance(names, list) or not all(name in classes for name in names):
            problem = f"excluded_classes of {client!r:.60} are {names!r:.100}"
            raise CohortError(where, problem, "classes, of a client with a label of its recording", AGAIN)


def client_of(index: int, fields: tuple[Any, ...], where: Path) -> Client:
    """Return a client as ``cohort.json`` names it; its id becomes a file's name. Raises CohortError."""
    name, patient, records, holdout, site, record_label = fields
    if not isinstance(records, list) or not isinstance(holdout, bool):
        raise CohortError(where, f"client {name!r:.100} is damaged", "records and holdout", AGAIN)
    check_name(name, "client", where, CohortError)
    check_name(patient, "patient", where, CohortError)
    check_labels(records, "record", where, CohortError)
    for what, text in (("site", site), ("label of a recording", record_label)):
        if text != "":
            check_labels([text], what, where, CohortError)
    return Client(index, name, patient, tuple(records), holdout, site, record_label)


def check_sites(meta: Mapping[str, Any], clients: Sequence[Client], where: Path) -> None:
    """Refuse ``sites`` that are not those of the clients, and a ``database`` without the texts that are printed."""
    sites = meta.get("sites", [])
    if not isinstance(sites, list) or not all(isinstance(site, dict) for site in sites):
        raise CohortError(where, f"sites are {sites!r:.100}", "an object for each", AGAIN)
    names = [site.get("name") for site in sites]
    if set(names) != {client.site for client in clients if client.site} or len(set(names)) < len(names):
        raise CohortError(where, f"sites are {names!r:.100}", "those of its clients, once each", AGAIN)
    for database in (entry["database"] for entry in (meta, *sites) if "database" in entry):
        texts = [database.get(name) for name in DATABASE_TEXTS] if isinstance(database, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise CohortError(where, f"database is {database!r:.100}", f"its {', '.join(DATABASE_TEXTS)}", AGAIN)
