"""Write docs/results.md from the benchmarks' results files: what holds, what does not, what to choose when.

``benchmarks/pages.py`` writes it. A section whose benchmark has not been run says so.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
from common import interval, mean_of, results_of, table, worst_tenth
from results_choice import choices
from results_cifar import cifar
from results_fed_rod import fed_rod
from results_flagship import flagship
from results_table1 import table1

HEAD = """# Results

Every figure here is read from a results file of `benchmarks/`, and each section names the command that makes it.
`python benchmarks/pages.py` writes this page. MIT-BIH, 46 clients by record, 12 classes, macro-F1 over the
classes in truth or prediction unless it says otherwise. Test beats are random beats of the recordings that were trained
on: this says how patients who take part are served. New patients are much harder ([what was found of
them](../benchmarks/clinical/README.md)).

- **T_g**: the global answer on all test beats.
- **T_p**: a patient's own answer on its own test beats, mean over patients.
- **T_r**: a patient's own answer on everybody's test beats, mean over patients.
- **T_l**: the harmonic mean of T_p and T_r (equation 6 of the GRP-FED paper).
- **worst tenth**: T_p of the five patients who are served worst.

Commands of `benchmarks/` are shown without `--source MITDB --work DIR` (the recordings, a folder to work in), which all
need. What a command finds in the `runs.json` of its folder it does not train again: those are the runs of this page,
each with the fingerprint of its cohort. Move that file away, and it trains everything anew, which takes hours.
Table 1's and fairness's of `benchmarks/` have `--known`: they train nothing of their last stage and write what is
finished. Flagship, table 1, fairness and Fed-RoD score the same test beats of one split; where something was changed
after a look at them, it says so.
"""


#: What says how patients are served, and its title.
FAIR = {"T_g": "T_g", "worst_decile": "worst tenth", "std": "sd over patients", "loss_max": "largest loss"}


def fairness(found: dict[str, Any]) -> list[str]:
    """Rules of weighting clients."""
    rows = [
        (name, f"{found['server_lr'][name]:g}", *(f"{row[key]:.3f}" for key in FAIR))
        for name, row in found["factorial"].items()
    ]
    lines = [
        "By the global model's macro-F1 on each patient's beats; **worst tenth** is here that of it. The largest loss"
        " is that of\na client's training batches in the last round. One seed, validation beats, 12 passes:",
        "",
    ]
    lines += table(("rule", "server step", *FAIR.values()), rows)
    if "final" in found:
        steps = "; ".join(f"{found['server_lr'][name]:g} {name}" for name in found["final"])
        lines += [
            "",
            "The best four, five seeds, test beats (the loss of training batches), each with its own server's step",
        ]
        lines += [f"({steps}), so a difference is one of both:", ""]
        lines += _finals(found["final"], found["against_uniform"])
    if found.get("longer"):
        seeds = len(next(iter(found["longer"].values())))
        lines += [
            "",
            f"The same four with 60 passes, {seeds} seeds, all with a server's step of 0.01, FedGate's (losses"
            " over the last pass):",
            "",
        ]
        lines += _finals(found["longer"], found["longer_against_uniform"])
    return lines


def _finals(found: dict[str, list[dict[str, Any]]], less: dict[str, Any]) -> list[str]:
    """Scores of some rules, and their differences to uniform weights."""
    in_truth = all("worst_decile_truth" in row for row in less.values())
    fair = FAIR | ({"loss_std": "sd of the losses"} if all("loss_std" in row for row in less.values()) else {})
    seeds = len(next(iter(found.values())))
    keys = [*fair, "worst_decile_truth"] if in_truth else list(fair)
    columns = ["rule", *fair.values(), *(["worst tenth over the classes in truth"] if in_truth else [])]
    rows = []
    for name, runs in found.items():
        cells = [mean_of(run[key] for run in runs) for key in fair]
        if in_truth:
            worst = [worst_tenth(np.array([list(run["patients_truth"].values())])).item() for run in runs]
            cells.append(mean_of(worst))
        rows.append((name, *cells))
    return [
        *table(columns, rows),
        "",
        "Less those of uniform weights, with 95% intervals: of the worst tenth and the standard deviation over"
        " patients and\nseeds, of T_g and the losses over the "
        f"{seeds} seeds (Student's t):",
        "",
        *table(columns, [(name, *(_interval(row[key]) for key in keys)) for name, row in less.items()]),
    ]


def _interval(found: dict[str, float] | None) -> str:
    return "" if found is None else interval(found)


#: Title, folder, what writes the section.
def default(found: dict[str, Any]) -> list[str]:
    """What a training with no option takes and gives, and what it was before."""
    columns = ("method", "passes", "minutes on two cores", "CPU s of training", "of evaluate", "T_g on validation")
    rows = [
        (
            f"`{name}`",
            f"{one['passes']:.0f}",
            f"{one['minutes']:.1f}",
            *(f"{one[key]:.0f}" if key in one else "not measured" for key in ("train_cpu_s", "evaluate_cpu_s")),
            f"{one['valid']['T_g']:.3f}",
            *(f"{one['test'][key]:.3f}" for key in ("T_g", "T_p", "T_r", "T_l")),
        )
        for name, one in found["methods"].items()
    ]
    missing = "" if "fed-gate" in found["methods"] else " `fed-gate` is still to be measured beside it."
    said = (
        "`ecgfed train COHORT` with no other option: `fed-gate`. In version 0.2 it was `grp-fed`"
        f" ([0111](decisions/0111-defaults.md)).{missing}\nOne seed. CPU seconds are those of the whole process."
    )
    return [said, "", *table((*columns, "T_g", "T_p", "T_r", "T_l"), rows)]


SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], list[str]]], ...] = (
    ("FedGate, the flagship", "flagship", flagship),
    ("Training with no option", "default", default),
    ("Table 1 of the GRP-FED paper", "table1", table1),
    ("Who is served worst", "fairness", fairness),
    ("Fed-RoD's findings", "fed_rod", fed_rod),
    ("CIFAR-10", "cifar", cifar),
)


ELSEWHERE = """
## Measured elsewhere

The detector's [R peaks](../benchmarks/qrs/README.md),
[beats of patients nobody has seen](../benchmarks/ec57/README.md),
[what a few labels are worth](../benchmarks/clinical/README.md), [newcomers](../benchmarks/newcomers/README.md),
[what a model costs on a device](../benchmarks/device/README.md),
[speed beside others](../benchmarks/throughput/README.md),
[privacy](privacy.md#what-was-read-out-of-updates-and-models), [several hospitals](hospitals.md#what-it-costs);
[all benchmarks](../benchmarks/README.md) with their commands.
"""


def page() -> str:
    """The page that the results files give: what has been measured, and last what is still to be."""
    lines, left = [HEAD.rstrip()], []
    for title, folder, section in SECTIONS:
        found = results_of(folder)
        if found is None:
            left.append(f"- {title}: `python benchmarks/{folder}/run.py`")
            continue
        lines += ["", f"## {title}", "", f"`{found['command']}`", "", *section(found)]
    if chosen := choices():
        lines[1:1] = ["", "## What to choose when", "", *chosen]
    if left:
        lines += ["", "## Still to be measured", "", "These trainings take hours and are not finished:", "", *left]
    return "\n".join(lines) + "\n" + ELSEWHERE
