"""How the figures of the pages are read from the results files."""

import json
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from figures.figures import Way

BENCHMARKS = Path(__file__).parent.parent


@cache
def results_of(source: str) -> Any:
    return json.loads((BENCHMARKS / source).read_text())


ALL_RECORDS = "whole_records"
QRS_SCORES, VEB, SVEB = ("qrs_se", "qrs_ppv"), ("veb_se", "veb_ppv"), ("sveb_se", "sveb_ppv")
SCENARIOS = ("T_g", "T_p", "T_r", "T_l")
RECORD_S = 650_000 / 360


def grp(name: str, seed: int, *keys: str | int) -> Way:
    return ("rows", {"name": name, "seed": seed}, *keys)


def both_seeds(name: str) -> tuple[Way, ...]:
    return tuple(grp(name, seed, "test", score) for score in SCENARIOS[:3] for seed in (0, 1))


def flagship_means(name: str, keys: Sequence[str] = ("T_g", "T_p", "test_worst_tenth", "T_r")) -> tuple[Way, ...]:
    """Means over seeds, by default of T_g, T_p, T_p of the worst tenth, and T_r."""

    def way(key: str) -> Way:
        def read(results: Any) -> float:
            runs = results["methods"][name]
            return statistics.fmean(run["test"][key] if key in SCENARIOS else run[key] for run in runs)

        return read

    return tuple(way(key) for key in keys)


def one_seed(name: str, seed: int) -> tuple[Way, ...]:
    scores = ("T_g", "T_p", "T_p_global", "T_r", "T_l")
    return (grp(name, seed, "valid", "T_g"), *(grp(name, seed, "test", score) for score in scores))


def stopped_in_round(seed: int) -> Way:
    def way(results: Any) -> int:
        (reason,) = [one["reason"] for one in results["stopped"] if (one["name"], one["seed"]) == ("printed", seed)]
        return int(reason.partition(" in round ")[2].partition(":")[0])

    return way


def ec57(method: str, records: str, *scores: str) -> tuple[Way, ...]:
    return tuple(("methods", method, records, "gross", "scores", score, "percent") for score in scores)


def ec57_row(method: str) -> tuple[Way, ...]:
    whole = ec57(method, ALL_RECORDS, *QRS_SCORES, *VEB, *SVEB)
    return (*whole, *ec57(method, "without_232", *SVEB), *ec57(method, "without_202", *VEB, *SVEB))


def qrs(detector: str, *keys: str) -> Way:
    return ("results", {"detector": detector}, *keys)


def qrs_of(detector: str) -> Any:
    (one,) = [one for one in results_of("qrs/results.json")["results"] if one["detector"] == detector]
    return one


def qrs_row(detector: str) -> dict[str, tuple[Way, ...]]:
    """A row of the detectors; the records named in it are those of the file too."""
    worst = tuple(qrs_of(detector)["all"]["worst"])
    text = ", ".join(f"{record} {{1}}" for record in worst)
    text = f"| {detector} | {{2}} | {{2}} | {{2}} | {{2}} | {{2}} | {{0}} ({{1}}; {{1}}) | {text} | {{2}} |"
    every = [qrs(detector, "all", key) for key in ("se", "ppv", "f1")]
    offset = [qrs(detector, "all", key) for key in ("offset_ms", "record_sd_ms", "pooled_sd_ms")]
    sets = [qrs(detector, name, "f1") for name in ("DS1", "DS2")]
    records = [qrs(detector, "all", "worst", record) for record in worst]
    return {text: (*every, *sets, *offset, *records, qrs(detector, "cpu_s_per_record"))}


def qrs_peers_row(detector: str) -> dict[str, tuple[Way, ...]]:
    """A row of the peers in an environment of their own; its three worst records are those of the file."""
    (one,) = [one for one in results_of("qrs/peers.json")["results"] if one["detector"] == detector]
    worst = sorted(one["f1_by_record"], key=one["f1_by_record"].__getitem__)[:3]
    text = ", ".join(f"{record} {{1}}" for record in worst)
    records = [qrs(detector, "f1_by_record", record) for record in worst]
    scores = [qrs(detector, key) for key in ("se", "ppv", "f1")]
    return {
        f"| {detector} | {{2}} | {{2}} | {{2}} | {text} | {{2}} |": (
            *scores,
            *records,
            qrs(detector, "cpu_s_per_record"),
        )
    }


def placed_row(kind: str) -> dict[str, tuple[Way, ...]]:
    """A row of how near R peaks are put, by beat type; none for a type of fewer than 20 beats."""
    if qrs_of("ecgfed")["placed"][kind]["beats"] < 20:
        return {}
    within = tuple(qrs(name, "placed", kind, "within_25_ms") for name in ("ecgfed", "ecgfed-1"))
    label = kind if kind == "all" else f"`{kind}`"
    return {f"| {label} | {{0}} | {{2}} | {{2}} |": (qrs("ecgfed", "placed", kind, "beats"), *within)}


def stress_row(row: str) -> dict[str, tuple[Way, ...]]:
    """A row of the stress table: Se and +P of ours and of ours before, by two leads and one, and of the best peer."""
    results = results_of("qrs/stress/results.json")["results"]
    own = [name for name in ("ecgfed", "ecgfed-1", "before", "before-1") if name in results]
    best = max((name for name in results if name not in own), key=lambda name: float(results[name][row]["f1"]))
    shown = [("results", name, row, key) for name in (*own, best) for key in ("se", "ppv")]
    text = f"| {row} | {{0}} | " + "{1} / {1} | " * len(own) + f"{{1}} / {{1}} ({best}) |"
    return {text: (("results", own[0], row, "beats"), *shown)}


def newcomer(name: str, *asked: str) -> tuple[Way, ...]:
    """``before F``: of the answer before, macro-F1 over the classes in truth; ``f``: in truth or prediction."""
    answers = {"before": "global", "after": "personal", "mix": "class_mix_alone"}
    kinds = {"F": "macro_f1_truth", "f": "macro_f1", "a": "accuracy"}
    return tuple(("methods", name, "report", answers[one.split()[0]], kinds[one.split()[1]]) for one in asked)


ALL_OF_IT = ("before F", "before f", "after F", "after f", "before a", "after a")


def bad_s(results: Any, *records: str) -> float:
    if not records:
        return on_mlii(results, "bad_in_marked_s") + on_mlii(results, "bad_unmarked_s")
    chosen = [results["records"][name] for name in records]
    return float(sum(one["bad_in_marked_s"] + one["bad_unmarked_s"] for one in chosen))


def on_mlii(results: Any, key: str) -> float:
    """Seconds of a reason, or another sum over the records with MLII."""
    chosen = [one for one in results["records"].values() if one["lead"] == "MLII"]
    return float(sum(one.get(key, one["seconds"].get(key, 0.0)) for one in chosen))


def clients(results: Any) -> int:
    return sum(one["lead"] == "MLII" for one in results["records"].values())


def errors(detector: str, kind: str) -> tuple[Way, ...]:
    return tuple(("detector", detector, where, kind) for where in ("inside", "outside"))


def damage(name: str, key: str = "share_marked") -> Way:
    return ("damage", name, key)


def turned_over(results: Any) -> int:
    return sum("inverted" in kinds for kinds in results["inverted"]["turned_over"].values())


def scale_row(clients: int, *keys: str) -> tuple[Way, ...]:
    return tuple(("rows", {"clients": clients}, key) for key in keys)


def short(case: str, steps: int) -> tuple[Way, ...]:
    plain, saved = (("results", {"case": case, "local_steps": steps, "checkpoint": yes}) for yes in (False, True))
    return ((*plain, "round_seconds"), (*plain, "cpu_share"), (*saved, "cpu_share"))


def system(name: str, *keys: str) -> tuple[Way, ...]:
    times = ("seconds", "seconds_min", "seconds_max", "samples_per_second", "cpu_seconds", *keys)
    return tuple(("systems", name, key) for key in times)


def gemm(net: str) -> tuple[Way, ...]:
    kinds = ("ours_{}_share", "ours_{}_gflops", "conv1d_{}_share")
    return tuple(("nets", net, "all", kind.format(part)) for kind in kinds for part in ("forward", "backward"))
