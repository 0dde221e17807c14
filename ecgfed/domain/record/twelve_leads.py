"""The twelve standard leads of a recording; where I and II are stored, the other limb leads follow from them.

The page's order: AHA/ACC/HRS, Circulation 115:1306-1324, 2007, which also has the formulas (Einthoven, Goldberger).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.lead_names import NUMBERED, folded, known_lead
from ecgfed.domain.record.recording import LazySignals, Recording

#: A limb lead as shares of I and II.
OF_I_AND_II = {"III": (-1.0, 1.0), "aVR": (-0.5, -0.5), "aVL": (1.0, -0.5), "aVF": (-0.5, 1.0)}
STANDARD_LEADS = ("I", "II", *OF_I_AND_II, "V1", "V2", "V3", "V4", "V5", "V6")
#: Rows of the page, 2.5 s of each lead; a minus inverts the lead.
STANDARD_ORDER = (("I", "aVR", "V1", "V4"), ("II", "aVL", "V2", "V5"), ("III", "aVF", "V3", "V6"))
CABRERA_ORDER = (("aVL", "II", "V1", "V4"), ("I", "aVF", "V2", "V5"), ("-aVR", "III", "V3", "V6"))
#: The lead of the rhythm strip.
RHYTHM_LEAD = "II"


def limb_lead(name: str, i_mv: NDArray[np.float64], ii_mv: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return III, aVR, aVL or aVF (samples,) from I and II."""
    of_i, of_ii = OF_I_AND_II[name]
    return of_i * i_mv + of_ii * ii_mv


def standard_lead(name: str) -> str:
    """Return the standard lead that a name means, also one of two of that name, ``II (2)``; ``""`` for none."""
    lead = known_lead(folded(NUMBERED.sub("", name)))
    return "" if lead is None or lead.electrodes or lead.lead not in STANDARD_LEADS else lead.lead


def stored_leads(names: Sequence[str]) -> dict[str, str]:
    """Return which standard leads a recording stores: standard name -> its own name, ``II`` -> ``Lead II``.

    Leads of moved electrodes (MLII, MCL1) are others; of two names for a lead, the standard one counts, else the first.
    """
    stored: dict[str, str] = {}
    for name in names:
        lead = known_lead(folded(name))
        if lead is None or lead.electrodes or lead.lead not in STANDARD_LEADS:
            continue
        if lead.lead not in stored or name == lead.lead:
            stored[lead.lead] = name
    return stored


@dataclass(frozen=True, eq=False)
class TwelveLeads:
    """The twelve standard leads of a recording.

    Attributes:
        recording: with the twelve leads, by their standard names and in their order, read on demand.
        stored: standard name -> the recording's own, of leads that it stores.
        derived: leads that were computed from I and II.
    """

    recording: Recording
    stored: dict[str, str]
    derived: tuple[str, ...]

    def sources(self, lead: str) -> tuple[str, ...]:
        """Return the recording's own names of the leads that a standard lead is made of."""
        return (self.stored[lead],) if lead in self.stored else (self.stored["I"], self.stored["II"])


def twelve_leads(recording: Recording) -> TwelveLeads | None:
    """Return the twelve leads of a recording; None where it has neither all of them nor I, II and V1 to V6."""
    stored = stored_leads(recording.leads)
    derived = tuple(name for name in STANDARD_LEADS if name not in stored)
    if not set(derived) <= set(OF_I_AND_II):
        return None
    stored_rows = {name: recording.leads.index(own) for name, own in stored.items()}

    def block(start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        wanted = [STANDARD_LEADS[lead] for lead in rows]
        of = {name: (name,) if name in stored_rows else ("I", "II") for name in wanted}
        used = list(dict.fromkeys(source for name in wanted for source in of[name]))
        values = dict(zip(used, recording.read(start, stop, [stored_rows[name] for name in used]), strict=True))
        return np.stack(
            [values[name] if name in stored_rows else limb_lead(name, values["I"], values["II"]) for name in wanted]
        )

    source = LazySignals(recording.samples, block, tuple(range(len(STANDARD_LEADS))))
    whole = replace(recording, lead=RHYTHM_LEAD, leads=STANDARD_LEADS, source=source, requested_as="", beat_leads=())
    return TwelveLeads(whole, stored, derived)
