"""A kernel machine on the patient's own beats: which of them a beat is like, in features and in shape.

Some training beats are kept, far from one another (farthest-first, Gonzalez 1985), of each class about as many as the
root of its number; multinomial logistic regression on their Gaussian kernels answers.
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.answers import Chain, Part
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net
from ecgfed.nets.parts import extractor_of
from ecgfed.personal.base import OwnBeats, Personal, descriptions_of
from ecgfed.personal.softmax_fit import fit_softmax

#: Beats that are kept: 64 kB of a device, and no fewer graphs for it.
KEPT = 128
RIDGE, EVENNESS = 1e-4, 0.5
#: Squared length that shape has in a description whose features have 1; chosen on validation beats.
SHAPE_SHARE = 16.0
#: Where kept beats that are none lie: beyond every kernel.
NOWHERE = 1e3
_FLOOR = 1e-6


def scaling(net: Net, described: Tensor) -> tuple[Tensor, Tensor]:
    """Shift and scale (D,) each: features to unit variance over the patient's beats, shape as the window has it."""
    spread = (described.var(0, correction=0) + _FLOOR).sqrt() if len(described) > 1 else torch.ones_like(described[0])
    scale = 1.0 / (spread.clamp_min(float(spread[: net.features].median())) * net.features**0.5)
    if net.shape_size:
        scale[net.features :] = (SHAPE_SHARE / net.shape_size) ** 0.5
    return described.mean(0), scale


def _quotas(counts: list[int], kept: int) -> list[int]:
    """How many beats of each class are kept: as the root of its number, at least two, at most all."""
    roots = [count**0.5 for count in counts]
    return [min(count, max(2, int(kept * root / sum(roots)))) for count, root in zip(counts, roots, strict=True)]


def far_apart(points: Tensor, count: int) -> Tensor:
    """Indices (count,) of points far from one another, the one nearest the mean first."""
    chosen = [int((points - points.mean(0)).square().sum(1).argmin())]
    nearest = (points - points[chosen[0]]).square().sum(1)
    while len(chosen) < count:
        chosen.append(int(nearest.argmax()))
        nearest = torch.minimum(nearest, (points - points[chosen[-1]]).square().sum(1))
    return torch.tensor(chosen)


def kept_beats(points: Tensor, label: Tensor, kept: int = KEPT) -> Tensor:
    """Indices of the beats that are kept, at most ``kept``."""
    there, counts = torch.unique(label, return_counts=True)
    quotas = _quotas(counts.tolist(), kept)
    found = []
    for number, quota in zip(there.tolist(), quotas, strict=True):
        of_class = torch.nonzero(label == number)[:, 0]
        found.append(of_class[far_apart(points[of_class], quota)])
    return torch.cat(found)[:kept]


def fit_kernel(net: Net, described: Tensor, label: Tensor, classes: int) -> tuple[Params, Tensor]:
    r"""Fit the machine to descriptions (beats, D); return its parameters, and (beats, kept) squared distances.

    The kernel is :math:`e^{-d^2 / 2 \sigma^2}` with the beats' own variance.
    """
    shift, scale = scaling(net, described)
    points = (described - shift) * scale
    width = float(2 * points.var(0, correction=0).sum().clamp_min(_FLOOR)) ** 0.5 if len(points) > 1 else 1.0
    points, scale = points / width, scale / width
    chosen = kept_beats(points, label)
    centres = points[chosen]
    square = _square(points, centres)
    weight, bias = fit_softmax(torch.exp(-square), label, classes, ridge=RIDGE, evenness=EVENNESS)
    square[chosen, torch.arange(len(chosen))] = torch.inf  # no beat is its own neighbour
    missing = KEPT - len(chosen)
    params = {
        "own.shift": shift,
        "own.scale": scale,
        "own.kept": torch.cat([centres, torch.full((missing, centres.shape[1]), NOWHERE)]),
        "own.weight": torch.cat([weight, torch.zeros(classes, missing)], dim=1),
        "own.bias": bias,
    }
    return params, square


def _square(points: Tensor, centres: Tensor) -> Tensor:
    """Squared distances (beats, kept) in double precision."""
    return torch.cdist(points.double(), centres.double(), compute_mode="donot_use_mm_for_euclid_dist").square()


class Kernel(Personal):
    """Which of the patient's own beats is it like."""

    name: ClassVar[str] = "kernel"
    title: ClassVar[str] = "frozen features and shape, own kernel machine"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Fit the kernel machine; returns the shared extractor and a part ``kernel`` (see ``Personal.fit``)."""
        described = descriptions_of(net, model, own.train)
        params, _ = fit_kernel(net, described, own.train.label, own.classes)
        return Chain((Part("describer", extractor_of(model), shared=True), Part("kernel", params, shared=False)))
