"""Counts of beats by patient, scores of them as EC57 has it, and intervals over patients."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.evaluation.ec57 import CLASSES, BeatComparison
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.methods.models import Model
from ecgfed.core.nets.net import Net
from ecgfed.domain.cohort.cohort import Client, Cohort

#: What is counted of a patient: hits, false alarms and misses of V and of S; normal beats, and those called S or V.
COUNTS = ("v_tp", "v_fp", "v_fn", "s_tp", "s_fp", "s_fn", "normal", "false_ectopic")


def counts_of(matrix: NDArray[np.int64]) -> list[int]:
    """Return ``COUNTS`` of a confusion matrix (5, 5) of N, S, V, F, Q, rows truth.

    As EC57 has it (4.3.3): a fusion or unclassifiable beat called V is not a false V, an unclassifiable one called S
    not a false S.
    """
    counts = np.zeros((len(CLASSES),) * 2, np.int64)
    counts[:5, :5] = matrix
    scores, scored = BeatComparison("", counts).scores, []
    for name in ("veb", "sveb"):
        se, ppv = scores[f"{name}_se"], scores[f"{name}_ppv"]
        scored += [se.part, ppv.total - ppv.part, se.total - se.part]
    return [*scored, int(matrix[0].sum()), int(matrix[0, 1:3].sum())]


def f1(counts: NDArray[np.integer], name: str) -> NDArray[np.float64]:
    """Return F1 in percent of summed counts (..., 8), ``name`` is v or s; NaN where there is no such beat."""
    tp, fp, fn = (counts[..., COUNTS.index(f"{name}_{what}")].astype(float) for what in ("tp", "fp", "fn"))
    with np.errstate(invalid="ignore"):
        return np.where(tp + fn > 0, 200 * tp / (2 * tp + fp + fn), np.nan)


def false_ectopic(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how many of 1,000 normal beats are called S or V, of summed counts (..., 8)."""
    return 1000 * counts[..., COUNTS.index("false_ectopic")] / counts[..., COUNTS.index("normal")]


def counts_by_patient(
    cohort: Cohort, net: Net, data: TrainingData, models: Mapping[str, Model], patients: Iterable[Client]
) -> dict[str, dict[str, list[int]]]:
    """Return model -> patient -> ``COUNTS`` of all its beats with a window that is not empty."""
    patients = list(patients)
    rows = {one.id: cohort.usable(np.flatnonzero(cohort.client == one.index)) for one in patients}
    predictor = Predictor(net, data, np.concatenate(list(rows.values())), 1)
    edges = np.cumsum([0, *(len(own) for own in rows.values())])
    counts: dict[str, dict[str, list[int]]] = {}
    for name, model in models.items():
        labels = predictor.labels(model)
        counts[name] = {
            patient: counts_of(confusion(cohort.label[own].astype(np.int64), labels[start:stop], len(cohort.classes)))
            for (patient, own), start, stop in zip(rows.items(), edges[:-1], edges[1:], strict=True)
        }
    return counts
