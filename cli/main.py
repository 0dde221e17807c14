"""The application: its commands, and how errors leave it."""

import errno
import re
import sys
from concurrent.futures import BrokenExecutor
from contextlib import closing, suppress
from itertools import pairwise
from typing import NoReturn

import typer

from ecgfed import __version__
from ecgfed.base.errors import EcgfedError, spelling
from ecgfed.base.extras import naming_the_extra
from ecgfed.base.platform import is_out_of_memory
from ecgfed.base.text import closest, safe_text

from .options import method_settings
from .spelling import option_speller
from .stop import interruptible
from .streams import close_streams, open_closed_streams
from .synopses import CommandGroup, add_synopses

#: What the parser raises for an unknown option, a missing argument or a value of another type.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
#: The reasons an operating system gives when there is no room left for what we print.
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

app = typer.Typer(
    name="ecgfed",
    cls=CommandGroup,
    help="From heart recordings to one arrhythmia classifier for all patients and a personal model for each patient. "
    "Research software, not a medical device.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    from . import (
        agreement,
        cohort,
        convert,
        delta,
        detect,
        doctor,
        ec57,
        evaluate,
        export,
        federate,
        inspect,
        keys,
        label,
        methods,
        personalize,
        predict,
        prepare,
        report,
        reproduce,
        runs,
        serve,
        sweep,
        train,
    )

    for group in (prepare, cohort, federate, runs, keys, delta):
        app.add_typer(group.app, name=group.__name__.rpartition(".")[2])
    for command in (
        *(train.train_command, evaluate.evaluate_command, export.export_command, personalize.personalize_command),
        *(
            label.label_command,
            agreement.agreement_command,
            predict.predict_command,
            report.report_command,
            detect.detect_command,
        ),
        *(ec57.ec57_command, inspect.inspect_command, convert.convert_command, methods.methods_command),
        *(doctor.doctor_command, serve.serve_command, sweep.sweep_command, reproduce.reproduce_command),
    ):
        app.command(command.__name__.removesuffix("_command"))(command)
    add_synopses(app)


_register()


def _stop(code: int, line: str) -> NoReturn:
    with suppress(OSError):  # nobody reads on: the exit code says it
        sys.stderr.write(f"ecgfed: {safe_text(line)}\n")
        sys.stderr.flush()
    raise SystemExit(code) from None


def _usage_line(error: Exception) -> str:
    """Say in one line what the parser says in four, and what an unknown command or option may have meant."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "ecgfed"
    message = " ".join(getattr(error, "format_message", error.__str__)().split()).rstrip(".")
    unknown, known = None, {}
    if match := re.match(r"No such command '(.*?)'", message):
        unknown, known = match[1], _commands(context.command) if context else {}
    elif type(error).__name__ == "NoSuchOption":
        unknown = str(getattr(error, "option_name", ""))
        known = {name: name for param in context.command.params for name in param.opts} if context else {}
        if "--set" in known and not closest(unknown, known):
            known = method_settings(sys.argv)
        message = f"No such option '{unknown}'"
    elif match := re.match(r"Invalid value for '(--[\w-]+)': Input should be a valid (integer|number)", message):
        expected = "a whole number" if match[2] == "integer" else "a number"
        message = f"{match[1]}: {_typed_value(match[1])}expected {expected}"
    if unknown is None:
        return f"{message}; see '{command} --help'"
    meant = " or ".join(f"'{known[name]}'" for name in closest(unknown, known))
    return f"{message.split('. ')[0]}; {f'did you mean {meant}? See' if meant else 'see'} '{command} --help'"


def _typed_value(option: str) -> str:
    """Return what was written after an option, quoted and with a semicolon; nothing where that is not found."""
    words = sys.argv[1:]
    values = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    values += [after for word, after in pairwise(words) if word == option]
    return f"{values[-1]!r:.100}; " if values else ""


def _commands(group: typer.core.TyperGroup) -> dict[str, str]:
    """Return what a group's commands are called, those of groups inside it too: ``list`` for ``runs list``."""
    inside = {
        name: f"{outer} {name}"
        for outer, command in group.commands.items()
        for name in getattr(command, "commands", ())
    }
    return {**inside, **{name: name for name in group.commands}}


def _looped(error: Exception) -> str:
    """Return the path whose symbolic links lead back to themselves, "" where the error is another one."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return str(error.filename or "a path")
    text = str(error)  # Path.resolve, up to Python 3.12
    return (
        text.partition(" from ")[2].strip("'\"") if isinstance(error, RuntimeError) and "Symlink loop" in text else ""
    )


def _refuse(error: Exception) -> NoReturn:
    """Say in one line what a user can mend; raise what is our own mistake."""
    if isinstance(error, EcgfedError):
        _stop(2, str(error))
    if isinstance(error, _UsageError):
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            alone = getattr(getattr(error, "ctx", None), "parent", None) is None
            typer.echo(str(error), err=not alone)  # `ecgfed` asks what there is; `ecgfed runs` is half a command
            raise SystemExit(0 if alone else 2) from None
        _stop(2, _usage_line(error))
    if path := _looped(error):
        _stop(
            2,
            f"{path}: is a symbolic link to itself; expected a file or a folder; remove the link or name another path",
        )
    if isinstance(error, BrokenPipeError):  # the reader of our output went away: `ecgfed ... | head`
        close_streams()
        raise SystemExit(1) from None
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        close_streams()
        _stop(2, f"{error.filename or 'standard output'}: could not be written ({error.strerror})")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        name = str(error.filename or "a path")
        _stop(2, f"{name:.60}...: is longer than a path can be ({len(name):,} characters); check what was typed")
    if is_out_of_memory(error):
        text = "not enough memory for this; close other programs, raise the limit (ulimit -v), or pass fewer --workers"
        _stop(2, f"{text} ({type(error).__name__}{f': {error}' if str(error) else ''})"[:400])
    if isinstance(error, BrokenExecutor):
        _stop(2, "a worker process was ended from outside, as for lack of memory; free some, or pass fewer --workers")
    raise error


def main() -> None:
    """Run the command line: exit code 2 and one line for a user's error, 130 after Ctrl-C and 143 after SIGTERM."""
    open_closed_streams()
    with spelling(option_speller(app)), interruptible() as interruption:
        try:
            with closing(interruption), naming_the_extra("this command"):
                code = app(standalone_mode=False, prog_name="ecgfed")  # whatever it was started as: python -m, a test
                sys.stdout.flush()
            if interruption.code or code == 130:  # a library swallowed the interruption; what the parser makes of one
                raise KeyboardInterrupt
        except (KeyboardInterrupt, typer.Abort) as stop:
            if isinstance(stop.__cause__, EOFError):  # the parser takes a file that ends too soon for Ctrl-D
                raise stop.__cause__ from None
            _stop(interruption.code or 130, "stopped")
        except Exception as error:
            if interruption.code is None:
                _refuse(error)
            _stop(interruption.code, "stopped")  # a library caught the interruption, and raised something of its own
    if isinstance(code, int) and code:
        raise SystemExit(code)


if __name__ == "__main__":
    main()
