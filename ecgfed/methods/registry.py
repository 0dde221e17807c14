"""Finding methods by name: every file of this folder, packages that offer some, and anybody's own file.

A package offers a method with an entry point of the group ``ecgfed.methods``; a file or module is named as
``path/to/file.py:ClassName`` or ``package.module:ClassName``.
"""

import importlib
import pkgutil
from functools import cache

import ecgfed.methods
from ecgfed.errors import OptionError, RunError
from ecgfed.methods.base import Method
from ecgfed.methods.card import Card
from ecgfed.plugins import check_pin, digest_of, entries, load_code, load_entry, names_code, origin_of
from ecgfed.text import did_you_mean, same_name

ENTRY_POINTS = "ecgfed.methods"


@cache
def methods() -> dict[str, type[Method]]:
    """Return every method by name, in alphabetical order: this package's and those of installed packages."""
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(ecgfed.methods.__path__):
        for value in vars(importlib.import_module(f"ecgfed.methods.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Method) and value.name:
                found[value.name] = value
    for entry in entries(ENTRY_POINTS).values():
        kind = _checked(load_entry(entry), f"entry point {entry.value}")
        if same_name(kind.name, found):
            raise OptionError(f"entry point {entry.value}", f"a second method named {kind.name!r}", "a name of its own")
        found[kind.name] = kind
    return dict(sorted(found.items()))


def method_by_name(name: str, option: str = "--method") -> type[Method]:
    """Return a method's class.

    Args:
        name: of a registered method, but for case, hyphens and underscores; or ``path/to/file.py:ClassName``, or
            ``package.module:ClassName``.
        option: what named it, for messages.

    Raises:
        OptionError: no such method, or what is there is none; the known names are listed, the nearest is suggested.
    """
    if names_code(name):
        return _checked(load_code(name, option).value, f"{option} {name}")
    known = same_name(name, methods())
    if known is None:
        action = did_you_mean(name, methods()) or "or your own as FILE.py:CLASS"
        raise OptionError(option, f"{name!r}", f"one of {', '.join(methods())}", action)
    return methods()[known]


def stored_method(
    name: object, where: object, passed: str | type[Method] | None = None, pinned: str | None = None
) -> type[Method]:
    """Return the method that a run names; no code is loaded because a file names it.

    Args:
        name: what stands in the run.
        where: its file, for messages.
        passed: the method as a person named it in this call, or its class. It must be the one the run names; of
            somebody's own method nothing else opens the run.
        pinned: SHA-256 of the file of somebody's own method, where the run says it.

    Raises:
        RunError: somebody's own code that nobody passed, or another method than was passed.
        OptionError: no such method here, or another file than the pinned one: both digests are said.
    """
    if not isinstance(name, str):
        raise RunError(where, f"its method is {name!r:.100}", "a name")
    given = passed if isinstance(passed, str) or passed is None else name_of(passed)
    own = names_code(name)
    if own and passed is None:
        raise RunError(
            where,
            f"its method {name!r:.200} is somebody's own code, which is not run because a file names it",
            "you to name its file",
            "read it, then pass it with --method FILE.py:CLASS",
        )
    if given is not None and (
        own != names_code(given) or (own and given.rpartition(":")[2] != name.rpartition(":")[2])
    ):
        raise _other_method(where, name, given)
    if own and isinstance(passed, type):
        check_pin(where, digest_of(passed), pinned)
        return _checked(passed, f"--method {given}")
    if own:
        return _checked(load_code(str(given), "--method", pinned).value, f"--method {given}")
    kind = method_by_name(name)
    if given is not None and method_by_name(given) is not kind:
        raise _other_method(where, name, given)
    return kind


def _other_method(where: object, name: str, given: str) -> RunError:
    found = f"was begun with method {name!s:.200}, not {given!s:.200}"
    action = "pass its own file with --method FILE.py:CLASS" if names_code(name) else "leave --method out"
    return RunError(where, found, action=action)


def name_of(kind: type[Method]) -> str:
    """The name by which ``method_by_name`` finds a class again: its own, or where it lies."""
    return kind.name if methods().get(kind.name) is kind else origin_of(kind)


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
