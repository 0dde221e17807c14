"""Commands that take a recording or a run: options that are of the other one are refused in one line."""

from collections.abc import Collection
from pathlib import Path

import typer

from ecgfed.base.errors import OptionError


def refuse_options_of(context: typer.Context, source: Path, allowed: Collection[str], owner: str, what: str) -> None:
    """Refuse options that were typed and that are not of what was named.

    Args:
        context: of the command.
        source: what was named.
        allowed: names of the parameters that may be typed.
        owner: whom the others are of: ``recordings``.
        what: what was named: ``a run``.

    Raises:
        OptionError: the first such option.
    """
    for parameter in context.command.params:
        name = str(parameter.name)
        typed = context.get_parameter_source(name)
        if typed is None or typed.name == "DEFAULT" or name in allowed:
            continue
        raise OptionError(parameter.opts[0], f"is of {owner}, and {source} is {what}", action="leave it out")
