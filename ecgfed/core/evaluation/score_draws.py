"""The scores of ``evaluate`` when its patients are drawn with replacement, for their confidence intervals."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.evaluation.accuracies import accuracy, expected_accuracy, reweighted_accuracy
from ecgfed.core.evaluation.patient_scores import PatientScores
from ecgfed.core.evaluation.scores import CONVENTIONS, macro_f1
from ecgfed.core.runs.intervals import Draws, Resampled
from ecgfed.domain.cohort.cohort import Cohort

#: Columns of the table of classes that have an interval.
CLASS_SCORES = ("sensitivity", "positive_predictivity", "f1")


def score_draws(
    patients: Sequence[PatientScores],
    local: Sequence[PatientScores],
    variants: Mapping[str, Sequence[float]],
    cohort: Cohort,
) -> Draws:
    """Return each score for each draw of patients, by where it is in the result of ``evaluate``.

    The two accuracies on the pool that are weighted by each patient's classes take the pool as it is.

    Args:
        patients: those scored.
        local: the same with local models as personal ones; of fewer patients they have no draws.
        variants: name of another personal model -> macro-F1 of some patients.
        cohort: its classes and sites.
    """
    resampled = Resampled(len(patients))
    everyone = resampled.by_class([patient.global_ for patient in patients])
    draws: Draws = {("accuracy",): everyone["accuracy"], ("accuracies", "G_FL"): everyone["accuracy"]}
    for kind, convention in zip(("scores", "scores_truth"), CONVENTIONS, strict=True):
        suffix = "" if convention == "any" else "_truth"
        draws[kind, "T_g"] = everyone[f"macro_f1{suffix}"]
        draws |= {(kind, name): values for name, values in _scenarios(resampled, patients, convention).items()}
        of_global = [macro_f1(patient.global_, convention) for patient in patients]
        draws[kind, "T_p_global"] = resampled.mean(of_global)
    draws |= {("accuracies", name): values for name, values in _accuracies(resampled, patients).items()}
    for name in CLASS_SCORES:
        draws |= {("per_class", name, of): everyone[name][:, i] for i, of in enumerate(cohort.classes)}
    for model in ("personal", "global"):
        matrices = [patient.personal if model == "personal" else patient.global_ for patient in patients]
        draws |= _fairness(resampled, f"{model}_f1", [macro_f1(matrix) for matrix in matrices])
        draws |= _fairness(resampled, f"{model}_accuracy", [accuracy(matrix) for matrix in matrices])
    for name, f1 in variants.items():
        draws["T_p_variants", name] = Resampled(len(f1)).mean(f1)
    for site, clients in cohort.sites.items():
        mine = [patient for patient in patients if patient.client in {client.id for client in clients}]
        if mine:
            at_site = Resampled(len(mine))
            together = at_site.by_class([patient.global_ for patient in mine])
            draws["per_site", "global_f1", site] = together["macro_f1"]
            draws["per_site", "personal_f1", site] = at_site.mean([macro_f1(patient.personal) for patient in mine])
            draws |= {
                ("per_site", f"global_f1_{of}", site): together["f1"][:, i] for i, of in enumerate(cohort.classes)
            }
    if len(local) == len(patients):  # draws of all patients say nothing of those who have a local model
        of_local = {**_scenarios(resampled, local, "any"), **_accuracies(resampled, local)}
        draws |= {("local_models", name): values for name, values in of_local.items()}
        f1 = [macro_f1(patient.personal) for patient in local]
        draws |= {("local_models", *path): values for path, values in _fairness(resampled, "personal_f1", f1).items()}
    return draws


def _scenarios(
    resampled: Resampled, patients: Sequence[PatientScores], convention: str
) -> dict[str, NDArray[np.float64]]:
    own = [macro_f1(patient.personal, convention) for patient in patients]
    name = "macro_f1" if convention == "any" else "macro_f1_truth"
    across = resampled.own([patient.on_drawn[name] for patient in patients])
    t_p, t_r = resampled.mean(own), across.mean(1)
    of_clients = _harmonic(np.asarray(own)[resampled.rows], across).mean(1)
    return {"T_p": t_p, "T_r": t_r, "T_l": _harmonic(t_p, t_r), "T_l_clients": of_clients}


def _harmonic(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = np.divide(2 * a * b, a + b, out=np.zeros_like(a), where=a + b > 0)
    return mean


def _accuracies(resampled: Resampled, patients: Sequence[PatientScores]) -> dict[str, NDArray[np.float64]]:
    return {
        "P_FL_split": resampled.by_class([patient.personal for patient in patients])["accuracy"],
        "P_FL_reweighted": resampled.mean([reweighted_accuracy(p.pool, p.mix) for p in patients]),
        "P_FL_expected": resampled.mean([expected_accuracy(p.pool, p.mix) for p in patients]),
        "drift": resampled.own([patient.on_drawn["even_accuracy"] for patient in patients]).mean(1),
    }


def _fairness(resampled: Resampled, name: str, values: Sequence[float]) -> Draws:
    return {
        ("fairness", name, "mean"): resampled.mean(values),
        ("fairness", name, "worst_decile"): resampled.worst_tenth(values),
    }
