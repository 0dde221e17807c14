"""Lead names, as cohorts and bundles say them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ecgfed.errors import OptionError


def leads_in(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the leads of a ``cohort.json`` or a manifest in order of preference; version 0.1 joined them by ``|``.

    Raises:
        KeyError: neither form is there.
    """
    return tuple(map(str, meta["leads"])) if "leads" in meta else tuple(str(meta["lead"]).split("|"))


def lead_list(leads: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return lead names in order of preference, one alone, several, or none; raises OptionError for what is no name."""
    names = (leads,) if isinstance(leads, str) else tuple(leads or ())
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise OptionError("--lead", f"{leads!r}", "one or more lead names")
    return names
