"""One client's round, from the server's message to the reply: the reference that every engine must match."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import DivergedError
from ecgfed.core.federation.data import TrainingData, local_batches
from ecgfed.core.federation.diverged import diverged
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Batch, ClientInfo, LocalBeats, Losses, Method, Tree

#: Batch size of a survey; large, because it needs no gradients.
SURVEY_BATCH = 512
#: Fractional part of the golden ratio: its multiples cover the circle evenly.
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class ClientWork:
    """Input of one client in a round.

    Attributes:
        info: the client and its round.
        shared: sent by the server; clients that receive the same share the tensors.
        client_state: its state after its last round.
        beats_used: beats it used in earlier rounds.
    """

    info: ClientInfo
    shared: Tree
    client_state: Tree
    beats_used: int


@dataclass(frozen=True)
class ClientResult:
    """Result of one client's round.

    Attributes:
        returned: sent to the server.
        client_state: stored on the client.
        losses: mean over the local steps.
        examples: beats or images used in this round.
    """

    returned: Tree
    client_state: Tree
    losses: dict[str, float]
    examples: int


class ClientEngine(Protocol):
    """Runs the clients of a round; results come in the order of ``work``."""

    def run(self, method: Method, work: Sequence[ClientWork]) -> "Sequence[ClientResult | None]":
        """Run all clients of a round; None for a client that could not be reached and does not take part."""


class ClientRunner(Protocol):
    """Runs one client's round, as ``run_client`` does."""

    def __call__(self, method: Method, data: TrainingData, plan: TrainPlan, work: ClientWork) -> ClientResult:
        """Run one client's round; arguments as of ``run_client``."""


def run_client(
    method: Method, data: TrainingData, plan: TrainPlan, work: ClientWork, *, explain: bool = True
) -> ClientResult:
    """Run one client's round from ``init_round`` to ``finish_round``.

    Args:
        method: the federated method.
        data: the training beats.
        plan: local work, batch size, seed.
        work: the client and its round.
        explain: find the beats that made a round diverge, which takes up to 2,048 further steps.

    Raises:
        DivergedError: a loss or a parameter that is not finite, naming the client and the round.
    """
    work = prepared(method, data, work)
    state, sums, beats = train_locally(method, data, plan, work)
    means = {name: float(value) / work.info.steps for name, value in sums.items()}
    return close_client(method, data, plan, work, state, means, beats, explain=explain)


def train_locally(
    method: Method, data: TrainingData, plan: TrainPlan, work: ClientWork, device: torch.device | None = None
) -> tuple[Tree, Losses, int]:
    """Run ``init_round`` and the local steps; no tensor's value is read.

    Args:
        method: the federated method.
        data: the training beats.
        plan: local work, batch size, seed.
        work: as ``prepared`` returns it, its trees on ``device``.
        device: for the batches; default the CPU.

    Returns:
        The working state, sums of the losses over the steps (0-d float64), and the number of beats used.
    """
    info = work.info
    with torch.device(device or "cpu"):  # tensors that the hook creates must be on the same device
        state = method.init_round(work.shared, work.client_state, info)
    sums: Losses = {}
    beats = 0
    batches = local_batches(data, plan, info.index, work.beats_used, method.requirements.batches_per_step)
    for t, group in enumerate(batches):
        state, losses = method.step(state, [batch.to(device) for batch in group], t)
        beats += sum(len(batch.label) for batch in group)
        for name, value in losses.items():
            sums[name] = value.detach().double() + sums.get(name, 0.0)
    return state, sums, beats


def prepared(method: Method, data: TrainingData, work: ClientWork, device: torch.device | None = None) -> ClientWork:
    """Return the work with what the method requires before ``init_round``: pre-round metrics, and beats to be read.

    Args:
        data: the training beats.
        work: the client and its round, with the server's message on ``device``.
        device: for the survey and the beats; default the CPU.
    """
    info = work.info
    if device is not None:
        info = replace(info, class_counts=info.class_counts.to(device))
    beats = local_beats(data, replace(work, info=info), device)
    if method.requirements.training:
        info = replace(info, training=beats)
    if method.requirements.validation and info.index in data.valid_rows:
        validation = replace(data.batch(data.valid_rows[info.index]), counts=info.class_counts).to(device)
        info = replace(info, validation=validation)
    if method.requirements.pre_round_metrics:
        surveyed = surveyed_rows(np.arange(beats.count), method.requirements.pre_round_beats, info.round)
        sums: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for batch in beats.batches(SURVEY_BATCH, torch.from_numpy(surveyed)):
                for name, value in method.pre_round_metrics(work.shared, batch).items():
                    sums[name] = value.double() * len(batch.label) + sums.get(name, 0.0)
        info = replace(info, pre_round_metrics={name: value / len(surveyed) for name, value in sums.items()})
    return replace(work, info=info)


def local_beats(data: TrainingData, work: ClientWork, device: torch.device | None = None) -> LocalBeats:
    """Return the training beats of a client's current epoch, in their order in the cohort.

    With ``most_per_class`` these are the ones that the epoch draws, whose mean loss local training lowers.
    """
    info = work.info
    rows = data.rows[info.index]
    if data.most_per_class is not None:
        epoch = work.beats_used // data.epoch_length(info.index)
        rows = np.sort(data.epoch_rows(info.seed, info.index, epoch))

    def read(positions: NDArray[np.int64]) -> Batch:
        batch = data.batch(rows[positions])
        return replace(batch, counts=info.class_counts, excluded=data.excluded_classes(info.index)).to(device)

    return LocalBeats(len(rows), read)


def surveyed_rows(rows: NDArray[np.int64], limit: int, round_number: int) -> NDArray[np.int64]:
    """Return the rows of a round's survey: all, or ``limit`` of them, evenly spaced in time.

    Their offset advances by the golden ratio each round, so that a few rounds cover every part of the recording.
    """
    if not limit or len(rows) <= limit:
        return rows
    begin = round_number * GOLDEN % 1.0
    return rows[((np.arange(limit) + begin) * (len(rows) / limit)).astype(np.int64)]


def close_client(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    work: ClientWork,
    state: Tree,
    means: dict[str, float],
    beats: int,
    *,
    explain: bool = True,
) -> ClientResult:
    """Finish a client's round with ``finish_round``.

    Raises:
        DivergedError: a loss or a parameter that is not finite, naming the client, the round and, with ``explain``, the
            beats that caused it.
    """
    info = work.info
    if method.requirements.training:  # of the CPU, where the state is by now
        info = replace(info, training=local_beats(data, work))
    returned, client_state = method.finish_round(state, info)
    leaves = [
        value for value in flatten({"returned": returned, "kept": client_state}).values() if value.is_floating_point()
    ]
    lengths = torch.stack([length.double() for length in torch._foreach_norm(leaves)]) if leaves else torch.zeros(1)
    for name, mean in {**means, "the model": float(lengths.sum())}.items():
        if not math.isfinite(mean):
            if not explain:
                raise DivergedError(f"client {info.index} in round {info.round}", f"{name} is {mean}")
            info = prepared(method, data, work).info
            raise diverged(method, data, plan, info, (work.shared, work.client_state), work.beats_used, (name, mean))
    return ClientResult(returned, client_state, means, beats)
