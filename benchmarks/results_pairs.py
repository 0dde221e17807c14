"""Differences of two methods with intervals, over the seeds that both have."""

from pathlib import Path
from typing import Any

from common import interval, known_runs, t_interval

TABLE1_RUNS = Path(__file__).with_name("table1") / "runs.json"
BY_SEED = "Student's t over the seeds that both have, so of this one split of the beats"
By_seed = dict[int, float]


def of_flagship(methods: dict[str, Any], name: str, *, key: str = "T_l", in_truth: bool = False) -> By_seed:
    """A score of a method of the flagship's benchmark by seed."""
    return {seed: run["test_truth" if in_truth else "test"][key] for seed, run in enumerate(methods[name])}


def of_table1(found: dict[str, Any], stage: str, name: str, *, key: str = "T_l", in_truth: bool = False) -> By_seed:
    """A score of a row of table 1 by seed; of ``FedAvg, gated`` and the like too.

    Args:
        found: what ``table1/results.json`` holds.
        stage: of its stages.
        name: the row's.
        key: of the scores.
        in_truth: whether over the classes in truth.
    """
    method, _, personal = name.partition(", ")
    (trial,) = [row["trial"] for row in found[stage] if row["name"] == method]
    runs, scores = known_runs(TABLE1_RUNS), "scores_truth" if in_truth else "scores"
    there = {seed: runs.get(f"{stage}/{method}/{trial}/{seed}", {}) for seed in range(5)}
    if personal:
        there = {seed: run.get("personal", {}).get(personal, {}) for seed, run in there.items()}
    return {seed: run[scores][key] for seed, run in there.items() if scores in run}


def less(ours: By_seed, theirs: By_seed) -> dict[str, float]:
    """The mean of the seeds' differences and its 95% interval: ``mean``, ``low``, ``high``; ValueError of one seed."""
    both = sorted(ours.keys() & theirs.keys())
    if len(both) < 2:
        raise ValueError(f"of {len(both)} common seeds no interval can be made")
    return t_interval([ours[seed] - theirs[seed] for seed in both])


def told(ours: By_seed, theirs: By_seed) -> str:
    """``+0.033 (-0.007 to +0.077) of 3 seeds``."""
    return f"{interval(less(ours, theirs))} of {len(ours.keys() & theirs.keys())} seeds"


def ahead(ours: By_seed, theirs: By_seed) -> bool:
    """Whether the interval lies above 0."""
    return less(ours, theirs)["low"] > 0
