"""Multinomial logistic regression on given inputs, solved exactly enough that nothing is left to chance."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.personal.base import NEVER

#: Steps of L-BFGS; a patient's problem has converged long before.
STEPS = 100


def fit_softmax(inputs: Tensor, label: Tensor, classes: int, *, ridge: float, evenness: float) -> tuple[Tensor, Tensor]:
    r"""Minimise the weighted mean cross-entropy plus half the ridge times the squared weights.

    A class with N_c beats has the weight :math:`N_c^{1 - evenness}` in all: 0 leaves it as it comes, 1 makes all
    classes count alike. Classes without beats get a bias of minus ``NEVER``.

    Args:
        inputs: (beats, D).
        label: (beats,) int64.
        classes: number of classes.
        ridge: its weight; the bias is left out of it.
        evenness: 0 to 1.

    Returns:
        Weights (classes, D) and bias (classes,), float32.
    """
    there = torch.unique(label)
    x, y = inputs.double(), torch.searchsorted(there, label)
    each = torch.bincount(y).double() ** -evenness
    beat_weight = each[y] / each[y].sum()
    weight = torch.zeros(len(there), x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(there), dtype=torch.float64, requires_grad=True)
    if len(there) > 1:
        solver = torch.optim.LBFGS([weight, bias], max_iter=STEPS, history_size=10, line_search_fn="strong_wolfe")

        def objective() -> Tensor:
            solver.zero_grad()
            loss = (beat_weight * F.cross_entropy(F.linear(x, weight, bias), y, reduction="none")).sum()
            loss = loss + 0.5 * ridge * weight.square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            solver.step(objective)  # type: ignore[no-untyped-call]
    whole = torch.zeros(classes, x.shape[1]), torch.full((classes,), -NEVER)
    whole[0][there], whole[1][there] = weight.detach().float(), bias.detach().float()
    return whole
