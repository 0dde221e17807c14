"""Inter-patient AAMI classification: trained on the DS1 patients, scored on DS2 as EC57 asks (de Chazal et al. 2004).

    python benchmarks/ec57/run.py --source MITDB --work DIR [--passes 20] [--peaks detected]

The 22 DS1 records are the federation, the DS2 records and the paced ones are held out; ``predict`` reads every DS2
record with detected peaks, and its annotations are compared with the reference as ``ecgfed ec57`` does it. The whole
record counts here (``--start 0``), as in the papers this protocol comes from; EC57's own 5:00 is beside it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS2, PACED, SAME_SERVER, UNSEEN, benchmark, ec57_scores, option, prepared, save, trained

from ecgfed import Cohort, export, predict

METHODS = {"fedavg": SAME_SERVER, "grp-fed": {}}
#: 201 (DS1) and 202 (DS2) are one person; 232 holds half of all S beats of DS2.
WITHOUT = ("202", "232")


def predictions(method: str, cohort: Cohort, given: argparse.Namespace) -> Path:
    """Train a method and annotate the DS2 records with its global model; return the annotations' folder."""
    plan = {**UNSEEN, "passes": given.passes}
    run = trained(cohort, given.work / method, method=method, settings=METHODS[method], **plan)
    bundle = export(run, given.work / f"{method}-bundle", overwrite=True)
    out = given.work / f"{method}-{given.peaks}"
    for name in DS2:
        predict(bundle, given.source / name, peaks=given.peaks).save(out, overwrite=True)
    return out


def main(given: argparse.Namespace) -> None:
    held_out = (*DS2, *(name for name in PACED if name in ("107", "217")))  # 102 and 104 have no MLII: no clients
    cohort = prepared(given.source, given.work, by="record", classes="aami5", holdout=held_out)
    results: dict[str, Any] = {}
    for method in METHODS:
        folder = predictions(method, cohort, given)
        results[method] = {
            "whole_records": ec57_scores(given.source, folder, DS2, start_s=0.0),
            "from_5_minutes": ec57_scores(given.source, folder, DS2, start_s=300.0),
            **{
                f"without_{out}": ec57_scores(given.source, folder, [one for one in DS2 if one != out], start_s=0.0)
                for out in WITHOUT
            },
        }
        print(method, json.dumps(results[method]["whole_records"]), flush=True)
        save(given, {"methods": results})


if __name__ == "__main__":
    benchmark(
        main,
        option("--passes", type=float, default=20),
        option("--peaks", choices=("detected", "annotated"), default="detected"),
    )
