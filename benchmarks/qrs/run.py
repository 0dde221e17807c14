"""Our QRS detector and its peers on the 48 records of MIT-BIH, scored as EC57 asks.

    python benchmarks/qrs/run.py --source MITDB --work DIR                  # everything; resumes where it stopped
    python benchmarks/qrs/run.py --source MITDB --work DIR --only ecgfed ecgfed-1

The peers see the first channel; ours is run with both leads (`ecgfed`, peaks on MLII where there is one) and with the
first channel alone (`ecgfed-1`). Matching is bxb's: 150 ms, one to one, from 5:00 on, flutter left out. The spread of
the offsets is taken after the peaks were moved by the detector's median offset: the median over the records of each
record's standard deviation, and that of all beats pooled, which also sees where records differ. CPU seconds are those
of the detector alone, on one core, the signal in memory, the packages loaded. `placed` says by beat
type how many of the beats found have their peak, moved so, within 25 ms of the annotation. What a detector found is
kept in DIR, by record.
"""

import argparse
import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import platform
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS2, PACED, benchmark, compared, option, print_table, save

from ecgfed import Annotation, EcgfedError, Recording, read_recording
from ecgfed.base.errors import MissingExtraError
from ecgfed.core.evaluation.ec57 import BeatComparison, aggregate
from ecgfed.domain.cohort.mitbih import record_names
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.domain.signal.detectors import OURS, detect_r_peaks, detectors

ONE_LEAD = f"{OURS}-1"


def find(detector: str, recording: Recording) -> tuple[np.ndarray, float]:
    """Return the peaks a detector finds and the CPU seconds it took; none where it fails."""
    signals, name = recording.signals_mv, OURS if detector == ONE_LEAD else detector
    both = detector == OURS
    lead = recording.leads.index("MLII") if both and "MLII" in recording.leads else 0
    shown = signals if both else signals[:1]
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peaks = detect_r_peaks(shown, recording.fs_hz, lead=lead, detector=name)
    except MissingExtraError:
        raise  # a detector that is not installed has not failed
    except EcgfedError as problem:
        print(f"{detector} {recording.name}: {problem}", flush=True)
        peaks = np.empty(0, np.int64)
    return peaks, time.process_time() - started


def kept(detector: str, source: Path, work: Path, records: list[str]) -> dict[str, tuple[np.ndarray, float]]:
    """Run a detector on the records it has not been run on yet; return what it found on all."""
    folder = work / detector
    folder.mkdir(parents=True, exist_ok=True)
    found, warm = {}, False
    for record in records:
        file = folder / f"{record}.npz"
        if not file.exists():
            recording = read_recording(source / record, every_lead=True)
            if not warm:  # so that loading packages is not counted
                find(detector, replace(recording, source=recording.signals_mv[:, :7200]))
                warm = True
            peaks, seconds = find(detector, recording)
            partial = folder / f".{record}.npz"
            np.savez(partial, peaks=peaks, seconds=seconds)
            partial.rename(file)
        with np.load(file, allow_pickle=False) as stored:
            found[record] = (stored["peaks"], float(stored["seconds"]))
    return found


def score(source: Path, found: dict[str, tuple[np.ndarray, float]], shift: int = 0) -> dict[str, BeatComparison]:
    """Compare each record's peaks, moved by some samples, with its reference."""
    return {
        record: compared(source / record, Annotation(peaks + shift, np.full(len(peaks), "N")))
        for record, (peaks, _) in found.items()
    }


def summary(comparisons: list[BeatComparison], aligned: list[BeatComparison]) -> dict[str, Any]:
    """Gross scores, offsets and worst records of some records."""
    gross, moved = aggregate(comparisons).gross, aggregate(aligned).gross.offset_ms
    scores = gross.scores
    worst = sorted(comparisons, key=lambda one: one.qrs_f1 or 0.0)[:4]
    return {
        "beats": scores["qrs_se"].total,
        "missed": scores["qrs_se"].total - scores["qrs_se"].part,
        "extra": scores["qrs_ppv"].total - scores["qrs_ppv"].part,
        "se": round(scores["qrs_se"].percent or 0, 3),
        "ppv": round(scores["qrs_ppv"].percent or 0, 3),
        "f1": round(gross.qrs_f1 or 0, 3),
        "offset_ms": round(float(np.median(gross.offset_ms)), 1),
        "record_sd_ms": round(float(np.median([one.offset_ms.std() for one in aligned if len(one.offset_ms)])), 1),
        "pooled_sd_ms": round(float(moved.std()), 1),
        "worst": {one.record: round(one.qrs_f1 or 0.0, 2) for one in worst},
    }


def placed(source: Path, found: dict[str, tuple[np.ndarray, float]], shift: int) -> dict[str, Any]:
    """By beat type and over all: beats found within 150 ms, and the share of them found within 25 ms, in percent."""
    away: dict[str, list[np.ndarray]] = {}
    for record, (peaks, _) in found.items():
        beats, moved = read_annotation(source / record).beats(), np.sort(peaks) + shift
        if len(moved):
            after = np.clip(np.searchsorted(moved, beats.sample), 0, len(moved) - 1)
            near = np.minimum(
                np.abs(moved[after] - beats.sample), np.abs(moved[np.maximum(after - 1, 0)] - beats.sample)
            )
            for symbol in np.unique(beats.symbol).tolist():
                away.setdefault(symbol, []).append(near[(beats.symbol == symbol) & (near <= 54)])
    whole = {symbol: np.concatenate(parts) for symbol, parts in sorted(away.items())}
    whole["all"] = np.concatenate([*whole.values(), np.empty(0, np.int64)])
    return {
        symbol: {"beats": len(near), "within_25_ms": round(100 * float(np.mean(near <= 9)), 2) if len(near) else None}
        for symbol, near in whole.items()
    }


def measure(detector: str, source: Path, work: Path, records: list[str]) -> dict[str, Any]:
    """Run and score one detector."""
    found = kept(detector, source, work, records)
    plain = score(source, found)
    offset_ms = float(np.median(aggregate(list(plain.values())).gross.offset_ms))
    aligned = score(source, found, -round(offset_ms * 0.36))
    sets = {
        "DS1": [r for r in records if r not in DS2 + PACED],
        "DS2": [r for r in records if r in DS2],
        "DS2 without 202": [r for r in records if r in DS2 and r != "202"],
        "all": records,
        "all but paced": [r for r in records if r not in PACED],
    }
    seconds = [value for _, value in found.values()]
    return {
        "detector": detector,
        "cpu_s_per_record": round(float(np.median(seconds)), 3),
        **{name: summary([plain[r] for r in part], [aligned[r] for r in part]) for name, part in sets.items() if part},
        "placed": placed(source, found, -round(offset_ms * 0.36)),
        "failed": [record for record, (peaks, _) in found.items() if not len(peaks)],
        "f1_by_record": {record: round(one.qrs_f1 or 0.0, 3) for record, one in plain.items()},
    }


COLUMNS = (
    "detector",
    "Se %",
    "PPV %",
    "F1 % (all 48)",
    "F1 % DS1",
    "F1 % DS2",
    "offset ms (sd of a record; pooled)",
    "worst records F1 %",
    "CPU s",
)


def cells(one: dict[str, Any]) -> list[str]:
    """Return a detector's row of the table."""
    every = one["all"]
    worst = ", ".join(f"{record} {value:.1f}" for record, value in every["worst"].items())
    offset = f"{every['offset_ms']:+.0f} ({every['record_sd_ms']}; {every['pooled_sd_ms']})"
    scores = (every["se"], every["ppv"], every["f1"], one["DS1"]["f1"], one["DS2"]["f1"])
    return [one["detector"], *(f"{score:.2f}" for score in scores), offset, worst, f"{one['cpu_s_per_record']:.2f}"]


def main(given: argparse.Namespace) -> None:
    names = given.only or [OURS, ONE_LEAD, *(name for name in detectors() if name != OURS)]
    records, results = list(record_names()), []
    for name in names:
        results.append(measure(name, given.source, given.work, records))
        print(" | ".join(cells(results[-1])), flush=True)
    about = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "records": len(records),
    }
    save(given, {**about, "results": results})
    print_table(COLUMNS, map(cells, sorted(results, key=lambda one: -one["all"]["f1"])))


if __name__ == "__main__":
    benchmark(main, option("--only", nargs="*", help="detectors to run"))
