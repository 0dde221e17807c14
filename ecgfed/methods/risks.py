r"""What a client minimises on a batch: cross-entropy, or a risk balanced over its classes (Fed-RoD, table 5).

With N_c the client's training beats of class c, g_c the logit of class c and y the label:

.. math::
    \text{ce} &: -\log \operatorname{softmax}(g)_y \\
    \text{ir} &: \frac{\sum_c N_c}{K N_y} \, \text{ce}, \quad K \text{ classes present, so that the mean weight is 1} \\
    \text{ldam} &: \text{ce with } g_y - \gamma N_y^{-1/4} \text{ in place of } g_y \quad \text{(Cao et al. 2019)} \\
    \text{cdt} &: \text{ce with } (N_c / N_{\max})^\gamma g_c \text{ in place of } g_c \quad \text{(Ye et al. 2020)} \\
    \text{bsm} &: \text{ce with } g_c + \gamma \log N_c \text{ in place of } g_c \text{ (Ren et al. 2020, eq. 6)} \\
    \text{meta-bsm} &: \text{bsm with a learned } \gamma \text{, each beat weighted by } q \quad
      \text{(Fed-RoD, B.5; } \texttt{meta\_balance.py} \text{)}

A class the client does not have: bsm takes it out of the sum (log 0 is minus infinity, and nothing is added to make it
less); cdt leaves it there with logit 0, as its formula says.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.methods.base import Batch, cross_entropy, row_mean
from ecgfed.methods.settings import Settings, choice, ranged
from ecgfed.nets.layers import Params, linear

RISKS = ("ce", "ir", "ldam", "cdt", "bsm", "meta-bsm")


@dataclass(frozen=True, kw_only=True)
class RiskSettings(Settings):
    """The risk of the local training.

    Attributes:
        risk: what local training minimises: ``ce`` is cross-entropy, ``ir`` weighs it by class, ``ldam``, ``cdt`` and
            ``bsm`` shift or scale the logits by class, ``meta-bsm`` learns how far.
        gamma: the risk's strength (gamma); 1 is right for bsm, the others' papers tune it on a validation split. Where
            meta-bsm begins.
        meta_lr: meta-bsm's step of gamma and of the weighing net.
        meta_beats: beats of each class in its meta set, where there are so many.
    """

    risk: str = choice("ce", RISKS)
    gamma: float = ranged(1.0, 0, 100)
    meta_lr: float = ranged(0.01, 0, 100)
    meta_beats: int = ranged(10, 1, 1000)


def is_label(label: Tensor, classes: int) -> Tensor:
    """(B, classes) bool, true where the class is the beat's; unlike ``one_hot`` it can be mapped over clients."""
    return label[:, None] == torch.arange(classes, device=label.device)


def balanced_logits(logits: Tensor, label: Tensor, counts: Tensor, settings: RiskSettings) -> Tensor:
    """The logits (B, classes) that cross-entropy is taken of; ``counts`` (classes,) training beats N_c."""
    n, gamma = counts.to(logits.dtype), settings.gamma
    if settings.risk == "bsm":
        # gamma 0 is plain cross-entropy: 0 * log 0 is nothing, not a class taken out
        return logits + gamma * n.log() if gamma else logits
    if settings.risk == "cdt":
        return logits * (n / n.max()) ** gamma
    if settings.risk == "ldam":
        margin = gamma * n.clamp_min(1.0) ** -0.25  # a class without beats is no label
        return logits - is_label(label, logits.shape[1]) * margin
    return logits


def risk(logits: Tensor, batch: Batch, settings: RiskSettings) -> Tensor:
    """Mean risk of a batch, over the rows that count; 0-d.

    Raises:
        ValueError: a balanced risk without ``batch.counts``, meta-bsm without ``batch.balance``.
    """
    if settings.risk == "ce":
        return cross_entropy(logits, batch)
    if batch.counts is None:
        raise ValueError(f"risk {settings.risk} needs the client's class counts with every batch")
    if settings.risk == "meta-bsm":
        if batch.balance is None:
            raise ValueError("risk meta-bsm needs what was learned of the client with every batch")
        return learned_risk(logits, batch.label, batch.counts, batch.balance, batch.weight)
    balanced = balanced_logits(logits, batch.label, batch.counts, settings)
    each = F.cross_entropy(balanced, batch.label, reduction="none")
    if settings.risk == "ir":
        n = batch.counts.to(each.dtype)
        present = (n > 0).sum()
        each = each * (n.sum() / (n.clamp_min(1.0) * present))[batch.label]
    return row_mean(each, batch.weight)


def learned_risk(logits: Tensor, label: Tensor, counts: Tensor, balance: Params, weight: Tensor | None) -> Tensor:
    """Meta-BSM's risk of a batch (Fed-RoD, B.5, steps 1 to 3), q scaled to a mean of 1; 0-d.

    Args:
        logits: (B, classes).
        label: (B,) int64.
        counts: (classes,) the client's training beats N_c.
        balance: ``gamma`` (0-d) and the weighing net's parameters ``weigher.*``.
        weight: (B,), 0 for rows that only fill the batch up, or None.
    """
    n = counts.to(logits.dtype)
    # not gamma * log 0: its derivative by gamma would be 0 * infinity
    shift = torch.where(n > 0, balance["gamma"] * n.clamp_min(1.0).log(), -torch.inf)
    each = F.cross_entropy(logits + shift, label, reduction="none")
    if weight is not None:
        each = torch.where(weight > 0, each, 0.0)
    q = beat_weights(balance, each.detach())
    return row_mean(q / row_mean(q, weight) * each, weight)


def beat_weights(balance: Params, loss: Tensor) -> Tensor:
    """q in (0, 1) of each beat's loss (B,): Meta-Weight-Net (Shu et al., NeurIPS 2019), one hidden layer; (B,)."""
    hidden = F.relu(linear(balance, "weigher.hidden", loss[:, None]))
    return torch.sigmoid(linear(balance, "weigher.out", hidden))[:, 0]
