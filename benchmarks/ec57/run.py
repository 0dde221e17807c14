"""Inter-patient AAMI classification: trained on the DS1 patients, scored on DS2 as EC57 asks (de Chazal et al. 2004).

    python benchmarks/ec57/run.py --source MITDB --work DIR [--passes 20] [--peaks detected]

The 22 DS1 records are the federation, the DS2 records and the paced ones are held out; ``predict`` reads every DS2
record with detected peaks, and its annotations are compared with the reference as ``ecgfed ec57`` does it. The whole
record counts here (``--start 0``), as in the papers this protocol comes from; EC57's own 5:00 is beside it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS2, PACED, SAME_SERVER, compared, parser, prepared, save, script, trained

from ecgfed import Cohort, export, predict
from ecgfed.evaluation.ec57 import CLASSES, MATCH_S, aggregate
from ecgfed.record.wfdb_files import read_annotation_file

METHODS = {"fedavg": SAME_SERVER, "grp-fed": {}}
ABOUT = {"reference": "atr", "test": "ecgfed", "mapping": "aami5"}
#: 201 (DS1) and 202 (DS2) are one person; 232 holds half of all S beats of DS2.
WITHOUT = ("202", "232")


def predictions(method: str, cohort: Cohort, given: argparse.Namespace) -> Path:
    """Train a method and annotate the DS2 records with its global model; return the annotations' folder."""
    plan = {"local_steps": 4, "batch_size": 64, "passes": given.passes, "eval_every": 0, "seed": 0}
    plan |= {"rr": True, "window_share": 0.1}
    run = trained(cohort, given.work / method, method=method, settings=METHODS[method], **plan)
    bundle = export(run, given.work / f"{method}-bundle", overwrite=True)
    out = given.work / f"{method}-{given.peaks}"
    for name in DS2:
        predict(bundle, given.source / name, peaks=given.peaks).save(out, overwrite=True)
    return out


def scores(source: Path, folder: Path, start_s: float, names: Sequence[str]) -> dict[str, Any]:
    comparisons = [
        compared(source / name, read_annotation_file(folder / f"{name}.{ABOUT['test']}"), start_s=start_s)
        for name in names
    ]
    total = aggregate(comparisons).as_json()
    return {**ABOUT, "start_s": start_s, "match_s": MATCH_S, "classes": list(CLASSES), **total}


def main() -> None:
    arguments = parser(__doc__, __file__)
    arguments.add_argument("--passes", type=float, default=20)
    arguments.add_argument("--peaks", choices=("detected", "annotated"), default="detected")
    given = arguments.parse_args()
    held_out = (*DS2, *(name for name in PACED if name in ("107", "217")))  # 102 and 104 have no MLII: no clients
    cohort = prepared(given.source, given.work, by="record", classes=ABOUT["mapping"], holdout=held_out)
    results: dict[str, Any] = {}
    for method in METHODS:
        folder = predictions(method, cohort, given)
        results[method] = {
            "whole_records": scores(given.source, folder, 0.0, DS2),
            "from_5_minutes": scores(given.source, folder, 300.0, DS2),
            **{
                f"without_{name}": scores(given.source, folder, 0.0, [other for other in DS2 if other != name])
                for name in WITHOUT
            },
        }
        print(method, json.dumps(results[method]["whole_records"]), flush=True)
        save(given, {"methods": results})


if __name__ == "__main__":
    script(main)
