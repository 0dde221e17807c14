"""Gradient inversion: windows whose update is the one that was seen.

Geiping et al., "Inverting Gradients", NeurIPS 2020: Adam on dummy windows, the loss one minus the cosine between their
update and the seen one. What the attacker knows is all that a server knows: the model that was sent, the method, its
learning rate and momentum, the number of steps and beats; and what a beat looks like in other people. Windows are
sought where the cohort's filter leaves them (below 40 Hz), as coefficients of a cosine transform. Labels are inferred
from the change of the last bias (Zhao et al., iDLG 2020; Wainakh et al., 2022, for batches): the class whose bias rose
most had a beat, one after the other.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, Net

SAMPLES, HIGHEST_HZ, FS_HZ = 256, 40.0, 360.0
#: The first coefficients of a window's cosine transform, up to the filter's edge; the mean is not seen by the net.
COEFFICIENTS = int(2 * SAMPLES / FS_HZ * HIGHEST_HZ)


@dataclass(frozen=True)
class Seen:
    """What the attacker sees of one client's round.

    Attributes:
        model: what the client was sent.
        change: what came back minus that.
        steps: local steps.
        batch: beats of a step.
    """

    model: Params
    change: Params
    steps: int
    batch: int


def basis() -> Tensor:
    """The cosine transform's first functions without the constant, (COEFFICIENTS, 256), each of length 1."""
    n, k = np.arange(SAMPLES), np.arange(1, COEFFICIENTS + 1)[:, None]
    return torch.from_numpy(np.cos(np.pi * (n + 0.5) * k / SAMPLES) * np.sqrt(2 / SAMPLES)).float()


def updated(net: Net, model: Params, windows: Tensor, labels: Tensor, settings: SgdSettings, steps: int) -> Params:
    """The change that local SGD on these windows makes, differentiable in them.

    Args:
        net: the net.
        model: where it begins.
        windows: (steps * B, 1, 256).
        labels: (steps * B,).
        settings: learning rate and momentum.
        steps: local steps, B windows each, in order.
    """
    names = sorted(model)
    w = [model[name].detach().requires_grad_() for name in names]
    begun, v = w, [torch.zeros_like(one) for one in w]
    for x, y in zip(windows.chunk(steps), labels.chunk(steps), strict=True):
        logits = net.logits(dict(zip(names, w, strict=True)), Inputs(x), {})
        loss = torch.nn.functional.cross_entropy(logits, y)
        grads = torch.autograd.grad(loss, w, create_graph=True)
        v = [settings.momentum * a + b for a, b in zip(v, grads, strict=True)]
        w = [a - settings.lr * b for a, b in zip(w, v, strict=True)]
    return {name: after - before for name, after, before in zip(names, w, begun, strict=True)}


def inferred_labels(net: Net, seen: Seen, settings: SgdSettings, guess: Tensor) -> Tensor:
    """Labels of the round's beats as far as the last bias tells, (steps * B,) in no order.

    Args:
        net: the net.
        seen: the update.
        settings: learning rate and momentum.
        guess: windows such as a heart might have, for the mean probabilities at the model that was sent.
    """
    each = [sum(settings.momentum**j for j in range(seen.steps - i)) for i in range(seen.steps)]
    gradient = seen.change["head.out.bias"] / (-settings.lr * sum(each))
    with torch.no_grad():
        mean = torch.softmax(net.logits(seen.model, Inputs(guess), {}), 1).mean(0)
    beats = seen.steps * seen.batch
    if beats == 1:
        return gradient.argmin().reshape(1)
    left, found = gradient - mean, list[int]()  # minus the share of each class
    for _ in range(beats):
        c = int(left.argmin())
        found.append(c)
        left[c] += 1 / beats
    return torch.tensor(found)


def invert(
    net: Net,
    seen: Seen,
    settings: SgdSettings,
    labels: Tensor,
    *,
    typical: NDArray[np.floating],
    iterations: int,
    seed: int,
    starts: int = 1,
    rate: float = 0.05,
) -> tuple[NDArray[np.float32], float]:
    """Seek windows whose update points where the seen one does; the best of some starts by that alone.

    Args:
        net: the net.
        seen: the update.
        settings: learning rate and momentum.
        labels: (steps * B,).
        typical: (256,) a beat as the attacker expects one: the first start is near it, the others are anywhere.
        iterations: of each start.
        seed: of the starts.
        starts: how many.
        rate: Adam's.

    Returns:
        (steps * B, 256) windows without mean, in the scale of nothing (the net takes it away), and the best loss.
    """
    draw, directions = torch.Generator().manual_seed(seed), basis()
    falling = 1.0 / torch.arange(1, COEFFICIENTS + 1).float().sqrt()
    expected = directions @ torch.from_numpy(np.asarray(typical, np.float32))
    found: list[tuple[float, Tensor]] = []
    for start in range(starts):
        wild = torch.randn(len(labels), COEFFICIENTS, generator=draw) * falling
        code = expected + wild * 0.1 * expected.norm() / falling.norm() if start == 0 else wild
        found.append(_sought(net, seen, settings, labels, code, iterations, rate))
    best, kept = min(found, key=lambda one: one[0])
    return (kept @ directions).numpy(), best


def _sought(
    net: Net, seen: Seen, settings: SgdSettings, labels: Tensor, code: Tensor, iterations: int, rate: float
) -> tuple[float, Tensor]:
    """The best loss from one start, and its coefficients."""
    directions, code = basis(), code.clone().requires_grad_()
    adam = torch.optim.Adam([code], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, iterations)
    names = sorted(seen.change)
    goal = torch.cat([seen.change[name].flatten() for name in names])
    best, kept = float("inf"), code.detach().clone()
    for _ in range(iterations):
        adam.zero_grad()
        windows = (code @ directions).unsqueeze(1)
        change = updated(net, seen.model, windows, labels, settings, seen.steps)
        ours = torch.cat([change[name].flatten() for name in names])
        loss = 1 - torch.nn.functional.cosine_similarity(ours, goal, dim=0)
        (code.grad,) = torch.autograd.grad(loss, [code])
        if float(loss.detach()) < best:
            best, kept = float(loss.detach()), code.detach().clone()
        adam.step()
        schedule.step()
    return best, kept


def correlations(found: NDArray[np.floating], true: NDArray[np.floating]) -> NDArray[np.float64]:
    """Pearson correlation of every found window with every true one, (found, true)."""
    a, b = ((x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-12) for x in (found, true))
    return np.asarray(a @ b.T / a.shape[1], np.float64)


def matched(found: NDArray[np.floating], true: NDArray[np.floating]) -> NDArray[np.float64]:
    """The correlation of each true window with the found one it is paired with, best over all pairings; (true,)."""
    table = correlations(found, true)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns][np.argsort(columns)]


def overlap(found: Tensor, true: Tensor) -> float:
    """Share of the labels that are right, whatever their order."""
    most = int(max(found.max(), true.max())) + 1
    counts = (torch.bincount(one, minlength=most) for one in (found, true))
    return float(torch.minimum(*counts).sum()) / len(true)


def batch_of(batches: list[tuple[Batch, ...]]) -> tuple[NDArray[np.float32], Tensor]:
    """The windows (beats, 256) and labels of a round's batches, in order."""
    windows = torch.cat([batch.inputs.examples[:, 0] for group in batches for batch in group])
    return windows.numpy(), torch.cat([batch.label for group in batches for batch in group])
