"""Clients of a cohort under new ids: who is who stands in the key alone."""

from collections.abc import Sequence
from dataclasses import replace

from ecgfed.base.files import sha256
from ecgfed.domain.cohort.sources import Source
from ecgfed.domain.record.key_table import KeyRow, new_id
from ecgfed.domain.record.reader import format_of
from ecgfed.domain.record.wfdb_header import header_path


def renumbered(sources: Sequence[Source], *, records: bool) -> list[Source]:
    """Return the clients as ``p0001``, ``p0002``, ..., in an order that their names do not decide.

    The order is that of the SHA-256 of each client's first file (of a WFDB record its header), so the same recordings
    make the same cohort, and nobody can tell a client's place from a name.

    Args:
        sources: the clients.
        records: give the recordings new names too: the client's id, and a number where there are several.
    """
    ordered = sorted(sources, key=_digest)
    new_records = []
    for number, source in enumerate(ordered, 1):
        id_ = new_id(number)
        is_series = len(source.records) > 1
        names = tuple(f"{id_}-{i}" if is_series else id_ for i in range(1, len(source.records) + 1)) if records else ()
        new_records.append(replace(source, id=id_, patient=id_, names=names, was=source.id))
    return new_records


def key_rows(sources: Sequence[Source]) -> list[KeyRow]:
    """Return who is who: each recording's id, patient and path."""
    return [KeyRow(source.id, source.was, str(path.resolve())) for source in sources for path in source.records]


def new_ids(names: Sequence[str], sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the new ids of some clients; a name that nobody had stays, to be refused where it is used."""
    now = {source.was: source.id for source in sources}
    return tuple(now.get(name, name) for name in names)


def _digest(source: Source) -> tuple[str, str]:
    """The file that decides a client's place, and the name only between files that are the same."""
    first = source.records[0]
    file = header_path(first) if format_of(first) == "wfdb" else first
    return sha256(file), source.id
