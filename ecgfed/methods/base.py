"""The hooks of a federated method: pure functions over dictionaries of tensors.

The engine calls them for one client after the other, for many at once, or inside a client at a hospital; a method
never sees a loop over clients, a device or a file. ``Tree`` is a nested dictionary whose leaves are tensors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.methods.answers import Answer, Chain
from ecgfed.methods.card import Card
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Inputs, Net

Tree = dict[str, Any]
Losses = dict[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """Beats of one client.

    Attributes:
        inputs: windows, and RR features where the net takes them.
        label: (B,) int64 class numbers.
        counts: (classes,) int64, the client's training beats per class, or None where nobody asked for them.
        balance: what ``risk=meta-bsm`` has learned of this client (``ecgfed.methods.meta_balance``), else None.
    """

    inputs: Inputs
    label: Tensor
    counts: Tensor | None = None
    balance: Params | None = None

    @property
    def weight(self) -> Tensor | None:
        """(B,) float32, 0 for rows that only fill the batch up, or None when every row counts."""
        return self.inputs.weight

    def to(self, device: torch.device | None) -> "Batch":
        """Return the batch on a device; None leaves it where it is."""
        if device is None:
            return self
        moved = (None if value is None else value.to(device) for value in (self.inputs.rr, self.inputs.weight))
        counts = None if self.counts is None else self.counts.to(device)
        return Batch(Inputs(self.inputs.examples.to(device), *moved), self.label.to(device), counts)


@dataclass(frozen=True)
class ClientInfo:
    """What a client knows about itself and its round.

    Attributes:
        index: the client's number in the cohort.
        round: the current round, from 1 on.
        train_examples: number of its training beats.
        class_counts: (classes,) int64 training beats per class.
        steps: local steps planned in this round.
        progress: share of the run's rounds that were finished before this one, 0 to below 1, for phases.
        survey: means of ``survey`` over the client's training beats, 0-d float64; empty unless the method needs it.
        validation: the client's validation beats; None unless the method needs them, or where it has none.
        seed: the run's, for choices a method draws itself.
    """

    index: int
    round: int
    train_examples: int
    class_counts: Tensor
    steps: int
    progress: float = 0.0
    survey: Losses = field(default_factory=dict)
    validation: "Batch | None" = None
    seed: int = 0


@dataclass(frozen=True)
class Returned:
    """What the participants of a round sent back, stacked along a first axis of m clients.

    Attributes:
        tree: what ``finish`` returned, every leaf (m, ...).
        losses: name -> (m,) float64, each client's mean over its local steps.
        train_examples: (m,) float64.
        clients: (m,) int64 client numbers, increasing.
        progress: share of the run's rounds that were finished before this one, 0 to below 1, for schedules.
        federation: number of clients of the federation, M, participants or not; 0 where nobody said.
        round: the round they took part in, from 1 on.
        seed: the run's, for choices the server draws itself.
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


@dataclass(frozen=True)
class Needs:
    """What a method asks of the engine.

    Attributes:
        batches_per_step: independent batches that ``step`` receives each time.
        survey: whether ``survey`` is taken over the training beats before ``begin``.
        survey_beats: over how many of them at most, evenly spread and moving on from round to round; 0 is all.
        validation: whether ``begin`` is given the client's validation beats.
        one_step: whether the method is defined for one local step a round only.
        all_clients: whether every client has to take part in every round.
    """

    batches_per_step: int = 1
    survey: bool = False
    survey_beats: int = 0
    validation: bool = False
    one_step: bool = False
    all_clients: bool = False


class Method(ABC):
    """One federated algorithm.

    A subclass sets ``name``, ``card``, ``settings_type`` (a frozen dataclass derived from ``Settings``) and, where the
    clients' models together are the only global answer, ``has_global_model = False``. It is found by its file being in
    ``ecgfed/methods``.
    """

    name: ClassVar[str] = ""
    card: ClassVar[Card]
    needs: Needs = Needs()
    has_global_model: ClassVar[bool] = True
    #: whether ``aggregate`` begins with a weighted mean of the weights that come up, whatever it does with that: what
    #: robust aggregation and differential privacy need (``ecgfed.federation.updates``)
    averages: bool = False
    #: the personal answer it is made for (``ecgfed.personal``): ``method`` is its own
    personal: ClassVar[str] = "method"
    settings_type: ClassVar[type]

    def __init__(self, net: Net, settings: Any) -> None:
        self.net = net
        self.settings = settings

    @abstractmethod
    def server_start(self, initial: Params) -> Tree:
        """Return the server's state before the first round."""

    @abstractmethod
    def client_start(self, initial: Params) -> Tree:
        """Return what a client keeps before its first round; ``{}`` where nothing is kept."""

    @abstractmethod
    def shared(self, server: Tree, client: int) -> Tree:
        """Return what the server sends to a participant.

        What is the same for everybody is to be the same tensors for everybody: nothing is copied on the way.

        Args:
            server: the server's state.
            client: the participant's number; one that the federation does not have is a newcomer's.
        """

    def survey(self, shared: Tree, batch: Batch) -> Losses:
        """Return what to average over all training beats at the received model: means over the batch, 0-d."""
        raise NotImplementedError(f"{self.name} asks for a survey and does not say of what")

    @abstractmethod
    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        """Return a client's working state at the start of its round, optimizer state included."""

    @abstractmethod
    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        """Take local step ``t`` (from 0 on); return the new state and named losses (0-d tensors), first ``loss``.

        Many clients at once pass ``t`` as a 0-d int64 tensor, each client its own: choose by it with ``torch.where``,
        never with ``if``. What is the same for all clients of a round may decide the keys of the state in ``begin``.
        """

    @abstractmethod
    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        """Return what goes back to the server and what the client keeps."""

    @abstractmethod
    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        """Return the server's state after a round."""

    @abstractmethod
    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        """Return the answer for anybody.

        Args:
            server: the server's state.
            kept: what each client keeps, in client order.
            protocol: for methods without a global model: ``ensemble`` or ``average`` of the clients' models.
        """

    @abstractmethod
    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        """Return the answer for the patient who keeps ``kept``."""

    def personal_variants(self, server: Tree, kept: Tree) -> dict[str, Chain]:
        """Return other answers for a patient worth scoring beside ``personal_answer``, by name; none by default."""
        return {}

    def local_answer(self, returned: Tree) -> Chain | None:
        """Return the model a client has after local training, from what ``finish`` sends back.

        For methods whose personal answer is the global model: what each client ends with is a personal model of its own
        (Fed-RoD, section 3.2). None for the others.
        """
        return None

    def newcomer(self, server: Tree, initial: Params) -> Tree:
        """Return what a patient who took no part keeps before the first local step, late in a run.

        Args:
            server: the server's state.
            initial: the run's first parameters, for what the server does not have.
        """
        return self.client_start({**initial, **server.get("model", {})})

    def from_class_mix(self, server: Tree, mix: Tensor) -> Chain | None:
        """Return the model of a patient known by class shares (classes,) alone; None where there is none."""
        return None

    def in_training(self, state: Tree) -> Params:
        """Return the model that local step trains on the client's risk, from the working state."""
        model: Params = state["model"]
        return model

    def round_report(self, server: Tree) -> dict[str, float]:
        """Return numbers of the server's state that belong into the history; none by default."""
        return {}


def weighted_mean(stacked: Params, weights: Tensor) -> Params:
    """Return ``sum_i weights_i * stacked_i`` for every entry, running statistics too.

    Args:
        stacked: entries (m, ...).
        weights: (m,) float64; they should sum to 1.
    """
    return {name: torch.tensordot(weights.to(value.dtype), value, dims=1) for name, value in stacked.items()}


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy of a batch, over the rows that count; 0-d."""
    if batch.weight is None:
        return F.cross_entropy(logits, batch.label)
    return row_mean(F.cross_entropy(logits, batch.label, reduction="none"), batch.weight)


def row_mean(each: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of ``each`` (B,) over the rows that count (``Batch.weight``); 0-d."""
    if weight is None:
        return each.mean()
    # not a product: a row that does not count may well be infinite
    return torch.where(weight > 0, each, 0.0).sum() / weight.sum().clamp_min(1.0)
