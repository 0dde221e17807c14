"""Registry of personal models: every file of this folder."""

import importlib
import pkgutil
from functools import cache

import ecgfed.core.personal
from ecgfed.base.errors import OptionError
from ecgfed.base.text import did_you_mean, same_name
from ecgfed.core.personal.base import Personal

#: The personal model of the training method itself.
FROM_METHOD = "method"


@cache
def personal_models() -> dict[str, Personal]:
    """Return the registered kinds of personal models by name, in alphabetical order."""
    registered: dict[str, Personal] = {}
    for module in pkgutil.iter_modules(ecgfed.core.personal.__path__):
        for value in vars(importlib.import_module(f"ecgfed.core.personal.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Personal) and value.name:
                registered[value.name] = value()
    return dict(sorted(registered.items()))


def personal_by_name(name: str) -> Personal | None:
    """Return a kind of personal model, or None for the method's own.

    Raises:
        OptionError: unknown name; the known names are listed and the nearest suggested.
    """
    names = (FROM_METHOD, *personal_models())
    known = same_name(name, names)
    if known is None:
        expected = f"one of {', '.join(names)}"
        raise OptionError("personal", f"{name!r}", expected, did_you_mean(name, names) or "", code="unknown-choice")
    return None if known == FROM_METHOD else personal_models()[known]
