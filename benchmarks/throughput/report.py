"""From the workers' answers to results and a table."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import task as t
from systems import SYSTEMS, System

#: Above this share of the cores in other hands, a round's time says little.
NOISE = 0.05


def difference(a: Path, b: Path, *, without: str = "nothing") -> float:
    """Return the largest difference between two files of weights; infinite where they do not hold the same entries.

    Args:
        a: one file.
        b: the other.
        without: part of the names of entries to leave out.
    """
    with np.load(a) as one, np.load(b) as other:
        if set(one.files) != set(other.files):
            return float("inf")
        names = [name for name in one.files if without not in name]
        pairs = [(one[name].astype(np.float64), other[name].astype(np.float64)) for name in names]
    if any(x.shape != y.shape or not (np.isfinite(x) & np.isfinite(y)).all() for x, y in pairs):
        return float("inf")
    return max(float(np.abs(x - y).max()) for x, y in pairs)


def summary(system: System, cores: int) -> dict[str, Any]:
    """Return a system's medians and spread over the rounds after the warm-up."""
    timed = system.rounds[1:]
    seconds, cpu = ([r[key] for r in timed] for key in ("seconds", "cpu_seconds"))
    median = statistics.median(seconds)
    return {
        "title": SYSTEMS[system.name][0],
        "facts": system.facts,
        "seconds": median,
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "samples_per_second": timed[0]["samples"] / median,
        "cpu_seconds": statistics.median(cpu),
        "foreign_share": max(r["foreign_cpu_seconds"] / (r["seconds"] * cores) for r in timed),
        "rounds": system.rounds,
    }


def compare(system: System, ours: System, initial: Path) -> dict[str, Any]:
    """Return how far a system's weights are from ours after each round, and its time in ours.

    No ratio where any round's weights differ by more than the tolerance: it did other work.
    """
    names = [f"{r['round']}.npz" for r in ours.rounds]
    differences = [difference(ours.weights / name, system.weights / name) for name in names]
    moved = difference(initial, ours.weights / names[0], without="running_")
    equal = max(differences) <= t.TOLERANCE
    ratios = [
        theirs["seconds"] / mine["seconds"] for theirs, mine in zip(system.rounds[1:], ours.rounds[1:], strict=True)
    ]
    return {
        "weights_moved_in_first_round": moved,
        "weight_difference": max(differences),
        "weight_difference_by_round": differences,
        "same_mathematics": equal,
        "ours_is_faster": statistics.median(ratios) if equal else None,
        "ours_is_faster_by_round": ratios if equal else None,
    }


def table(results: dict[str, Any]) -> str:
    """Return the systems as a markdown table."""
    lines = [
        "| how | s/round | samples/s | CPU s/round | ours is faster | largest difference of weights |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for system in results["systems"].values():
        faster = system["ours_is_faster"]
        spread = f"{system['seconds_min']:.2f} to {system['seconds_max']:.2f}"
        lines.append(
            f"| {system['title']} | {system['seconds']:.2f} ({spread})"
            f" | {system['samples_per_second']:,.0f} | {system['cpu_seconds']:.1f} | "
            f"{'other mathematics' if faster is None else f'{faster:.2f} x'} | {system['weight_difference']:.1e} |"
        )
    return "\n".join(lines)


def warnings(results: dict[str, Any]) -> list[str]:
    """Return what speaks against the figures."""
    found = []
    for name, system in results["systems"].items():
        if system["foreign_share"] > NOISE:
            found.append(f"{name}: up to {system['foreign_share']:.0%} of the cores were in other hands")
        if not system["same_mathematics"]:
            found.append(f"{name}: weights differ by {system['weight_difference']:.1e}, more than {t.TOLERANCE:.0e}")
        if system["weights_moved_in_first_round"] < 10 * t.TOLERANCE:
            found.append("a round hardly moves the weights, so their comparison proves little")
    return found
