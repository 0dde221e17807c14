"""Settings of methods: frozen dataclasses with ranges and choices, parsed from ``NAME=VALUE`` and from TOML.

    @dataclass(frozen=True)
    class MySettings(Settings):  # fields are documented under "Attributes:" of its docstring
        mu: float = ranged(0.01, 0, 1e4)
        form: str = choice("fo", ("fo", "hf"))

Types and ranges are checked on construction and shown in the help. A subclass that gives a field another default
(``mu: float = 0.1``) inherits its range.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import LIMITS, options_of
from ecgfed.base.options import Choice as Choice
from ecgfed.base.options import Option as Setting
from ecgfed.base.options import Range as Range
from ecgfed.base.text import did_you_mean, same_name

T = TypeVar("T")
Number = TypeVar("Number", int, float)
_TEXT_OF_BOOL = {"true": True, "false": False}


def ranged(default: Number, low: float, high: float) -> Number:
    """Return a dataclass field for a number from ``low`` to ``high``, both included."""
    return dataclasses.field(default=default, metadata={LIMITS: Range(low, high)})


def choice(default: str, options: Iterable[str], *, or_code: bool = False) -> str:
    """Return a dataclass field for one of several strings, or with ``or_code`` for a user's own ``FILE.py:NAME``."""
    return dataclasses.field(default=default, metadata={LIMITS: Choice(tuple(options), or_code)})


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
    return options_of(settings_type, "settings")


def read_setting(setting: Setting, value: Any) -> Any:
    """Return text or a TOML value as a setting's type; raises OptionError if it cannot be converted."""
    if setting.optional and value in (None, "none"):
        return None
    try:
        if setting.kind is bool:
            return _TEXT_OF_BOOL[str(value).lower()]
        if isinstance(value, bool) and setting.kind in (int, float):
            raise ValueError
        if setting.kind is int and isinstance(value, float) and value != int(value):
            raise ValueError
        return setting.kind(value)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise setting.type_error(value) from None


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
            actual = "is no setting of this method"
            action = did_you_mean(key, known)
            raise OptionError(f"{param('settings')} {key}", actual, expected, action, code="unknown-choice")
        read[name] = read_setting(known[name], value)
    settings = settings_type(**read)
    _check(settings)  # a user's dataclass may not derive from Settings
    return settings


def stored_settings(settings_type: type[T], values: Mapping[str, Any]) -> T:
    """Build settings from a stored run's values, of this version or an earlier one; raises OptionError."""
    return make_settings(settings_type, getattr(settings_type, "of_earlier_versions", dict)(values))
