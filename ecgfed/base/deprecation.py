"""Deprecated functions and parameters: warn about the version of removal and the replacement."""

import functools
import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
ClassT = TypeVar("ClassT", bound=type)


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
    if _minor(removed) < _minor(since) + 2:
        raise ValueError(f"removed={removed!r} is less than two minor versions after since={since!r}")

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        """Add the function to ``REGISTER`` and return it with a warning before each call."""
        entry = _registered(f"{function.__module__}.{function.__qualname__}", since, removed, instead)

        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(str(entry), EcgfedDeprecation, stacklevel=2)
            return function(*args, **kwargs)

        note = f"Deprecated since {since}: use {instead} instead. It goes with {removed}."
        warned.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n{note}".lstrip()
        return warned

    return mark


def renamed_parameters(since: str, removed: str, **renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of a function whose parameters were renamed: old keyword arguments still work, with a warning.

    Args:
        since: the version that renamed them, ``0.3``.
        removed: the first version without the old names.
        renamed: old name -> new name.

    Raises:
        ValueError: as ``deprecated``.
        TypeError: when called, a parameter under both of its names.

    Examples:
        >>> @renamed_parameters("0.3", "0.5", least="min_samples")
        ... def first(values, min_samples=1):
        ...     return values[:min_samples]
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", EcgfedDeprecation)
        ...     first([1, 2, 3], least=2)
        [1, 2]
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        """Return the function with its old keyword arguments."""
        name = f"{function.__module__}.{function.__qualname__}"
        aliases = {old: _registered(f"{name}({old}=)", since, removed, new) for old, new in renamed.items()}

        @functools.wraps(function)
        def with_new_names(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in renamed.keys() & kwargs.keys():
                if renamed[old] in kwargs:
                    raise TypeError(f"{name}() got both {old!r} and {renamed[old]!r}, its new name")
                _warn(aliases[old])
                kwargs[renamed[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return with_new_names

    return mark


def renamed_imports(module: str, since: str, removed: str, **renamed: str) -> Callable[[str], object]:
    """Return a module's ``__getattr__`` under which old names still import; each use warns.

    Args:
        module: the module with the old names, ``__name__``.
        since: the version that renamed them.
        removed: the first version without the old names.
        renamed: old name -> ``module:name`` of the new one.
    """
    aliases = {old: _registered(f"{module}.{old}", since, removed, new) for old, new in renamed.items()}

    def module_getattr(name: str) -> object:
        if name not in aliases:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(aliases[name])
        path, _, attribute = renamed[name].partition(":")
        return getattr(importlib.import_module(path), attribute)

    return module_getattr


def renamed_fields(since: str, removed: str, **renamed: str) -> Callable[[ClassT], ClassT]:
    """Return a decorator of a dataclass whose fields were renamed: old keyword arguments and attributes still work.

    An old name that the class still has, a property now, stays what it is.

    Args:
        since: the version that renamed them.
        removed: the first version without the old names.
        renamed: old name -> new name.
    """

    def mark(kind: ClassT) -> ClassT:
        """Add the old names to the class and return it."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        aliases = {old: _registered(f"{name}.{old}", since, removed, new) for old, new in renamed.items()}
        init = kind.__init__  # type: ignore[misc]

        @functools.wraps(init)
        def with_old_keywords(self: object, *args: Any, **kwargs: Any) -> None:
            for old in renamed.keys() & kwargs.keys():
                _warn(aliases[old])
                kwargs[renamed[old]] = kwargs.pop(old)
            init(self, *args, **kwargs)

        kind.__init__ = with_old_keywords  # type: ignore[misc]
        for old, new in renamed.items():
            if old not in vars(kind):
                setattr(kind, old, _Renamed(new, aliases[old]))
        return kind

    return mark


class RenamedMembers:
    """Base of a class that users subclass and whose methods or class attributes were renamed.

    ``class Base(RenamedMembers, since="0.3", removed="0.5", renamed={"old": "new"})``: a subclass that still defines
    ``old`` overrides ``new``, with a warning when the class is defined; ``self.old``, ``super().old`` and setting
    ``self.old`` still work, each with a warning.
    """

    _renamed: ClassVar[dict[str, tuple[str, Deprecated]]] = {}

    def __init_subclass__(
        cls, since: str = "", removed: str = "", renamed: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        name = f"{cls.__module__}.{cls.__qualname__}"
        if renamed is not None:
            cls._renamed = {
                old: (new, _registered(f"{name}.{old}", since, removed, new)) for old, new in renamed.items()
            }
        for old, (new, alias) in cls._renamed.items():
            members = vars(cls)
            if old in members and new not in members:
                _warn(Deprecated(f"{name}.{old}", alias.since, alias.removed, alias.instead))
                setattr(cls, new, members[old])
            if new in members:
                # each class in turn, so that ``super().old`` reaches the class above and not this one again
                setattr(cls, old, _Renamed(new, alias, members[new]))


class _Renamed:
    """Descriptor of an old name: reads and sets the new one, with a warning."""

    def __init__(self, new: str, alias: Deprecated, member: object = None) -> None:
        self.new, self.alias, self.member = new, alias, member

    def __get__(self, instance: object | None, owner: type) -> object:
        _warn(self.alias)
        if callable(self.member) and hasattr(self.member, "__get__"):
            return self.member.__get__(instance, owner)
        return getattr(owner if instance is None else instance, self.new)

    def __set__(self, instance: object, value: object) -> None:
        _warn(self.alias)
        setattr(instance, self.new, value)


def _registered(old: str, since: str, removed: str, new: str) -> Deprecated:
    """Add an old name to ``REGISTER``; raises ValueError as ``deprecated`` does."""
    if _minor(removed) < _minor(since) + 2:
        raise ValueError(f"removed={removed!r} is less than two minor versions after since={since!r}")
    REGISTER.append(alias := Deprecated(old, since, removed, new.replace(":", ".")))
    return alias


def _warn(alias: Deprecated) -> None:
    """Warn at the code that called the function that called this one."""
    warnings.warn(str(alias), EcgfedDeprecation, stacklevel=3)


def overdue(version: str) -> list[Deprecated]:
    """Return the deprecated features of the loaded modules that a version, ``0.4.0``, should no longer have.

    Raises:
        ValueError: ``version`` is invalid.
    """
    return [entry for entry in REGISTER if _minor(entry.removed) <= _minor(version)]


def _minor(version: str) -> int:
    """Return major times a thousand plus minor of ``0.2`` or ``0.2.1``; raises ValueError for anything else."""
    parts = version.split(".")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        raise ValueError(f"{version!r} is not a version such as 0.2 or 0.2.1")
    return int(parts[0]) * 1000 + int(parts[1])
