"""The GRP-FED paper's scenarios (section 4.1): global test, personalisation, generalisation, local test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.cohort.cohort import Cohort
from ecgfed.errors import CohortError
from ecgfed.evaluation.predict import Predictor
from ecgfed.evaluation.scores import CONVENTIONS, class_table, confusion, harmonic_mean, macro_f1
from ecgfed.federation.checkpoint import State
from ecgfed.federation.data import training_data
from ecgfed.federation.run import Run

PROTOCOLS = ("ensemble", "average")


@dataclass(frozen=True)
class PatientScores:
    """One client's scores with its personal model, by convention of macro-F1."""

    client: str
    beats: int
    classes: int
    personal: dict[str, float]
    global_: dict[str, float]
    generalisation: dict[str, float]


def evaluate(
    run: Run, cohort: Cohort, state: State, split: int, *, protocol: str = "ensemble", workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Score a run on one split of its cohort.

    T_g: macro-F1 of the global answer on the pool of all patients' beats. T_p: mean over patients of the personal
    model's macro-F1 on that patient's beats. T_r: mean over patients of the personal model's macro-F1 on the pool.
    T_l: harmonic mean of T_p and T_r (eq. 6), and beside it the mean of the patients' own harmonic means.

    Args:
        run: the run.
        cohort: its cohort.
        state: its checkpoint.
        split: 1 valid, 2 test.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        workers: threads.
        progress: called with patients done and all.

    Returns:
        JSON-ready: ``scores`` and ``scores_truth`` (T_g, T_p, T_r, T_l, T_l_clients, and T_p_global: the global
        answer's macro-F1 on each patient's beats, mean), ``T_p_variants`` (other personal answers), ``per_class``,
        ``per_patient``, ``confusion``, ``beats``, ``accuracy``. Patients without beats in the split count nowhere.

    Raises:
        CohortError: the split has no beats.
    """
    rows = cohort.pool(split)
    if not len(rows):
        raise CohortError(cohort.path, "has no beats in this split", action="prepare it from more recordings")
    data = training_data(cohort, rr=run.net.spec.rr)
    predictor = Predictor(run.net, data, rows, workers)
    truth = cohort.label[rows].astype(np.int64)
    classes = len(cohort.classes)
    # a generator: a method with a global model asks for nobody's, and clients are read one by one
    everyone = predictor.labels(
        run.method.global_answer(
            state.server, (run.kept(state, client.index) for client in cohort.federation), protocol
        )
    )  # fmt: skip
    patients: list[PatientScores] = []
    variants: dict[str, list[float]] = {}
    for i, client in enumerate(cohort.federation):
        own = np.searchsorted(rows, cohort.rows(client, split))  # clients of an image cohort share test images
        kept = run.kept(state, client.index)
        mine = predictor.labels(run.method.personal_answer(state.server, kept))
        if progress:
            progress(i + 1, len(cohort.federation))
        if len(own):
            patients.append(_patient_scores(client.id, truth, mine, everyone, own, classes))
            for name, chain in run.method.personal_variants(state.server, kept).items():
                labels = Predictor(run.net, data, rows[own], 1).labels(chain)
                variants.setdefault(name, []).append(macro_f1(confusion(truth[own], labels, classes)))
    matrix = confusion(truth, everyone, classes)
    return {
        "scores": _scenario_means(macro_f1(matrix, "any"), patients, "any"),
        "scores_truth": _scenario_means(macro_f1(matrix, "truth"), patients, "truth"),
        "T_p_variants": {name: float(np.mean(found)) for name, found in variants.items()},
        "accuracy": float(np.trace(matrix) / matrix.sum()),
        "beats": len(rows), "patients": len(patients),
        "per_class": class_table(matrix, cohort.classes),
        "per_patient": [_patient_row(patient) for patient in patients],
        "confusion": matrix.tolist(),
    }  # fmt: skip


def _patient_scores(
    client: str, truth: NDArray[np.int64], mine: NDArray[np.int64], everyone: NDArray[np.int64], own: NDArray[np.int64],
    classes: int,
) -> PatientScores:  # fmt: skip
    """Score one patient: ``mine`` and ``everyone`` are the personal and the global answer's labels on the pool."""
    matrices = (
        confusion(truth[own], mine[own], classes), confusion(truth[own], everyone[own], classes),
        confusion(truth, mine, classes),
    )  # fmt: skip
    present = int((matrices[0].sum(1) > 0).sum())
    return PatientScores(
        client, len(own), present, *({c: macro_f1(matrix, c) for c in CONVENTIONS} for matrix in matrices)
    )


def _patient_row(patient: PatientScores) -> dict[str, Any]:
    row: dict[str, Any] = {"client": patient.client, "beats": patient.beats, "classes": patient.classes}
    for suffix, convention in (("", "any"), ("_truth", "truth")):
        row[f"personal_f1{suffix}"] = patient.personal[convention]
        row[f"global_f1{suffix}"] = patient.global_[convention]
        row[f"generalisation_f1{suffix}"] = patient.generalisation[convention]
    return row


def _scenario_means(t_g: float, patients: list[PatientScores], convention: str) -> dict[str, float]:
    personal = [p.personal[convention] for p in patients]
    across = [p.generalisation[convention] for p in patients]
    of_global = [p.global_[convention] for p in patients]
    t_p, t_r = float(np.mean(personal)), float(np.mean(across))
    return {
        "T_g": t_g, "T_p": t_p, "T_r": t_r, "T_l": harmonic_mean(t_p, t_r), "T_p_global": float(np.mean(of_global)),
        "T_l_clients": float(np.mean([harmonic_mean(a, b) for a, b in zip(personal, across, strict=True)])),
    }  # fmt: skip
