"""The stress table: rhythms and recorders made from real beats, ours beside every peer that is installed.

    python benchmarks/qrs/stress/run.py --source MITDB --work DIR                 # strips from DS2, the table
    python benchmarks/qrs/stress/run.py --source MITDB --work DIR --records DS1   # its twin, to choose by

Strips are made with a fixed seed from the records' own beats (``rows.py``). Every detector sees the first lead alone;
ours is shown both leads too (`ecgfed`). Matching is EC57's, 150 ms, one to one, from 5 s on (from the start for strips
of 10 and 30 s). What a detector found is kept in DIR. `before` is ours of an older checkout, from its own results file.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, DS2, benchmark, option, print_table, save
from physiology import Strip
from stress.rows import ROWS, Rows

from ecgfed import Annotation, EcgfedError
from ecgfed.base.errors import MissingExtraError
from ecgfed.core.evaluation.ec57 import BeatComparison, aggregate, compare
from ecgfed.domain.signal.detectors import OURS, detect_r_peaks, detectors

ONE_LEAD = f"{OURS}-1"
BEFORE, BEFORE_ONE = "before", "before-1"
OWN = (OURS, ONE_LEAD, BEFORE, BEFORE_ONE)


def find(detector: str, strip: Strip) -> np.ndarray:
    """Return the peaks of a strip; none where the detector fails."""
    name = OURS if detector == ONE_LEAD else detector
    shown = strip.signals_mv if detector == OURS else strip.signals_mv[:1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return detect_r_peaks(shown, strip.fs_hz, detector=name)
    except MissingExtraError:
        raise  # a detector that is not installed has not failed
    except EcgfedError:
        return np.empty(0, np.int64)


def scored(name: str, strip: Strip, peaks: np.ndarray) -> BeatComparison:
    """Compare with the beats that were put there."""
    reference = Annotation(strip.beats, strip.symbols)
    start_s = 0.0 if "strips" in name else 5.0
    marks = Annotation(peaks, np.full(len(peaks), "N"))
    return compare(reference, marks, strip.fs_hz, samples=strip.samples, start_s=start_s, record=strip.name)


def row_scored(detectors: list[str], rows: Rows, work: Path, name: str) -> dict[str, dict[str, Any]]:
    """Run the detectors on a row that they have not been run on; return what each reaches."""
    strips, made = rows.row(name), {}
    for detector in detectors:
        file = work / detector / f"{list(ROWS).index(name)}.npz"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(file, **{f"s{i}": find(detector, strip) for i, strip in enumerate(strips)})
        with np.load(file, allow_pickle=False) as stored:
            found = [stored[f"s{i}"] for i in range(len(strips))]
        made[detector] = figures([scored(name, s, p) for s, p in zip(strips, found, strict=True)])
    return made


def figures(comparisons: list[BeatComparison]) -> dict[str, Any]:
    gross = aggregate(comparisons).gross
    se, ppv = gross.scores["qrs_se"], gross.scores["qrs_ppv"]
    return {
        "beats": se.total,
        "missed": se.total - se.part,
        "extra": ppv.total - ppv.part,
        "se": round(se.percent or 0.0, 2),
        "ppv": round(ppv.percent or 0.0, 2),
        "f1": round(gross.qrs_f1 or 0.0, 2),
    }


def best_peer(results: dict[str, dict[str, Any]], row: str) -> str:
    """Return the peer with the highest F1 in a row, "" where there is none."""
    peers = [name for name in results if name not in OWN]
    return max(peers, key=lambda name: results[name][row]["f1"], default="")


def pair(scores: dict[str, Any]) -> str:
    return f"{scores['se']:.1f} / {scores['ppv']:.1f}"


def cells(results: dict[str, dict[str, Any]], row: str) -> list[str]:
    """Return a row of the table: Se / +P of ours, ours before, and the best peer."""
    own = [name for name in OWN if name in results]
    peer = best_peer(results, row)
    last = [f"{pair(results[peer][row])} ({peer})"] if peer else []
    return [row, f"{results[own[0]][row]['beats']:,}", *(pair(results[name][row]) for name in own), *last]


def main(given: argparse.Namespace) -> None:
    rows = Rows(given.source, {"DS1": DS1, "DS2": DS2}[given.records])
    names = [name for name in ROWS if not given.rows or name.startswith(tuple(given.rows))]
    chosen = given.only or [OURS, ONE_LEAD, *(name for name in detectors() if name != OURS)]
    results: dict[str, dict[str, Any]] = {detector: {} for detector in chosen}
    for name in names:
        for detector, scores in row_scored(chosen, rows, given.work / given.records, name).items():
            results[detector][name] = scores
        print(name, "done", flush=True)
    if given.before:
        older = json.loads(given.before.read_text())["results"]
        results |= {BEFORE: older[OURS], BEFORE_ONE: older[ONE_LEAD]}
    save(given, {"records": given.records, "results": results})
    shown = [name for name in OWN if name in results]
    print_table(["row", "beats", *shown, "best peer"], (cells(results, name) for name in names))


if __name__ == "__main__":
    benchmark(
        main,
        option("--records", choices=("DS1", "DS2"), default="DS2"),
        option("--only", nargs="*", help="detectors to run"),
        option("--rows", nargs="*", help="rows whose name begins so"),
        option("--before", type=Path, help="results of an older checkout, to stand beside ours"),
    )
