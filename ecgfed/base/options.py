"""Options as fields of frozen dataclasses: type, default, range, unit and help are declared once.

    @dataclass(frozen=True)
    class TrainConfig(Options):
        rounds: int | None = option(None, "Communication rounds, in place of passes.", Range(1, 1e9))

The command line (``cli.expand``), signatures and docstrings of Python functions (``flat_options``), the tables in the
documentation and the checks are derived from the fields.
"""

import dataclasses
import functools
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self, TypeVar

from ecgfed.base.errors import OptionError, param
from ecgfed.base.plugins import names_code
from ecgfed.base.text import closest, did_you_mean

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
OptionsT = TypeVar("OptionsT", bound="Options")
#: Key of a field's range or choices in its metadata.
LIMITS = "limits"
#: Upper limits from here on only guard against typing errors; a message about a value that is too low omits them.
_VERY_MANY = 1e6
#: Accepted type of each kind; numpy's numbers are numbers.
_BASIC: dict[type, type] = {float: Real, int: Integral, bool: bool, str: str}
_KIND_TEXT = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _number(value: float) -> str:
    """Return a number as text; integers with all digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included unless ``above`` or ``below`` is set."""

    low: float
    high: float
    above: bool = False
    below: bool = False

    def __str__(self) -> str:
        if self.above or self.below:
            return f"{self._low} and {self._high}"
        return f"{_number(self.low)} to {_number(self.high)}"

    def __contains__(self, value: float) -> bool:
        """Return whether a number is in the range; NaN is in none."""
        return (self.low < value if self.above else self.low <= value) and (
            value < self.high if self.below else value <= self.high
        )

    def expected(self, value: float) -> str:
        """Return what a message about a value outside the range expects."""
        if self.high < _VERY_MANY or math.isnan(value):
            return str(self)
        return self._low if value <= self.low else self._high

    @property
    def _low(self) -> str:
        return f"above {_number(self.low)}" if self.above else f"{_number(self.low)} or more"

    @property
    def _high(self) -> str:
        return f"{'below' if self.below else 'at most'} {_number(self.high)}"


@dataclass(frozen=True)
class Choice:
    """One of several strings; with ``code`` ``FILE.py:NAME`` or ``package.module:NAME`` too."""

    options: tuple[str, ...]
    code: bool = False

    def __str__(self) -> str:
        return ", ".join(self.options)


@dataclass(frozen=True)
class Option:
    """Description of one option, a field of a dataclass.

    Attributes:
        name: the field's name.
        kind: ``float``, ``int``, ``bool`` or ``str``; another type for a field that has its own check.
        optional: whether it may be None.
        default: the field's.
        limits: its range or choices, or None.
        meaning: its help, on one line.
        flag: its name on the command line, without hyphens before it: ``batch-size``.
        owner: the parameter that holds it among other values, ``settings``; "" for a parameter of its own.
        unit: unit of the value, or "".
        metavar: placeholder on the command line, "" for the usual one.
        hidden: whether it is not an option of the command line.
        after: name of the option after which the command line lists it, "" for its place among the fields.
        or_class: whether a class may be passed in place of its name, in Python.
    """

    name: str
    kind: type
    optional: bool
    default: Any
    limits: Range | Choice | None
    meaning: str
    flag: str
    owner: str = ""
    unit: str = ""
    metavar: str = ""
    hidden: bool = False
    after: str = ""
    or_class: bool = False

    @property
    def where(self) -> str:
        """Its name in messages, as a marked parameter."""
        return f"{param(self.owner)} {self.name}" if self.owner else param(self.name)

    @property
    def allowed(self) -> str:
        """Allowed values, as text."""
        any_value = "true, false" if self.kind is bool else f"a value of type {self.kind.__name__}"
        text = any_value if self.limits is None else str(self.limits)
        return f"{text} or none" if self.optional else text

    def check(self, value: Any) -> None:
        """Raise OptionError unless a value is of this option's type, finite, and within its limits."""
        if (self.optional and value is None) or self.kind not in _BASIC or (self.or_class and isinstance(value, type)):
            return
        is_bool = isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"  # Python's is a subclass of int
        if not (is_bool if self.kind is bool else isinstance(value, _BASIC[self.kind]) and not is_bool):
            raise self.type_error(value)
        if isinstance(self.limits, Range):
            if value not in self.limits:
                raise OptionError(self.where, f"{value}", self.limits.expected(value))
        elif isinstance(self.limits, Choice):
            if value not in self.limits.options and not (self.limits.code and names_code(value)):
                meant = did_you_mean(value, self.limits.options)
                raise OptionError(self.where, f"{value!r:.100}", f"one of {self.limits}", meant, code="unknown-choice")
        elif isinstance(value, Real) and not math.isfinite(value):
            raise OptionError(self.where, f"{value}", "a finite number")

    def type_error(self, value: object) -> OptionError:
        """Return the error for a value of another type."""
        expected = _KIND_TEXT.get(self.kind, self.kind.__name__)
        return OptionError(self.where, f"{value!r:.100}", f"{expected} or a class" if self.or_class else expected)


def option(
    default: Any,
    help: str,  # the word that command lines use
    limits: Range | Iterable[str] | None = None,
    *,
    flag: str = "",
    unit: str = "",
    metavar: str = "",
    hidden: bool = False,
    after: str = "",
    code: bool = False,
) -> Any:
    """Return a dataclass field for an option.

    Args:
        default: the default; None if it depends on other options, or for no value.
        help: one line for the command line and the documentation.
        limits: a range, or the allowed strings.
        flag: name on the command line, if it is not that of the field with hyphens.
        unit: see ``Option``; so are the others.
        code: whether ``FILE.py:NAME`` is allowed beside the strings.
    """
    checked = limits if isinstance(limits, Range | None) else Choice(tuple(limits), code)
    texts = {"meaning": help, "flag": flag, "unit": unit, "metavar": metavar, "hidden": hidden, "after": after}
    return dataclasses.field(default=default, metadata={LIMITS: checked, **texts})


class Options:
    """Base of frozen dataclasses of options; an invalid value raises OptionError.

    Attributes:
        given: names of the fields that were passed, and not as None.
    """

    given: frozenset[str]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Create the instance and note which fields were passed."""
        self = super().__new__(cls)
        names = (field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]
        passed = {**dict(zip(names, args, strict=False)), **kwargs}
        object.__setattr__(self, "given", frozenset(name for name, value in passed.items() if value is not None))
        return self

    def __post_init__(self) -> None:
        for described in options_of(type(self)):
            value = getattr(self, described.name)
            described.check(value)
            if described.kind in _BASIC and type(value) not in (*_BASIC, type(None)) and not isinstance(value, type):
                object.__setattr__(self, described.name, described.kind(value))  # numpy's numbers are not JSON
        self.check_together()

    def check_together(self) -> None:
        """Raise OptionError if values contradict each other; called after each has been checked alone."""

    def given_values(self) -> dict[str, Any]:
        """Return the fields that were passed."""
        return {name: getattr(self, name) for name in names_of(type(self)) if name in self.given}

    def shared_with(self, kind: type) -> dict[str, Any]:
        """Return the fields that another dataclass has too."""
        return {name: getattr(self, name) for name in names_of(kind) if name in names_of(type(self))}


def names_of(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields."""
    return tuple(field.name for field in dataclasses.fields(kind))


def taken(arguments: dict[str, Any], kind: type) -> dict[str, Any]:
    """Remove the fields of a dataclass from keyword arguments, and return them."""
    return {name: arguments.pop(name) for name in names_of(kind) if name in arguments}


def options_of(kind: type, owner: str = "") -> tuple[Option, ...]:
    """Return a description of each option of a dataclass, in the order of its fields.

    Args:
        kind: the dataclass. Help that a field does not have is read from ``Attributes:`` of the class's docstring.
        owner: the parameter that holds the options among other values, ``settings``; by default each is a parameter.
    """
    if (kind, owner) not in _KNOWN:  # cached: some methods create settings in every step
        _KNOWN[kind, owner] = tuple(_options_of(kind, owner))
    return _KNOWN[kind, owner]


_KNOWN: dict[tuple[type, str], tuple[Option, ...]] = {}


def _options_of(kind: type, owner: str) -> Iterator[Option]:
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
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
    hints, meanings = typing.get_type_hints(kind), meanings
    for field in dataclasses.fields(kind):
        hint, metadata = hints[field.name], _metadata(kind, field.name)
        union = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
        parts = [part for part in union if part not in (type(None), type)]
        plain = parts[0] if len(parts) == 1 or all(part in _BASIC for part in parts) else object
        flag = metadata.get("flag") or field.name.replace("_", "-")
        described = {"meaning": meanings.get(field.name, ""), **metadata, "flag": flag, "owner": owner}
        described |= {"or_class": type in union}
        described.setdefault(LIMITS, None)
        yield Option(field.name, plain, type(None) in union, field.default, **described)


def _metadata(kind: type, name: str) -> dict[str, Any]:
    """Return a field's metadata from the first class in the MRO that has any."""
    for base in kind.__mro__:
        field = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if field is not None and LIMITS in field.metadata:
            return dict(field.metadata)
    return {}


def unexpected(function: str, name: str, known: Mapping[str, str]) -> TypeError:
    """Return the error for an unknown keyword argument, as Python raises it, with a suggestion.

    Args:
        function: the function's name.
        name: the argument.
        known: the names that may have been meant, and how each is written in the call.
    """
    meant = [known[match] for match in closest(name, known, count=1)]
    suggestion = f"; did you mean {meant[0]}?" if meant else ""
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{suggestion}")


def merged(
    kind: type[OptionsT], passed: OptionsT | None, flat: Mapping[str, Any], function: str, without: Collection[str] = ()
) -> OptionsT:
    """Return options from a dataclass and from keyword arguments, which take precedence; None is not passed.

    Args:
        kind: the dataclass.
        passed: its instance, or None.
        flat: keyword arguments by field.
        function: name of the function they were passed to.
        without: fields that the function does not take.

    Raises:
        TypeError: a keyword that is not a field, or ``passed`` is of another type.
        OptionError: an invalid value.
    """
    known = [name for name in names_of(kind) if name not in without]
    if unknown := sorted(flat.keys() - set(known)):
        raise unexpected(function, unknown[0], {name: name for name in known})
    if passed is not None and not isinstance(passed, kind):
        raise TypeError(f"{function}() got {passed!r:.100}, expected {kind.__name__}")
    values = {} if passed is None else passed.given_values()
    return kind(**{**values, **{name: value for name, value in flat.items() if value is not None}})


def _lowered(text: str) -> str:
    """Return text that begins with a small letter, unless its first word is an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def flat_options(*kinds: type, without: Iterable[str] = ()) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator of a function that takes the fields of dataclasses as ``**options``.

    Its signature and the ``Args:`` of its docstring list the fields, in place of ``options``.

    Args:
        kinds: the dataclasses.
        without: fields that the function does not take.
    """
    excluded = set(without)
    described = [one for kind in kinds for one in options_of(kind) if one.name not in excluded]
    hints = {name: hint for kind in kinds for name, hint in typing.get_type_hints(kind).items()}

    def mark(function: FunctionT) -> FunctionT:
        """Set the function's signature, annotations and docstring, and return it."""
        signature = inspect.signature(function)
        own = [part for part in signature.parameters.values() if part.kind is not part.VAR_KEYWORD]
        parameter = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        fields = [parameter(part.name, default=part.default, annotation=hints[part.name]) for part in described]
        function.__signature__ = signature.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
        annotations = {name: hint for name, hint in function.__annotations__.items() if name != "options"}
        function.__annotations__ = {**annotations, **{part.name: hints[part.name] for part in described}}
        lines: list[str] = []
        for line in (function.__doc__ or "").splitlines():
            if line.strip().startswith("options: "):
                indent = line[: len(line) - len(line.lstrip())]
                for part in described:
                    text, hanging = f"{part.name}: {_lowered(part.meaning)}", indent + "    "
                    lines.append(textwrap.fill(text, 116, initial_indent=indent, subsequent_indent=hanging))
            else:
                lines.append(line)
        function.__doc__ = "\n".join(lines)
        return function

    return mark
