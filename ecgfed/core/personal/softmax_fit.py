"""Multinomial logistic regression with class weights, converged and presentfore deterministic."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.personal.base import NEVER

#: Maximum L-BFGS steps; one patient's problem converges much earlier.
STEPS = 100


def fit_softmax(inputs: Tensor, label: Tensor, classes: int, *, ridge: float, evenness: float) -> tuple[Tensor, Tensor]:
    r"""Minimise the weighted mean cross-entropy plus half the ridge times the squared weights.

    A class with N_c beats has the total weight :math:`N_c^{1 - evenness}`: 0 weights all beats equally, 1 all classes.
    Classes without beats get a bias of minus ``NEVER``.

    Args:
        inputs: (beats, D).
        label: (beats,) int64.
        classes: number of classes.
        ridge: weight of the penalty, which does not include the bias.
        evenness: 0 to 1.

    Returns:
        Weights (classes, D) and bias (classes,), float32.
    """
    present = torch.unique(label)
    x, y = inputs.double(), torch.searchsorted(present, label)
    class_weight = torch.bincount(y).double() ** -evenness
    beat_weight = class_weight[y] / class_weight[y].sum()
    weight = torch.zeros(len(present), x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(present), dtype=torch.float64, requires_grad=True)
    if len(present) > 1:
        solver = torch.optim.LBFGS([weight, bias], max_iter=STEPS, history_size=10, line_search_fn="strong_wolfe")

        def objective() -> Tensor:
            solver.zero_grad()
            loss = (beat_weight * F.cross_entropy(F.linear(x, weight, bias), y, reduction="none")).sum()
            loss = loss + 0.5 * ridge * weight.square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            solver.step(objective)  # type: ignore[no-untyped-call]
    all_weights, all_biases = torch.zeros(classes, x.shape[1]), torch.full((classes,), -NEVER)
    all_weights[present], all_biases[present] = weight.detach().float(), bias.detach().float()
    return all_weights, all_biases
