"""Options of a command from the fields of a dataclass (``ecgfed.base.options``)."""

import functools
import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, TypeVar, cast

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.options import Option, Options, options_of

OptionsT = TypeVar("OptionsT", bound=Options)
#: Types of which typer reads a value itself.
PLAIN = (float, int, bool, str)
#: What makes a field's value of the value as typed: a text, or a number where the field is one.
Parse = Callable[[str], object] | Callable[[float], object]


def takes_options(
    parameter: str,
    kind: type[OptionsT],
    *,
    without: Collection[str] = (),
    insert: Mapping[str, Sequence[str]] | None = None,
    complete: Mapping[str, Callable[..., list[str]]] | None = None,
    defaults: Mapping[str, object] | None = None,
    parse: Mapping[str, Parse] | None = None,
    before: Callable[..., None] = lambda **values: None,
    check: Callable[[OptionsT], None] = lambda options: None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of a command that has one parameter for a dataclass: typer sees an option for each field.

    Options that are not typed are not passed to the dataclass, so its ``given`` names those that were.

    Args:
        parameter: name of the command's parameter.
        kind: the dataclass.
        without: fields that are no options of this command.
        insert: field -> parameters of the command itself that are listed after it.
        complete: field -> completion of its value in a shell.
        defaults: field -> default of this command, if it is another one.
        parse: field -> function of the value as typed, a text unless the field is a plain one; raises OptionError.
        before: called before the dataclass is made, with all values by name.
        check: called with it after; raises OptionError.
    """
    complete, defaults, parse, hints = complete or {}, defaults or {}, parse or {}, typing.get_type_hints(kind)
    described = [one for one in _ordered(options_of(kind)) if not one.hidden and one.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Return the command as typer sees it."""

        @functools.wraps(command)
        def expanded(**values: object) -> None:
            before(**values)
            passed = {one.name: _parsed(one, values.pop(one.name), parse.get(one.name)) for one in described}
            check(options := kind(**{name: value for name, value in passed.items() if value is not None}))
            command(**values, **{parameter: options})

        own = dict(inspect.signature(command).parameters)
        moved = {after: [own.pop(name) for name in names] for after, names in (insert or {}).items()}
        parameters: list[inspect.Parameter] = []
        for name, part in own.items():
            if name != parameter:
                parameters.append(part)
                continue
            for one in described:
                is_text = typing.get_origin(hints[one.name]) is tuple or (one.name in parse and one.kind not in PLAIN)
                hint = str if is_text or one.or_class else hints[one.name]
                annotation: object = Annotated[hint | None, _typer_option(one, complete.get(one.name))]
                default = defaults.get(one.name)
                parameters.append(
                    inspect.Parameter(one.name, part.KEYWORD_ONLY, default=default, annotation=annotation)
                )
                parameters += moved.get(one.name, ())
        parameters = [part.replace(kind=part.KEYWORD_ONLY) for part in parameters]
        expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {part.name: part.annotation for part in parameters}
        return expanded

    return decorate


def _parsed(one: Option, value: object, parse: Parse | None) -> object:
    """Return the names that a text lists, separated by commas, for a field that is a tuple; else the value."""
    if parse is not None and value is not None:
        return cast("Callable[[object], object]", parse)(value)
    if typing.get_origin(one.kind) is not tuple or not isinstance(value, str):
        return value
    parts = tuple(part.strip() for part in value.split(","))
    if not any(parts):
        raise OptionError(one.where, "is empty", "names in order, separated by commas")
    return parts


def _ordered(options: Sequence[Option]) -> list[Option]:
    """Return options in the order of their fields, those with ``after`` behind that option."""
    ordered = [one for one in options if not one.after]
    for one in options:
        if one.after:
            ordered.insert(1 + next(i for i, other in enumerate(ordered) if other.name == one.after), one)
    return ordered


def _typer_option(one: Option, completion: Callable[..., list[str]] | None) -> object:
    """Return the typer option of a field."""
    declared = f"--{one.flag}/--no-{one.flag}" if one.kind is bool and one.optional else f"--{one.flag}"
    text = one.meaning.replace("``", "")
    return typer.Option(declared, help=text, metavar=one.metavar or None, autocompletion=completion)
