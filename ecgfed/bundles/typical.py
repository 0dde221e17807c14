"""Typical beats: what the training beats look like, so that a device can say of a beat that it looks like none.

A beat's shape is its standardised window in steps of four samples (``Net.shape``). Of each class some typical shapes
are kept (k-means), of each class about as many as the root of its number; a beat's distance is that to the nearest, and
it is far when 99% of the validation beats lie nearer. Noise and a sine look like none of them; the classes' own
probabilities do not notice (docs/decisions/0039 has the figures).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ecgfed.cohort.cohort import Cohort
from ecgfed.cohort.split import TRAIN, VALID
from ecgfed.federation.single_thread import single_torch_thread
from ecgfed.methods.answers import Part
from ecgfed.nets.net import Inputs, Net

#: Typical shapes of a bundle: 32 kB.
TYPICAL = 128
#: Squared distance of typical shapes that are none: beyond every beat.
NOWHERE = 1e6
#: Training beats that are looked at for each of them.
BEATS_EACH = 200
#: A typical shape is the mean of at least so many beats, so that none is one beat of one person.
LEAST_MEMBERS = 5
ROUNDS = 15
#: The share of validation beats that are not far.
NEAR_SHARE = 0.99


def fit_typical(net: Net, cohort: Cohort, seed: int) -> tuple[Tensor, float] | None:
    """Return typical shapes (at most ``TYPICAL``, shape) and the mean square from which on a beat is far.

    None where the net has no shape, or there are no beats to choose by. The same seed gives the same bits.
    """
    rows, valid = cohort.pool(TRAIN), cohort.pool(VALID)
    if not net.shape_size or not len(rows):
        return None
    random = np.random.default_rng([seed, 39])
    with single_torch_thread(), torch.inference_mode():
        label = cohort.label[rows]
        found = []
        for number, wanted in _quotas(label).items():
            own = rows[label == number]
            some = np.sort(random.permutation(own)[: wanted * BEATS_EACH])
            found.append(_means(_shapes(net, cohort, some), wanted, random))
        centres = torch.cat(found)[:TYPICAL]
        if not len(centres):
            return None
        distance = nearest(centres, _shapes(net, cohort, valid if len(valid) else rows))
    return centres, float(np.quantile(distance.numpy().astype(np.float64), NEAR_SHARE))


def nearest(centres: Tensor, shapes: Tensor) -> Tensor:
    """Mean square (beats,) between each shape and the nearest of the centres."""
    square = shapes.square().sum(1, keepdim=True) - 2 * shapes @ centres.T + centres.square().sum(1)
    return square.amin(1) / shapes.shape[1]


def typical_part(centres: Tensor) -> Part:
    """Return the part of role ``far`` that measures distances from these shapes; the graph has room for ``TYPICAL``."""
    missing = TYPICAL - len(centres)
    params = {
        "far.typical": torch.cat([centres, torch.zeros(missing, centres.shape[1])]),
        "far.square": torch.cat([centres.square().sum(1), torch.full((missing,), NOWHERE)]),
    }
    return Part("far", params, shared=True)


def _quotas(label: NDArray[np.integer]) -> dict[int, int]:
    numbers, counts = np.unique(label, return_counts=True)
    roots = np.sqrt(counts)
    shares = np.maximum(2, (TYPICAL * roots / roots.sum()).astype(np.int64))
    while shares.sum() > TYPICAL:  # many rare classes, each with two
        shares[shares.argmax()] -= 1
    return dict(zip(numbers.tolist(), np.minimum(shares, np.maximum(1, counts // LEAST_MEMBERS)).tolist(), strict=True))


def _shapes(net: Net, cohort: Cohort, rows: NDArray[np.int64]) -> Tensor:
    parts = []
    for start in range(0, len(rows), 4096):
        shape = net.shape(Inputs(torch.from_numpy(np.take(cohort.examples, rows[start : start + 4096], axis=0))))
        assert shape is not None
        parts.append(shape)
    return torch.cat(parts)


def _means(shapes: Tensor, wanted: int, random: np.random.Generator) -> Tensor:
    """Return at most ``wanted`` means of k-means, begun as k-means++ begins, without those of too few beats."""
    chosen = [int(random.integers(len(shapes)))]
    square = (shapes - shapes[chosen[0]]).square().sum(1)
    while len(chosen) < min(wanted, len(shapes)) and float(square.sum()) > 0:
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
    return centres[count >= min(LEAST_MEMBERS, len(shapes))]
