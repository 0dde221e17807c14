"""Settings of methods: frozen dataclasses with ranges and choices, parsed from ``NAME=VALUE`` and from TOML.

    @dataclass(frozen=True)
    class MySettings(Settings):  # fields are documented under "Attributes:" of its docstring
        mu: float = ranged(0.01, 0, 1e4)
        form: str = choice("fo", ("fo", "hf"))

Types and ranges are checked on construction and shown in the help. A subclass that gives a field another default
(``mu: float = 0.1``) inherits its range.
"""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

from ecgfed.base.errors import OptionError, param
from ecgfed.base.text import did_you_mean, same_name

T = TypeVar("T")
Number = TypeVar("Number", int, float)
#: Key of a field's range or choices in its metadata.
_LIMITS = "limits"
_TEXT_OF_BOOL = {"true": True, "false": False}
#: accepted type of each kind; numpy's numbers are numbers
_BASIC: dict[type, type] = {float: Real, int: Integral, bool: bool, str: str}


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:,.10g} to {self.high:,.10g}"


@dataclass(frozen=True)
class Choice:
    """One of several strings."""

    options: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.options)


def ranged(default: Number, low: float, high: float) -> Number:
    """Return a dataclass field for a number from ``low`` to ``high``, both included."""
    return dataclasses.field(default=default, metadata={_LIMITS: Range(low, high)})


def choice(default: str, options: Iterable[str]) -> str:
    """Return a dataclass field for one of several strings."""
    return dataclasses.field(default=default, metadata={_LIMITS: Choice(tuple(options))})


@dataclass(frozen=True)
class Setting:
    """Description of one setting.

    Attributes:
        name: the field's name.
        kind: ``float``, ``int``, ``bool`` or ``str``.
        optional: whether it may be None.
        default: the field's.
        limits: its range or choices, or None.
        meaning: its text under ``Attributes:`` of the class's docstring, on one line.
    """

    name: str
    kind: type
    optional: bool
    default: Any
    limits: Range | Choice | None
    meaning: str

    @property
    def allowed(self) -> str:
        """Allowed values, as text."""
        any_value = "true, false" if self.kind is bool else f"a value of type {self.kind.__name__}"
        text = any_value if self.limits is None else str(self.limits)
        return f"{text} or none" if self.optional else text

    def read(self, value: Any) -> Any:
        """Return text or a TOML value as this setting's type; raises OptionError if it cannot be converted."""
        if self.optional and value in (None, "none"):
            return None
        try:
            if self.kind is bool:
                return _TEXT_OF_BOOL[str(value).lower()]
            if isinstance(value, bool) and self.kind in (int, float):
                raise ValueError
            if self.kind is int and isinstance(value, float) and value != int(value):
                raise ValueError
            return self.kind(value)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise self._type_error(value) from None

    def check(self, value: Any) -> None:
        """Raise OptionError unless a value is of this setting's type, finite, and within its limits."""
        if self.optional and value is None:
            return
        if not self._is_of_kind(value):
            raise self._type_error(value)
        if isinstance(self.limits, Range):
            check_range(self.name, value, self.limits.low, self.limits.high)
        elif isinstance(self.limits, Choice):
            check_choice(self.name, value, self.limits.options)
        elif isinstance(value, Real) and not math.isfinite(value):
            raise OptionError(f"{param('settings')} {self.name}", f"{value}", "a finite number")

    def _is_of_kind(self, value: object) -> bool:
        if isinstance(value, bool):  # a subclass of int
            return self.kind is bool
        return isinstance(value, _BASIC.get(self.kind, object))

    def _type_error(self, value: Any) -> OptionError:
        return OptionError(f"{param('settings')} {self.name}", f"{value!r}", f"a value of type {self.kind.__name__}")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise OptionError unless ``low <= value <= high``; NaN is outside every range."""
    if not low <= value <= high:
        raise OptionError(f"{param('settings')} {name}", f"{value}", str(Range(low, high)))


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise OptionError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise OptionError(
            f"{param('settings')} {name}",
            f"{value!r}",
            f"one of {', '.join(choices)}",
            did_you_mean(value, choices),
            code="unknown-choice",
        )


@dataclass(frozen=True)
class Settings:
    """Base of a method's hyper-parameters; an invalid value raises OptionError."""

    def __post_init__(self) -> None:
        _check(self)
        self.check_together()

    def check_together(self) -> None:
        """Raise OptionError if values contradict each other; called after each has been checked alone."""

    def planned_by_length(self, over: float) -> tuple[str, ...]:
        """Return, as ``NAME=VALUE``, settings that depend on the planned number of rounds; none by default.

        They are reported when a run is extended: its rounds so far followed the original plan.

        Args:
            over: completed share of the original plan, 0 to 1.
        """
        return ()

    @classmethod
    def of_earlier_versions(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a stored run, converted to this version's settings."""
        return dict(values)


def settings_of(settings_type: type) -> tuple[Setting, ...]:
    """Return a description of each setting of a dataclass, in the order of its fields."""
    if settings_type not in _KNOWN:  # cached: some methods create settings in every step
        _KNOWN[settings_type] = _settings_of(settings_type)
    return _KNOWN[settings_type]


_KNOWN: dict[type, tuple[Setting, ...]] = {}


def _settings_of(settings_type: type) -> tuple[Setting, ...]:
    hints, meanings = typing.get_type_hints(settings_type), _meanings(settings_type)
    settings = []
    for field in dataclasses.fields(settings_type):
        hint = hints[field.name]
        options = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
        kind = next(option for option in options if option is not type(None))
        optional, limits = type(None) in options, _limits(settings_type, field.name)
        settings.append(Setting(field.name, kind, optional, field.default, limits, meanings.get(field.name, "")))
    return tuple(settings)


def _limits(settings_type: type, name: str) -> Range | Choice | None:
    """Return the limits from the first class in the MRO that has them."""
    for base in settings_type.__mro__:
        field = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if field is not None and _LIMITS in field.metadata:
            limits: Range | Choice = field.metadata[_LIMITS]
            return limits
    return None


def _meanings(settings_type: type) -> dict[str, str]:
    """Return the texts under ``Attributes:`` of a class and its bases; subclasses override."""
    meanings: dict[str, str] = {}
    for base in reversed(settings_type.__mro__):
        _, _, attributes = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("\nAttributes:\n")
        name = ""
        for line in attributes.splitlines():
            if line and not line.startswith("    "):
                break
            if line.startswith("     "):
                meanings[name] += f" {line.strip()}"
            elif line:
                name, _, text = line.strip().partition(": ")
                meanings[name] = text
    return meanings


def _check(settings: Any) -> None:
    for setting in settings_of(type(settings)):
        setting.check(getattr(settings, setting.name))


def named_values(pairs: Iterable[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` pairs, of which the last of a name counts; raises OptionError for other text."""
    values = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise OptionError("settings", f"{pair!r}", "NAME=VALUE")
        values[name.strip()] = value.strip()
    return values


def make_settings(settings_type: type[T], values: Mapping[str, Any]) -> T:
    """Build a method's settings from names and values (text or TOML types).

    Case, hyphens and underscores of names are ignored; of a setting named twice the last value counts.

    Raises:
        OptionError: an unknown name, or a value of another type or out of range.
    """
    known = {setting.name: setting for setting in settings_of(settings_type)}
    read = {}
    for key, value in values.items():
        name = same_name(key, known)
        if name is None:
            expected = f"one of {', '.join(known)}"
            raise OptionError(
                f"{param('settings')} {key}",
                "is no setting of this method",
                expected,
                did_you_mean(key, known),
                code="unknown-choice",
            )
        read[name] = known[name].read(value)
    settings = settings_type(**read)
    _check(settings)  # a user's dataclass may not derive from Settings
    return settings


def stored_settings(settings_type: type[T], values: Mapping[str, Any]) -> T:
    """Build settings from a stored run's values, of this version or an earlier one; raises OptionError."""
    migrate = getattr(settings_type, "of_earlier_versions", dict)
    return make_settings(settings_type, migrate(values))
