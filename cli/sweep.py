"""``ecgfed sweep``: a cohort and several values of settings in, a table of validation scores out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.core.config import TrainConfig

from .complete import choices, method_names
from .expand import takes_options
from .options import SetOption, seeds_of, settings_of
from .output import JsonOption, QuietOption, WorkersOption, console, note, stderr, table
from .reporter import Output
from .stop import graceful_stop

if TYPE_CHECKING:
    from ecgfed.tasks.sweep_result import Sweep


@takes_options(
    "options",
    TrainConfig,
    without=("seed",),
    insert={"method": ("grid", "set_", "seeds", "score", "config")},
    complete={"method": method_names},
)
def sweep_command(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort made by 'ecgfed prepare'.")],
    *,
    out: Annotated[Path, typer.Option("--out", help="The folder to make: a run for each combination, and sweep.json.")],
    options: TrainConfig,
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUES", help="Values to try, as lr=0.01,0.05: of a setting or an option; repeatable."
        ),
    ],
    set_: SetOption = None,
    seeds: Annotated[str, typer.Option(help="Seeds of each combination, such as 0,1,2.")] = "0",
    score: Annotated[
        str,
        typer.Option(
            help="Which score decides: T_g, T_p, T_r or T_l.", autocompletion=choices("T_g", "T_p", "T_r", "T_l")
        ),
    ] = "T_g",
    config: Annotated[
        Path | None, typer.Option(help="TOML file with options of all combinations, and a table [set].")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep in --out.")] = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train every combination of the values of --grid, and compare them on validation beats.

    The test split is never read. A stopped sweep goes on with --resume, without repeating what finished.
    """
    from ecgfed.tasks.sweep import sweep

    output = Output(json_output=json_output, quiet=quiet)
    with graceful_stop(quiet=quiet) as stop, output.reporter() as progress:
        result = sweep(
            cohort,
            _grid(grid),
            out,
            score=score,
            seeds=seeds_of(seeds),
            config=config,
            settings=settings_of(set_),
            resume=resume,
            workers=workers,
            progress=progress,
            should_stop=stop.requested,
            **options.given_values(),
        )
    if stop.code is not None and len(result.rows) < result.combinations:
        line = (
            f"ecgfed: stopped after {len(result.rows)} of {result.combinations}; the same command with --resume goes on"
        )
        stderr.print(line, highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(stop.code)
    output.show(result.to_dict(), lambda: _print(result, output))


def _grid(pairs: list[str]) -> dict[str, list[str]]:
    grid: dict[str, list[str]] = {}
    for pair in pairs:
        name, _, values = pair.partition("=")
        parts = [value.strip() for value in values.split(",")]
        if not name or not all(parts) or name in grid:
            raise OptionError("--grid", f"{pair!r}", "NAME=VALUE,VALUE,... once for each name")
        grid[name.strip().replace("-", "_")] = parts
    return grid


def _print(result: "Sweep", output: Output) -> None:
    from ecgfed.core.evaluation.result import SCENARIOS

    rows = [
        [*(str(value) for value in row.values.values()), *(result.written(row, name) for name in SCENARIOS)]
        for row in result.rows
    ]
    title = f"macro-F1 on validation, best {result.score} first"
    console.print(table([*result.names, *SCENARIOS], rows, title=title))
    for row in result.rows:
        if row.problem:
            note(f"No scores of {', '.join(f'{name}={value}' for name, value in row.values.items())}: {row.problem}")
    if result.finished_rows:
        best = f"{result.path / result.finished_rows[0].folder}"
        note(f"The best of {len(rows)} looks better here than it is; for its test score, once: ecgfed evaluate {best}")
    note(f"Wrote {result.path} in {output.seconds}.")
