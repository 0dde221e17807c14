"""Names of leads: the one place that knows which are the same, which are like one another, and which are no ECG.

Names are compared without case, blanks, hyphens and underscores, and a lead that is asked for is also found under
another name of it (``II`` as ``Lead II``, ``DII`` or, of electrodes on the trunk, ``MLII``). The table of the names
that PhysioNet's databases use, and where this is doubtful: docs/formats.md; the rules: docs/decisions/0031.
"""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.text import shortened
from ecgfed.domain.record.lead_names import (
    NUMBERED,
    electrode_of_eeg,
    folded,
    is_another_signal,
    is_named_ecg,
    known_lead,
)
from ecgfed.domain.record.recording import Recording


class NameMatch(IntEnum):
    """How far one name of a lead answers for another one."""

    #: Another lead, or a name that is not known.
    OTHER = 0
    #: The same lead, one of them with its electrodes moved: MLII for II, MCL1 for V1.
    MODIFIED = 1
    #: The same lead in another spelling: ``Lead II``, ``DII``, ``D2`` for II.
    LEAD = 2
    #: The same name but for case, blanks, hyphens, and the number of one of two leads of a name, ``ECG (2)``.
    NAME = 3
    #: The very same.
    EXACT = 4


class LeadGroup(tuple[str, ...]):
    """Names of leads in which beats are looked for together; the first that is there is the one in use."""

    __slots__ = ()


class NoLeadError(RecordError):
    """None of the leads that are asked for is in a recording: for who would then take another one.

    Attributes:
        ecg: the names of its channels that are an ECG.
    """

    default_code = "unknown-lead"
    ecg: tuple[str, ...] = ()


class LeadMatch(NamedTuple):
    """Leads that answer for what was asked.

    Attributes:
        at: their positions; more than one where nothing tells them apart.
        requested: the name that was asked for.
        name_match: how well they answer.
    """

    at: tuple[int, ...]
    requested: str
    name_match: NameMatch


_PLACE = re.compile(r"#\s*([0-9]{1,4})")


def leads_in(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the leads of a ``cohort.json`` or a manifest in order of preference; version 0.1 joined them by ``|``.

    Raises:
        KeyError: neither form is there.
    """
    return tuple(map(str, meta["leads"])) if "leads" in meta else tuple(str(meta["lead"]).split("|"))


def lead_list(leads: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return lead names in order of preference, one alone, several, or none; raises OptionError for what is no name."""
    if isinstance(leads, str):
        leads = (leads,)
    names = leads if isinstance(leads, LeadGroup) else tuple(leads or ())
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise OptionError("leads", f"{leads!r}", "one or more lead names")
    return names


def position_in(lead: str) -> int | None:
    """Return the position that ``#1`` asks for, counted from 1, or None for a name."""
    match = _PLACE.fullmatch(lead.strip())
    return int(match[1]) if match else None


def name_match(requested: str, present: str) -> NameMatch:
    """Say how far a lead that is there answers for one that is asked for.

    The number of one of two leads of a name may be left out, ``ECG`` for ``ECG (2)``; another number is another lead.
    """
    if requested == present:
        return NameMatch.EXACT
    numbers = {int(match[1]) for name in (requested, present) if (match := NUMBERED.search(name))}
    if len(numbers) > 1:
        return NameMatch.OTHER
    requested_name, present_name = (folded(NUMBERED.sub("", name)) for name in (requested, present))
    if requested_name == present_name and requested_name:
        return NameMatch.NAME
    first, second = known_lead(requested_name), known_lead(present_name)
    if first is None or second is None or first.lead != second.lead:
        return NameMatch.OTHER
    return NameMatch.LEAD if first.electrodes == second.electrodes else NameMatch.MODIFIED


def best_match(requested: Sequence[str], present: str) -> tuple[str, NameMatch]:
    """Return which of several names a lead answers for best, the first among equals, and how well."""
    candidates = [(name_match(name, present), -number, name) for number, name in enumerate(requested)]
    best = max(candidates, default=(NameMatch.OTHER, 0, ""))
    return best[2], best[0]


def usual_name(name: str) -> str:
    """Return what a lead is usually called: II for ``ii``, ``Lead II`` and ``DII``, MLII for ``ml2``; else its name."""
    known = known_lead(folded(name))
    if known is None or known.electrodes not in ("", "ML"):
        return name
    return f"{known.electrodes}{known.lead}"


def described(name: str) -> str:
    """Return a lead's name, and what it is usually called where that differs: ``D3 (III)``."""
    return name if (usual := usual_name(name)) == name else f"{name} ({usual})"


def find_lead(present: Sequence[str], leads: Sequence[str]) -> LeadMatch | None:
    """Find the leads that answer best for what is asked, or None.

    The very name wins over the same one in another case, that over another spelling, that over a modified lead; among
    equals the one that is asked for first.

    Args:
        present: the names of a recording's leads, in order.
        leads: names in order of preference, or places, ``#2``.
    """
    for level in (NameMatch.EXACT, NameMatch.NAME, NameMatch.LEAD, NameMatch.MODIFIED):
        for lead in leads:
            position = position_in(lead)
            if position is not None and level == NameMatch.EXACT and 1 <= position <= len(present):
                return LeadMatch((position - 1,), lead, NameMatch.EXACT)
            at = tuple(number for number, name in enumerate(present) if name_match(lead, name) == level)
            if at:
                return LeadMatch(at, lead, level)
    return None


def choose_lead(present: Sequence[str], where: object, leads: Sequence[str], units: Sequence[str] = ()) -> int:
    """Return the position of the lead that is asked for, or of the first ECG where none is.

    Args:
        present: names of the channels, in order.
        where: the recording, for the error.
        leads: names in order of preference (``find_lead``), or none.
        units: the channels' units, as far as they are known; ``""`` is unknown.

    Raises:
        NoLeadError: none of ``leads`` is there; the line lists those present.
        RecordError: two are there that nothing tells apart, or none is an ECG; likewise.
    """
    listed = ", ".join(present)
    if leads:
        match = find_lead(present, leads)
        if match is None:
            raise _no_lead(present, where, leads, units)
        if len(match.at) > 1:
            problem = f"has {len(match.at)} leads {match.requested}: {listed}"
            raise RecordError(
                where,
                problem,
                "one",
                f"choose by its place: {param('leads')} '#{match.at[0] + 1}'",
                code="unknown-lead",
            )
        return match.at[0]
    named = are_ecg(present)
    if not any(named):
        problem = f"has no channel that is an ECG; it has {listed}"
        raise RecordError(where, problem, action=f"name one with {param('leads')}", code="unknown-lead")
    voltages = are_ecg(present, units)  # without any, the reader says what is wrong with the first one's unit
    return (voltages if any(voltages) else named).index(True)


def _no_lead(present: Sequence[str], where: object, leads: Sequence[str], units: Sequence[str]) -> NoLeadError:
    ecg = tuple(name for name, is_ecg in zip(present, are_ecg(present, units), strict=True) if is_ecg)
    action = (
        f"name one with {param('leads')}, say {param('leads')} {shlex.quote(shortened(ecg[0]))}"
        if ecg
        else f"name one with {param('leads')}"
    )
    names = ", ".join(map(shortened, present))
    error = NoLeadError(where, f"has no lead {' or '.join(leads)}; it has {names}", action=action)
    error.ecg = ecg
    return error


def are_ecg(names: Sequence[str], units: Sequence[str] = ()) -> list[bool]:
    """Say of each channel whether it may be taken for an ECG without being asked for by name.

    It may not where its name says breathing, a pressure, a pulse wave, brain, muscles, eyes, movement, a mark, noise or
    a number, or its unit is known and no voltage. A name that says nothing (``signal 1``, ``LAT``, ``E1``) may, unless
    another channel is labelled as an ECG: by the word, or as a lead. Beside the word, C1 to C6 are electrodes on the
    head.

    Args:
        names: of a recording's channels.
        units: theirs, or none.
    """
    known = [*units, *[""] * (len(names) - len(units))]
    brain = any(electrode_of_eeg(name) or is_named_ecg(name) for name in names)
    possible = [
        not is_another_signal(name, brain=brain) and (not unit.strip() or _is_voltage(unit))
        for name, unit in zip(names, known, strict=True)
    ]
    labelled = [
        ecg and (is_named_ecg(name) or known_lead(folded(NUMBERED.sub("", name))) is not None)
        for name, ecg in zip(names, possible, strict=True)
    ]
    return labelled if any(labelled) else possible


def _is_voltage(unit: str) -> bool:
    return re.fullmatch(r"[mu\u00b5\u03bcn]?V", unit.strip()) is not None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of which no two are the same: the second ECG is ``ECG (2)``, and the first then ``ECG (1)``."""
    count, taken, unique = Counter(names), set(names), []
    uses: dict[str, int] = {}
    for name in names:
        new = name
        while count[name] > 1 and new in taken:
            uses[name] = uses.get(name, 0) + 1
            new = f"{name} ({uses[name]})"
        taken.add(new)
        unique.append(new)
    return tuple(unique)


def requested_alias(requested: Sequence[str], chosen: str) -> str:
    """Return the name that a lead answers for under another one, ``II`` where MLII was taken for it; else ``""``."""
    name, how = best_match(requested, chosen)
    return name if how in (NameMatch.LEAD, NameMatch.MODIFIED) else ""


def ecg_alone(recording: Recording) -> Recording:
    """Return a recording with the leads that a detector may see, the chosen one always among them.

    They are ``beat_leads``, or, where none are named, the channels that are an ECG.
    """
    named = recording.beat_leads
    ecg = [name in named for name in recording.leads] if named else are_ecg(recording.leads)
    pairs = enumerate(zip(recording.leads, ecg, strict=True))
    keep = [row for row, (name, chosen) in pairs if chosen or name == recording.lead]
    return recording if len(keep) == len(recording.leads) else recording.only(keep)
