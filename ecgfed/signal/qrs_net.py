"""The detector's two small networks in fixed-point arithmetic: is this a QRS complex, and which extremum is its R peak.

Weights are multiples of 1/1024 and activations of 1/256; the products are summed as whole numbers in float64, far
below 2^53, so no sum is ever rounded: the same bits on any machine, whatever the batch. They were trained on the DS1
records of MIT-BIH only (``benchmarks/qrs/train.py``, which writes ``qrs_weights.npz``).
"""

from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Weights are multiples of 1/1024.
WEIGHT_UNIT = 1024
SCORE_UNIT = 256 * WEIGHT_UNIT
FILE = "qrs_weights.npz"
#: Leads that decide about one candidate: the two that show the least between the beats.
LEADS = 2


@lru_cache(maxsize=1)
def _weights() -> dict[str, Floats]:
    """Whole numbers in float64: ``lead``, ``mix``, ``beat`` and ``place``, ``near``, ``pick``, each with a bias."""
    with files("ecgfed.signal").joinpath(FILE).open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float64) for name in stored.files}


def _layer(inputs: Floats, name: str) -> Floats:
    """Return weights times inputs plus bias, in units of 1/(256 x 1024)."""
    weights = _weights()
    return np.asarray(inputs @ weights[name] + weights[f"{name}_bias"], dtype=np.float64)


def _relu(sums: Floats) -> Floats:
    """Return the activation in units of 1/256."""
    return np.floor(np.maximum(sums, 0.0) / WEIGHT_UNIT)


def beat_scores(features: Floats, counted: NDArray[np.bool_]) -> Floats:
    """Say how surely each candidate is a QRS complex.

    Args:
        features: (leads, candidates, LEAD_FEATURES) from ``qrs_signal.lead_features``.
        counted: (leads, candidates) which leads to ask, at least one each.

    Returns:
        (candidates,) log odds, in units of 1/``SCORE_UNIT``.
    """
    hidden = _relu(_layer(features, "lead")) * counted[..., None]
    number = counted.sum(axis=0)[:, None]
    pooled = np.concatenate([np.floor(hidden.sum(axis=0) / number), hidden.max(axis=0)], axis=1)
    return _layer(_relu(_layer(pooled, "mix")), "beat")[:, 0]


def peak_scores(features: Floats) -> Floats:
    """Say how likely each extremum is the R peak: (beats, extrema), comparable within a beat."""
    return _layer(_relu(_layer(_relu(_layer(features, "place")), "near")), "pick")[..., 0]
