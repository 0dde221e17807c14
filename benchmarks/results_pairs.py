"""Differences of two methods with intervals, over the seeds that both have."""

from pathlib import Path
from typing import Any

from common import interval, known_runs, t_interval

TABLE1_RUNS = Path(__file__).with_name("table1") / "runs.json"
BySeed = dict[int, float]


def of_flagship(methods: dict[str, Any], name: str, *, key: str = "T_l", true_classes: bool = False) -> BySeed:
    """A score of a method of the flagship benchmark by seed."""
    return {seed: run["test_truth" if true_classes else "test"][key] for seed, run in enumerate(methods[name])}


def of_table1(
    results: dict[str, Any], stage: str, name: str, *, key: str = "T_l", true_classes: bool = False
) -> BySeed:
    """A score of a row of table 1 by seed; of ``FedAvg, gated`` and similar rows too.

    Args:
        results: the content of ``table1/results.json``.
        stage: one of its stages.
        name: the row's name.
        key: one of the scores.
        true_classes: whether over the true classes only.
    """
    method, _, personal = name.partition(", ")
    (trial,) = [row["trial"] for row in results[stage] if row["name"] == method]
    runs, scores = known_runs(TABLE1_RUNS), "scores_truth" if true_classes else "scores"
    by_seed = {seed: runs.get(f"{stage}/{method}/{trial}/{seed}", {}) for seed in range(5)}
    if personal:
        by_seed = {seed: run.get("personal", {}).get(personal, {}) for seed, run in by_seed.items()}
    return {seed: run[scores][key] for seed, run in by_seed.items() if scores in run}


def difference(first: BySeed, second: BySeed) -> dict[str, float]:
    """The mean difference and its 95% interval (Student's t): ``mean``, ``low``, ``high``; ValueError for one seed."""
    both = sorted(first.keys() & second.keys())
    if len(both) < 2:
        raise ValueError(f"an interval needs two common seeds, not {len(both)}")
    return t_interval([first[seed] - second[seed] for seed in both])


def with_seeds(first: BySeed, second: BySeed) -> str:
    """``+0.033 (-0.007 to +0.077), 3 seeds``."""
    return f"{interval(difference(first, second))}, {len(first.keys() & second.keys())} seeds"


def is_above(first: BySeed, second: BySeed) -> bool:
    """Whether the interval of the difference lies above 0."""
    return difference(first, second)["low"] > 0
