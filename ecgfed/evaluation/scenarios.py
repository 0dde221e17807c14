"""The GRP-FED paper's scenarios (section 4.1): global test, personalisation, generalisation, local test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        JSON-ready: ``scores`` and ``scores_truth`` (T_g, T_p, T_r, T_l, T_l_clients), ``per_class``, ``per_patient``,
        ``confusion``, ``beats``, ``accuracy``.

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
    kept = [run.kept(state, client.index) for client in cohort.federation]
    everyone = predictor.labels(run.method.global_answer(state.server, kept, protocol))
    patients = []
    for i, client in enumerate(cohort.federation):
        own = cohort.client[rows] == client.index
        mine = predictor.labels(run.method.personal_answer(state.server, kept[i]))
        if progress:
            progress(i + 1, len(kept))
        if not own.any():
            continue
        local, across = confusion(truth[own], mine[own], classes), confusion(truth, mine, classes)
        theirs = confusion(truth[own], everyone[own], classes)
        patients.append(PatientScores(
            client.id, int(own.sum()), int((local.sum(1) > 0).sum()),
            *({c: macro_f1(m, c) for c in CONVENTIONS} for m in (local, theirs, across)),
        ))  # fmt: skip
    matrix = confusion(truth, everyone, classes)
    return {
        "scores": _scenario_means(macro_f1(matrix, "any"), patients, "any"),
        "scores_truth": _scenario_means(macro_f1(matrix, "truth"), patients, "truth"),
        "accuracy": float(np.trace(matrix) / matrix.sum()),
        "beats": len(rows), "patients": len(patients),
        "per_class": class_table(matrix, cohort.classes),
        "per_patient": [
            {
                "client": p.client, "beats": p.beats, "classes": p.classes, "personal_f1": p.personal["any"],
                "global_f1": p.global_["any"], "generalisation_f1": p.generalisation["any"],
                "personal_f1_truth": p.personal["truth"], "global_f1_truth": p.global_["truth"],
                "generalisation_f1_truth": p.generalisation["truth"],
            }
            for p in patients
        ],
        "confusion": matrix.tolist(),
    }  # fmt: skip


def _scenario_means(t_g: float, patients: list[PatientScores], convention: str) -> dict[str, float]:
    personal = [p.personal[convention] for p in patients]
    across = [p.generalisation[convention] for p in patients]
    t_p, t_r = float(np.mean(personal)), float(np.mean(across))
    return {
        "T_g": t_g, "T_p": t_p, "T_r": t_r, "T_l": harmonic_mean(t_p, t_r),
        "T_l_clients": float(np.mean([harmonic_mean(a, b) for a, b in zip(personal, across, strict=True)])),
    }  # fmt: skip
