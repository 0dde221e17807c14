"""The results page's section on table 1 of the GRP-FED paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import of_spread, table
from results_table1_paper import SCORES, WRONG_NOW, against_paper, at_equal_work

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
IN_TRUTH = "The same over the classes in truth ([what the two conventions do](macro-f1.md)):"
#: Figures of table 1's runs, in docs/images, with what a reader who cannot see them is told.
FIGURES = {
    "frontier": "T_p against T_r of every method and simple personal answer",
    "clients": "Figure 1 of the paper: features of each client's beats, the clients' classes, FedAvg's F1 on each",
    "losses": "Figure 3 of the paper: mean and largest training loss over the passes, four methods",
    "beta": "Figure 4 of the paper: T_p, T_r and T_l of GRP-FED by beta, 12 passes",
    "cases": "Figure 5 of the paper: five methods on a patient near everybody's classes and on one far from them",
}


def table1(found: dict[str, Any]) -> list[str]:
    """Table 1 with 60 passes and with 12, at equal work, as printed, beside the paper, and the figures."""
    lines = [
        "Batches of 16, no RR intervals. Each method tuned by three trials of 5 passes, one seed each, on validation"
        " beats; what GRP-FED\nand FedGate have beside that was chosen on the same beats before. The server's Adam step"
        " is in all but Local, LG-FedAvg\nand pFedMe. The paper's value is in brackets, beside its T_l what equation 6"
        " makes of its T_p and T_r."
    ]
    if longer := found.get("sixty"):
        work = at_equal_work(found, "sixty") if found.get("sixty-work") else None
        head = ["", "### With 60 passes", "", *of_stage(longer, work)]
        lines += [*head, *what_more_steps_change(found["passes"], longer)]
    lines += [
        "",
        "### With 12 passes, and at equal work",
        "",
        "Four fifths of the steps that 60 passes with the paper's batches of 64 take"
        " ([0055](decisions/0055-windows-in-the-papers-table.md)), on a\nfifth of the beats. At equal work a method"
        " that takes more gradients for a beat reads fewer beats; GRP-FED's\nwork is counted by its seconds. Of"
        " fine-tuning and probing after the training no cell stands there: 300 steps of 64 beats\nfor each patient are"
        " nearly 12 passes more.",
        "",
        *of_stage(found["passes"], at_equal_work(found)),
        *as_printed(found.get("printed", [])),
    ]
    if told := against_paper(found):
        lines += ["", "### Beside the paper", "", *told]
    pictures = [
        f"![{told}](images/results-{name}.svg)"
        for name, told in FIGURES.items()
        if (name != "beta" or len(found.get("beta", ())) > 1) and (IMAGES / f"results-{name}.svg").is_file()
    ]
    lines += ["", "### Figures", *(line for picture in pictures for line in ("", picture))] if pictures else []
    if found["unfinished"]:
        lines += ["", "Trainings that are not finished, and stand here with fewer seeds or not at all:", ""]
        lines += [f"- {part}" for part in found["unfinished"]]
    return lines


def of_stage(rows: Sequence[dict[str, Any]], work: dict[str, dict[str, Any]] | None = None) -> list[str]:
    """The table of a stage in both conventions, with what is reached at equal work where that is given."""
    told = []
    for row in rows:
        cells = [f"{of_spread(row['scores'][key])}{theirs}" for key, theirs in zip(SCORES, of_paper(row), strict=True)]
        line = [shown(row), row["seeds"], *cells, of_spread(row["worst_decile"])]
        if work is not None:
            equal = work.get(row["name"])
            line.append(of_spread(equal["scores"]["T_l"]) if equal else "")
        told.append(line)
    columns = ["method", "seeds", *SCORES, "worst tenth", *(["T_l at equal work"] if work is not None else [])]
    truth = [(shown(row), *(of_spread(row["scores_truth"][key]) for key in SCORES)) for row in rows]
    return [*table(columns, told), "", IN_TRUTH, "", *table(("method", *SCORES), truth)]


def shown(row: dict[str, Any]) -> str:
    """A row's name; of FedGate, with which weights it was trained."""
    return (
        f"{row['name']}, weights by loss"
        if row["name"] == "FedGate" and "q0" in row.get("settings", {})
        else row["name"]
    )


def what_more_steps_change(before: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[str]:
    """What 60 passes say that 12 do not, where the methods that it is said of are there."""
    few, many = ({row["name"]: row["scores"] for row in one} for one in (before, rows))
    tuned, gated = "FedAvg, finetune", "FedAvg, gated"
    if not {"FedAvg", "GRP-FED", "FedGate", tuned, gated} <= few.keys() & many.keys():
        return []

    def score(name: str, key: str) -> str:
        return f"{few[name][key]['mean']:.2f} to {many[name][key]['mean']:.2f}"

    def own(name: str, key: str = "T_p") -> float:
        return float(many[name][key]["mean"])

    def best(convention: str) -> str:
        first = sorted(rows, key=lambda row: -row[convention]["T_l"]["mean"])[:3]
        return "; ".join(f"{shown(row)} {row[convention]['T_l']['mean']:.3f}" for row in first)

    assert own("GRP-FED", "T_l") > own("FedAvg", "T_l"), WRONG_NOW
    assert own(gated) > own(tuned), WRONG_NOW
    everyone = "of all" if few.keys() <= many.keys() else "of those that are finished"
    return [
        "",
        f"So 12 passes were too few. From 12 to 60 T_g goes from {score('FedAvg', 'T_g')} with FedAvg, from"
        f" {score('GRP-FED', 'T_g')} with GRP-FED (means of\nas many seeds as each table has). The best T_l"
        f" {everyone} have {best('scores')}.\nOver the classes in truth: {best('scores_truth')}.\nA sure global model"
        f" leaves fine-tuning little to do: T_p {own(tuned):.2f}, where the gate on the same model has"
        f" {own(gated):.2f}.",
    ]


def of_paper(row: dict[str, Any]) -> list[str]:
    """The paper's scores of a method in brackets, nothing where it has none."""
    if row["paper"] is None:
        return [""] * len(SCORES)
    *others, harmonic = (f"{value:.3f}" for value in row["paper"])
    own, everybody = row["paper"][1:3]
    return [*(f" ({one})" for one in others), f" ({harmonic}; {2 * own * everybody / (own + everybody):.3f})"]


def as_printed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the paper prints, where it has been run: q0 = 10, five local epochs of batches of 64, 60 passes."""
    if not rows:
        return []
    told = [
        (
            row["name"],
            row["seeds"],
            *(of_spread(row["scores"][key]) if "scores" in row else "" for key in SCORES),
            len(row["stopped"]),
        )
        for row in rows
    ]
    said = (
        "As the paper prints it, but for losses that are bounded; 60 passes, which are 12 rounds of five local epochs:"
        " too few for\neither, so this says little of the printed form:"
    )
    return ["", said, "", *table(("method", "seeds", *SCORES, "runs that stopped, their numbers not finite"), told)]
