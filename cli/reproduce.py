"""``ecgfed reproduce``: the tables of the papers, run again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.core.config import TablePart

from .complete import choices
from .expand import takes_options
from .output import JsonOption, QuietOption, WorkersOption, console, note, stderr, table
from .reporter import Output
from .stop import graceful_stop
from .tables import Cell

if TYPE_CHECKING:
    from ecgfed.tasks.reproduce_result import Reproduction, Score


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(";") if name.strip()]


@takes_options("part", TablePart, parse={"rows": _names}, complete={"scale": choices("full", "reduced")})
def reproduce_command(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER]",
            help="grp-fed, fed-rod or fedabc.",
            autocompletion=choices("grp-fed", "fed-rod", "fedabc"),
        ),
    ] = None,
    *,
    number: Annotated[int | None, typer.Option("--table", metavar="N", help="Number of the table.")] = None,
    part: TablePart,
    source: Annotated[
        Path | None, typer.Option(help="Folder with the data sets: mitdb, cifar10, cifar100, mnist, fashion-mnist.")
    ] = None,
    work: Annotated[Path, typer.Option(metavar="DIR", help="Folder for cohorts and runs.")] = Path("reproduced"),
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file of finished runs; default DIR/results.json.")
    ] = None,
    device: Annotated[
        str,
        typer.Option(help="auto (a GPU if there is one), cpu or cuda.", autocompletion=choices("auto", "cpu", "cuda")),
    ] = "auto",
    list_: Annotated[
        bool, typer.Option("--list", help="List the tables with estimated hours on this machine (about a minute).")
    ] = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a table of a paper: the paper's value, ours, and the difference.

    Finished runs are not repeated. A killed command, run again, continues and ends the same.
    """
    output = Output(json_output=json_output, quiet=quiet)
    if list_:
        _list(device, workers, output)
        return
    if paper is None or number is None or source is None:
        missing = "PAPER" if paper is None else "--table" if number is None else "--source"
        raise OptionError(missing, "missing", "PAPER --table N --source DIR", "see 'ecgfed reproduce --list'")
    from ecgfed.tasks.reproduce import reproduce

    with graceful_stop(quiet=quiet) as stop, output.reporter() as progress:
        result = reproduce(
            paper,
            number,
            source=source,
            work=work,
            part=part,
            results=results,
            device=device,
            workers=workers,
            progress=progress,
            should_stop=stop.requested,
        )
    output.show(result.to_dict(), lambda: _print(result))
    if stop.code is not None:
        line = "ecgfed: stopped; the same command continues"
        stderr.print(line, highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(stop.code)


def _list(device: str, workers: int | None, output: Output) -> None:
    from ecgfed.tasks.reproduce_time import estimate_hours

    with output.reporter() as progress:
        estimates = list(estimate_hours(device, workers, progress))
    lines = [
        {
            "paper": one.paper.name,
            "table": one.table.number,
            "data": one.setting.data,
            "setting": one.setting.name,
            "rows": one.rows,
            "hours_a_seed": {scale: hours for scale, (hours, _) in one.hours.items()},
            "seeds": {scale: seeds for scale, (_, seeds) in one.hours.items()},
        }
        for one in estimates
    ]
    cells: list[tuple[Cell, ...]] = [
        (
            f"{one.paper.name} --table {one.table.number}",
            one.setting.data,
            one.setting.name,
            one.rows,
            *(f"{hours:.1f} x {seeds}" for hours, seeds in one.hours.values()),
        )
        for one in estimates
    ]

    def show() -> None:
        console.print(table(("ecgfed reproduce", "--data", "setting", "rows", "full, h x seeds", "reduced"), cells))
        note("Training of all rows that this version has, estimated from a short timing of each net.")

    output.show({"tables": lines}, show)


def _print(result: "Reproduction") -> None:
    """Print a table for each setting, and below it how it differs from the paper."""
    for sentence in result.missing:
        note(f"{sentence}.")
    columns = [f"{column}: paper, ours" for column in result.table.columns]
    for setting, lines in result.by_setting():
        title = f"{result.paper.name}, table {result.table.number}, {setting.label}, {result.scale}"
        rows = [(line.row.name, *(_cell(score, result.table.digits) for score in line.scores)) for line in lines]
        console.print(table(("method", *columns), rows, title=title))
        for phrase in result.differences(setting):
            note(f"Not as printed: {phrase}.")
        for line in lines:
            for phrase in (*line.notes, *line.stopped):
                note(f"{line.row.name}: {phrase}.")


def _cell(score: "Score", digits: int) -> str:
    """Return ``68.6, 67.1 (-1.5)``."""
    paper = score.printed.written(digits)
    if score.mean is None:
        return f"{paper}, -"
    difference = "" if score.difference is None else f" ({score.difference:+.{digits}f})"
    return f"{paper}, {score.mean:.{digits}f}{difference}"
