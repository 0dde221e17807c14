"""``ecgfed evaluate``: a run in, tables and figures out."""

import csv
import io
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ecgfed.errors import OptionError

from .output import (
    JsonOption,
    OverwriteOption,
    QuietOption,
    WorkersOption,
    console,
    note,
    open_run_and_cohort,
    print_json,
    progress_bar,
    seconds,
)


def evaluate_command(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A run made by 'ecgfed train'.")],
    split: Annotated[str, typer.Option(help="test or valid.")] = "test",
    cohort_path: Annotated[Path | None, typer.Option("--cohort", help="The cohort, where it has moved.")] = None,
    protocol: Annotated[
        str, typer.Option("--global", help="A method without a global model answers by its ensemble or average.")
    ] = "ensemble",
    local: Annotated[
        bool,
        typer.Option(
            "--local-models/--no-local-models",
            help="Score each client's model after local training too, where the method has one model for everybody.",
        ),
    ] = True,
    leave_out: Annotated[str, typer.Option(help="nothing or poor-quality: beats in bad stretches.")] = "nothing",
    out: Annotated[
        Path | None, typer.Option(help="A new folder for the files; default RUN/evaluation-SPLIT, made anew each time.")
    ] = None,
    overwrite: OverwriteOption = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score a run: T_g, T_p, T_r, T_l, per class and per patient; JSON, CSV and learning curves beside the run."""
    from ecgfed.cohort.cohort import LEAVE_OUT
    from ecgfed.cohort.split import SPLIT_NAMES, TRAIN
    from ecgfed.evaluation.scenarios import PROTOCOLS, evaluate
    from ecgfed.federation.plan import available_cores
    from ecgfed.files import check_new_folder, replacing_file, replacing_folder, write_json, write_text
    from ecgfed.reports.curves import draw_learning_curves
    from ecgfed.runs.callbacks import HISTORY, read_lines

    if split not in SPLIT_NAMES or split == SPLIT_NAMES[TRAIN]:
        raise OptionError("--split", f"{split!r}", "test or valid")
    if protocol not in PROTOCOLS:
        raise OptionError("--global", f"{protocol!r}", f"one of {', '.join(PROTOCOLS)}")
    if leave_out not in LEAVE_OUT:
        raise OptionError("--leave-out", f"{leave_out!r}", f"one of {', '.join(LEAVE_OUT)}")
    started = time.perf_counter()
    run, cohort = open_run_and_cohort(run_path, cohort_path)
    state = run.state()
    folder = out or run_path / (f"evaluation-{split}" + ("" if leave_out == "nothing" else f"-without-{leave_out}"))
    if out:
        check_new_folder(out, overwrite=overwrite)
    with progress_bar(quiet) as bar:
        task = bar.add_task("patients", total=None, about="")
        result = evaluate(
            run,
            cohort,
            state,
            SPLIT_NAMES.index(split),
            protocol=protocol,
            workers=workers or available_cores(),
            local=local,
            leave_out=leave_out,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    result = {
        "run": str(run_path),
        "method": run.method.name,
        "split": split,
        "round": state.round,
        "protocol": protocol,
        "leave_out": leave_out,
        **result,
    }
    with replacing_folder(folder, overwrite=True) as partial:
        write_json(partial / "scores.json", result)
        write_text(partial / "per_patient.csv", _csv(result["per_patient"]))
        write_text(partial / "per_class.csv", _csv(result["per_class"]))
        with replacing_file(partial / "learning_curves.png") as png:
            draw_learning_curves(
                read_lines(run_path / HISTORY, state.round), png, f"{run.method.name}, {len(cohort.federation)} clients"
            )
    if json_output:
        print_json(result)
        return
    if not quiet:
        _print(result)
    if leave_out != "nothing":
        note(f"Not scored, because of {leave_out}: {result['left_out']:,} beats.", quiet=quiet)
    note(f"Wrote {folder} in {seconds(time.perf_counter() - started)}.", quiet=quiet)


def _csv(rows: list[dict[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _print(result: dict[str, Any]) -> None:
    table = Table("macro-F1, classes in", "T_g", "T_p", "T_r", "T_l", "T_l patients'", "T_p of the global model")
    for key, name in (("scores", "truth or prediction"), ("scores_truth", "truth")):
        scores = result[key]
        table.add_row(name, *(_number(scores[k]) for k in ("T_g", "T_p", "T_r", "T_l", "T_l_clients", "T_p_global")))
    console.print(table)
    for name, value in result["T_p_variants"].items():
        console.print(f"T_p with the {name}: {value:.3f}", highlight=False)
    _print_accuracies(result)
    classes = Table("class", "beats", "predicted", "Se", "+P", "F1", title="global answer, per class")
    for row in result["per_class"]:
        classes.add_row(
            row["class"],
            f"{row['beats']:,}",
            f"{row['predicted']:,}",
            *(_number(row[k]) for k in ("sensitivity", "positive_predictivity", "f1")),
        )
    console.print(classes)
    worst = sorted(result["per_patient"], key=lambda row: row["personal_f1"])
    patients = Table("patient", "beats", "classes", "personal F1", "global F1", title="per patient, worst first")
    for row in worst[:10]:
        patients.add_row(
            row["client"],
            f"{row['beats']:,}",
            str(row["classes"]),
            _number(row["personal_f1"]),
            _number(row["global_f1"]),
        )
    console.print(patients)
    if len(worst) > 10:
        console.print(f"({len(worst) - 10} more in per_patient.csv)", highlight=False)


def _print_accuracies(result: dict[str, Any]) -> None:
    """Accuracies, how evenly patients are served, and the local models beside the personal ones."""
    found, local = result["accuracies"], result["local_models"]
    accuracies = Table("accuracy", "G-FL", "P-FL, own beats", "P-FL by class mix", "by mix, pool evened", "drift")
    names = ("P_FL_split", "P_FL_reweighted", "P_FL_expected", "drift")
    accuracies.add_row("personal models", _number(found["G_FL"]), *(_number(found[k]) for k in names))
    if local:
        accuracies.add_row("local models", "-", *(_number(local[k]) for k in names))
    console.print(accuracies)
    fairness = Table("over patients", "mean", "std", "worst tenth", "worst")
    rows = {"personal F1": result["fairness"]["personal_f1"], "global F1": result["fairness"]["global_f1"]}
    if local:
        rows["local model's F1"] = local["fairness"]["personal_f1"]
    for name, row in rows.items():
        worst = f"{row['worst']:.3f} ({row['worst_client']})"
        fairness.add_row(name, *(_number(row[k]) for k in ("mean", "std", "worst_decile")), worst)
    console.print(fairness)
    if local:
        t = {name: _number(local[name]) for name in ("T_p", "T_r", "T_l")}
        console.print(
            f"Local models as personal ones: T_p {t['T_p']}, T_r {t['T_r']}, T_l {t['T_l']}.", highlight=False
        )
