"""Tables of one lead as watches export them: lines of facts, one of them ``Sample Rate,512 hertz``, then the samples.

No standard describes them, and the facts' names are in the phone's language; so a line is understood by its value:
a number of hertz, a lead, a unit of voltage. A table is one of these where a rate stands above its numbers.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ecgfed.domain.record.checks import MILLIVOLT
from ecgfed.domain.record.lead_names import folded, known_lead

_RATE = re.compile(r"([0-9]{2,5}(?:[.,][0-9]{1,6})?)\s*(?:hz|hertz|h\u00e9rtz|hercios|\u8d6b\u5179)", re.IGNORECASE)
#: More facts than any export states before its samples.
MAX_FACTS = 40


class TableMetadata(NamedTuple):
    """What stands above the samples.

    Attributes:
        fs_hz: sampling frequency.
        unit: of the samples, a key of ``MILLIVOLT``; ``""`` where it is not stated.
        lead: its name; ``ECG`` where no lead is named.
        comments: every fact, ``name: value``.
        rows: how many rows the facts take.
    """

    fs_hz: float
    unit: str
    lead: str
    comments: tuple[str, ...]
    rows: int


def metadata_above(rows: Sequence[Sequence[str]]) -> TableMetadata | None:
    """Return the facts above a column of numbers, None where the rows are no such table.

    Args:
        rows: the first ones of a table, each its cells without quotes.
    """
    fs_hz, unit, lead = 0.0, "", ""
    comments: list[str] = []
    for number, cells in enumerate(rows[: MAX_FACTS + 1]):
        if len(cells) == 1:  # the samples begin
            return TableMetadata(fs_hz, unit, lead or "ECG", tuple(comments), number) if fs_hz else None
        name, value = cells[0].strip(), ",".join(cells[1:]).strip()
        comments.append(f"{name}: {value}")
        if rate := _RATE.fullmatch(value):
            fs_hz = float(rate[1].replace(",", "."))
        elif value in MILLIVOLT:
            unit = value
        elif known := _lead(value):  # the last one: a person's name may end like a lead's
            lead = known
    return None


def _lead(text: str) -> str:
    """Return the lead that a value names, ``I`` for ``Lead I`` in many languages: its last word is one."""
    words = text.split()
    if not 1 <= len(words) <= 2:
        return ""
    known = known_lead(folded(words[-1]))
    return known.lead if known and not known.electrodes else ""
