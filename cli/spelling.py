"""Parameters in messages as the options of the command line, by the declarations of the commands themselves.

Commands and parameters are typer's own classes, or click's in older versions of typer: ``Any`` here.
"""

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer

#: Parameters in Python whose option has another name in the command's signature.
_NAMES = {"leads": "lead", "settings": "set_"}


def option_speller(app: typer.Typer) -> Callable[[str, str], str]:
    """Return the function ``(parameter, value)`` that spells a parameter as the command in ``sys.argv`` takes it.

    ``overwrite`` is ``--overwrite``, ``fs_hz`` is ``--fs``, ``rr=False`` is ``--no-rr``, ``class_mix=FILE`` is
    ``--class-mix FILE``, and an argument is its metavar. A parameter of no command is spelled as an option too.
    """

    def option(name: str, value: str) -> str:
        """Return the option, from the current command or else from the first that has it."""
        root: Any = typer.main.get_command(app)
        current = root
        for word in sys.argv[1:]:
            current = getattr(current, "commands", {}).get(word, current)
        matching = [param for command in (current, *_commands(root)) for param in _parameters(command, name)]
        if matching:
            return _spelled(matching[0], value)
        words = re.findall("[A-Z]+", " ".join(str(param.metavar) for param in current.params if param.metavar))
        argument = next((word for word in words if name.upper().startswith(word)), "")  # RECORD of [BUNDLE] RECORD
        return argument or f"--{name.replace('_', '-')} {value}".rstrip()

    return option


def _commands(command: Any) -> Iterator[Any]:
    """Yield a command, or those of a group and of the groups in it."""
    for inner in getattr(command, "commands", {}).values():
        yield from _commands(inner)
    yield command


def _parameters(command: Any, name: str) -> list[Any]:
    """Return a command's parameters that stand for one in Python, typed ones and the best match first."""
    plain = name.removesuffix("_hz").removesuffix("_s")
    names = [_NAMES.get(name, name), name, plain]
    options = {f"--{text.replace('_', '-')}" for text in (name, plain)}
    typed = {word.partition("=")[0] for word in sys.argv}
    matching = [param for param in command.params if param.name in names or options & set(param.opts)]

    def order(param: Any) -> tuple[bool, int]:
        return not set(param.opts) & typed, names.index(param.name) if param.name in names else len(names)

    return sorted(matching, key=order)


def _spelled(param: Any, value: str) -> str:
    if param.param_type_name == "argument":
        return str(param.make_metavar(None) if param.metavar is None else param.metavar)
    if getattr(param, "is_flag", False):
        return str(param.secondary_opts[0] if value == "False" and param.secondary_opts else param.opts[0])
    return f"{param.opts[0]} {value}".rstrip()
