"""``ecgfed serve``: a local page, on which recordings are read, reported, labelled, personalised and replayed."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ecgfed.base.text import count_of
from ecgfed.reports.options import PageOptions

from .expand import takes_options
from .output import JsonOption, QuietOption, note, print_json
from .reading import TrustedOption
from .stop import interrupted_once


@takes_options("page", PageOptions)
def serve_command(
    *,
    work: Annotated[
        Path,
        typer.Option(
            "--work", metavar="FOLDER", help="Folder for the recordings and what is made of them: a new one, or go on."
        ),
    ] = Path("ecgfed-serve"),
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="Whose global model is used; default the model in the package.")
    ] = None,
    page: PageOptions,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    trusted: TrustedOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Open a page on this machine for recordings: report, label, personalise, replay. Not for diagnosis."""
    from ecgfed.tasks.serve import serve

    def opened(address: str) -> None:
        typer.echo(f"Recordings at {address}", err=True)
        typer.echo("It ends when no page has been open for five minutes, or with Ctrl-C.", err=True)
        if browser:
            webbrowser.open(address)

    with interrupted_once():
        served = serve(work, bundle=bundle, trusted=trusted or None, language=page.language, opened=opened)
    if json_output:
        print_json({"folder": str(served.folder), "recordings": served.recordings, "ended": served.ended})
    elif not quiet:
        note(f"{count_of(served.recordings, 'recording')} in {served.folder}; the same command goes on with them.")
