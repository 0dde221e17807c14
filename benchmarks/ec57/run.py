"""Inter-patient AAMI classification: trained on the DS1 patients, scored on DS2 as EC57 asks (de Chazal et al. 2004).

    python benchmarks/ec57/run.py --source MITDB --work DIR [--passes 20] [--out results.json]

The 22 DS1 records are the federation, the DS2 records and the paced ones are held out; ``ecgfed predict`` reads every
DS2 record with detected peaks, and ``ecgfed ec57`` compares its annotations with the reference. The
whole record counts here (``--start 0``), as in the papers this protocol comes from; EC57's own 5:00 is beside it.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DS2 = [
    "100",
    "103",
    "105",
    "111",
    "113",
    "117",
    "121",
    "123",
    "200",
    "202",
    "210",
    "212",
    "213",
    "214",
    "219",
    "221",
    "222",
    "228",
    "231",
    "232",
    "233",
    "234",
]
PACED = ["107", "217"]
SERVER = {"server_optimizer": "adam", "server_lr": "0.01", "server_momentum": "0.9", "server_schedule": "cosine"}
METHODS = {"fedavg": {"lr": "0.02", **SERVER}, "grp-fed": {}}
#: 201 (DS1) and 202 (DS2) are one person; 232 holds half of all S beats of DS2.
WITHOUT = ("202", "232")


def ecgfed(*arguments: object) -> str:
    command = [sys.executable, "-m", "ecgfed_cli.main", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def trained(method: str, cohort: Path, run: Path, passes: float) -> None:
    settings = [part for key, value in METHODS[method].items() for part in ("--set", f"{key}={value}")]
    if (run / "run.json").exists():
        ecgfed("train", cohort, "--out", run, "--resume", "--quiet")
    else:
        plan = ("--local-steps", 4, "--passes", passes, "--eval-every", 0, "--seed", 0, "--rr")
        ecgfed("train", cohort, "--method", method, *plan, "--out", run, "--quiet", *settings)


def scored(source: Path, predictions: Path, start: str, names: list[str]) -> dict[str, Any]:
    records = [source / name for name in names]
    told = json.loads(
        ecgfed("ec57", *records, "--test", "ecgfed", "--test-folder", predictions, "--start", start, "--json")
    )
    return {key: value for key, value in told.items() if key not in ("records", "not_scored")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--passes", type=float, default=20)
    parser.add_argument("--peaks", choices=("detected", "annotated"), default="detected")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    cohort = given.work / "cohort"
    if not cohort.exists():
        held = ",".join([*DS2, *PACED])
        ecgfed("prepare", "mitbih", "--source", given.source, "--out", cohort, "--classes", "aami5", "--holdout", held)
    results: dict[str, Any] = {}
    for method in METHODS:
        run, bundle, predictions = (given.work / f"{method}{part}" for part in ("", "-bundle", f"-{given.peaks}"))
        trained(method, cohort, run, given.passes)
        if not bundle.exists():
            ecgfed("export", run, "--out", bundle, "--quiet")
        for name in DS2:
            ecgfed(
                "predict",
                bundle,
                given.source / name,
                "--peaks",
                given.peaks,
                "--out",
                predictions,
                "--overwrite",
                "--quiet",
            )
        results[method] = {
            "whole_records": scored(given.source, predictions, "0", DS2),
            "from_5_minutes": scored(given.source, predictions, "5:00", DS2),
            **{
                f"without_{name}": scored(given.source, predictions, "0", [n for n in DS2 if n != name])
                for name in WITHOUT
            },
        }
        print(method, json.dumps(results[method]["whole_records"]), flush=True)
        about = {"command": f"benchmarks/ec57/run.py --passes {given.passes:g} --peaks {given.peaks}"}
        given.out.write_text(json.dumps({**about, "methods": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
