"""One client's round, from what the server sent to what goes back: the meaning that every engine keeps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.federation.data import TrainingData, local_batches
from ecgfed.federation.diverged import diverged
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.trees import flatten
from ecgfed.methods.base import ClientInfo, Method, Tree

#: Beats of a survey's batch; no gradient is kept, so they may be many.
SURVEY_BATCH = 512
#: The golden ratio's fraction: its multiples leave no gap on the circle for long.
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class ClientWork:
    """One client's part of a round.

    Attributes:
        info: the client and its round.
        shared: what the server sent it; clients that get the same have the same tensors.
        kept: what it kept from its last round.
        seen: beats it has used in earlier rounds.
    """

    info: ClientInfo
    shared: Tree
    kept: Tree
    seen: int


@dataclass(frozen=True)
class ClientResult:
    """What one client's round gave.

    Attributes:
        returned: what goes to the server.
        kept: what stays.
        losses: means over the local steps.
        examples: beats or images used in this round.
    """

    returned: Tree
    kept: Tree
    losses: dict[str, float]
    examples: int


class ClientEngine(Protocol):
    """Runs the clients of a round; results come in the order of ``work``."""

    def run(self, method: Method, work: Sequence[ClientWork]) -> "Sequence[ClientResult | None]":
        """Run all clients of a round; None stands for one that could not be reached: it takes no part in it."""


def run_client(method: Method, data: TrainingData, plan: TrainPlan, work: ClientWork) -> ClientResult:
    """Run one client's round from ``init_round`` to ``finish_round``.

    Raises:
        DivergedError: a loss or a parameter that is not finite, naming the client and the round.
    """
    work = prepared(method, data, work)
    info = work.info
    state = method.init_round(work.shared, work.kept, info)
    zero = torch.zeros((), dtype=torch.float64)
    sums: dict[str, torch.Tensor] = {}
    beats = 0
    batches = local_batches(data, plan, info.index, work.seen, method.requirements.batches_per_step)
    for t, group in enumerate(batches):
        state, losses = method.step(state, group, t)
        beats += sum(len(batch.label) for batch in group)
        for name, value in losses.items():
            sums[name] = value.detach() + sums.get(name, zero)
    means = {name: float(value) / info.steps for name, value in sums.items()}
    return close_client(method, data, plan, work, state, means, beats)


def prepared(method: Method, data: TrainingData, work: ClientWork, device: torch.device | None = None) -> ClientWork:
    """Return the work with what the method asks for before ``init_round``: its pre-round metrics, the validation beats.

    Args:
        method: the federated method.
        data: the training beats.
        work: the client and its round, what the server sent it on ``device``.
        device: where the survey runs and the beats are put; default the CPU.
    """
    info = work.info
    if method.requirements.validation and info.index in data.valid_rows:
        validation = replace(data.batch(data.valid_rows[info.index]), counts=info.class_counts).to(device)
        info = replace(info, validation=validation)
    if method.requirements.pre_round_metrics:
        rows = surveyed_rows(data.rows[info.index], method.requirements.pre_round_beats, info.round)
        sums: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for start in range(0, len(rows), SURVEY_BATCH):
                batch = data.batch(rows[start : start + SURVEY_BATCH])
                batch = replace(batch, counts=info.class_counts).to(device)
                for name, value in method.pre_round_metrics(work.shared, batch).items():
                    sums[name] = value.double() * len(batch.label) + sums.get(name, 0.0)
        info = replace(info, pre_round_metrics={name: value / len(rows) for name, value in sums.items()})
    return replace(work, info=info)


def surveyed_rows(rows: NDArray[np.int64], most: int, round_number: int) -> NDArray[np.int64]:
    """Return the rows of a round's survey: all, or ``most`` of them, evenly spread in time.

    Where they begin moves on with the golden ratio, so that a few rounds see every stretch of the recording.
    """
    if not most or len(rows) <= most:
        return rows
    begin = round_number * GOLDEN % 1.0
    return rows[((np.arange(most) + begin) * (len(rows) / most)).astype(np.int64)]


def close_client(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    work: ClientWork,
    state: Tree,
    means: dict[str, float],
    beats: int,
) -> ClientResult:
    """End a client's round with ``finish_round``.

    Raises:
        DivergedError: a loss or a parameter that is not finite, naming the client, the round and the beats that caused
            it.
    """
    info = work.info
    returned, kept = method.finish_round(state, info)
    leaves = [value for value in flatten({"returned": returned, "kept": kept}).values() if value.is_floating_point()]
    lengths = torch.stack([length.double() for length in torch._foreach_norm(leaves)]) if leaves else torch.zeros(1)
    for name, mean in {**means, "the model": float(lengths.sum())}.items():
        if not math.isfinite(mean):
            info = prepared(method, data, work).info
            raise diverged(method, data, plan, info, (work.shared, work.kept), work.seen, (name, mean))
    return ClientResult(returned, kept, means, beats)
