"""The detector's three small networks in fixed-point arithmetic: two looks at a candidate, and which extremum is R.

Features and activations are multiples of 1/128, weights of 1/256; the products are summed as whole numbers in float32,
and no sum can reach 2^24 (``benchmarks/qrs/networks.py`` sees to it), so none is ever rounded: the same bits on any
machine, whatever the batch. They were trained on the DS1 records of MIT-BIH only (``benchmarks/qrs/train.py``, which
writes ``qrs_weights.npz``).
"""

from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.products import product
from ecgfed.domain.signal.qrs_features import UNIT

Floats = NDArray[np.float32]

#: Weights are multiples of 1/256.
WEIGHT_UNIT = 256
SCORE_UNIT = UNIT * WEIGHT_UNIT
#: Activations end here, so that the next sums stay below 2^24.
HIGHEST = 8
FILE = "qrs_weights.npz"
#: Leads that decide about one candidate: the two that show the least between the beats.
LEADS = 2


@lru_cache(maxsize=1)
def _weights() -> dict[str, Floats]:
    """Whole numbers in float32, by layer, each with a bias.

    The first look has the layers ``lead``, ``mix``, ``first``, the second ``around``, ``tie``, ``beat``, and the choice
    of the R peak ``place``, ``near``, ``pick``.
    """
    with files("ecgfed.domain.signal").joinpath(FILE).open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


def detector_weights() -> dict[str, Floats]:
    """Return the networks' weights (in, out) and biases (out,) by layer: whole numbers, copies of what is used here."""
    return {name: values.copy() for name, values in _weights().items()}


def _layer(inputs: Floats, name: str) -> Floats:
    """Return weights times inputs plus bias, in units of 1/``SCORE_UNIT``."""
    weights = _weights()
    sums = product(inputs.reshape(-1, inputs.shape[-1]), weights[name])
    sums += weights[f"{name}_bias"]
    return sums.reshape(*inputs.shape[:-1], sums.shape[1])


def _relu(sums: Floats) -> Floats:
    """Return the activation in units of 1/``UNIT``; the array is changed."""
    sums *= np.float32(1 / WEIGHT_UNIT)
    np.floor(sums, out=sums)
    return np.clip(sums, 0, HIGHEST * UNIT, out=sums)


def first_look(features: Floats, counted: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Say how likely each candidate is a QRS complex, by its shape and surroundings.

    Args:
        features: (leads, candidates, LEAD_FEATURES) from ``qrs_features.lead_features``.
        counted: (leads, candidates) which leads to ask, at least one each.

    Returns:
        (candidates,) log odds, and (candidates, MIXED) the last activations in units of 1/``UNIT``.
    """
    hidden = _relu(_layer(features, "lead"))
    hidden *= counted[..., None]
    number = counted.sum(axis=0).astype(np.float32)[:, None]
    pooled = np.concatenate([np.floor(hidden.sum(axis=0) / number), hidden.max(axis=0)], axis=1)
    mixed = _relu(_layer(pooled, "mix"))
    return _layer(mixed, "first")[:, 0] / np.float32(SCORE_UNIT), mixed


def second_look(features: Floats) -> Floats:
    """Return the log odds (candidates,) of a QRS complex by ``qrs_rhythm.rhythm_features``."""
    return _layer(_relu(_layer(_relu(_layer(features, "around")), "tie")), "beat")[:, 0] / np.float32(SCORE_UNIT)


def peak_scores(features: Floats) -> Floats:
    """Say how likely each extremum is the R peak: (beats, extrema), comparable within a beat."""
    return _layer(_relu(_layer(_relu(_layer(features, "place")), "near")), "pick")[..., 0]
