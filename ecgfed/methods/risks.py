r"""What a client minimises on a batch: cross-entropy, or a risk balanced over its classes (Fed-RoD, table 5).

With N_c the client's training beats of class c, g_c the logit of class c and y the label:

.. math::
    \text{ce} &: -\log \operatorname{softmax}(g)_y \\
    \text{ir} &: \frac{\sum_c N_c}{K N_y} \, \text{ce}, \quad K \text{ classes present, so that the mean weight is 1} \\
    \text{ldam} &: \text{ce with } g_y - \gamma N_y^{-1/4} \text{ in place of } g_y \quad \text{(Cao et al. 2019)} \\
    \text{cdt} &: \text{ce with } (N_c / N_{\max})^\gamma g_c \text{ in place of } g_c \quad \text{(Ye et al. 2020)} \\
    \text{bsm} &: \text{ce with } g_c + \gamma \log N_c \text{ in place of } g_c \quad \text{(Ren et al. 2020, eq. 6)}

A class the client does not have: bsm takes it out of the sum (log 0 is minus infinity, and nothing is added to make it
less); cdt leaves it there with logit 0, as its formula says.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ecgfed.methods.base import Batch, cross_entropy, row_mean
from ecgfed.methods.settings import check_choice, check_range

RISKS = ("ce", "ir", "ldam", "cdt", "bsm")


@dataclass(frozen=True, kw_only=True)
class RiskSettings:
    """The risk of the local training.

    Attributes:
        risk: ``ce``, ``ir``, ``ldam``, ``cdt`` or ``bsm``.
        gamma: the risk's strength (gamma); 1 is right for bsm, the others' papers tune it on a validation split.
    """

    risk: str = "ce"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_choice("risk", self.risk, RISKS)
        check_range("gamma", self.gamma, 0.0, 100.0)


def is_label(label: Tensor, classes: int) -> Tensor:
    """(B, classes) bool, true where the class is the beat's; unlike ``one_hot`` it can be mapped over clients."""
    return label[:, None] == torch.arange(classes, device=label.device)


def balanced_logits(logits: Tensor, label: Tensor, counts: Tensor, settings: RiskSettings) -> Tensor:
    """The logits (B, classes) that cross-entropy is taken of; ``counts`` (classes,) training beats N_c."""
    n, gamma = counts.to(logits.dtype), settings.gamma
    if settings.risk == "bsm":
        return logits + gamma * n.log()
    if settings.risk == "cdt":
        return logits * (n / n.max()) ** gamma
    if settings.risk == "ldam":
        margin = gamma * n.clamp_min(1.0) ** -0.25  # a class without beats is no label
        return logits - is_label(label, logits.shape[1]) * margin
    return logits


def risk(logits: Tensor, batch: Batch, settings: RiskSettings) -> Tensor:
    """Mean risk of a batch, over the rows that count; 0-d.

    Raises:
        ValueError: a balanced risk without ``batch.counts``.
    """
    if settings.risk == "ce":
        return cross_entropy(logits, batch)
    if batch.counts is None:
        raise ValueError(f"risk {settings.risk} needs the client's class counts with every batch")
    balanced = balanced_logits(logits, batch.label, batch.counts, settings)
    each = F.cross_entropy(balanced, batch.label, reduction="none")
    if settings.risk == "ir":
        n = batch.counts.to(each.dtype)
        present = (n > 0).sum()
        each = each * (n.sum() / (n.clamp_min(1.0) * present))[batch.label]
    return row_mean(each, batch.weight)
