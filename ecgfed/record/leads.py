"""Lead names, as cohorts and bundles say them."""

from collections.abc import Mapping
from typing import Any


def leads_in(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the leads of a ``cohort.json`` or a manifest in order of preference; version 0.1 joined them by ``|``.

    Raises:
        KeyError: neither form is there.
    """
    return tuple(map(str, meta["leads"])) if "leads" in meta else tuple(str(meta["lead"]).split("|"))
