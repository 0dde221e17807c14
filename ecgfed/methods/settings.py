"""Reading a method's settings from ``NAME=VALUE`` and from a TOML table, by the types of its dataclass."""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from ecgfed.errors import OptionError

T = TypeVar("T")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise OptionError unless ``low <= value <= high``."""
    if not low <= value <= high:
        raise OptionError(f"--set {name}", f"{value}", f"{low:g} to {high:g}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise OptionError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise OptionError(f"--set {name}", f"{value!r}", f"one of {', '.join(choices)}")


def _convert(name: str, value: Any, hint: Any) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if type(None) in options and value in (None, "none"):
        return None
    kind = next(option for option in options if option is not type(None))
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if kind is int and isinstance(value, float) and value != int(value):
            raise ValueError
        return kind(value)
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"--set {name}", f"{value!r}", f"a value of type {kind.__name__}") from None


def make_settings(settings_type: type[T], values: dict[str, Any]) -> T:
    """Build a method's settings from names and values (text or TOML types).

    Raises:
        OptionError: a name the method does not have, a value of another type or out of range.
    """
    hints = typing.get_type_hints(settings_type)
    names = [f.name for f in dataclasses.fields(settings_type)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            raise OptionError(f"--set {name}", "is no setting of this method", f"one of {', '.join(names)}")
    return settings_type(**{name: _convert(name, value, hints[name]) for name, value in values.items()})
