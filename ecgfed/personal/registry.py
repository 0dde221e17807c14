"""Finding personal answers by name: every file of this folder."""

import importlib
import pkgutil
from functools import cache

import ecgfed.personal
from ecgfed.errors import OptionError
from ecgfed.personal.base import Personal
from ecgfed.text import did_you_mean, same_name

#: The method's own personal answer, whatever it keeps for a patient.
METHODS_OWN = "method"


@cache
def personal_answers() -> dict[str, Personal]:
    """Return every personal answer by name, in alphabetical order."""
    found: dict[str, Personal] = {}
    for module in pkgutil.iter_modules(ecgfed.personal.__path__):
        for value in vars(importlib.import_module(f"ecgfed.personal.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Personal) and value.name:
                found[value.name] = value()
    return dict(sorted(found.items()))


def personal_by_name(name: str) -> Personal | None:
    """Return a personal answer, or None for the method's own.

    Raises:
        OptionError: no such answer; the known names are listed, the nearest is suggested.
    """
    names = (METHODS_OWN, *personal_answers())
    known = same_name(name, names)
    if known is None:
        raise OptionError("--personal", f"{name!r}", f"one of {', '.join(names)}", did_you_mean(name, names) or "")
    return None if known == METHODS_OWN else personal_answers()[known]
