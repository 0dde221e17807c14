"""Registry of personal models: files of this folder, entry points of installed packages, and user files.

A package registers one with an entry point of the group ``ecgfed.personal``; a file or module is named as
``path/to/file.py:ClassName`` or ``package.module:ClassName``, by the user and in the current call only.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache

import ecgfed.core.personal
from ecgfed.base.errors import OptionError, param
from ecgfed.base.plugins import entries, load_code, load_entry, names_code
from ecgfed.base.text import did_you_mean, same_name
from ecgfed.core.personal.base import Personal

#: The personal model of the training method itself.
FROM_METHOD = "method"
ENTRY_POINTS = "ecgfed.personal"
#: Names that may be part of a folder's name.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@cache
def personal_models() -> dict[str, Personal]:
    """Return the registered kinds of personal models by name, in alphabetical order."""
    registered: dict[str, Personal] = {}
    for module in pkgutil.iter_modules(ecgfed.core.personal.__path__):
        for value in vars(importlib.import_module(f"ecgfed.core.personal.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Personal) and value.name:
                registered[value.name] = value()
    for entry in entries(ENTRY_POINTS).values():
        made = _made(load_entry(entry), f"entry point {entry.value}", [FROM_METHOD, *registered])
        registered[made.name] = made
    return dict(sorted(registered.items()))


def personal_by_name(name: str | type) -> Personal | None:
    """Return a kind of personal model, or None for the method's own.

    Args:
        name: of a registered one; ``path/to/file.py:ClassName`` or ``package.module:ClassName``; or a class.

    Raises:
        OptionError: unknown name (the known names are listed and the nearest suggested), or no such class.
    """
    names = (FROM_METHOD, *personal_models())
    if isinstance(name, type):
        registered = [made for made in personal_models().values() if type(made) is name]
        return registered[0] if registered else _made(name, param("personal"), names)
    if names_code(name):
        return _made(load_code(name, "personal").value, f"{param('personal')} {name}", names)
    known = same_name(name, names)
    if known is None:
        expected = f"one of {', '.join(names)}"
        raise OptionError("personal", f"{name!r}", expected, did_you_mean(name, names) or "", code="unknown-choice")
    return None if known == FROM_METHOD else personal_models()[known]


def _made(value: object, where: str, taken: Iterable[str]) -> Personal:
    """Return an object of a valid class of personal models; raises OptionError for anything else."""
    if not (isinstance(value, type) and issubclass(value, Personal)):
        raise OptionError(
            where, f"{value!r:.100} is no personal model", "a subclass of ecgfed.core.personal.base.Personal"
        )
    if not _NAME.fullmatch(value.name) or same_name(value.name, taken) or not getattr(value, "title", ""):
        expected = "a name of its own, of small letters, digits and hyphens, and a title"
        raise OptionError(where, f"{value.__name__} has the name {value.name!r:.50}", expected)
    try:
        return value()
    except TypeError as problem:
        raise OptionError(where, f"{value.__name__} cannot be made ({problem})", "fit, and no arguments") from problem
