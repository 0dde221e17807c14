"""Write docs/results.md from the benchmarks' results files: one question and one table for each section.

``benchmarks/pages.py`` writes it. A section whose benchmark has not been run says so.
"""

import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
from common import OF_ITS_MODEL, folded, interval, mean_of, results_of, table, worst_tenth
from loaded_scripts import ROOT, load_script
from results_choice import choices, not_supported
from results_cifar import cifar
from results_fed_rod import fed_rod
from results_flagship import flagship
from results_splits import splits
from results_table1 import table1

HEAD = """# Results

Every number on this page is read from a results file in `benchmarks/`, and each section names the command that produces
it. `python benchmarks/pages.py` writes the page.
"""

SCORES = """## What the scores mean

MIT-BIH, 46 clients (one per record), 12 classes, macro-F1 over the classes that are true or predicted, unless stated
otherwise ([the conventions](macro-f1.md)).

- **T_g**: the global model on all test beats.
- **T_p**: a patient's personal model on that patient's test beats, mean over patients.
- **T_r**: a patient's personal model on all patients' test beats, mean over patients.
- **T_l**: the harmonic mean of T_p and T_r (equation 6 of the GRP-FED paper).
- **Worst tenth**: T_p of the five patients with the lowest scores.

With the random split, test beats come from the same minutes as the training beats. These scores therefore describe
patients who take part. Later minutes and [new patients](../benchmarks/clinical/README.md) are harder.
"""

FRONTIER = (
    "![T_p against T_r of every method and personal model: models of one patient alone lie at the top left, models"
    " derived from a global one to the right](images/results-frontier.svg)"
)

THREE_WAYS = (
    "![Macro-F1 of three models on the patient's own beats: alone {}, together {}, personal {}; and on all patients'"
    " beats: alone {}, together {}, personal {}](images/three-ways/three-ways.svg)",
    "",
    "A model of one patient serves that patient's usual beats well and recognises no others.",
    "The personal model keeps most of both: on each side it lies between the two.",
)

COMMANDS = """## About the commands

The commands are shown without `--source MITDB --work DIR` (the recordings and a working folder), which they all need. A
command does not repeat runs that are in the `runs.json` of its folder, each with the fingerprint of its cohort. Move
that file away to train everything again, which takes hours. All benchmarks use the same test beats of one random split
unless a section says otherwise. Where something was changed after test scores had been read, the section says so.
"""

#: The scores of the fairness benchmark and their column titles.
FAIR = {"T_g": "T_g", "worst_decile": "worst tenth", "std": "SD over patients", "loss_max": "largest loss"}


def fairness(results: dict[str, Any]) -> list[str]:
    """Rules that weight clients."""
    about = (
        "Macro-F1 of the *global* model on each patient's test beats; the worst tenth is of this score. The largest"
        " loss is that of a\nclient's training batches. Differences from uniform weights with 95% intervals: of the"
        " worst tenth and the standard\ndeviation over patients and seeds, of T_g and the losses over seeds"
        " (Student's t)."
    )
    lines, others = [about, ""], []
    rows = [
        (name, f"{results['server_lr'][name]:g}", *(f"{row[key]:.3f}" for key in FAIR))
        for name, row in results["factorial"].items()
    ]
    if "final" in results:
        steps = "; ".join(f"{name} {results['server_lr'][name]:g}" for name in results["final"])
        seeds = len(next(iter(results["final"].values())))
        title = f"12 passes, {seeds} seeds, each rule with its own server step ({steps})"
        others += folded(title, _finals(results["final"], results["against_uniform"]))
    others += folded(
        "All rules, 12 passes, one seed, validation beats", table(("rule", "server step", *FAIR.values()), rows)
    )
    if results.get("longer"):
        seeds = len(next(iter(results["longer"].values())))
        lines += [f"60 passes, {seeds} seeds, server step 0.01 for all; losses over the last pass:", ""]
        lines += [*_finals(results["longer"], results["longer_against_uniform"]), ""]
    return [*lines, *others]


def _finals(rules: dict[str, list[dict[str, Any]]], differences: dict[str, Any]) -> list[str]:
    """The scores of some rules, and their differences from uniform weights."""
    true_classes = all("worst_decile_truth" in row for row in differences.values())
    fair = FAIR | ({"loss_std": "SD of the losses"} if all("loss_std" in row for row in differences.values()) else {})
    keys = [*fair, "worst_decile_truth"] if true_classes else list(fair)
    columns = [*fair.values(), *(["worst tenth, true classes"] if true_classes else [])]
    rows = []
    for name, runs in rules.items():
        cells = [mean_of(run[key] for run in runs) for key in fair]
        if true_classes:
            worst = [worst_tenth(np.array([list(run["patients_truth"].values())])).item() for run in runs]
            cells.append(mean_of(worst))
        rows.append((name, *cells))
    return [
        *table(("rule", *columns), rows),
        "",
        *table(
            ("minus uniform", *columns),
            [(name, *(_interval(row[key]) for key in keys)) for name, row in differences.items()],
        ),
    ]


def _interval(difference: dict[str, float] | None) -> str:
    return "" if difference is None else interval(difference)


def default(results: dict[str, Any]) -> list[str]:
    """Time and scores of training without options, and of the earlier default."""
    columns = ("method", "passes", "minutes on two cores", "CPU s, training", "CPU s, evaluation", "T_g on validation")
    rows = [
        (
            f"`{name}`",
            f"{row['passes']:.0f}",
            f"{row['minutes']:.1f}",
            *(f"{row[key]:.0f}" if key in row else "not measured" for key in ("train_cpu_s", "evaluate_cpu_s")),
            f"{row['valid']['T_g']:.3f}",
            *(f"{row['test'][key]:.3f}" for key in ("T_g", "T_p", "T_r", "T_l")),
        )
        for name, row in results["methods"].items()
    ]
    about = (
        "`ecgfed train COHORT` trains `fed-gate`; in version 0.2 it trained `grp-fed`"
        " ([0111](decisions/0111-defaults.md)). One run, one seed. CPU\nseconds are those of the whole process,"
        " imports included."
    )
    return [*table((*columns, "T_g", "T_p", "T_r", "T_l"), rows), "", about]


def databases(results: dict[str, Any]) -> list[str]:
    """The packaged model's recipe on new patients, with and without other patients of their database."""
    f1 = load_script(ROOT / "docs" / "images" / "databases" / "draw.py").f1
    rows = [
        (name, trained, *(f1(scores, kind) for kind in ("veb", "sveb")))
        for name, with_others, without in (
            ("MIT-BIH", results["folds"]["mitdb"]["whole_records"], results["without_mitbih"]),
            ("SVDB", results["folds"]["svdb"]["whole_records"], results["without_svdb"]),
        )
        for trained, scores in (("on other patients of both", with_others), ("without this database", without))
    ]
    veb, sveb = ([f"{row[column]:.0f}" for row in rows] for column in (2, 3))
    return [
        f"![F1 of ventricular beats: MIT-BIH {veb[0]} and {veb[1]}, SVDB {veb[2]} and {veb[3]}. F1 of"
        f" supraventricular beats: MIT-BIH {sveb[0]} and {sveb[1]}, SVDB {sveb[2]} and {sveb[3]}. The second number of"
        " each pair is without training on that database.](images/databases/databases.svg)",
        "",
        "Each patient is read by a model that was trained without that patient. Supraventricular beats are the weak"
        " point in both databases.",
        "",
        *table(
            ("database", "trained", "F1, ventricular (%)", "F1, supraventricular (%)"),
            [(name, trained, *(f"{f1:.1f}" for f1 in f1s)) for name, trained, *f1s in rows],
        ),
        "",
        "Whole records, beat by beat (EC57), R peaks by ecgfed, no labels of the patient. One training each"
        " ([decision 0085](decisions/0085-the-packaged-model-of-three-databases.md)).",
    ]


#: Title, folder and function of each section.
SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], list[str]]], ...] = (
    ("Global or personal models?", "flagship", flagship),
    ("Do the results hold for later minutes?", "flagship", splits),
    ("How well are new patients read?", "shipped", databases),
    ("How long does training take?", "default", default),
    ("Is Table 1 of the GRP-FED paper reproduced?", "table1", table1),
    ("Does weighting help the worst-served patients?", "fairness", fairness),
    ("Do Fed-RoD's findings hold on ECGs?", "fed_rod", fed_rod),
    ("Do they hold on CIFAR-10, reduced?", "cifar", cifar),
)


ELSEWHERE = """
## Measured elsewhere

[The leaderboard](leaderboard.md), which others can enter ·
[R peaks](../benchmarks/qrs/README.md) ·
[new patients, beat by beat](../benchmarks/ec57/README.md) ·
[what a few labels are worth](../benchmarks/clinical/README.md) ·
[newcomers](../benchmarks/newcomers/README.md) ·
[cost on a device](../benchmarks/device/README.md) ·
[speed compared with other tools](../benchmarks/throughput/README.md) ·
[privacy attacks](privacy.md#what-was-read-out-of-updates-and-models) ·
[several hospitals](hospitals.md#what-it-costs) ·
[all benchmarks](../benchmarks/README.md) with their commands.
"""


def pictures() -> list[str]:
    """The page's pictures with their alternative text."""
    methods = (results_of("flagship") or {})["methods"]
    three = ("Local", OF_ITS_MODEL + "unchanged", "FedGate")
    scores = [
        f"{statistics.fmean(run['test'][key] for run in methods[name]):.2f}" for key in ("T_p", "T_r") for name in three
    ]
    return [THREE_WAYS[0].format(*scores), *THREE_WAYS[1:], "", FRONTIER]


def page() -> str:
    """The page that the results files give: first what is measured, last what is not."""
    lines, missing = [], []
    for title, folder, section in SECTIONS:
        results = results_of(folder)
        if results is None:
            missing.append(f"- {title}: `python benchmarks/{folder}/run.py`")
        elif text := section(results):
            command = [] if section is splits else [f"`{results['command']}`", ""]
            lines += ["", f"## {title}", "", *command, *text]
    head = [HEAD.rstrip()]
    if chosen := choices():
        head += ["", "## What to use when", "", *chosen, "", *pictures()]
    head += ["", SCORES.rstrip()]
    if claims := not_supported():
        lines += ["", "## What is not supported", "", *claims]
    lines += ["", COMMANDS.rstrip()]
    if missing:
        lines += ["", "## Not measured yet", "", "These trainings take hours and are not finished:", "", *missing]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*head, *lines]) + "\n" + ELSEWHERE)
