"""Score `ecgfed predict` on one record's test beats, with the patient's own and the global model.

    python benchmarks/baselines/predict_record.py BUNDLE COHORT RECORD

RECORD is the WFDB record, its name the client's id. R peaks are taken once from the annotation and once detected; a
test beat counts as predicted when a peak lies within 150 ms of it (one to one), and as missed, a wrong prediction,
otherwise. Prints one JSON object: macro-F1 (classes in truth or prediction) and time of each run.
"""

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import measure
from sklearn.metrics import f1_score

from ecgfed.beats.extract import MATCH_S, match_peaks
from ecgfed.cohort.cohort import open_cohort
from ecgfed.cohort.split import TEST

ECGFED = str(Path(sys.executable).with_name("ecgfed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("cohort")
    parser.add_argument("record", type=Path)
    options = parser.parse_args()
    cohort = open_cohort(options.cohort)
    client = cohort.client_by_id(options.record.name)
    rows = cohort.rows(client, TEST)
    sample, truth = cohort.sample[rows], np.array([cohort.classes[label] for label in cohort.label[rows]])
    results = []
    for patient in (client.id, None):
        for peaks in ("annotated", "detected"):
            with tempfile.TemporaryDirectory() as out:
                model = ["--patient", patient] if patient else []
                command = [
                    ECGFED,
                    "predict",
                    options.bundle,
                    str(options.record),
                    "--out",
                    out,
                    "--peaks",
                    peaks,
                    *model,
                ]
                timed = measure([*command, "--quiet"])
                with (Path(out) / f"{options.record.name}.csv").open() as stream:
                    found = list(csv.DictReader(stream))
            at = np.array([int(row["sample"]) for row in found])
            mine, theirs = match_peaks(at, sample, round(MATCH_S * 360))
            predicted = np.full(len(rows), "missed", dtype=object)
            predicted[theirs] = [found[i]["class"] for i in mine]
            results.append(
                {
                    "model": "personal" if patient else "global",
                    "peaks": peaks,
                    "beats_found": len(found),
                    "test_beats": len(rows),
                    "missed": int((predicted == "missed").sum()),
                    # a missed beat is a miss of its class, not a class of its own
                    "macro_f1": float(
                        f1_score(
                            truth,
                            predicted.astype(str),
                            average="macro",
                            zero_division=0,
                            labels=sorted({*truth, *predicted} - {"missed"}),
                        )
                    ),
                    "seconds": timed["wall_s"],
                    "peak_mb": timed["peak_mb"],
                }
            )
    print(json.dumps({"record": client.id, "bundle": options.bundle, "results": results}, indent=1))


if __name__ == "__main__":
    main()
