"""``ecgfed evaluate``: a run in, tables and figures out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of, listed

from .options import (
    LeaveOutOption,
    MethodOption,
    MovedCohortOption,
    NetOption,
    PersonalOption,
    ProtocolOption,
    ScoredSplitOption,
)
from .output import JsonOption, OverwriteOption, QuietOption, WorkersOption, console, note, print_json, table
from .reporter import Output
from .tables import without_zero_rows

if TYPE_CHECKING:
    from ecgfed.core.evaluation.result import Scores

#: Patients in the table per patient, worst first.
WORST = 10


def evaluate_command(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A run made by 'ecgfed train', or runs of seeds.")],
    split: ScoredSplitOption = "test",
    cohort_path: MovedCohortOption = None,
    protocol: ProtocolOption = "ensemble",
    local: Annotated[
        bool,
        typer.Option(
            "--local-models/--no-local-models",
            help="Score each client's model after local training too, where the method has one model for everybody.",
        ),
    ] = True,
    leave_out: LeaveOutOption = "nothing",
    personal: PersonalOption = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Also auroc, auprc or both, as auroc,auprc: one class against the rest."),
    ] = None,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="Score the global model on the patients that the cohort holds out, all beats."),
    ] = False,
    every_table: Annotated[bool, typer.Option("--all", help="Print every table.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for the files; default RUN/evaluation-SPLIT, made anew each time.")
    ] = None,
    method: MethodOption = None,
    net: NetOption = None,
    overwrite: OverwriteOption = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score a run: T_g, T_p, T_r, T_l, per class and per patient; JSON, CSV and learning curves beside the run."""
    from ecgfed.tasks.evaluate import evaluate
    from ecgfed.tasks.evaluate_held_out import evaluate_held_out

    output = Output(json_output=json_output, quiet=quiet)
    with output.reporter() as progress:
        options: dict[str, Any] = {"cohort": cohort_path, "protocol": protocol, "leave_out": leave_out}
        options |= {"method": method, "net": net, "workers": workers, "progress": progress}
        if held_out:
            passed = {
                "--split": split != "test",
                "--no-local-models": not local,
                "--personal": personal is not None,
                "--metrics": metrics is not None,
                "--all": every_table,
                "--out": out is not None,
                "--overwrite": overwrite,
            }
            if conflicts := [name for name, is_passed in passed.items() if is_passed]:
                expected = "one of the two: patients held out have no splits and no models of their own"
                raise OptionError(conflicts[0], "with --held-out", expected, "leave one of them out", code="conflict")
            scores = evaluate_held_out(run_path, **options)
        else:
            scores = evaluate(
                run_path,
                split=split,
                local_models=local,
                personal=personal,
                metrics=None if metrics is None else [name.strip() for name in metrics.split(",")],
                out=out,
                overwrite=overwrite,
                **options,
            )
    if json_output:
        print_json(scores.to_dict())
        return
    if quiet:
        return
    if held_out:
        _print_held_out(scores)
        return
    _print(scores)
    if every_table:
        for print_tables in (_print_scenarios, _print_accuracies, _print_classes, _print_patients):
            print_tables(scores)
    else:
        note("Classes, patients, accuracies: --all, and the files beside the run.")
    note(f"Scored in {output.seconds}.")


def _print(scores: "Scores") -> None:
    from ecgfed.core.evaluation.result import QUESTIONS, SCENARIOS

    for sentence in (*scores.sentences(), scores.site_sentence()):
        if sentence:
            note(sentence)
    not_scored = scores.results[0]["left_out"]
    if not_scored:
        note(f"Not scored, because of {scores.results[0]['leave_out']}: {count_of(not_scored, 'beat')}.")
    rows = [
        [name, scores.with_interval("scores", name), scores.with_interval("scores_truth", name), QUESTIONS[name]]
        for name in SCENARIOS
    ]
    console.print(table(["macro-F1", "all classes", "in truth", "what is asked"], rows))
    note("All classes: those in truth or prediction, scikit-learn's default; in truth: those that are there.")
    if scores.interval("T_p") is not None:
        seeds = " and seeds" if len(scores.results) > 1 else ""
        note(f"In brackets: 95% confidence interval, patients{seeds} drawn with replacement.")
    if "metrics" in scores.results[0]:
        _print_metrics(scores)
    if "per_site" in scores.results[0]:
        _print_sites(scores)


def _print_held_out(scores: "Scores") -> None:
    """Print the global model's scores on patients left out, and those of each of them."""
    from ecgfed.core.evaluation.result import with_spread

    first = scores.results[0]
    note(
        f"{count_of(first['beats'], 'beat')} of {count_of(first['patients'], 'patient')} who took no part in training."
    )
    titles = {"T_g": "all their beats together", "T_p_global": "mean over patients"}
    rows: list[list[str | int]] = [
        [title, scores.with_interval("scores", name), scores.with_interval("scores_truth", name)]
        for name, title in titles.items()
    ]
    console.print(table(["macro-F1 of the global model", "all classes", "in truth"], rows))
    served = scores.rows("per_patient", "client", "beats", "global_f1")
    worst = sorted(served, key=lambda row: sum(value or 0.0 for value in row[1][1]))[:WORST]
    lines: list[list[str | int]] = [[name, int(beats[0] or 0), with_spread(f1)] for name, (beats, f1) in worst]
    console.print(table(["patient", "beats", "global F1"], lines, title="per patient, worst first"))
    if len(served) > WORST:
        note(f"({len(served) - WORST} more in held-out.json)")


def _print_metrics(scores: "Scores") -> None:
    """Print each further metric, and what it does not count."""
    from ecgfed.core.evaluation.result import with_spread

    columns = ("global", "personal", "global_on_patients", "patients")
    summaries = {name: [result["metrics"][name] for result in scores.results] for name in scores.results[0]["metrics"]}
    rows = [
        [name, *(with_spread([of[column] for of in each], 0 if column == "patients" else 3) for column in columns)]
        for name, each in summaries.items()
    ]
    head = ["metric", "global, all beats", "personal, own beats", "global, own beats", "patients"]
    console.print(table(head, rows, title="further metrics; on own beats: mean over patients"))
    for name, (first, *_) in summaries.items():
        if first["absent"]:
            note(f"{name}, all beats: without {', '.join(first['absent'])}, for lack of beats.")
        if first["undefined"]:
            note(f"{name}, own beats: not defined for {listed(first['undefined'], 10)}.")
    note("Classes that a patient's value does not count: NAME_absent in per_patient.csv.")


def _print_sites(scores: "Scores") -> None:
    """Print a row for each site, with the F1 of AAMI's ectopic classes where these are classes."""
    from ecgfed.core.evaluation.result import with_spread
    from ecgfed.core.runs.intervals import interval_text

    classes = {name for name, _ in scores.rows("per_class", "class")}
    ectopic = {name: title for name, title in (("S", "SVEB F1"), ("V", "VEB F1")) if {"S", "V"} <= classes}
    by_class = [f"global_f1_{name}" for name in ectopic]
    worst_patient = {row["site"]: row["worst_patient"] or "-" for row in scores.results[0]["per_site"]}
    names = ("global_f1", *by_class, "personal_f1", "worst_f1")
    rows: list[list[str | int]] = []
    for site, (patients, beats, *of) in scores.rows("per_site", "site", "patients", "beats", *names):
        ends = [scores.interval("per_site", name, site) for name in names]
        written = map(interval_text, map(with_spread, of), ends)
        rows.append([site, int(patients[0] or 0), int(beats[0] or 0), *written, f"{worst_patient[site]}"])
    columns = ["site", "patients", "beats", "global F1", *ectopic.values(), "personal F1", "worst F1", "of patient"]
    console.print(table(columns, rows, title="per site"))
    of_ectopic = f", {' and '.join(ectopic.values())}" if ectopic else ""
    note(f"Global F1{of_ectopic}: one model for everybody on the site's beats; personal F1: mean over its patients.")


def _print_scenarios(scores: "Scores") -> None:
    rows = [
        [title, scores.with_interval(name), scores.with_interval("scores_truth", name)]
        for title, name in (("T_l, mean of patients' own", "T_l_clients"), ("T_p of the global model", "T_p_global"))
    ]
    rows += [
        [f"T_p with the {name}", scores.with_interval("T_p_variants", name), "-"]
        for name in scores.results[0]["T_p_variants"]
    ]
    console.print(table(["macro-F1", "all classes", "in truth"], rows, title="beside the four scenarios"))


def _print_accuracies(scores: "Scores") -> None:
    """Accuracies, how evenly patients are served, and the local models beside the personal ones."""
    local = scores.results[0]["local_models"]
    names = {
        "P_FL_split": "P-FL split",
        "P_FL_reweighted": "P-FL reweighted",
        "P_FL_expected": "P-FL expected",
        "drift": "drift",
    }
    rows = [["G-FL", scores.with_interval("accuracies", "G_FL"), *["-"] * bool(local)]]
    rows += [
        [
            title,
            scores.with_interval("accuracies", key),
            *([scores.with_interval("local_models", key)] if local else []),
        ]
        for key, title in names.items()
    ]
    console.print(table(["accuracy", "personal models", *["local models"] * bool(local)], rows))
    fairness: dict[str, tuple[str, ...]] = {
        "personal F1": ("fairness", "personal_f1"),
        "global F1": ("fairness", "global_f1"),
    }
    if local:
        fairness["local model's F1"] = ("local_models", "fairness", "personal_f1")
    columns = ("mean", "std", "worst_decile", "worst")
    rows = [[title, *(scores.with_interval(*path, column) for column in columns)] for title, path in fairness.items()]
    console.print(table(["over patients", "mean", "std", "worst tenth", "worst"], rows))
    if local:
        values = ", ".join(f"{name} {scores.with_interval('local_models', name)}" for name in ("T_p", "T_r", "T_l"))
        note(f"Local models as personal ones: {values}.")


def _print_classes(scores: "Scores") -> None:
    from ecgfed.core.evaluation.result import with_spread
    from ecgfed.core.runs.intervals import interval_text

    names = ("beats", "predicted", "sensitivity", "positive_predictivity", "f1")
    rows = []
    for name, (beats, predicted, *shares) in scores.rows("per_class", "class", *names):
        counts = [with_spread(beats, 0), with_spread(predicted, 0)]
        ends = [scores.interval("per_class", column, name) for column in names[2:]]
        rows.append([name, *counts, *map(interval_text, map(with_spread, shares), ends)])
    present, empty = without_zero_rows(rows)
    console.print(
        table(["class", "beats", "predicted", "Se", "+P", "F1"], present, title="the model for everybody, per class")
    )
    if empty:
        note(f"Neither in truth nor predicted: {', '.join(empty)}.")


def _print_patients(scores: "Scores") -> None:
    from ecgfed.core.evaluation.result import with_spread

    names = ("beats", "classes", "personal_f1", "global_f1")
    site_of = {row["client"]: row["site"] for row in scores.results[0]["per_patient"] if "site" in row}
    rows = scores.rows("per_patient", "client", *names)
    worst = sorted(rows, key=lambda row: sum(value or 0.0 for value in row[1][2]))
    printed: list[list[str | int]] = [
        [
            client,
            *([site_of[client]] if site_of else []),
            int(beats[0] or 0),
            int(classes[0] or 0),
            with_spread(personal),
            with_spread(shared),
        ]
        for client, (beats, classes, personal, shared) in worst[:WORST]
    ]
    columns = ["patient", *["site"] * bool(site_of), "beats", "classes", "personal F1", "global F1"]
    console.print(table(columns, printed, title="per patient, worst first"))
    if len(worst) > WORST:
        note(f"({len(worst) - WORST} more in per_patient.csv)")
