"""Registry of methods: files of this folder, entry points of installed packages, and user files.

A package registers a method with an entry point of the group ``ecgfed.methods``; a file or module is named as
``path/to/file.py:ClassName`` or ``package.module:ClassName``.
"""

import importlib
import pkgutil
from functools import cache

import ecgfed.core.methods
from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.plugins import check_pin, digest_of, entries, load_code, load_entry, names_code, origin_of
from ecgfed.base.text import did_you_mean, same_name
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import CommunicationSpec

ENTRY_POINTS = "ecgfed.methods"


@cache
def methods() -> dict[str, type[Method]]:
    """Return every method by name, in alphabetical order: this package's and those of installed packages."""
    registered: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(ecgfed.core.methods.__path__):
        for value in vars(importlib.import_module(f"ecgfed.core.methods.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Method) and value.name:
                registered[value.name] = value
    for entry in entries(ENTRY_POINTS).values():
        kind = _checked(load_entry(entry), f"entry point {entry.value}")
        if same_name(kind.name, registered):
            raise OptionError(f"entry point {entry.value}", f"a second method named {kind.name!r}", "a name of its own")
        registered[kind.name] = kind
    return dict(sorted(registered.items()))


def method_by_name(name: str | type, option: str = "method") -> type[Method]:
    """Return a method's class.

    Args:
        name: of a registered method, but for case, hyphens and underscores; or ``path/to/file.py:ClassName``, or
            ``package.module:ClassName``; or a class.
        option: the parameter that named it, for messages.

    Raises:
        OptionError: no such method, or not a valid method; known names are listed and the nearest suggested.
    """
    if isinstance(name, type):
        return _checked(name, param(option))
    if names_code(name):
        return _checked(load_code(name, option).value, f"{param(option)} {name}")
    known = same_name(name, methods())
    if known is None:
        action = did_you_mean(name, methods()) or "or your own as FILE.py:CLASS"
        raise OptionError(option, f"{name!r}", f"one of {', '.join(methods())}", action, code="unknown-choice")
    return methods()[known]


def stored_method(
    name: object, where: object, passed: str | type[Method] | None = None, pinned: str | None = None
) -> type[Method]:
    """Return the method of a stored run; code named only by the run is never loaded.

    Args:
        where: the run's file, for messages.
        passed: the method the caller named, or its class. It must be the run's; a user's own method has to be passed.
        pinned: SHA-256 of the file of a user's own method, if the run has it.

    Raises:
        RunError: a user's own method that was not passed, or another method than the run's.
        OptionError: unknown method, or another file than the pinned one; the message has both digests.
    """
    if not isinstance(name, str):
        raise RunError(where, f"its method is {name!r:.100}", "a name")
    passed_name = passed if isinstance(passed, str) or passed is None else name_of(passed)
    is_user_code = names_code(name)
    if is_user_code and passed is None:
        actual = f"its method {name!r:.200} is somebody's own code, which is not run because a file names it"
        action = f"read it, then pass it with {param('method=FILE.py:CLASS')}"
        raise RunError(where, actual, "you to name its file", action, code="code-not-loaded")
    if passed_name is not None and (
        is_user_code != names_code(passed_name)
        or (is_user_code and passed_name.rpartition(":")[2] != name.rpartition(":")[2])
    ):
        raise _method_mismatch(where, name, passed_name)
    if is_user_code and isinstance(passed, type):
        check_pin(where, digest_of(passed), pinned)
        return _checked(passed, f"{param('method')} {passed_name}")
    if is_user_code:
        return _checked(load_code(str(passed_name), "method", pinned).value, f"{param('method')} {passed_name}")
    kind = method_by_name(name)
    if passed_name is not None and method_by_name(passed_name) is not kind:
        raise _method_mismatch(where, name, passed_name)
    return kind


def _method_mismatch(where: object, name: str, passed_name: str) -> RunError:
    actual = f"was begun with method {name!s:.200}, not {passed_name!s:.200}"
    action = (
        f"pass its own file with {param('method=FILE.py:CLASS')}"
        if names_code(name)
        else f"leave {param('method')} out"
    )
    return RunError(where, actual, action=action)


def name_of(kind: type[Method]) -> str:
    """Return the name under which ``method_by_name`` finds a class: its registered name or its location."""
    return kind.name if methods().get(kind.name) is kind else origin_of(kind)


def _checked(value: object, where: str) -> type[Method]:
    """Return a valid method class; raises OptionError for anything else."""
    if not (isinstance(value, type) and issubclass(value, Method)):
        raise OptionError(where, f"{value!r} is no method", "a subclass of ecgfed.core.methods.base.Method")
    missing = [member for member in ("name", "communication") if not getattr(value, member, None)]
    if missing:
        expected = "all of a method"
        raise OptionError(where, f"{value.__name__} lacks {', '.join(missing)}", expected, "see docs/training.md")
    spec: object = value.communication
    if not isinstance(spec, CommunicationSpec):
        actual = f"{value.__name__}'s communication is {spec!r}"
        raise OptionError(where, actual, "an ecgfed.core.methods.communication.CommunicationSpec")
    return value
