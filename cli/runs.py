"""``ecgfed runs``: what has been trained, how far it is and how well."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .output import JsonOption, QuietOption, console, print_json

app = typer.Typer(no_args_is_help=True, help="List trained runs, or show one of them.", rich_markup_mode=None)


def _number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def _minute(saved: str | None) -> str:
    """``2026-11-21T17:05:31+00:00`` -> ``11-21 17:05``; the year is in --json."""
    return saved[5:16].replace("T", " ") if saved else "-"


@app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to look, below it too.")] = Path(),
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the runs below a folder: method, rounds, passes, validation scores, finished or not, when."""
    from ecgfed.runs.summary import find_runs, summarise_run

    rows = [summarise_run(path) for path in find_runs(folder)]
    if json_output:
        print_json(rows)
    elif not quiet:
        _print_list(rows, folder)


def _print_list(rows: list[dict[str, Any]], folder: Path) -> None:
    if not rows:
        console.print(f"No runs below {folder}.", highlight=False, markup=False, soft_wrap=True)
        return
    names = ("run", "method", "rounds", "passes", "T_g", "T_p", "state", "saved (UTC)")
    table = Table(*names, box=None, padding=(0, 1, 0, 0), title="T_g and T_p: latest on the validation split")
    for column in table.columns:
        column.no_wrap = True
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for row in rows:
        name = str(Path(row["run"]).relative_to(folder))
        if row["problem"]:
            table.add_row(name, *["-"] * 5, "unreadable", "-")
            continue
        table.add_row(
            Text(name),
            row["method"],
            f"{row['rounds_done']}/{row['rounds']}",
            _number(row["passes"], ".1f"),
            _number(row["valid_T_g"]),
            _number(row["valid_T_p"]),
            row["state"],
            _minute(row["saved"]),
        )
    console.print(table)
    for row in rows:
        if row["problem"]:
            console.print(row["problem"], highlight=False, markup=False, soft_wrap=True)


@app.command("show")
def show_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run made by 'ecgfed train'.")],
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show one run: settings, plan, cohort, scores so far, seconds a round and samples a second."""
    from ecgfed.runs.summary import describe_run

    about = describe_run(run)
    if json_output:
        print_json(about)
    elif not quiet:
        _print_run(about)


def _print_run(about: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(about):
        table.add_row(name, Text(text))
    console.print(table)


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _speed(speed: dict[str, Any]) -> str:
    if not speed["rounds_timed"]:
        return "-"
    samples = _number(speed["samples_per_s"], ",.0f")
    return f"{speed['seconds_a_round']:.2f} s a round (median of {speed['rounds_timed']}), {samples} samples/s"


def _lines(about: dict[str, Any]) -> list[tuple[str, str]]:
    cohort = about["cohort"]
    lines = [
        ("run", about["run"]),
        ("method", about["method"]),
        ("settings", _pairs(about["settings"])),
        ("plan", _pairs(about["plan"])),
        ("net", _pairs(about["net"])),
        (
            "cohort",
            f"{cohort['path']}: {cohort['clients']} clients, {len(cohort['classes'])} classes, "
            f"fingerprint {cohort['fingerprint'][:12]}",
        ),
        ("versions", _pairs(about["versions"])),
        ("rounds", f"{about['rounds_done']} of {about['rounds']}, {about['passes']:.1f} passes, {about['state']}"),
        ("saved", about["saved"] or "never"),
    ]
    if about["losses"]:
        lines.append(("loss", f"mean {about['losses']['loss_mean']:.3f}, worst {about['losses']['loss_max']:.3f}"))
    for number, scores in list(about["valid"].items())[-5:]:
        lines.append((f"valid, round {number}", _scores(scores)))
    for split, scores in about["evaluations"].items():
        lines.append((f"evaluated on {split}", _scores(scores)))
    return [*lines, ("speed", _speed(about["speed"])), ("speed lately", _speed(about["speed"]["recent"]))]


def _scores(scores: dict[str, Any]) -> str:
    return ", ".join(
        f"round {value}" if name == "round" else f"{name.removeprefix('valid_')} {_number(value)}"
        for name, value in scores.items()
    )
