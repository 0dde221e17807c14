"""``ecgfed keys``: make a key to sign bundles with, and show a key's fingerprint."""

from pathlib import Path
from typing import Annotated

import typer

from .output import JsonOption, QuietOption, console, note, print_json

app = typer.Typer(help="Keys to sign bundles with: make one, show its fingerprint.", no_args_is_help=True)


@app.command("new")
def new_command(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The key's name: NAME.pem and NAME.pub.pem are made.")],
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an Ed25519 key: NAME.pem signs and stays with you, NAME.pub.pem is for everyone who shall trust it."""
    from ecgfed.tasks.keys import new_key

    pair = new_key(name)
    if json_output:
        print_json({"private": str(pair.private), "public": str(pair.public), "key": pair.key})
        return
    note(f"Wrote {pair.private} (keep it to yourself) and {pair.public} (give it away).", quiet=quiet)
    note(f"{pair.key}", quiet=quiet)


@app.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(metavar="KEY", help="A key in PEM, public or private.")],
    json_output: JsonOption = False,
) -> None:
    """Show a key's fingerprint, which people compare before they trust it."""
    from ecgfed.tasks.keys import key_of

    key = key_of(file)
    if json_output:
        print_json({"file": str(file), "key": key})
    else:
        console.print(key)
