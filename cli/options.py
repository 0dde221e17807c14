"""Options and arguments that several commands share, beside those for reading recordings (``reading``) and for printing
(``output``).
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.text import same_name
from ecgfed.core.config import PERSONAL_HELP, TrainConfig

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
    "method", "masked", "prior", "head", "kernel", "finetune", "probe", "partway", "distilled", "gated", "knn"
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


def method_settings(words: Sequence[str]) -> dict[str, str]:
    """Return how each setting of a method is typed, by its name, for the command line ``words``."""
    from ecgfed.core.methods.registry import methods
    from ecgfed.core.methods.settings import settings_of

    named = [after for word, after in pairwise(words) if word == "--method"]
    named += [word.removeprefix("--method=") for word in words if word.startswith("--method=")]
    known = methods()
    method = same_name(named[-1] if named else str(TrainConfig.method), known)
    if method is None:  # a file's code is not run for a message
        return {}
    return {one.name: f"--set {one.name}=..." for one in settings_of(known[method].settings_type)}


def settings_of(pairs: list[str] | None) -> dict[str, str]:
    """Return what ``--set NAME=VALUE`` says, by name; raises OptionError."""
    settings = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise OptionError("--set", f"{pair!r}", "NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def seeds_of(text: str) -> list[int]:
    """Return the seeds that ``--seeds 0,1,2`` names; raises OptionError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise OptionError("--seeds", f"{text!r}", "whole numbers, 0 or more, separated by commas")
    return [int(part) for part in parts]
