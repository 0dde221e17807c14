"""Scores of all runs with intervals over patients."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from common import bootstrap
from numpy.typing import NDArray
from scoring import f1, false_ectopic
from sites import SITES, UNSEEN

#: Whose model reads a site's new patients.
OWN, GLOBAL, OTHER = READERS = ("own", "global", "other")
#: What every row is compared with; and rows that are compared with others too: the same net, shared throughout.
BASES, BASES_OF = ("FedAvg", "each site alone"), {"FedBN": ("FedAvg, batch norm",)}
Counts = NDArray[np.int64]
#: (site, model) -> (seeds, patients, 8) counts; of the unseen site summed over the folds' models.
Cells = dict[tuple[str, str], Counts]


def cells_of(runs: Iterable[tuple[str, int, dict[str, Any]]]) -> dict[str, Cells]:
    """Return the counts of each entry; the patients of a site are in the same order for all."""
    by_patient: dict[str, dict[tuple[str, str], dict[str, dict[int, Counts]]]] = defaultdict(dict)
    for name, seed, counted in runs:
        for site, models in counted.items():
            for model, patients in models.items():
                cell = by_patient[name].setdefault((site, model), {})
                for patient, counts in patients.items():
                    of_seeds = cell.setdefault(patient, {})
                    of_seeds[seed] = of_seeds.get(seed, 0) + np.array(counts, np.int64)
    return {
        name: {
            key: np.array([[cell[patient][seed] for patient in sorted(cell)] for seed in sorted(seeds)])
            for key, cell in cells.items()
            for seeds in [next(iter(cell.values()))]
        }
        for name, cells in by_patient.items()
    }


def read_by(cells: Cells, site: str, reader: str) -> Counts:
    """Return the counts of a site's new patients, read by the own site's model, the global one or the other site's.

    Methods without a model for each site have the global one everywhere.
    """
    other = SITES[1 - SITES.index(site)]
    model = {OWN: site, GLOBAL: GLOBAL, OTHER: other}[reader]
    return cells.get((site, model), cells[site, GLOBAL])


def with_interval(
    counts: Counts, score: Callable[[Counts], NDArray[np.float64]], less: Counts | None = None
) -> dict[str, float]:
    """Return a score of the patients' summed counts, mean over seeds, or what it is above that of ``less``; with its
    95% interval by drawing patients, and seeds, with replacement."""

    def statistic(seeds: NDArray[np.int64], patients: NDArray[np.int64]) -> float:
        def mean(of: Counts) -> float:
            return float(score(of[seeds][:, patients].sum(1)).mean())

        return mean(counts) - (0.0 if less is None else mean(less))

    return {name: round(value, 2) for name, value in bootstrap(statistic, *counts.shape[:2]).items()}


def summary(runs: Iterable[tuple[str, int, dict[str, Any]]]) -> dict[str, Any]:
    """Return scores by entry, and what those of a site's own model are above ``BASES``."""
    runs = list(runs)
    cells = cells_of(runs)
    scores = {"veb": lambda counts: f1(counts, "v"), "sveb": lambda counts: f1(counts, "s")}
    rows = {}
    for name, own in cells.items():
        row: dict[str, Any] = {"own_models": any(key[1] != GLOBAL for key in own)}
        for site in SITES:
            for reader in READERS:
                counts = read_by(own, site, reader)
                row[f"{site}/{reader}"] = {what: with_interval(counts, score) for what, score in scores.items()}
            for base in (*BASES, *BASES_OF.get(name, ())):
                if base in cells:
                    counts, less = read_by(own, site, OWN), read_by(cells[base], site, OWN)
                    row[f"{site}/{OWN}"][f"above {base}"] = {
                        what: with_interval(counts, score, less) for what, score in scores.items()
                    }
        for model in (GLOBAL, *SITES):
            if (UNSEEN, model) in own:
                counts = own[UNSEEN, model]
                total = counts.sum((0, 1))
                row[f"{UNSEEN}/{model}"] = {
                    "false_ectopic": with_interval(counts, false_ectopic),
                    "veb": round(float(f1(total, "v")), 2),
                }
        rows[name] = row
    return {"seeds": len({seed for _, seed, _ in runs}), "rows": rows}
