"""The results page's section on global and personal models, from ``flagship/results.json`` and ``seconds.json``."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import (
    LONGER,
    LONGER_GRP,
    OF_ITS_MODEL,
    OF_LONGER,
    WITH_SIXTY,
    bootstrap,
    folded,
    interval,
    mean_of,
    results_of,
    table,
    with_interval,
    worst_tenth,
)
from numpy.typing import NDArray
from results_table1 import SCORES, TRUE_CLASSES

#: The methods of the flagship benchmark.
FLAGSHIPS = ("FedGate", "GRP-FED", "FedAvg", "Local", "FedGate, windows alone", *WITH_SIXTY)
#: The trainings whose global models other personal models are derived from, and the prefix of those.
GATES = {"FedGate": OF_ITS_MODEL, LONGER: OF_LONGER}
#: The rows of the main table: name of the runs, label, passes.
MAIN_ROWS = (
    ("FedGate", "FedGate, the default", 20),
    (OF_ITS_MODEL + "finetune", "its global model, fine-tuned by each patient", 20),
    (OF_ITS_MODEL + "head", "its global model, a linear head for each patient", 20),
    (OF_ITS_MODEL + "unchanged", "its global model for everybody", 20),
    ("GRP-FED", "GRP-FED", 20),
    ("FedAvg", "FedAvg, restricted to the patient's classes", 20),
    ("Local", "each patient alone", 20),
    (LONGER, "FedGate", 60),
    (OF_LONGER + "finetune", "its global model, fine-tuned by each patient", 60),
    (OF_LONGER + "probe", "the same, the head first (`probe`)", 60),
    (LONGER_GRP, "GRP-FED", 60),
)
Indices = NDArray[np.int64]
Scores = NDArray[np.float64]
Runs = Sequence[dict[str, Any]]
#: The goal for the global model's T_g.
GOAL = 0.86


def with_range(values: Sequence[float]) -> str:
    """``.934 (.930 to .938)``: the mean, the smallest and the largest."""
    return f"{mean_of(values)} ({min(values):.3f} to {max(values):.3f})"


def passes_to(run: dict[str, Any], score: float) -> float:
    """The number of passes after which T_g on validation beats first reaches a score; infinite if it never does."""
    return next((passes for passes, reached in run["curve"] if reached >= score), math.inf)


def passes_until(passes: Sequence[float]) -> str:
    """``8.8``: the mean over seeds; ``12.7 (1 of 3)`` if some seeds never reach the goal; ``never``."""
    finite = [value for value in passes if math.isfinite(value)]
    if not finite:
        return "never"
    return f"{statistics.fmean(finite):.1f}" + (
        f" ({len(finite)} of {len(passes)})" if len(finite) < len(passes) else ""
    )


def flagship(results: dict[str, Any]) -> list[str]:
    """Global and personal models: one table, the other tables folded."""
    methods = results["methods"]
    seeds = len(next(iter(methods.values())))
    about = (
        f"Means of {seeds} seeds on the test beats of one random split. Intervals of T_p are 95% bootstrap intervals"
        f" over patients and\nseeds; with {seeds} seeds they are somewhat too narrow. The last column is paired: the"
        " same beats, patients and seeds. An interval\nthat contains 0 shows no difference. Each method is trained as"
        " `ecgfed train --method NAME` does without further options, except\nLocal (`--set lr=0.005`). FedGate's gate"
        " and weights were changed after some test scores had been read\n([0042](decisions/0042-fedgate.md),"
        " [0054](decisions/0054-equal-weights.md)), and 60 passes were tried because of test scores of Table 1."
    )
    missing = "; ".join(name for name in FLAGSHIPS if name not in methods)
    return [
        *main_table(methods),
        "",
        about,
        "",
        *folded("All scores, with their ranges over seeds", all_scores(methods)),
        *(line for gate in GATES for line in derived_models(methods, gate)),
        *(line for gate in GATES for line in differences(methods, gate)),
        *seconds(),
        *(["", f"Not measured yet: {missing}."] if missing else []),
    ]


def main_table(methods: dict[str, Runs]) -> list[str]:
    """The table that answers the section's question; nothing until all of its rows are measured."""
    if not {name for name, *_ in MAIN_ROWS} <= methods.keys():
        return []
    rows = []
    for name, label, passes in MAIN_ROWS:
        runs, gate = methods[name], "FedGate" if passes == 20 else LONGER
        rows.append(
            (
                label,
                passes,
                f"{statistics.fmean(run['test']['T_g'] for run in runs):.3f}",
                with_interval(over_patients(runs, mean_score)),
                f"{statistics.fmean(run['test_truth']['T_p'] for run in runs):.3f}",
                f"{statistics.fmean(run['test']['T_r'] for run in runs):.3f}",
                f"{statistics.fmean(run['test_worst_tenth'] for run in runs):.3f}",
                "" if name == gate else interval(over_patients(methods[gate], mean_score, minus=runs)),
            )
        )
    columns = ("model", "passes", "T_g", "T_p", "T_p, true classes", "T_r", "worst tenth", "T_p: FedGate minus this")
    return table(columns, rows)


def mean_score(scores: Scores) -> float:
    return float(scores.mean())


def worst_score(scores: Scores) -> float:
    return float(worst_tenth(scores).mean())


def over_patients(runs: Runs, statistic: Callable[[Scores], float], minus: Runs | None = None) -> dict[str, float]:
    """A statistic of T_p (seeds, patients) and its 95% interval; of the difference if ``minus`` is given."""
    patients = sorted(runs[0]["patients"])
    ours, *theirs = (
        np.array([[run["patients"][patient] for patient in patients] for run in some])
        for some in (runs, minus)
        if some is not None
    )

    def resampled(seeds: Indices, chosen: Indices) -> float:
        drawn = np.ix_(seeds, chosen)
        return statistic(ours[drawn]) - sum(statistic(other[drawn]) for other in theirs)

    return bootstrap(resampled, len(ours), len(patients))


def all_scores(methods: dict[str, Runs]) -> list[str]:
    """Every method in both conventions, and the passes until the goal."""
    derived = tuple(GATES.values())
    trained = {name: runs for name, runs in methods.items() if not name.startswith(derived)}
    rows = []
    for name, runs in trained.items():
        cells = [with_range([run["test"][key] for run in runs]) for key in SCORES]
        worst = with_range([run["test_worst_tenth"] for run in runs])
        # runs of 60 passes are validated every third pass, and their server step falls more slowly: not comparable
        until = "" if name in WITH_SIXTY else passes_until([passes_to(run, GOAL) for run in runs])
        rows.append((name, *cells, worst, until))
    truth = [
        (name, *(with_range([run["test_truth"][key] for run in runs]) for key in SCORES))
        for name, runs in trained.items()
    ]
    columns = ("method", *SCORES, "worst tenth", f"passes until T_g {GOAL:.2f}")
    about = (
        "*Windows alone*: without RR intervals, as in the papers. The last column is on validation beats; in brackets,"
        " how many seeds reach it."
    )
    return [about, "", *table(columns, rows), "", TRUE_CLASSES, "", *table(("method", *SCORES), truth)]


def derived_models(methods: dict[str, Runs], gate: str = "FedGate") -> list[str]:
    """Personal models that are derived from the global models of FedGate's runs, beside its own."""
    prefix = GATES[gate]
    derived = {name.removeprefix(prefix): runs for name, runs in methods.items() if name.startswith(prefix)}
    if not derived or gate not in methods:
        return []
    rows = [
        (
            name,
            *(with_range([run["test"][key] for run in runs]) for key in SCORES[1:]),
            with_range([run["test_worst_tenth"] for run in runs]),
            *(with_range([run["test_truth"][key] for run in runs]) for key in ("T_p", "T_l")),
        )
        for name, runs in {**derived, f"gated ({gate})": methods[gate]}.items()
    ]
    columns = ("personal model", *SCORES[1:], "worst tenth", "T_p, true classes", "T_l, true classes")
    about = "No personal part is federated here; the names are those of [`--personal`](training.md#scores)."
    return folded(f"Personal models derived from the global models of {gate}", [about, "", *table(columns, rows)])


def differences(methods: dict[str, Runs], gate: str = "FedGate") -> list[str]:
    """FedGate minus every other model on the same beats, with 95% intervals."""
    own, prefix = methods.get(gate), GATES[gate]
    # models of 20 passes, apart from FedGate itself, are not compared with those of 60
    peers = ("FedGate", LONGER_GRP) if gate == LONGER else [name for name in FLAGSHIPS if name not in WITH_SIXTY]
    others = {
        name: runs for name, runs in methods.items() if name != gate and (name in peers or name.startswith(prefix))
    }
    if not own or not others or not all("patients" in run for runs in (own, *others.values()) for run in runs):
        return []
    rows = [
        (
            name.removeprefix(prefix),
            *(interval(over_patients(own, statistic, minus=runs)) for statistic in (mean_score, worst_score)),
        )
        for name, runs in others.items()
        if len(runs) == len(own)
    ]
    return folded(f"{gate} minus each other model", table((f"{gate} minus", "T_p", "worst tenth"), rows))


def seconds() -> list[str]:
    """The time to a global model that reaches ``GOAL``, if it has been measured."""
    timed, earlier = results_of("flagship", "seconds.json"), results_of("grp_fed")
    if timed is None or earlier is None:
        return []
    now = timed["fed_gate_s"]
    earlier_t_g = " and ".join(f"{row['test']['T_g']:.2f}" for row in earlier["rows"] if row["name"] == "grp")
    about = (
        f"On two cores FedGate first reaches T_g {GOAL:.2f} on validation beats after {statistics.fmean(now):.0f} s"
        f" ({min(now):.0f} to {max(now):.0f}, three seeds). The earlier recipe (60 passes,\nbatches of 64, no RR"
        f" intervals) takes {timed['before_s']:.0f} s for its global model and"
        f" {timed['before_with_local_s']:.0f} s with GRP-FED's local extractors; its T_g on test beats is"
        f" [{earlier_t_g}](whole-path.md#how-good-it-gets).\nThe gain comes from batches of 16 and RR intervals, not"
        f" from FedGate: GRP-FED and FedAvg need no more passes (`{timed['command']}`)."
    )
    return folded("Time to a good global model", [about])
