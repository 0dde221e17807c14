"""``ecgfed runs``: what has been trained, how far it is and how well, and what differs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.text import count_of

from .options import LeaveOutOption, RunArgument, ScoredSplitOption
from .output import JsonOption, OverwriteOption, QuietOption, console, key_values, note, print_json, table, warn

if TYPE_CHECKING:
    from ecgfed.core.runs.comparison import ComparedPatients, ComparedRun, RunComparison
    from ecgfed.core.runs.summary import RunDescription, RunProgress, RunRow, Speed

app = typer.Typer(no_args_is_help=True, help="List trained runs, show one, or compare some.", rich_markup_mode=None)


def _number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


@app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to look, below it too.")] = Path(),
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the runs below a folder: method, rounds, passes, validation scores, when last saved."""
    from ecgfed.core.runs.summary import find_runs, summarise_run

    rows = [summarise_run(path) for path in find_runs(folder)]
    if json_output:
        print_json([row.as_json() for row in rows])
    elif not quiet:
        _print_list(rows, folder)


def _print_list(rows: "list[RunRow]", folder: Path) -> None:
    if not rows:
        note(f"No runs below '{folder}'.")
        return
    names = ("run", "method", "rounds", "passes", "T_g", "T_p", "saved (UTC)")
    lines = [[str(row.run.relative_to(folder)), *_progress(row.progress)] for row in rows]
    console.print(table(names, lines, title="T_g and T_p: latest on the validation split"))
    unfinished = sum(row.progress is not None and row.progress.state == "unfinished" for row in rows)
    if unfinished:
        note(f"{unfinished} unfinished; one goes on with 'ecgfed train COHORT --out RUN --resume'.")
    for row in rows:
        if row.problem:
            note(row.problem)


def _progress(progress: "RunProgress | None") -> list[str]:
    if progress is None:
        return ["unreadable", *["-"] * 5]
    return [
        progress.method,
        f"{progress.finished_rounds:,}/{progress.rounds:,}",
        _number(progress.passes, ".1f"),
        _number(progress.valid_T_g),
        _number(progress.valid_T_p),
        # 2026-11-21T17:05:31+00:00 -> 11-21 17:05; the year is in --json
        progress.saved[5:16].replace("T", " ") if progress.saved else "-",
    ]


@app.command("show")
def show_run(run: RunArgument, json_output: JsonOption = False, quiet: QuietOption = False) -> None:
    """Show one run: settings, plan, cohort, scores so far, seconds a round and samples a second."""
    from ecgfed.core.runs.seeds import single_run_folder
    from ecgfed.core.runs.summary import describe_run

    description = describe_run(single_run_folder(run))
    if json_output:
        print_json(description.as_json())
    elif not quiet:
        console.print(key_values(_lines(description)))


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _speed(speed: "Speed") -> str:
    if speed.seconds_a_round is None:
        return "-"
    samples = _number(speed.samples_per_s, ",.0f")
    return f"{speed.seconds_a_round:.2f} s a round (median of {speed.rounds_timed}), {samples} samples/s"


def _lines(description: "RunDescription") -> list[tuple[str, str]]:
    document, progress = description.document, description.progress
    passes = _number(progress.passes, ".1f")
    lines = [
        ("run", str(document.path)),
        ("method", document.method),
        ("settings", _pairs(document.settings)),
        ("plan", _pairs(document.plan)),
        ("net", _pairs(document.net)),
        (
            "cohort",
            f"{document.cohort_path}: {count_of(len(document.clients), 'client')}, "
            f"{count_of(len(document.classes), 'class')}, fingerprint {document.fingerprint[:12]}",
        ),
        ("versions", _pairs(document.versions)),
        ("rounds", f"{progress.finished_rounds} of {progress.rounds}, {passes} passes, {progress.state}"),
        ("saved", progress.saved or "never"),
    ]
    if description.losses:
        losses = description.losses
        lines.append(("loss", f"mean {losses['loss_mean']:.3f}, worst {losses['loss_max']:.3f}"))
    for number, scores in list(description.valid.items())[-5:]:
        lines.append((f"valid, round {number}", _scores(scores)))
    for split, scores in description.evaluations.items():
        lines.append((f"evaluated on {split}", _scores(scores)))
    return [*lines, ("speed", _speed(description.speed)), ("speed lately", _speed(description.recent))]


def _scores(scores: Mapping[str, float]) -> str:
    return ", ".join(
        f"round {value}" if name == "round" else f"{name.removeprefix('valid_')} {_number(value)}"
        for name, value in scores.items()
    )


@app.command("compare")
def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS", help="Two runs or more, of one cohort; a folder of seeds is one.")
    ],
    split: ScoredSplitOption = "test",
    leave_out: LeaveOutOption = "nothing",
    any_cohort: Annotated[bool, typer.Option("--any-cohort", help="Compare runs of different cohorts too.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE", help="Also write it as a page, such as compared.html.")
    ] = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare runs: settings that differ, T_g, T_p, T_r, T_l, F1 of each class, and who is served better or worse.

    Scores are those that 'ecgfed evaluate' found; differences are against the first run.
    """
    from ecgfed.tasks.compare_page import compare_as_page

    comparison = compare_as_page(
        runs, out, split=split, leave_out=leave_out, any_cohort=any_cohort, overwrite=overwrite
    )
    if not comparison.same_cohort:
        warn("DIFFERENT COHORTS: beats, splits or patients are not the same; differences may be theirs", quiet=quiet)
    if json_output:
        print_json(comparison.as_json())
    elif not quiet:
        _print_comparison(comparison)
        if out is not None:
            note(f"Wrote {out}.")


def _print_comparison(comparison: "RunComparison") -> None:
    from ecgfed.core.runs.compared_tables import MODEL_LABELS, class_heads, class_rows, letters, main_rows

    names = letters(len(comparison.runs))
    console.print(key_values((letter, _named(run)) for letter, run in zip(names, comparison.runs, strict=True)))
    console.print()
    without = "" if comparison.leave_out == "nothing" else f" without {comparison.leave_out}"
    console.print(table(["", *names], main_rows(comparison), title=f"macro-F1 on {comparison.split}{without}"))
    for letter, settings in zip(names, comparison.specific_settings, strict=True):
        if settings:
            note(f"Settings of {letter} that not all have: {_pairs(settings)}")
    if comparison.classes:
        console.print()
        title = "F1 of each class, one model for everybody"
        console.print(table(class_heads(comparison), class_rows(comparison), title=title))
    if comparison.patients:
        console.print()
        heads = ["against A", "better", "same", "worse", "mean", "largest gain", "largest loss"]
        rows = [_patient_row(f"{names[row.run]}, {MODEL_LABELS[row.model]}", row) for row in comparison.patients]
        console.print(table(heads, rows, title="patients, by macro-F1 on their own beats"))
        _print_differences(comparison)
    for letter, run in zip(names, comparison.runs, strict=True):
        for line in run.notes:
            note(f"{letter} {line}")


def _print_differences(comparison: "RunComparison") -> None:
    """Print how certain the mean differences over patients are."""
    from ecgfed.core.runs.compared_tables import MODEL_LABELS, ends_text, letters

    names, rows = letters(len(comparison.runs)), []
    for row in comparison.patients:
        if row.interval is not None and row.corrected_p is not None:
            p = "<0.001" if row.corrected_p < 0.001 else f"{row.corrected_p:.3f}"
            rows.append(
                [f"{names[row.run]}, {MODEL_LABELS[row.model]}", f"{row.mean:+.3f}", ends_text(row.interval), p]
            )
    if rows:
        console.print()
        console.print(table(["against A", "mean", "95% CI", "p (Holm)"], rows, title="mean difference over patients"))
        note("CI: patients and seeds drawn with replacement. p: the two runs' scores of patients exchanged at random,")
        note(f"corrected for {count_of(len(rows), 'row')} (Holm).")
    if any(run.differences for run in comparison.runs):
        note("Intervals of 'less A's' hold together (Bonferroni).")


def _named(run: "ComparedRun") -> str:
    return f"{run.run} ({run.seeds} seeds: mean ± standard deviation)" if run.seeds > 1 else run.run


def _patient_row(name: str, row: "ComparedPatients") -> list[str | int]:
    ends = [f"{end[1]:+.3f} {end[0]}" if end else "-" for end in (row.largest_gain, row.largest_loss)]
    return [name, row.better, row.same, row.worse, f"{row.mean:+.3f}", *ends]
