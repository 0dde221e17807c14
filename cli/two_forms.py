"""Commands that take a recording or a run: options that are of the other one are refused in one line."""

from collections.abc import Collection
from pathlib import Path

import typer

from ecgfed.base.errors import OptionError


def refuse_options_of(context: typer.Context, source: Path, refused: Collection[str], owner: str, what: str) -> None:
    """Refuse options that were typed and that are not of what was named.

    Args:
        context: of the command.
        source: what was named.
        refused: names of the parameters that may not be typed.
        owner: whom the others are of: ``recordings``.
        what: what was named: ``a run``.

    Raises:
        OptionError: the first such option.
    """
    for parameter in context.command.params:
        typed = context.get_parameter_source(str(parameter.name))
        if parameter.name in refused and typed is not None and typed.name != "DEFAULT":
            raise OptionError(parameter.opts[0], f"is of {owner}, and {source} is {what}", action="leave it out")
