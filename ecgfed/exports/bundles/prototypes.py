"""Prototypes of training beats, for the detection of out-of-distribution beats on a device.

A beat's shape is its standardised window averaged over four samples each (``Net.shape``). Prototypes are k-means
centres per class, about as many as the square root of its size. A beat is out of distribution if its distance to the
nearest prototype exceeds the 99th percentile of validation beats. This detects noise and sine waves, which the class
probabilities do not (docs/decisions/0039 has the figures).
"""

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor

from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.models import Stage
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import VALID
from ecgfed.exports.bundles.quantise import MAX_INT8, quantised_weight

#: Names of the parameters: the prototypes (prototypes, shape), and their squared norms.
TYPICAL, SQUARE = "far.typical", "far.square"
#: Number of prototypes of a bundle (32 kB).
PROTOTYPES = 128
#: Squared norm of unused prototypes, farther than any beat.
NOWHERE = 1e6
#: Training beats per prototype.
BEATS_EACH = 200
#: Minimum number of beats per prototype, so that none is a single beat of a person.
MIN_MEMBERS = 5
ROUNDS = 15
#: Fraction of validation beats within the threshold.
NEAR_SHARE = 0.99


def fit_prototypes(net: Net, cohort: Cohort, seed: int, *, int8: bool = False) -> tuple[Tensor, float] | None:
    """Return prototypes (at most ``PROTOTYPES``, shape) and the threshold of the mean squared distance.

    With ``int8`` they are rounded as ``in_int8`` stores them, and the threshold is that of the rounded ones.

    None if the net defines no shape, or there are no beats. Deterministic for a seed.
    """
    rows, valid = cohort.training_pool(), cohort.pool(VALID)
    if not net.shape_size or not len(rows):
        return None
    random = np.random.default_rng([seed, 39])
    with single_torch_thread(), torch.inference_mode():
        label = cohort.label[rows]
        centres_by_class = []
        numbers, counts = np.unique(label, return_counts=True)
        roots = np.sqrt(counts)
        shares = np.maximum(2, (PROTOTYPES * roots / roots.sum()).astype(np.int64))
        while shares.sum() > PROTOTYPES:  # many rare classes with two each
            shares[shares.argmax()] -= 1
        for number, count in dict(
            zip(numbers.tolist(), np.minimum(shares, np.maximum(1, counts // MIN_MEMBERS)).tolist(), strict=True)
        ).items():
            some = np.sort(random.permutation(rows[label == number])[: count * BEATS_EACH])
            centres_by_class.append(_means(_shapes(net, cohort, some), count, random))
        centres = torch.cat(centres_by_class)[:PROTOTYPES]
        if not len(centres):
            return None
        if int8:
            centres = torch.from_numpy(_dequantised(*quantised_weight(centres.numpy(), 0, MAX_INT8)))
        distance = nearest(centres, _shapes(net, cohort, valid if len(valid) else rows))
    return centres, float(np.quantile(distance.numpy().astype(np.float64), NEAR_SHARE))


def nearest(centres: Tensor, shapes: Tensor) -> Tensor:
    """Return the mean squared distance (beats,) from each shape to the nearest centre."""
    square = shapes.square().sum(1, keepdim=True) - 2 * shapes @ centres.T + centres.square().sum(1)
    return square.amin(1) / shapes.shape[1]


def prototype_part(centres: Tensor) -> Stage:
    """Return the part of role ``far`` that computes distances to prototypes; padded to ``PROTOTYPES``."""
    missing = PROTOTYPES - len(centres)
    params = {
        TYPICAL: torch.cat([centres, torch.zeros(missing, centres.shape[1])]),
        SQUARE: torch.cat([centres.square().sum(1), torch.full((missing,), NOWHERE)]),
    }
    return Stage("far", params, shared=True)


def in_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph of role ``far`` with its prototypes in int8, each with a scale: 8 kB in place of 33."""
    graph = model.graph
    (stored,) = (tensor for tensor in graph.initializer if tensor.name == TYPICAL)
    values, scale = quantised_weight(numpy_helper.to_array(stored), 0, MAX_INT8)
    for node in graph.node:
        node.input[:] = [f"{TYPICAL}.float" if name == TYPICAL else name for name in node.input]
    stored.CopyFrom(numpy_helper.from_array(values, TYPICAL))
    graph.initializer.append(numpy_helper.from_array(scale, f"{TYPICAL}.scale"))
    graph.node.insert(
        0, helper.make_node("DequantizeLinear", [TYPICAL, f"{TYPICAL}.scale"], [f"{TYPICAL}.float"], axis=0)
    )
    return model


def stored_prototypes(graph: onnx.GraphProto) -> dict[str, NDArray[np.float32]]:
    """Return the parameters ``TYPICAL`` and ``SQUARE`` of a graph of role ``far`` as float32, those that it holds."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    if f"{TYPICAL}.scale" in stored:
        stored[TYPICAL] = _dequantised(stored[TYPICAL], stored[f"{TYPICAL}.scale"])
    return {name: stored[name] for name in (TYPICAL, SQUARE) if name in stored}


def _dequantised(values: NDArray[np.int8], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(values.astype(np.float32) * scale[:, None])


def _shapes(net: Net, cohort: Cohort, rows: NDArray[np.int64]) -> Tensor:
    parts = []
    for start in range(0, len(rows), 4096):
        shape = net.shape(Inputs(torch.from_numpy(np.take(cohort.examples, rows[start : start + 4096], axis=0))))
        assert shape is not None
        parts.append(shape)
    return torch.cat(parts)


def _means(shapes: Tensor, limit: int, random: np.random.Generator) -> Tensor:
    """Return at most ``limit`` k-means centres, initialised by k-means++, without those of too few beats."""
    chosen = [int(random.integers(len(shapes)))]
    square = (shapes - shapes[chosen[0]]).square().sum(1)
    while len(chosen) < min(limit, len(shapes)) and float(square.sum()) > 0:
        share = np.cumsum(square.numpy().astype(np.float64))
        chosen.append(int(np.searchsorted(share, random.random() * share[-1])))
        square = torch.minimum(square, (shapes - shapes[chosen[-1]]).square().sum(1))
    centres = shapes[chosen]
    for _ in range(ROUNDS):
        member = torch.nn.functional.one_hot(
            (centres.square().sum(1) - 2 * shapes @ centres.T).argmin(1), len(centres)
        ).to(shapes.dtype)
        count = member.sum(0)
        centres = torch.where(count[:, None] > 0, member.T @ shapes / count.clamp_min(1)[:, None], centres)
    return centres[count >= min(MIN_MEMBERS, len(shapes))]
