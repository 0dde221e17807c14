"""Reports with ``--format``: a recording, the command, and what is read back of its files."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from record_files import write_signals
from support import Command

FS = 360
HL7 = "{urn:hl7-org:v3}"
START = "2026-03-04T09:15:00+01:00"


def write_ectopic(folder: Path) -> Path:
    """Two leads at 75/min with a run of 4 V, a couplet, and 3 s that were not recorded."""
    symbols = "N" * 30 + "VVVV" + "N" * 20 + "VV" + "N" * 44
    signal, at = synthetic_signal(symbols, seed=3)
    signals = np.stack([signal, 0.6 * signal])
    start = int(at[70]) + 60
    signals[:, start : start + 3 * FS] = np.nan
    record = write_signals(folder, "quixrecord", signals, fs_hz=FS, leads=("MLII", "V1"), adc_gain=200.0)
    recorded = (at < start) | (at > start + 3 * FS)
    wfdb.wrann("quixrecord", "atr", at[recorded], list(np.array(list(symbols))[recorded]), write_dir=str(folder))
    return record


def reported(ecgfed: Command, record: Path, out: Path, formats: str, *more: object) -> dict[str, Any]:
    said = ecgfed("report", record, "--out", out, "--format", formats, "--json", *more)
    assert said.code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer


def expected_values(told: dict[str, Any]) -> dict[str, float | None]:
    """The figures as the JSON has them, by their stable names."""
    rates, hrv = told["rates"], told["variability"]
    at = {name: None if rates[name] is None else rates[name]["value"] for name in ("lowest", "highest")}
    longest = told["pauses"]["longest"]
    values: dict[str, float | None] = {
        "duration_s": told["duration_s"],
        "usable_s": told["usable_s"][told["lead"]],
        "beats": told["beats"],
        "beats_counted": told["counted"],
        "heart_rate_mean_per_min": rates["mean"],
        "heart_rate_lowest_per_min": at["lowest"],
        "heart_rate_highest_per_min": at["highest"],
        "pauses": len(told["pauses"]["found"]),
        "longest_interval_s": None if longest is None else longest["value"],
        "nn_mean_ms": hrv["mean_nn_ms"],
        "sdnn_ms": hrv["sdnn_ms"],
        "rmssd_ms": hrv["rmssd_ms"],
    }
    for name, key in (
        ("pr_interval_ms", "pr_ms"),
        ("qrs_duration_ms", "qrs_ms"),
        ("qt_interval_ms", "qt_ms"),
        ("qtc_bazett_ms", "qtc_bazett_ms"),
        ("qtc_fridericia_ms", "qtc_fridericia_ms"),
    ):
        value = told["intervals"]["overall"][key]["value"]
        values[name] = None if value is None else pytest.approx(value, abs=0.001)
    for kind in ("ventricular", "supraventricular"):
        counts = told[kind]
        values |= {
            f"{kind}_beats": counts and counts["total"],
            f"{kind}_percent": counts and counts["percent"],
            f"{kind}_low_confidence": counts and counts["uncertain"],
            f"{kind}_runs": counts and counts["certain_runs"],
            f"{kind}_runs_to_review": counts and counts["runs_to_review"],
        }
    for rhythm in ("bradycardia", "tachycardia"):
        values[f"{rhythm}_s"] = sum(one["seconds"] for one in told["rhythms"] if one["rhythm"] == rhythm)
    return values


def observations(bundle: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Observations by what they are called."""
    resources = [entry["resource"] for entry in bundle["entry"]]
    return {one["code"]["text"]: one for one in resources if one["resourceType"] == "Observation"}


def values_of_fhir(bundle: dict[str, Any]) -> list[float | None]:
    return [one.get("valueQuantity", {}).get("value") for one in observations(bundle).values()]


def table_of(path: Path) -> dict[str, str]:
    (row,) = csv.DictReader(io.StringIO(path.read_text()))
    return row


def number(cell: str) -> float | None:
    return float(cell) if cell else None
