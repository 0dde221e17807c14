r"""FedABC (Wang et al., AAAI 2023, arXiv 2302.07450): one binary problem a class, so that classes do not compete.

With q = sigmoid(g_c) for class c and y whether the beat is of class c (equations 5 and 6):

.. math::
    c \text{ present} &: -[y = 1, q < m_p] (1 - q)^\sigma \log q - [y = 0, q > m_n] q^\sigma \log(1 - q) \\
    c \text{ absent} &: -[q > m_{nn}] q^\sigma \log(1 - q)

summed over the classes, divided by the number of beats. Models are averaged by data share; the personal model is the
one after local training. The thresholds select beats and take no gradient.

Departure from the paper: the predicted class is that of the largest logit, as for all nets here, and the probabilities
are the softmax of the logits; they are not calibrated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.communication import CommunicationSpec, Stored
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Tree, row_mean
from ecgfed.core.methods.local_sgd import gradients, sgd_step
from ecgfed.core.methods.losses import is_label
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.methods.settings import choice, ranged
from ecgfed.core.nets.layers import Params


@dataclass(frozen=True, kw_only=True)
class FedAbcSettings(FederatedSgdSettings):
    """Settings of FedABC; defaults are the paper's for CIFAR-10.

    Attributes:
        risk: ``ce`` only: FedABC has a loss of its own.
        weak_weight: 0 only: that loss is defined for labelled beats.
        label_smoothing: 0 only: the losses are binary.
        m_p: positives less probable than this count (m_p).
        m_n: negatives of a present class more probable than this count (m_n).
        m_nn: the same for an absent class (m_nn).
        focus: power of the focal factor (sigma).
    """

    risk: str = choice("ce", ("ce",))
    weak_weight: float = ranged(0.0, 0, 0)
    label_smoothing: float = ranged(0.0, 0, 0)
    weight_decay: float = 1e-5
    m_p: float = ranged(0.85, 0, 1)
    m_n: float = ranged(0.2, 0, 1)
    m_nn: float = ranged(0.3, 0, 1)
    focus: float = ranged(2.0, 0, 10)


def binary_loss(logits: Tensor, label: Tensor, counts: Tensor, settings: FedAbcSettings) -> Tensor:
    """Equations 5 and 6 per beat (B,) for logits (B, classes) and the client's training beats per class."""
    q = torch.sigmoid(logits)
    positive = is_label(label, logits.shape[1])
    present = counts > 0
    hard_positive = positive & (q < settings.m_p)
    hard_negative = ~positive & (q > torch.where(present, settings.m_n, settings.m_nn))
    zero = torch.zeros_like(q)
    of_positives = torch.where(hard_positive, -((1 - q) ** settings.focus) * F.logsigmoid(logits), zero)
    of_negatives = torch.where(hard_negative, -(q**settings.focus) * F.logsigmoid(-logits), zero)
    return (of_positives + of_negatives).sum(1)


class FedAbc(FedAvg):
    """FedAvg with a binary, under-sampled, focal loss for each class."""

    name: ClassVar[str] = "fedabc"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        title="FedABC",
        reference="Wang et al., AAAI 2023",
        stores=(Stored("model", "personal model", "as it is"),),
    )
    settings_type: ClassVar[type] = FedAbcSettings

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        batch = batches[0]
        if batch.counts is None:
            raise ValueError("FedABC needs the client's class counts with every batch")
        counts = batch.counts

        def objective(params: Params) -> tuple[Tensor, Params]:
            stats: Params = {}
            logits = self.net.logits(params, batch.inputs, stats)
            return row_mean(binary_loss(logits, batch.label, counts, self.settings), batch.weight), stats

        grads, loss, stats = gradients(objective, state["model"])
        model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, self.settings)
        return {"model": model, "velocity": velocity}, {"loss": loss}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["model"]}, {"model": state["model"]}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        if "model" not in client_state:
            return super().personal_model(server, client_state)
        return Pipeline((Stage("model", client_state["model"], shared=False),))
