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

from ecgfed.domain.signal.qrs_features import UNIT

Floats = NDArray[np.float32]

#: Weights are multiples of 1/256.
WEIGHT_UNIT = 256
SCORE_UNIT = UNIT * WEIGHT_UNIT
#: Activations end here, so that the next sums stay below 2^24.
HIGHEST = 8
#: Multiplications in a product that no library of linear algebra shares out among threads (OpenBLAS: up to 2^18).
_IN_ONE_THREAD = 1 << 17
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
    sums = _product(inputs.reshape(-1, inputs.shape[-1]), weights[name])
    sums += weights[f"{name}_bias"]
    return sums.reshape(*inputs.shape[:-1], sums.shape[1])


def _product(rows: Floats, weights: Floats) -> Floats:
    """Return ``rows @ weights``, some rows at a time: so few that the library does it in the thread that asks.

    Its own threads gain nothing on products as small as these, and wait for the next one on cores that other threads
    are to work on. No sum is rounded, so it makes no difference where the rows are parted.
    """
    depth, width = weights.shape
    per_thread = max(1, _IN_ONE_THREAD // (depth * width))
    times = len(rows) // per_thread
    full, out = times * per_thread, np.empty((len(rows), width), np.float32)
    np.matmul(rows[:full].reshape(times, per_thread, depth), weights, out=out[:full].reshape(times, per_thread, width))
    np.matmul(rows[full:], weights, out=out[full:])
    return out


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
