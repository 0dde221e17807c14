"""Options and arguments that several commands share, beside those for reading recordings (``reading``) and for printing
(``output``).
"""

from pathlib import Path
from typing import Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.core.config import PERSONAL_HELP

from .complete import choices

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run made by 'ecgfed train'.")]
ScoredSplitOption = Annotated[
    str, typer.Option("--split", help="test or valid.", autocompletion=choices("test", "valid"))
]
LeaveOutOption = Annotated[
    str,
    typer.Option(
        "--leave-out",
        help="nothing or poor-quality: beats in bad stretches.",
        autocompletion=choices("nothing", "poor-quality"),
    ),
]
MovedCohortOption = Annotated[Path | None, typer.Option("--cohort", help="The cohort, where it has moved.")]
ProtocolOption = Annotated[
    str,
    typer.Option(
        "--global",
        help="A method without a global model answers by its ensemble or average.",
        autocompletion=choices("ensemble", "average"),
    ),
]
personal_names = choices(
    "method", "masked", "prior", "head", "kernel", "finetune", "probe", "partway", "distilled", "gated"
)
PersonalOption = Annotated[str | None, typer.Option("--personal", help=PERSONAL_HELP, autocompletion=personal_names)]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="FILE.py:CLASS",
        help="The run's method, where it is somebody's own: no file gets to run code unless you name it.",
    ),
]
NetOption = Annotated[
    str | None,
    typer.Option(
        "--net",
        metavar="FILE.py:CLASS",
        help="The run's net, where it is your own torch.nn.Module: no file gets to run code unless you name it.",
    ),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; repeatable.")
]
SignOption = Annotated[
    Path | None, typer.Option("--sign", metavar="KEY", help="Sign the bundle with this private key (PEM, Ed25519).")
]


def settings_of(pairs: list[str] | None) -> dict[str, str]:
    """Return what ``--set NAME=VALUE`` says, by name; raises OptionError."""
    settings = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise OptionError("--set", f"{pair!r}", "NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings
