"""Deprecated functions and parameters: warn about the version of removal and the replacement."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class EcgfedDeprecation(FutureWarning):
    """Warning about a deprecated feature; a FutureWarning, so that it is shown to end users as well as developers."""


@dataclass(frozen=True)
class Deprecated:
    """A deprecated feature.

    Attributes:
        what: its qualified name, ``ecgfed.tasks.predict.predict``.
        since: the version that deprecated it, ``0.2``.
        removed: the first version without it.
        instead: its replacement.
    """

    what: str
    since: str
    removed: str
    instead: str

    def __str__(self) -> str:
        until = f"deprecated since ecgfed {self.since} and goes with {self.removed}"
        return f"{self.what} is {until}: use {self.instead} instead"


#: Deprecated features of the loaded modules. A test loads all modules and fails for features past their removal.
REGISTER: list[Deprecated] = []


def deprecated(since: str, removed: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes calls of a function warn, and notes the deprecation in its docstring.

    Args:
        since: the version that deprecates it, ``0.2``.
        removed: the first version without it, at least two minor versions later.
        instead: its replacement.

    Raises:
        ValueError: an invalid version, or fewer than two minor versions between them.

    Examples:
        >>> @deprecated("0.2", "0.4", "ecgfed.predict")
        ... def classify(record):
        ...     "Classify a recording."
        >>> print(classify.__doc__)
        Classify a recording.
        <BLANKLINE>
        Deprecated since 0.2: use ecgfed.predict instead. It goes with 0.4.
    """
    _check_removal(since, removed)

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        """Add the function to ``REGISTER`` and return it with a warning before each call."""
        entry = Deprecated(f"{function.__module__}.{function.__qualname__}", since, removed, instead)
        REGISTER.append(entry)

        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(str(entry), EcgfedDeprecation, stacklevel=2)
            return function(*args, **kwargs)

        note = f"Deprecated since {since}: use {instead} instead. It goes with {removed}."
        warned.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n{note}".lstrip()
        return warned

    return mark


def renamed_parameters(since: str, removed: str, **new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that still accepts former names of keyword arguments, with a warning.

    Args:
        since: the version that renamed them, ``0.3``.
        removed: the first version that refuses the former names, at least two minor versions later.
        new_names: former name -> present name of each parameter.

    Raises:
        ValueError: an invalid version, or fewer than two minor versions between them.

    Examples:
        >>> @renamed_parameters("0.3", "0.5", found="reason")
        ... def line(reason: str) -> str:
        ...     return reason
        >>> line(reason="is empty")
        'is empty'
    """
    _check_removal(since, removed)

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        """Add the parameters to ``REGISTER`` and return the function with the former names translated."""
        name = f"{function.__module__}.{function.__qualname__}"
        entries = {old: Deprecated(f"{name}({old}=)", since, removed, new) for old, new in new_names.items()}
        REGISTER.extend(entries.values())

        @functools.wraps(function)
        def renamed(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in new_names.keys() & kwargs.keys():
                if new_names[old] in kwargs:
                    raise TypeError(f"{name} got both {old!r} and {new_names[old]!r}")
                warnings.warn(str(entries[old]), EcgfedDeprecation, stacklevel=2)
                kwargs[new_names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return renamed

    return mark


def overdue(version: str) -> list[Deprecated]:
    """Return the deprecated features of the loaded modules that a version, ``0.4.0``, should no longer have.

    Raises:
        ValueError: ``version`` is invalid.
    """
    return [entry for entry in REGISTER if _minor(entry.removed) <= _minor(version)]


def _check_removal(since: str, removed: str) -> None:
    if _minor(removed) < _minor(since) + 2:
        raise ValueError(f"removed={removed!r} is less than two minor versions after since={since!r}")


def _minor(version: str) -> int:
    """Return major times a thousand plus minor of ``0.2`` or ``0.2.1``; raises ValueError for anything else."""
    parts = version.split(".")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        raise ValueError(f"{version!r} is no version such as 0.2 or 0.2.1")
    return int(parts[0]) * 1000 + int(parts[1])
