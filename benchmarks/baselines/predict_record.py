"""Score ``predict`` on one record's test beats, with the patient's own and the global model.

    python benchmarks/baselines/predict_record.py BUNDLE COHORT RECORD

RECORD is the WFDB record, its name the client's id. R peaks are taken once from the annotation and once detected; a
test beat counts as predicted when a peak lies within 150 ms of it (one to one), and as missed, a wrong prediction,
otherwise. Prints one JSON object: macro-F1 (classes in truth or prediction) of each run, and time and peak memory of a
process that does nothing else.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measure import measured

MODELS = ("personal", "global")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bundle", type=Path)
    arguments.add_argument("cohort", type=Path)
    arguments.add_argument("record", type=Path)
    given = arguments.parse_args()
    results = [one(given, model, peaks) for model in MODELS for peaks in ("annotated", "detected")]
    print(json.dumps({"record": given.record.name, "bundle": str(given.bundle), "results": results}, indent=1))


def one(given: argparse.Namespace, model: str, peaks: str) -> dict[str, Any]:
    patient = given.record.name if model == "personal" else None
    found, cost = measured(predicted, given.bundle, given.record, patient, peaks)
    about = {"model": model, "peaks": peaks, "beats_found": len(found)}
    return {
        **about,
        **score(given.cohort, given.record.name, found),
        "seconds": cost["wall_s"],
        "peak_mb": cost["peak_mb"],
    }


def predicted(bundle: Path, record: Path, patient: str | None, peaks: str) -> list[tuple[int, str]]:
    """Return (sample, class) of each beat; this process loads nothing that predicting does not need."""
    from ecgfed import predict

    found = predict(bundle, record, patient=patient, peaks=peaks)
    return [(beat["sample"], beat["class"]) for beat in found.beats()]


def score(folder: Path, name: str, found: list[tuple[int, str]]) -> dict[str, Any]:
    import numpy as np
    from sklearn.metrics import f1_score

    from ecgfed import open_cohort
    from ecgfed.domain.beats.extract import MATCH_S, match_peaks
    from ecgfed.domain.cohort.split import TEST

    cohort = open_cohort(folder)
    rows = cohort.rows(cohort.client_by_id(name), TEST)
    truth = np.array([cohort.classes[label] for label in cohort.label[rows]])
    at = np.array([sample for sample, _ in found])
    mine, theirs = match_peaks(at, cohort.sample[rows], round(MATCH_S * 360))
    answers = np.full(len(rows), "missed", dtype=object)
    answers[theirs] = [found[i][1] for i in mine]
    # a missed beat is a miss of its class, not a class of its own
    classes = sorted({*truth, *answers} - {"missed"})
    macro_f1 = f1_score(truth, answers.astype(str), average="macro", zero_division=0, labels=classes)
    return {"test_beats": len(rows), "missed": int((answers == "missed").sum()), "macro_f1": float(macro_f1)}


if __name__ == "__main__":
    main()
