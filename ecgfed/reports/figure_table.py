"""The figures of a report as a table of one row, for REDCap or a spreadsheet."""

import csv
import io
from collections.abc import Iterable

from ecgfed.base.text import safe_row
from ecgfed.domain.record.exchange import Document
from ecgfed.reports.figures import OTHER_RHYTHM


def figure_table(document: Document, record_id: str) -> str:
    """Return a CSV table: a header of stable names with their units, and a row of the recording.

    A cell is empty where its figure was not assessed; ``not_assessed`` has the reasons, ``remarks`` what limits values.

    Args:
        document: the figures, and what the user states of patient and time.
        record_id: the first column, for a patient whom the user does not name.
    """
    own = [figure for figure in document.figures if not figure.name.startswith(OTHER_RHYTHM)]
    rhythms = [figure for figure in document.figures if figure.name.startswith(OTHER_RHYTHM)]
    other = (f"{figure.name.removeprefix(OTHER_RHYTHM)} {figure.value:g} s" for figure in rhythms)
    row: dict[str, object] = {
        "record_id": document.stated.subject or record_id,
        "start": document.stated.start.isoformat(),
        **{figure.name: figure.value for figure in own},
        "other_rhythms": "; ".join(other),
        "labels_reviewed": int(document.reviewed),
        "warnings": "; ".join(document.warnings),
        "not_assessed": _by_text((figure.name, figure.reason) for figure in own if figure.value is None),
        "remarks": _by_text((figure.name, figure.remark) for figure in own if figure.remark),
        "ecgfed_version": document.version,
    }
    text = io.StringIO()
    writer = csv.DictWriter(text, row, lineterminator="\n")
    writer.writeheader()
    writer.writerow(safe_row(row))
    return text.getvalue()


def _by_text(named: Iterable[tuple[str, str]]) -> str:
    """Return each text behind the names of the figures that it is about."""
    names: dict[str, list[str]] = {}
    for name, text in named:
        names.setdefault(text, []).append(name)
    return "; ".join(f"{', '.join(about)}: {text}" for text, about in names.items())
