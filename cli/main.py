"""The application: its commands, and how errors leave it."""

import os
import sys

import typer

from ecgfed import __version__
from ecgfed.errors import EcgfedError

app = typer.Typer(
    name="ecgfed",
    help="From heart recordings to one fair arrhythmia classifier and a personal model for each patient. "
    "Research software, not a medical device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ecgfed {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


def _register() -> None:
    from . import evaluate, export, methods, predict, prepare, train

    app.add_typer(prepare.app, name="prepare")
    app.command("train")(train.train_command)
    app.command("evaluate")(evaluate.evaluate_command)
    app.command("export")(export.export_command)
    app.command("predict")(predict.predict_command)
    app.command("methods")(methods.methods_command)


_register()


def main() -> None:
    """Run the command line: exit code 2 and one line for a user's error, 130 after Ctrl-C."""
    try:
        app()
    except EcgfedError as error:
        sys.stderr.write(f"ecgfed: {error}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("ecgfed: stopped\n")
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output went away: `ecgfed ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
