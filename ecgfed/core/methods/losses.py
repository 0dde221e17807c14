r"""Losses of local training: cross-entropy, or a loss balanced over the client's classes (Fed-RoD, table 5).

The setting is called ``risk``, Fed-RoD's word (empirical risk).

With N_c the client's number of training beats of class c, g_c the logit of class c and y the label:

.. math::
    \text{ce} &: -\log \operatorname{softmax}(g)_y \\
    \text{ir} &: \frac{\sum_c N_c}{K N_y} \, \text{ce}, \quad K \text{ classes present, so that the mean weight is 1} \\
    \text{ldam} &: \text{ce with } g_y - \gamma N_y^{-1/4} \text{ in place of } g_y \quad \text{(Cao et al. 2019)} \\
    \text{cdt} &: \text{ce with } (N_c / N_{\max})^\gamma g_c \text{ in place of } g_c \quad \text{(Ye et al. 2020)} \\
    \text{bsm} &: \text{ce with } g_c + \gamma \log N_c \text{ in place of } g_c \text{ (Ren et al. 2020, eq. 6)} \\
    \text{meta-bsm} &: \text{bsm with a learned } \gamma \text{, each beat weighted by } q \quad
      \text{(Fed-RoD, B.5; } \texttt{meta\_balance.py} \text{)}

Classes without beats: bsm drops them from the sum (log 0 is minus infinity; no constant is added to N_c); cdt keeps
them with logit 0, as in its formula.

A beat without a label, of a recording that rules out the classes E (``Batch.excluded``), has none of these but

.. math::
    w \cdot -\log \Big(1 - \sum_{c \in E} p_c\Big)
      = w \Big(\log \sum_c e^{g_c} - \log \sum_{c \notin E} e^{g_c}\Big), \quad p = \operatorname{softmax}(g)

with w ``weak_weight``: the likelihood of a set of candidate labels (Jin and Ghahramani, NIPS 2002). It is linear in g
where p is near 1, and its gradient's norm is at most the square root of 2.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.base.plugins import names_code
from ecgfed.core.methods.interface import Batch, cross_entropy, row_mean
from ecgfed.core.methods.own_losses import own_loss
from ecgfed.core.methods.settings import Settings, choice, ranged
from ecgfed.core.nets.layers import Params, linear

LOSS_NAMES = ("ce", "ir", "ldam", "cdt", "bsm", "meta-bsm")


@dataclass(frozen=True, kw_only=True)
class LossSettings(Settings):
    """Settings of the loss.

    Attributes:
        risk: loss of local training: ``ce`` is cross-entropy, ``ir`` weights it by class, ``ldam``, ``cdt`` and ``bsm``
            shift or scale the logits by class, ``meta-bsm`` learns by how much; or your own (``own_losses.py``).
        gamma: strength of the loss (gamma); 1 is right for bsm, the other papers tune it on a validation split. With
            meta-bsm the initial value.
        meta_lr: learning rate of gamma and of the weighting net of meta-bsm.
        meta_beats: beats per class in the meta set of meta-bsm, or all if there are fewer.
        weak_weight: weight of beats of which only a label of the recording is known, beside 1 of a labelled beat; 0
            leaves them out.
        label_smoothing: share of a label that goes to all classes alike (Szegedy et al. 2016); risk ce only.
    """

    risk: str = choice("ce", LOSS_NAMES, or_code=True)
    gamma: float = ranged(1.0, 0, 100)
    meta_lr: float = ranged(0.01, 0, 100)
    meta_beats: int = ranged(10, 1, 1000)
    weak_weight: float = ranged(0.3, 0, 1)
    label_smoothing: float = ranged(0.0, 0, 0.9)

    def check_together(self) -> None:
        super().check_together()
        if self.label_smoothing and self.risk != "ce":
            value = f"{self.label_smoothing:g} with risk {self.risk}"
            raise OptionError(
                f"{param('settings')} label_smoothing", value, "0, or risk ce", "set one of the two", code="conflict"
            )


def is_label(label: Tensor, classes: int) -> Tensor:
    """Return (B, classes) bool, the one-hot labels; unlike ``F.one_hot`` it works under ``torch.func.vmap``."""
    return label[:, None] == torch.arange(classes, device=label.device)


def balanced_logits(logits: Tensor, label: Tensor, counts: Tensor, settings: LossSettings) -> Tensor:
    """Return the adjusted logits (B, classes) for cross-entropy; ``counts`` (classes,) are the training beats N_c."""
    n, gamma = counts.to(logits.dtype), settings.gamma
    if settings.risk == "bsm":
        # gamma 0 is plain cross-entropy: 0 * log 0 counts as 0 and drops no class
        return logits + gamma * n.log() if gamma else logits
    if settings.risk == "cdt":
        return logits * (n / n.max()) ** gamma
    if settings.risk == "ldam":
        margin = gamma * n.clamp_min(1.0) ** -0.25  # a class without beats does not occur as a label
        return logits - is_label(label, logits.shape[1]) * margin
    return logits


def batch_loss(logits: Tensor, batch: Batch, settings: LossSettings) -> Tensor:
    """Return the mean loss of a batch over the rows that are not padding; 0-d.

    Raises:
        ValueError: a balanced loss without ``batch.counts``, meta-bsm without ``batch.balance``.
    """
    if batch.excluded is not None:  # a client's beats are labelled, or none is
        weak = settings.weak_weight * excluded_loss(logits, batch.excluded, batch.weight)
        return torch.where(batch.excluded.any(), weak, batch_loss(logits, batch.as_labelled(), settings))
    if settings.risk == "ce":
        if settings.label_smoothing:
            values = F.cross_entropy(logits, batch.label, reduction="none", label_smoothing=settings.label_smoothing)
            return row_mean(values, batch.weight)
        return cross_entropy(logits, batch)
    if batch.counts is None:
        raise ValueError(f"risk {settings.risk} needs the client's class counts with every batch")
    if settings.risk == "meta-bsm":
        if batch.balance is None:
            raise ValueError("risk meta-bsm needs the client's learned loss parameters with every batch")
        return meta_balanced_loss(logits, batch.label, batch.counts, batch.balance, batch.weight)
    if names_code(settings.risk):
        return row_mean(own_loss(settings.risk, logits, batch.label, batch.counts), batch.weight)
    balanced = balanced_logits(logits, batch.label, batch.counts, settings)
    values = F.cross_entropy(balanced, batch.label, reduction="none")
    if settings.risk == "ir":
        n = batch.counts.to(values.dtype)
        present = (n > 0).sum()
        values = values * (n.sum() / (n.clamp_min(1.0) * present))[batch.label]
    return row_mean(values, batch.weight)


def excluded_loss(logits: Tensor, excluded: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean of ``-log(1 - p)`` over the rows of logits (B, classes), p of the excluded classes; 0-d.

    Args:
        excluded: (classes,) bool, not all True.
        weight: (B,), 0 for padding rows, or None.
    """
    others = logits.masked_fill(excluded, -torch.inf)
    return row_mean(logits.logsumexp(1) - others.logsumexp(1), weight)


def meta_balanced_loss(logits: Tensor, label: Tensor, counts: Tensor, balance: Params, weight: Tensor | None) -> Tensor:
    """Return the meta-BSM loss of a batch (Fed-RoD, B.5, steps 1 to 3), q scaled to a mean of 1; 0-d.

    Args:
        logits: (B, classes).
        label: (B,) int64.
        counts: (classes,) the client's training beats N_c.
        balance: ``gamma`` (0-d) and the weighting net's parameters ``weigher.*``.
        weight: (B,), 0 for padding rows, or None.
    """
    n = counts.to(logits.dtype)
    # not gamma * log 0: its derivative by gamma would be 0 * infinity
    shift = torch.where(n > 0, balance["gamma"] * n.clamp_min(1.0).log(), -torch.inf)
    values = F.cross_entropy(logits + shift, label, reduction="none")
    if weight is not None:
        values = torch.where(weight > 0, values, 0.0)
    q = beat_weights(balance, values.detach())
    return row_mean(q / row_mean(q, weight) * values, weight)


def beat_weights(balance: Params, loss: Tensor) -> Tensor:
    """Return q (B,) in (0, 1) for losses (B,): Meta-Weight-Net (Shu et al., NeurIPS 2019) with one hidden layer."""
    hidden = F.relu(linear(balance, "weigher.hidden", loss[:, None]))
    return torch.sigmoid(linear(balance, "weigher.out", hidden))[:, 0]
