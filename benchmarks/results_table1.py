"""The results page's section on table 1 of the GRP-FED paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import folded, of_spread, table
from results_table1_paper import SCORES, WORK_OF, WRONG_NOW, against_paper, at_equal_work

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TRUE_CLASSES = "The same over the true classes only ([the two conventions](macro-f1.md)):"
#: Figures of table 1's runs, in docs/images, with their alternative text.
FIGURES = {
    "clients": "Figure 1 of the paper: features of each client's beats, the clients' classes, FedAvg's F1 on each",
    "losses": "Figure 3 of the paper: mean and largest training loss over the passes, four methods",
    "beta": "Figure 4 of the paper: T_p, T_r and T_l of GRP-FED by beta, 12 passes",
    "cases": "Figure 5 of the paper: five methods on a patient near everybody's classes and on one far from them",
}


def table1(results: dict[str, Any]) -> list[str]:
    """Table 1 with 60 passes; with 12, at equal work and as printed folded; the comparison with the paper."""
    stage = "sixty" if results.get("sixty") else "passes"
    passes = 60 if stage == "sixty" else 12
    work = at_equal_work(results, stage) if results.get(WORK_OF[stage]) else None
    about = (
        f"{passes} passes, batches of 16, no RR intervals, test beats; means ± standard deviations over seeds. The"
        " paper's value is in brackets,\nbeside its T_l the value of its own equation 6. Each method has three trials"
        " of 5 passes with one seed on validation beats; the\nsettings that GRP-FED and FedGate share were chosen on"
        " the same beats before. All methods but Local, LG-FedAvg and pFedMe use the\nAdam server step."
    )
    main, truth = of_stage(results[stage], work)
    lines = [*main, "", about, "", *folded("The same over the true classes only", truth)]
    if stage == "sixty":
        main, truth = of_stage(results["passes"], at_equal_work(results))
        short_runs = (
            "These are four fifths of the steps that 60 passes take with the paper's batches of 64"
            " ([0055](decisions/0055-windows-in-the-papers-table.md)). At equal work,\na method with more gradients"
            " for each beat gets fewer beats; GRP-FED's work is measured by its seconds. Models that are trained"
            " further\nby each patient have no such value: their 300 steps of 64 beats are almost 12 more passes."
        )
        lines += folded(
            "With 12 passes, and at equal work",
            [short_runs, "", *main, "", TRUE_CLASSES, "", *truth, *more_passes(results["passes"], results["sixty"])],
        )
    lines += as_printed(results.get("printed", []))
    if text := against_paper(results):
        lines += ["### Compared with the paper", "", *text, ""]
    figures = [
        f"![{alt}](images/results-{name}.svg)"
        for name, alt in FIGURES.items()
        if (name != "beta" or len(results.get("beta", ())) > 1) and (IMAGES / f"results-{name}.svg").is_file()
    ]
    lines += folded("The paper's figures 1, 3, 4 and 5", [line for figure in figures for line in (figure, "")])
    if results["unfinished"]:
        lines += ["Unfinished, and listed with fewer seeds or not at all:", ""]
        lines += [f"- {part}" for part in results["unfinished"]]
    return lines


def of_stage(
    rows: Sequence[dict[str, Any]], work: dict[str, dict[str, Any]] | None = None
) -> tuple[list[str], list[str]]:
    """The tables of a stage in both conventions, with T_l at equal work if that is given."""
    lines = []
    for row in rows:
        cells = [f"{of_spread(row['scores'][key])}{paper}" for key, paper in zip(SCORES, of_paper(row), strict=True)]
        line = [shown(row), row["seeds"], *cells, of_spread(row["worst_decile"])]
        if work is not None:
            equal = work.get(row["name"])
            line.append(of_spread(equal["scores"]["T_l"]) if equal else "")
        lines.append(line)
    columns = ["method", "seeds", *SCORES, "worst tenth", *(["T_l at equal work"] if work is not None else [])]
    truth = [(shown(row), *(of_spread(row["scores_truth"][key]) for key in SCORES)) for row in rows]
    return table(columns, lines), table(("method", *SCORES), truth)


def shown(row: dict[str, Any]) -> str:
    """A row's name; for FedGate, with the weights it was trained with."""
    weighted = row["name"] == "FedGate" and "q0" in row.get("settings", {})
    return f"{row['name']}, weights by loss" if weighted else row["name"]


def more_passes(before: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[str]:
    """What changes from 12 to 60 passes; nothing until both are measured."""
    few, many = ({row["name"]: row["scores"] for row in some} for some in (before, rows))
    tuned, gated = "FedAvg, finetune", "FedAvg, gated"
    if not {"FedAvg", "GRP-FED", "FedGate", tuned, gated} <= few.keys() & many.keys():
        return []

    def change(name: str, key: str) -> str:
        return f"{few[name][key]['mean']:.2f} to {many[name][key]['mean']:.2f}"

    def t_p(name: str) -> float:
        return float(many[name]["T_p"]["mean"])

    assert t_p(gated) > t_p(tuned), WRONG_NOW
    return [
        "",
        f"From 12 to 60 passes T_g rises from {change('FedAvg', 'T_g')} for FedAvg and from"
        f" {change('GRP-FED', 'T_g')} for GRP-FED: 12 passes are too few.\nA confident global model leaves little to"
        f" fine-tuning: its T_p is {t_p(tuned):.2f}, that of the gate on the same model {t_p(gated):.2f}.",
    ]


def of_paper(row: dict[str, Any]) -> list[str]:
    """The paper's scores of a method in brackets; empty for a method that is not in the paper."""
    if row["paper"] is None:
        return [""] * len(SCORES)
    *others, harmonic = (f"{value:.3f}" for value in row["paper"])
    own, everybody = row["paper"][1:3]
    return [*(f" ({value})" for value in others), f" ({harmonic}; {2 * own * everybody / (own + everybody):.3f})"]


def as_printed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The paper's printed settings: q0 = 10, five local epochs of batches of 64, 60 passes."""
    if not rows:
        return []
    lines = [
        (
            row["name"],
            row["seeds"],
            *(of_spread(row["scores"][key]) if "scores" in row else "" for key in SCORES),
            len(row["stopped"]),
        )
        for row in rows
    ]
    about = (
        "The paper's printed settings with bounded losses. 60 passes are 12 rounds of five local epochs, too few for"
        " either method,\nso these rows do not judge the printed form. A longer run: [reproduce.md](reproduce.md)."
    )
    columns = ("method", "seeds", *SCORES, "runs with non-finite numbers")
    return folded("With the paper's printed settings", [about, "", *table(columns, lines)])
