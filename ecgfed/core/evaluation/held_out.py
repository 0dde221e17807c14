"""The global model on patients who took no part in the training: those, or those sites, that a cohort holds out."""

from typing import Any

import numpy as np

from ecgfed.base.errors import CohortError, param
from ecgfed.core.evaluation.accuracies import accuracy
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import class_table, confusion, macro_f1
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.state import State
from ecgfed.core.runs.intervals import Draws, Resampled, interval
from ecgfed.core.runs.run import Run
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import SPLIT_NAMES


def evaluate_held_out(
    run: Run, cohort: Cohort, state: State, *, protocol: str, workers: int, leave_out: str, draws: Draws
) -> dict[str, Any]:
    """Score the global model on all labelled beats of the held-out patients, whatever their split.

    Args:
        run: the run.
        cohort: its cohort.
        state: its checkpoint.
        protocol: global model of a method without one, ``ensemble`` or ``average``.
        workers: threads.
        leave_out: beats excluded from scoring, ``nothing`` or ``poor-quality``.
        draws: receives the scores when patients are drawn with replacement.

    Returns:
        JSON-ready: ``scores`` and ``scores_truth``: ``T_g``, macro-F1 of all their beats together, and ``T_p_global``,
        mean over patients; ``accuracy``; ``patients``, ``beats``; ``per_class``; ``per_patient``: ``client``, ``site``
        in a joined cohort, ``beats``, ``global_f1``, ``global_f1_truth``, ``global_accuracy``; ``confusion``;
        ``intervals``, 95% over patients.

    Raises:
        CohortError: nobody is held out.
    """
    parts = range(len(SPLIT_NAMES))
    out = [client for client in cohort.clients if client.holdout and not client.record_label]
    mine = [cohort.usable(np.sort(np.concatenate([cohort.rows(of, part) for part in parts])), leave_out) for of in out]
    scored = [(client, rows) for client, rows in zip(out, mine, strict=True) if len(rows)]
    if not scored:
        action = f"prepare it with {param('holdout')}, or 'ecgfed cohort resplit' with {param('holdout')}"
        raise CohortError(cohort.path, "holds nobody out", "patients that took no part", action)
    rows = np.concatenate([rows for _, rows in scored])
    data = training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out)
    client_states = (run.client_state(state, client.index) for client in cohort.federation)
    model = run.method.global_model(state.server, client_states, protocol)
    labels, truth = Predictor(run.net, data, rows, workers).labels(model), cohort.label[rows].astype(np.int64)
    ends = np.cumsum([len(of) for _, of in scored])[:-1]
    matrices = [
        confusion(a, b, len(cohort.classes))
        for a, b in zip(np.split(truth, ends), np.split(np.asarray(labels, np.int64), ends), strict=True)
    ]
    together = np.sum(matrices, axis=0)
    resampled = Resampled(len(scored))
    drawn = resampled.by_class(matrices)
    draws["accuracy",] = drawn["accuracy"]
    scores: dict[str, dict[str, float]] = {}
    for kind, convention, name in (("scores", "any", "macro_f1"), ("scores_truth", "truth", "macro_f1_truth")):
        f1 = [macro_f1(matrix, convention) for matrix in matrices]
        scores[kind] = {"T_g": macro_f1(together, convention), "T_p_global": float(np.mean(f1))}
        draws |= {(kind, "T_g"): drawn[name], (kind, "T_p_global"): resampled.mean(f1)}
    draws |= {("per_class", "f1", name): drawn["f1"][:, i] for i, name in enumerate(cohort.classes)}
    of_scores = {path: interval(values) for path, values in draws.items()}
    return {
        **scores,
        "accuracy": accuracy(together),
        "patients": len(scored),
        "beats": len(rows),
        "per_class": class_table(together, cohort.classes),
        "per_patient": [
            {
                "client": client.id,
                **({"site": client.site} if client.site else {}),
                "beats": len(of),
                "global_f1": macro_f1(matrix),
                "global_f1_truth": macro_f1(matrix, "truth"),
                "global_accuracy": accuracy(matrix),
            }
            for (client, of), matrix in zip(scored, matrices, strict=True)
        ],
        "confusion": together.tolist(),
        "intervals": [
            {"score": list(path), "low": of[0], "high": of[1]} for path, of in of_scores.items() if of is not None
        ],
    }
