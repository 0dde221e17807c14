"""A kernel machine on the patient's beats, by features and shape.

Centres are training beats far from one another (farthest-first traversal, Gonzalez 1985), per class about the square
root of its number of beats; the classifier is multinomial logistic regression on Gaussian kernels around them.
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import extractor_of
from ecgfed.core.personal.base import PatientBeats, Personal, descriptions_of
from ecgfed.core.personal.softmax_fit import fit_softmax

#: Number of centres: 64 kB on a device.
CENTRES = 128
RIDGE, EVENNESS = 1e-4, 0.5
#: Squared norm of the shape in a description whose features have norm 1; tuned on validation beats.
SHAPE_SHARE = 16.0
#: Coordinate of unused centres: beyond every kernel.
UNUSED = 1e3
_FLOOR = 1e-6


def scaling(net: Net, described: Tensor) -> tuple[Tensor, Tensor]:
    """Return shift and scale (D,): features to unit variance over the patient's beats, shape unscaled."""
    deviation = (
        (described.var(0, correction=0) + _FLOOR).sqrt() if len(described) > 1 else torch.ones_like(described[0])
    )
    scale = 1.0 / (deviation.clamp_min(float(deviation[: net.features].median())) * net.features**0.5)
    if net.shape_size:
        scale[net.features :] = (SHAPE_SHARE / net.shape_size) ** 0.5
    return described.mean(0), scale


def farthest_first(points: Tensor, count: int) -> Tensor:
    """Return indices (count,) by farthest-first traversal, starting from the point nearest the mean."""
    chosen = [int((points - points.mean(0)).square().sum(1).argmin())]
    nearest = (points - points[chosen[0]]).square().sum(1)
    while len(chosen) < count:
        chosen.append(int(nearest.argmax()))
        nearest = torch.minimum(nearest, (points - points[chosen[-1]]).square().sum(1))
    return torch.tensor(chosen)


def select_centres(points: Tensor, label: Tensor, limit: int = CENTRES) -> Tensor:
    """Return indices of the beats that become centres, at most ``limit``."""
    present, counts = torch.unique(label, return_counts=True)
    roots = [count**0.5 for count in counts.tolist()]
    shares = [max(2, int(limit * root / sum(roots))) for root in roots]
    selected = []
    for number, count, share in zip(present.tolist(), counts.tolist(), shares, strict=True):
        of_class = torch.nonzero(label == number)[:, 0]
        selected.append(of_class[farthest_first(points[of_class], min(count, share))])
    return torch.cat(selected)[:limit]


def fit_kernel(net: Net, described: Tensor, label: Tensor, classes: int) -> tuple[Params, Tensor]:
    r"""Fit the machine to descriptions (beats, D); return its parameters and squared distances (beats, centres).

    The kernel is :math:`e^{-d^2 / 2 \sigma^2}` with the variance of the beats.
    """
    shift, scale = scaling(net, described)
    points = (described - shift) * scale
    width = float(2 * points.var(0, correction=0).sum().clamp_min(_FLOOR)) ** 0.5 if len(points) > 1 else 1.0
    points, scale = points / width, scale / width
    chosen = select_centres(points, label)
    centres = points[chosen]
    square = torch.cdist(points.double(), centres.double(), compute_mode="donot_use_mm_for_euclid_dist").square()
    weight, bias = fit_softmax(torch.exp(-square), label, classes, ridge=RIDGE, evenness=EVENNESS)
    square[chosen, torch.arange(len(chosen))] = torch.inf  # a beat is not its own neighbour
    missing = CENTRES - len(chosen)
    params = {
        "own.shift": shift,
        "own.scale": scale,
        "own.kept": torch.cat([centres, torch.full((missing, centres.shape[1]), UNUSED)]),
        "own.weight": torch.cat([weight, torch.zeros(classes, missing)], dim=1),
        "own.bias": bias,
    }
    return params, square


class Kernel(Personal):
    """Similarity to the patient's beats."""

    name: ClassVar[str] = "kernel"
    title: ClassVar[str] = "frozen features and shape, own kernel machine"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fit the kernel machine; return the shared extractor and a stage ``kernel`` (see ``Personal.fit``)."""
        params, _ = fit_kernel(net, descriptions_of(net, model, beats.train), beats.train.label, beats.classes)
        return Pipeline((Stage("describer", extractor_of(model), shared=True), Stage("kernel", params, shared=False)))
