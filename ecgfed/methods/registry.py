"""Finding methods by name: every file of this folder, packages that offer some, and anybody's own file.

A package offers a method with an entry point of the group ``ecgfed.methods``; a file or module is named as
``path/to/file.py:ClassName`` or ``package.module:ClassName``.
"""

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import ecgfed.methods
from ecgfed.errors import OptionError
from ecgfed.methods.base import Method
from ecgfed.methods.card import Card
from ecgfed.methods.names import did_you_mean, same_name

ENTRY_POINTS = "ecgfed.methods"


@cache
def methods() -> dict[str, type[Method]]:
    """Return every method by name, in alphabetical order: this package's and those of installed packages."""
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(ecgfed.methods.__path__):
        for value in vars(importlib.import_module(f"ecgfed.methods.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Method) and value.name:
                found[value.name] = value
    for entry in entry_points(group=ENTRY_POINTS):
        kind = _checked(entry.load(), f"entry point {entry.value}")
        if same_name(kind.name, found):
            raise OptionError(f"entry point {entry.value}", f"a second method named {kind.name!r}", "a name of its own")
        found[kind.name] = kind
    return dict(sorted(found.items()))


def method_by_name(name: str) -> type[Method]:
    """Return a method's class.

    Args:
        name: of a registered method, but for case, hyphens and underscores; or ``path/to/file.py:ClassName``, or
            ``package.module:ClassName``.

    Raises:
        OptionError: no such method, or what is there is none; the known names are listed, the nearest is suggested.
    """
    where, colon, class_name = name.rpartition(":")
    if colon:
        module = _module(where, name)
        if not hasattr(module, class_name):
            raise OptionError("--method", f"{name!r}", f"a class of {where}", f"it has no {class_name!r}")
        return _checked(getattr(module, class_name), f"--method {name}")
    known = same_name(name, methods())
    if known is None:
        action = did_you_mean(name, methods()) or "or your own as FILE.py:CLASS"
        raise OptionError("--method", f"{name!r}", f"one of {', '.join(methods())}", action)
    return methods()[known]


def name_of(kind: type[Method]) -> str:
    """The name by which ``method_by_name`` finds a class again: its own, or where it lies."""
    if methods().get(kind.name) is kind:
        return kind.name
    file = sys.modules[kind.__module__].__file__
    if kind.__module__.startswith(_OWN_FILES) and file:
        return f"{Path(file).resolve()}:{kind.__qualname__}"
    return f"{kind.__module__}:{kind.__qualname__}"


_OWN_FILES = "ecgfed_method_file_"


def _module(where: str, name: str) -> ModuleType:
    """Import a module by its name or its file."""
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ImportError as problem:
            raise OptionError("--method", f"{name!r} ({problem})", "a module that can be imported") from problem
    path = Path(where).resolve()
    module_name = _OWN_FILES + path.stem
    if module_name in sys.modules and sys.modules[module_name].__file__ == str(path):
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise OptionError("--method", f"{name!r}: no file {path}", "a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[module_name]
        raise OptionError(
            "--method", f"{path} fails with {type(problem).__name__}: {problem}", "a file that runs"
        ) from problem
    return module


def _checked(value: object, where: str) -> type[Method]:
    """Return a method class, complete enough to be used."""
    if not (isinstance(value, type) and issubclass(value, Method)):
        raise OptionError(where, f"{value!r} is no method", "a subclass of ecgfed.methods.base.Method")
    missing = [need for need in ("name", "card", "settings_type") if not getattr(value, need, None)]
    missing += sorted(value.__abstractmethods__)
    if missing:
        raise OptionError(
            where, f"{value.__name__} lacks {', '.join(missing)}", "all of a method", "see docs/training.md"
        )
    if not isinstance(value.card, Card):
        raise OptionError(where, f"{value.__name__}'s card is {value.card!r}", "an ecgfed.methods.card.Card")
    return value
