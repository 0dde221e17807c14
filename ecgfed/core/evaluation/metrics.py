r"""Metrics of class probabilities beside macro-F1: AUROC, AUPRC, and functions of one's own.

Both are one-vs-rest. With positives the beats of a class and their probability of the class as the score,

.. math::
    \text{AUROC} = \frac{R^+ - n^+ (n^+ + 1) / 2}{n^+ n^-}, \qquad
    \text{AUPRC} = \sum_k (r_k - r_{k-1}) \, p_k

with :math:`R^+` the sum of the positives' ranks (ties share their mean rank; Mann and Whitney 1947) and
:math:`r_k, p_k` recall and precision at the k-th largest score (average precision, without interpolation). A class
without beats, or whose beats are all there are, has neither: it is named and not counted.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ecgfed.base.errors import OptionError, param
from ecgfed.base.text import did_you_mean

#: (n,) int64 class numbers and (n, classes) float32 probabilities -> a number, or one for each class. NaN or None: not
#: defined on these beats.
Metric = Callable[[NDArray[np.int64], NDArray[np.float32]], Any]
#: Columns that an evaluation has anyway.
_RESERVED = {"f1", "f1_truth", "accuracy", "class", "beats", "predicted", "sensitivity", "positive_predictivity"}


@dataclass(frozen=True)
class MetricValue:
    """Value of a metric on some beats.

    Attributes:
        value: the number; of a metric by class the mean over the classes that have one. None if it is not defined.
        by_class: (classes,) float64, NaN where it is not defined; None for a metric that is one number.
    """

    value: float | None
    by_class: NDArray[np.float64] | None = None

    def absent(self, classes: Sequence[str]) -> list[str]:
        """Return the names of the classes that the value does not count."""
        if self.by_class is None:
            return []
        return [name for name, value in zip(classes, self.by_class, strict=True) if np.isnan(value)]


def auroc(truth: NDArray[np.int64], probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the area under the ROC curve of each class against the rest.

    Args:
        truth: (n,) class numbers.
        probabilities: (n, classes).

    Returns:
        (classes,) float64; NaN for a class without beats, or with all of them.
    """
    return _by_class(truth, probabilities, _area_roc)


def auprc(truth: NDArray[np.int64], probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the average precision of each class against the rest; arguments and NaN as ``auroc``."""
    return _by_class(truth, probabilities, _average_precision)


def _by_class(
    truth: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    area: Callable[[NDArray[np.bool_], NDArray[np.float32]], float],
) -> NDArray[np.float64]:
    values = np.full(probabilities.shape[1], np.nan)
    for number in np.unique(truth):
        positive = truth == number
        if not positive.all():
            values[number] = area(positive, probabilities[:, number])
    return values


def _area_roc(positive: NDArray[np.bool_], score: NDArray[np.float32]) -> float:
    count = int(positive.sum())
    ranks = float(rankdata(score)[positive].sum())
    return (ranks - count * (count + 1) / 2) / (count * (len(positive) - count))


def _average_precision(positive: NDArray[np.bool_], score: NDArray[np.float32]) -> float:
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))  # equal scores share one threshold
    hits = np.cumsum(positive[order])[last]
    recall = hits / positive.sum()
    return float(np.sum(np.diff(recall, prepend=0.0) * hits / (last + 1)))


#: The metrics that may be named.
BUILT_IN: dict[str, Metric] = {"auroc": auroc, "auprc": auprc}


def resolve_metrics(metrics: Mapping[str, Metric | str] | Iterable[str] | None) -> dict[str, Metric]:
    """Return metrics by name.

    Args:
        metrics: names of built-in metrics, or name -> function (``Metric``) or name of a built-in one.

    Raises:
        OptionError: an unknown metric, something else than a function, or a name that cannot be a column.
    """
    if isinstance(metrics, str):
        metrics = [metrics]
    named: dict[str, object] = dict(metrics) if isinstance(metrics, Mapping) else {name: name for name in metrics or ()}
    resolved: dict[str, Metric] = {}
    for name, metric in named.items():
        where = f"{param('metrics')} {name!s:.50}"
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name) or name in _RESERVED:
            raise OptionError(where, "cannot be a column", "letters, digits and _, and no score there is already")
        if isinstance(metric, str):
            if metric not in BUILT_IN:
                expected = f"one of {', '.join(BUILT_IN)}, or a function"
                raise OptionError(
                    where, f"{metric!r:.50}", expected, did_you_mean(metric, BUILT_IN), code="unknown-choice"
                )
            metric = BUILT_IN[metric]
        if not callable(metric):
            expected = "a function of truth (n,) and probabilities (n, classes)"
            raise OptionError(where, f"{metric!r:.100}", expected)
        resolved[name] = metric
    return resolved


def measure(
    metrics: Mapping[str, Metric], truth: NDArray[np.int64], probabilities: NDArray[np.float32]
) -> dict[str, MetricValue]:
    """Return the value of each metric on some beats; not defined on none.

    Raises:
        OptionError: a function fails, or returns neither a number nor one for each class.
    """
    return {name: _measured(name, metric, truth, probabilities) for name, metric in metrics.items()}


def _measured(name: str, metric: Metric, truth: NDArray[np.int64], probabilities: NDArray[np.float32]) -> MetricValue:
    classes = probabilities.shape[1]
    if not len(truth):
        return MetricValue(None)
    where = f"{param('metrics')} {name}"
    try:
        answer = metric(truth.copy(), probabilities.copy())  # it may sort or clip them in place
        values = np.asarray(np.nan if answer is None else answer, dtype=np.float64)
    except Exception as problem:  # a user's own code
        action = "return NaN where it is not defined"
        raise OptionError(where, f"fails with {type(problem).__name__}: {problem}", action=action) from problem
    if values.shape not in ((), (classes,)):
        raise OptionError(where, f"returned shape {values.shape}", f"a number, or ({classes},), one for each class")
    if np.isinf(values).any():
        raise OptionError(where, "returned infinity", "finite numbers, or NaN where it is not defined")
    defined = values[~np.isnan(values)]
    mean = float(defined.mean()) if defined.size else None
    return MetricValue(mean, values if values.ndim else None)
