"""Ours beside the detectors of torch_ecg and heartKIT on the DS2 records of MIT-BIH, scored as in ``run.py``.

    python -m venv DIR/environment
    DIR/environment/bin/pip install --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \\
        torch-ecg==0.0.33 physiokit==0.10.1
    python benchmarks/qrs/peers.py --source MITDB --work DIR                # resumes where it stopped
    python benchmarks/qrs/peers.py --source MITDB --work DIR --only physiokit torch_ecg-xqrs

The peers have an environment of their own (1.8 GB), in which ``peers_worker.py`` runs them, each with its own settings
on lead MLII in mV. torch_ecg has seven detectors; ``xqrs`` is the one it takes when none is named, and is run a second
time on the signal that torch_ecg has filtered, with the windows and the band its documentation calls typical.
heartKIT 1.6.0 finds R peaks with its makers' package physiokit; that is run as heartKIT's beat demo runs it, on the
whole recording and in that demo's pieces of 20 s. Ours is run with both leads (``ecgfed``) and with the first channel
alone (``ecgfed-1``), which is MLII in each of these records. CPU seconds are those of ``run.py``.
"""

import argparse
import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS2, benchmark, option, print_table, save
from run import ONE_LEAD, kept, score

from ecgfed import read_recording
from ecgfed.base.errors import OptionError, StorageError
from ecgfed.core.evaluation.ec57 import aggregate
from ecgfed.domain.signal.detectors import OURS

#: The detectors of the worker.
DETECTORS = (
    *("torch_ecg-xqrs", "torch_ecg-xqrs-filtered", "physiokit", "physiokit-20s"),
    *(f"torch_ecg-{name}" for name in ("hamilton", "ssf", "gamboa", "engzee", "gqrs", "christov")),
)
#: What the environment has to hold, and what else is noted of it.
PEERS = {"torch-ecg": "0.0.33", "physiokit": "0.10.1"}
NOTED = ("torch", "wfdb", "biosppy", "numpy", "scipy")
_VERSIONS = """
import importlib.metadata as packages, json, sys
there = {one.metadata["Name"].lower(): one.version for one in packages.distributions()}
print(json.dumps({name: there.get(name) for name in sys.argv[1:]}))
"""
#: Peaks (beats,) in samples and the CPU seconds they took.
Found = tuple[np.ndarray, float]
COLUMNS = ("detector", "Se %", "PPV %", "F1 % DS2", "worst records F1 %", "CPU s")


class Row(TypedDict):
    """What is kept of a detector: percent, milliseconds, CPU seconds; no offset where no beat was found."""

    detector: str
    beats: int
    se: float
    ppv: float
    f1: float
    offset_ms: float | None
    cpu_s_per_record: float
    found_nothing: list[str]
    f1_by_record: dict[str, float]


def environment(work: Path) -> tuple[Path, dict[str, str]]:
    """Return the Python of the peers' environment and the versions of its packages.

    Raises:
        OptionError: there is none, or it holds other peers.
    """
    folder = work / "environment"
    python, wanted = folder / "bin" / "python", " and ".join(f"{name} {version}" for name, version in PEERS.items())
    action = f"make it with the commands at the top of {Path(__file__).name}"
    if not python.is_file():
        raise OptionError("--work", f"{folder} is no virtual environment", f"one with {wanted}", action)
    asked = [python, "-I", "-c", _VERSIONS, *PEERS, *NOTED]
    told = subprocess.run(asked, capture_output=True, text=True)
    if told.returncode:
        raise OptionError("--work", f"{python} does not run", f"a Python with {wanted}", action)
    versions: dict[str, str | None] = json.loads(told.stdout)
    found = {name: versions[name] for name in PEERS}
    if found != PEERS:
        has = " and ".join(f"{name} {version}" if version else f"no {name}" for name, version in found.items())
        raise OptionError("--work", f"{folder} has {has}", wanted, action)
    return python, {name: version for name, version in versions.items() if version}


def write_signals(source: Path, folder: Path) -> None:
    """Keep lead MLII of the DS2 records as the peers read it, mV in float64."""
    folder.mkdir(parents=True, exist_ok=True)
    for record in DS2:
        file = folder / f"{record}.npz"
        if not file.exists():
            recording = read_recording(source / record, every_lead=True)
            lead = recording.signals_mv[recording.leads.index("MLII")].astype(np.float64)
            partial = folder / f".{record}.npz"
            np.savez(partial, signal_mv=lead, fs_hz=recording.fs_hz)
            partial.rename(file)


def of_peers(python: Path, source: Path, work: Path, names: Sequence[str]) -> dict[str, dict[str, Found]]:
    """Return what detectors of the peers find, by record, and their CPU seconds."""
    write_signals(source, work / "signals")
    found = work / "peers"
    if not all((found / name / f"{record}.npz").is_file() for name in names for record in DS2):
        worker = Path(__file__).with_name("peers_worker.py")
        if subprocess.run([python, "-W", "ignore", worker, work / "signals", found, *names]).returncode:
            raise StorageError(found, "the peers' worker has stopped", action="what it said stands above")
    stored: dict[str, dict[str, Found]] = {name: {} for name in names}
    for name in names:
        for record in DS2:
            with np.load(found / name / f"{record}.npz", allow_pickle=False) as one:
                stored[name][record] = (one["peaks"], float(one["seconds"]))
    return stored


def row(detector: str, source: Path, found: dict[str, Found]) -> Row:
    """Score what one detector finds."""
    comparisons = score(source, found)
    gross = aggregate(list(comparisons.values())).gross
    se, ppv, offsets = gross.scores["qrs_se"], gross.scores["qrs_ppv"], gross.offset_ms
    return {
        "detector": detector,
        "beats": se.total,
        "se": round(se.percent or 0.0, 3),
        "ppv": round(ppv.percent or 0.0, 3),
        "f1": round(gross.qrs_f1 or 0.0, 3),
        "offset_ms": round(float(np.median(offsets)), 1) if len(offsets) else None,
        "cpu_s_per_record": round(float(np.median([seconds for _, seconds in found.values()])), 3),
        "found_nothing": [record for record, (peaks, _) in found.items() if not len(peaks)],
        "f1_by_record": {record: round(one.qrs_f1 or 0.0, 3) for record, one in comparisons.items()},
    }


def cells(one: Row) -> list[str]:
    """Return a detector's row of the table."""
    worst = sorted(one["f1_by_record"].items(), key=lambda pair: pair[1])[:3]
    scores = [f"{value:.2f}" for value in (one["se"], one["ppv"], one["f1"])]
    named = ", ".join(f"{record} {value:.1f}" for record, value in worst)
    return [one["detector"], *scores, named, f"{one['cpu_s_per_record']:.2f}"]


def main(given: argparse.Namespace) -> None:
    python, versions = environment(given.work)
    found = {name: kept(name, given.source, given.work / "ours", list(DS2)) for name in (OURS, ONE_LEAD)}
    found |= of_peers(python, given.source, given.work, given.only or DETECTORS)
    rows = [row(name, given.source, one) for name, one in found.items()]
    rows.sort(key=lambda one: -one["f1"])
    about = {"python": platform.python_version(), "machine": platform.machine(), "records": len(DS2)}
    save(given, {**about, "peers": versions, "results": rows})
    print_table(COLUMNS, map(cells, rows))


if __name__ == "__main__":
    benchmark(
        main, option("--only", nargs="+", choices=DETECTORS, help="the peers' detectors to run"), results="peers.json"
    )
