"""What a method and the engine exchange: batches, client information, results, requirements; and means over them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ecgfed.base.deprecation import renamed_fields
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs

#: A nested dictionary whose leaves are tensors.
Tree = dict[str, Any]
#: Loss or metric name -> 0-d tensor.
Losses = dict[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """Beats of one client.

    Attributes:
        inputs: windows, and RR features if the net uses them.
        label: (B,) int64 class numbers.
        counts: (classes,) int64, the client's training beats per class, or None if the caller did not need them.
        balance: loss parameters learned for this client with ``risk=meta-bsm`` (``ecgfed.core.methods.meta_balance``),
            or None.
        excluded: (classes,) bool, the classes that a client's beats without a label are not of; all False if its
            beats are labelled. None if no client of the federation has such beats.
    """

    inputs: Inputs
    label: Tensor
    counts: Tensor | None = None
    balance: Params | None = None
    excluded: Tensor | None = None

    @property
    def weight(self) -> Tensor | None:
        """(B,) float32, 0 for padding rows, or None if there are none."""
        return self.inputs.weight

    def to(self, device: torch.device | None) -> "Batch":
        """Return the batch on a device; None leaves it where it is."""
        if device is None:
            return self
        moved = (None if value is None else value.to(device) for value in (self.inputs.rr, self.inputs.weight))
        counts, excluded = (None if value is None else value.to(device) for value in (self.counts, self.excluded))
        inputs = Inputs(self.inputs.examples.to(device), *moved)
        return Batch(inputs, self.label.to(device), counts, excluded=excluded)

    def as_labelled(self) -> "Batch":
        """Return the batch without ``excluded``; beats without a label get class 0 and counts of 1, to be discarded."""
        counts = None
        if self.counts is not None:
            counts = torch.where(self.counts.sum() > 0, self.counts, 1)
        return replace(self, label=self.label.clamp_min(0), counts=counts, excluded=None)


@dataclass(frozen=True)
class LocalBeats:
    """A client's training beats, read batch by batch in ``init_round`` and ``finish_round``, any number of times.

    Attributes:
        count: number of beats.
        read: returns the batch of beats at positions, (B,) int64 from 0 to ``count`` - 1, without augmentation.
    """

    count: int
    read: Callable[[NDArray[np.int64]], Batch]

    def batches(self, size: int = 512, order: Tensor | None = None) -> Iterator[Batch]:
        """Yield batches of ``size`` beats, the last one shorter.

        Args:
            size: beats per batch.
            order: (n,) int64 positions of the beats to read; None for all in their order in the cohort.
        """
        positions = np.arange(self.count) if order is None else order.cpu().numpy()
        for start in range(0, len(positions), size):
            yield self.read(positions[start : start + size])


@renamed_fields(since="0.3", removed="0.5", survey="pre_round_metrics")
@dataclass(frozen=True)
class ClientInfo:
    """A client and its round.

    Attributes:
        index: the client's number in the cohort.
        round: the current round, from 1 on.
        train_examples: number of its training beats.
        class_counts: (classes,) int64 training beats per class.
        steps: local steps planned in this round.
        progress: share of the run's rounds completed before this one, in [0, 1), for schedules.
        pre_round_metrics: means of ``Method.pre_round_metrics`` over the client's training beats, 0-d float64; empty
            unless the method requires them.
        validation: the client's validation beats; None unless the method requires them, or if the client has none.
        training: the client's training beats of an epoch; None unless the method requires them.
        earlier_rounds: rounds of the run in which it has taken part before.
        seed: the run's seed, for random choices of the method.
    """

    index: int
    round: int
    train_examples: int
    class_counts: Tensor
    steps: int
    progress: float = 0.0
    pre_round_metrics: Losses = field(default_factory=dict)
    validation: "Batch | None" = None
    training: "LocalBeats | None" = None
    earlier_rounds: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Returned:
    """Results of a round's m participants, stacked along a first axis.

    Attributes:
        tree: what ``Method.finish_round`` returned for the server, every leaf (m, ...).
        losses: name -> (m,) float64, each client's mean over its local steps.
        train_examples: (m,) float64.
        clients: (m,) int64 client numbers, increasing.
        progress: share of the run's rounds completed before this one, in [0, 1), for schedules.
        federation: number of clients of the federation, M, including those that did not take part; 0 if unknown.
        round: the round, from 1 on.
        seed: the run's seed, for random choices of the server.
    """

    tree: Tree
    losses: Losses
    train_examples: Tensor
    clients: Tensor
    progress: float = 0.0
    federation: int = 0
    round: int = 0
    seed: int = 0

    @property
    def data_share(self) -> Tensor:
        """Each participant's share of the participants' training beats, (m,) float64 with sum 1."""
        return self.train_examples / self.train_examples.sum()


@renamed_fields(
    since="0.3", removed="0.5", survey="pre_round_metrics", survey_beats="pre_round_beats", one_step="single_step"
)
@dataclass(frozen=True)
class Requirements:
    """What a method requires of the engine.

    Attributes:
        batches_per_step: number of independent batches passed to each call of ``step``.
        pre_round_metrics: whether ``Method.pre_round_metrics`` is averaged over the training beats before each round.
        pre_round_beats: over how many of them at most, evenly spaced, starting elsewhere in each round; 0 for all.
        validation: whether ``init_round`` receives the client's validation beats.
        training: whether ``init_round`` and ``finish_round`` may read the client's training beats (``LocalBeats``).
        single_step: whether the method is defined for exactly one local step per round.
        all_clients: whether every client has to take part in every round.
        pooled: whether the training beats of all clients are pooled into one, which is not federated learning:
            ``ecgfed train`` does it (``TrainingData.pooled``), ``ecgfed federate`` refuses the method.
    """

    batches_per_step: int = 1
    pre_round_metrics: bool = False
    pre_round_beats: int = 0
    validation: bool = False
    training: bool = False
    single_step: bool = False
    all_clients: bool = False
    pooled: bool = False


def weighted_mean(stacked: Params, weights: Tensor) -> Params:
    """Return ``sum_i weights_i * stacked_i`` for every entry, running statistics included.

    Args:
        stacked: entries (m, ...).
        weights: (m,) float64; they should sum to 1.
    """
    return {name: torch.tensordot(weights.to(value.dtype), value, dims=1) for name, value in stacked.items()}


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy over the rows that are not padding, 0 for beats without a label; 0-d."""
    if batch.excluded is not None:
        return torch.where(batch.excluded.any(), 0.0, cross_entropy(logits, batch.as_labelled()))
    if batch.weight is None:
        return F.cross_entropy(logits, batch.label)
    return row_mean(F.cross_entropy(logits, batch.label, reduction="none"), batch.weight)


def row_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of ``values`` (B,) over the rows that are not padding (``Batch.weight``); 0-d."""
    if weight is None:
        return values.mean()
    # not a product: the value of a padding row may be infinite
    return torch.where(weight > 0, values, 0.0).sum() / weight.sum().clamp_min(1.0)
