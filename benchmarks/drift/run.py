"""How often an unchanged record is said to have changed, and how soon one that was changed is.

The 22 DS1 records of MIT-BIH are read as they are, and with their second half changed in six ways; the model in the
package answers, and ``ecgfed.device.Drift`` watches. Its bounds were chosen on these very records. The answers are
those of the whole recording, which a stream's are (``tests/device/test_stream.py``).

    python benchmarks/drift/run.py --source MITDB --work DIR
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DS1, benchmark, save

from ecgfed.device import Classifier, Drift, open_bundle
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.exports.device.drift import DriftBounds
from ecgfed.exports.device.shipped import shipped_model

Signals = NDArray[np.float64]

FS_HZ, HALF_S, LEAD = 360.0, 902.8, "MLII"
#: What is done to the second half of a record.
KINDS: dict[str, str] = {
    "none": "nothing",
    "noise": "white noise of 0.3 mV on both leads",
    "off": "both electrodes off",
    "lead": "the record's other lead in place of MLII",
    "patient": "the second half of the next record",
    "gain": "twice as high",
    "inverted": "upside down",
}
SILENCE = "silence"


def read(source: Path, name: str) -> Signals:
    """Return a record's leads, MLII first."""
    recording = read_recording(source / name, (LEAD,), every_lead=True)
    lead = recording.leads.index(recording.lead)
    return np.roll(recording.signals_mv, -lead, axis=0)


def changed(signals: Signals, kind: str, other: Signals, seed: int) -> Signals:
    """Return a record with its second half changed; ``other`` is the next one."""
    made, half = signals.copy(), round(HALF_S * FS_HZ)
    part = made[:, half:]
    if kind == "noise":
        part += np.random.default_rng(seed).normal(0, 0.3, part.shape)
    elif kind == "off":
        part[:] = np.nan
    elif kind == "lead":
        part[:] = part[::-1].copy()
    elif kind == "patient":
        part[:] = other[:, half : made.shape[1]]
    elif kind in ("gain", "inverted"):
        part *= {"gain": 2, "inverted": -1}[kind]
    return made


def answers(classifier: Classifier, signals: Signals) -> dict[str, NDArray[Any]]:
    """Return what ``Drift`` takes of every beat."""
    recording = Recording("x", Path("x"), "a", ("a", "b"), FS_HZ, signals, ())
    beats = cut_beats(recording, BeatOptions(("a",)))
    found = classifier.classify(beats.windows)
    return {
        "time_s": beats.r_samples / FS_HZ,
        "label": found.label,
        "uncertain": found.low_confidence,
        "far": found.out_of_distribution,
        "flags": beats.windows.flags,
        "window_mv": beats.windows.window_mv[:, 0].astype(np.float16),
    }


def watched(columns: dict[str, NDArray[Any]], classes: int) -> list[dict[str, Any]]:
    """Return the changes that began, ``silence`` too where no beat follows."""
    drift = Drift(classes, DriftBounds())
    names = ("time_s", "label", "uncertain", "far", "flags")
    for row in zip(*(columns[name].tolist() for name in names), columns["window_mv"], strict=True):
        drift.add(*row)
    last, end = float(columns["time_s"][-1]), 2 * HALF_S
    drift.quiet(last + drift.bounds.silence_s + 1, min(end - last, drift.bounds.silence_s + 1))
    return [{"reason": one.reason, "time_s": round(one.time_s, 1)} for one in drift.events if one.began]


def summed(events: dict[str, dict[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return a row for each kind: records, those with an alarm in time, and how long after the change it came."""
    rows = []
    for kind in KINDS:
        after = [[one for one in found if kind == "none" or one["time_s"] > HALF_S] for found in events[kind].values()]
        first = [min(one["time_s"] for one in found) - HALF_S for found in after if found]
        rows.append(
            {
                "kind": kind,
                "records": len(after),
                "alarmed": len(first),
                "reasons": {
                    reason: sum(any(one["reason"] == reason for one in found) for found in after)
                    for reason in sorted({one["reason"] for found in after for one in found})
                },
                "median_s": None if kind == "none" or not first else round(median(first)),
                "longest_s": None if kind == "none" or not first else round(max(first)),
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the README."""
    lines = [
        "| second half | records with an alarm | median, longest wait (s) | by reason |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        waits = "" if row["median_s"] is None else f"{row['median_s']}, {row['longest_s']}"
        reasons = ", ".join(f"{reason} {count}" for reason, count in row["reasons"].items())
        lines.append(f"| {KINDS[row['kind']]} | {row['alarmed']} of {row['records']} | {waits} | {reasons} |")
    return "\n".join(lines)


def main(asked: argparse.Namespace) -> None:
    """Read every record in every way, or what ``--work`` holds of it, and write what was found."""
    classifier = open_bundle(shipped_model()).classifier()
    asked.work.mkdir(parents=True, exist_ok=True)
    events: dict[str, dict[str, list[dict[str, Any]]]] = {kind: {} for kind in KINDS}
    for number, name in enumerate(DS1):
        for kind in KINDS:
            kept = asked.work / f"{name}-{kind}.npz"
            if not kept.is_file():
                signals = read(asked.source, name)
                other = read(asked.source, DS1[(number + 1) % len(DS1)])
                np.savez(kept, **answers(classifier, changed(signals, kind, other, int(name))))
            with np.load(kept, allow_pickle=False) as columns:
                events[kind][name] = watched(dict(columns), len(classifier.classes))
        print(name, flush=True)
    rows = summed(events)
    bounds = {field: getattr(DriftBounds(), field) for field in DriftBounds.__dataclass_fields__}
    save(asked, {"half_s": HALF_S, "bounds": bounds, "rows": rows, "events": events})
    print(table(rows))


if __name__ == "__main__":
    benchmark(main)
