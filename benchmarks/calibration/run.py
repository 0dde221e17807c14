"""What probabilities are worth, what is left uncertain, and whether noise is taken for beats: on test beats, once.

    python benchmarks/calibration/run.py --source MITDB --run RUN --work DIR

Exports a finished run (``--run``) and reads its cohort's test beats with the bundle, as a device would: every patient
with its own model and with the global one, held-out patients with the global one. Temperatures and thresholds are those
of the bundle, and so from validation beats. Made-up signals are drawn with other seeds than those the rule was chosen
with. Prints tables, writes ``results.json`` and the figure ``results.svg`` beside this file (or ``--results``; of a
cohort with held-out patients no figure).
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
from common import benchmark, option, print_table, save
from figure import draw
from numpy.typing import NDArray
from scipy.stats import rankdata
from signals import Cut, made_up, other_leads

import ecgfed
from ecgfed.core.evaluation.calibration import calibration_error, confidence_and_correctness
from ecgfed.domain.cohort.split import TEST, VALID
from ecgfed.exports.bundles.calibration import CalibrationFitter, ValidationLogits
from ecgfed.exports.device.calibration import UNCALIBRATED

ACCURACIES = (0.95, 0.98, 0.99, 0.995)
COVERAGES = (1.0, 0.99, 0.98, 0.95, 0.9, 0.8)
Rows = NDArray[np.int64]


def answers_of(
    classifier: ecgfed.Classifier, cohort: ecgfed.Cohort, rows: Rows
) -> tuple[ValidationLogits, NDArray[np.bool_]]:
    """Return what a model says of some beats, and which of them are far."""
    window = np.ascontiguousarray(cohort.beats[rows])
    logits = classifier.logits(window, cohort.rr[rows] if classifier.rr else None)
    far = np.zeros(len(rows), np.bool_) if classifier.ood_detector is None else classifier.ood_detector(window, 256)
    return ValidationLogits(logits, cohort.label[rows].astype(np.int64)), far


def judged(answers: ValidationLogits, certainty: dict[str, Any], far: NDArray[np.bool_]) -> dict[str, Any]:
    """Score one patient's test beats: calibration error before and after, and what is kept at the threshold."""
    before = confidence_and_correctness(answers.logits, answers.label, 1.0)
    probability, right = confidence_and_correctness(answers.logits, answers.label, certainty["temperature"])
    kept = (probability >= certainty["threshold"]) & (certainty["threshold"] < 1) & ~far  # what is not uncertain
    return {
        "beats": len(right),
        "accuracy": float(right.mean()),
        "ece_before": calibration_error(*before),
        "ece_after": calibration_error(probability, right),
        "kept": float(kept.mean()),
        "kept_accuracy": float(right[kept].mean()) if kept.any() else None,
        "far": float(far.mean()),
        "below": float((probability < certainty["threshold"]).mean()),
    }


def over_patients(rows: list[dict[str, Any]], aim: float) -> dict[str, Any]:
    """Sum up patients: means, the worst, and how many have the accuracy that was asked for."""
    told = [one["kept_accuracy"] for one in rows if one["kept_accuracy"] is not None]
    return {
        "patients": len(rows),
        "beats": sum(one["beats"] for one in rows),
        **{
            f"ece_{when}_{how.__name__}": float(how([one[f"ece_{when}"] for one in rows]))
            for when in ("before", "after")
            for how in (np.mean, np.max)
        },
        "accuracy": float(np.average([o["accuracy"] for o in rows], weights=[o["beats"] for o in rows])),
        "accuracy_worst": min(one["accuracy"] for one in rows),
        "coverage": float(np.average([one["kept"] for one in rows], weights=[one["beats"] for one in rows])),
        "coverage_worst": min(one["kept"] for one in rows),
        "kept_accuracy": sum((one["kept_accuracy"] or 0) * one["kept"] * one["beats"] for one in rows)
        / max(1, sum(one["kept"] * one["beats"] for one in rows)),
        "kept_accuracy_worst": min(told, default=0.0),
        "patients_with_the_accuracy": sum(one >= aim - 1e-9 for one in told),
        "far": float(np.average([one["far"] for one in rows], weights=[one["beats"] for one in rows])),
        "far_worst": max(one["far"] for one in rows),
    }


def risk_coverage(told: list[tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> list[dict[str, float]]:
    """Return the error of the beats kept, all patients together, when the least probable are left out."""
    probability, right = (np.concatenate(part) for part in zip(*told, strict=True))
    falling = right[np.argsort(-probability, kind="stable")]
    return [
        {"coverage": share, "error": float(1 - falling[: round(share * len(falling))].mean())} for share in COVERAGES
    ]


def by_accuracy(
    valid: CalibrationFitter, tests: dict[str, tuple[ValidationLogits, NDArray[np.bool_]]]
) -> list[dict[str, Any]]:
    """What each stated accuracy would leave: thresholds from validation beats, coverage and accuracy of test beats."""
    rows = []
    for aim in ACCURACIES:
        fitted = CalibrationFitter(aim, valid.global_logits, valid.personal_logits)
        certainties = fitted.fitted(list(tests))[1]
        found = over_patients([judged(*_pair(tests[name], certainties[name])) for name in tests], aim)
        rows.append({"asked": aim, **found})
    return rows


def _pair(
    told: tuple[ValidationLogits, NDArray[np.bool_]], certainty: dict[str, Any]
) -> tuple[ValidationLogits, dict[str, Any], NDArray[np.bool_]]:
    return told[0], certainty, told[1]


def farness_of(
    classifier: ecgfed.Classifier, real: NDArray[np.float32], groups: dict[str, Cut]
) -> list[dict[str, Any]]:
    """How far what is no beat lies, beside test beats: AUROC of the distance, and shares that are far and uncertain."""
    assert classifier.ood_detector is not None
    inside, rows = distances(classifier, real), []
    for name, windows in groups.items():
        distance, found = distances(classifier, windows.window_mv), classifier.classify(windows)
        ranks = rankdata(np.concatenate([inside, distance]))[len(inside) :]
        count = len(distance)
        area = (ranks.sum() - count * (count + 1) / 2) / (count * len(inside))
        shares = {"far": float(found.out_of_distribution.mean()), "uncertain": float(found.low_confidence.mean())}
        rows.append({"what": name, "beats": count, "auroc": float(area), **shares})
    return rows


def distances(classifier: ecgfed.Classifier, window_mv: NDArray[np.float32]) -> NDArray[np.float32]:
    assert classifier.ood_detector is not None
    parts = [
        classifier.ood_detector.session.run({"window": window_mv[i : i + 256]}) for i in range(0, len(window_mv), 256)
    ]
    return np.concatenate(parts)[:, 0]


def main(given: argparse.Namespace) -> None:
    run = ecgfed.open_run(given.run)
    cohort = run.cohort()
    bundle = ecgfed.export(run, given.work / "bundle", personal=given.personal, overwrite=True)
    manifest, everyone = bundle.manifest, bundle.classifier()
    aim = manifest["certainty"]["accuracy"]
    valid, own, shared, new, real = CalibrationFitter(aim), {}, {}, {}, []
    for client in cohort.clients:
        if client.holdout:
            rows = np.sort(np.concatenate([cohort.rows(client, split) for split in (0, VALID, TEST)]))
            new[client.id] = answers_of(everyone, cohort, rows)
            continue
        classifier, rows = bundle.classifier(client.id), cohort.rows(client, TEST)
        own[client.id] = answers_of(classifier, cohort, rows)
        shared[client.id] = answers_of(everyone, cohort, rows)
        valid.personal_logits[client.id] = answers_of(classifier, cohort, cohort.rows(client, VALID))[0]
        valid.global_logits.append(answers_of(everyone, cohort, cohort.rows(client, VALID))[0])
        real.append(np.asarray(cohort.beats[rows]))
    own, shared, new = ({k: v for k, v in some.items() if len(v[0].label)} for some in (own, shared, new))
    certainty = {name: manifest["patients"][name]["certainty"] for name in own}
    tables = {
        "own model": [judged(*_pair(own[name], certainty[name])) for name in own],
        "global model": [judged(*_pair(shared[name], manifest["global"]["certainty"])) for name in shared],
        "global model, new patients": [judged(*_pair(new[name], manifest["global"]["certainty"])) for name in new],
    }
    told = {
        name: confidence_and_correctness(own[name][0].logits, own[name][0].label, certainty[name]["temperature"])
        for name in own
    }
    groups = made_up(cohort.rr_version) | other_leads(given.source, cohort.leads, cohort.rr_version)
    results = {
        "method": manifest["method"],
        "personal": manifest["personal"],
        "accuracy": aim,
        "ece_bins": manifest["certainty"]["ece_bins"],
        "spread": manifest["certainty"]["spread"],
        "summary": {name: over_patients(rows, aim) for name, rows in tables.items() if rows},
        "risk_coverage": risk_coverage(list(told.values())),
        "by_accuracy": by_accuracy(valid, own),
        "not_beats": farness_of(everyone, np.concatenate(real), groups),
        "patients": dict(zip(own, tables["own model"], strict=True)),
        "new_patients": dict(zip(new, tables["global model, new patients"], strict=True)),
    }
    assert everyone.calibration is not UNCALIBRATED
    save(given, results)
    if not new:
        given.results.with_suffix(".svg").write_bytes(draw(told, certainty))
    show(results)


def show(results: dict[str, Any]) -> None:
    """Print what the pages hold."""
    columns = ("model", "patients", "ECE before", "after", "accuracy", "coverage", "accuracy kept", "patients at it")
    rows = []
    for name, one in results["summary"].items():
        errors = [f"{one[f'ece_{when}_mean']:.3f} ({one[f'ece_{when}_max']:.3f})" for when in ("before", "after")]
        shares = [f"{one[key]:.3f} ({one[f'{key}_worst']:.3f})" for key in ("accuracy", "coverage", "kept_accuracy")]
        rows.append((name, one["patients"], *errors, *shares, one["patients_with_the_accuracy"]))
    print_table(columns, rows)
    print_table(("coverage", "error"), [(one["coverage"], f"{one['error']:.4f}") for one in results["risk_coverage"]])
    print_table(
        ("asked", "coverage", "accuracy kept", "patients at it"),
        [
            (
                one["asked"],
                f"{one['coverage']:.3f} ({one['coverage_worst']:.3f})",
                f"{one['kept_accuracy']:.4f} ({one['kept_accuracy_worst']:.3f})",
                one["patients_with_the_accuracy"],
            )
            for one in results["by_accuracy"]
        ],
    )
    print_table(
        ("what", "beats", "AUROC", "far", "uncertain"),
        [
            (one["what"], one["beats"], f"{one['auroc']:.3f}", f"{one['far']:.1%}", f"{one['uncertain']:.1%}")
            for one in results["not_beats"]
        ],
    )


if __name__ == "__main__":
    benchmark(
        main,
        option("--run", type=Path, required=True, help="a finished run"),
        option("--personal", default=None, help="the personal answers; default what the method is made for"),
    )
