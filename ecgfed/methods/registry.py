"""Finding methods by name: every file of this folder is looked into, so adding one touches no list."""

import importlib
import pkgutil
from functools import cache

import ecgfed.methods
from ecgfed.errors import OptionError
from ecgfed.methods.base import Method


@cache
def methods() -> dict[str, type[Method]]:
    """Return every method by name, in alphabetical order."""
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(ecgfed.methods.__path__):
        for value in vars(importlib.import_module(f"ecgfed.methods.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Method) and value.name:
                found[value.name] = value
    return dict(sorted(found.items()))


def method_by_name(name: str) -> type[Method]:
    """Return a method's class; raises OptionError that lists the names."""
    if name not in methods():
        raise OptionError("--method", f"{name!r}", f"one of {', '.join(methods())}")
    return methods()[name]
