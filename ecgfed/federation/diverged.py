"""Why a client's round ended in numbers that are not finite: some of its beats, or the learning rate."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.errors import DivergedError
from ecgfed.federation.data import TrainingData, local_batches, local_rows
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.trees import flatten
from ecgfed.methods.base import ClientInfo, Method, Tree
from ecgfed.text import count_of, listed

#: Beats of a client that are tried by themselves, those of the round first.
MOST_BEATS = 2048
#: A beat is suspected that alone moves the model by more than the model's own length, and by so many times what a
#: quarter of the beats stay below.
OUTLIER = 100.0
#: Recordings, and seconds of each, that a message names.
NAMED_RECORDINGS, NAMED_SECONDS = 3, 5


def diverged(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    info: ClientInfo,
    start: tuple[Tree, Tree],
    seen: int,
    what: tuple[str, float],
) -> DivergedError:
    """Return the error of a client's round, with the beats that caused it where some did.

    Beats are the cause where a step on each of them alone moves the model beyond all others, and the same round without
    them stays finite. Else it is the learning rate.

    Args:
        method: the federated method.
        data: the training beats.
        plan: local work, batch size, seed.
        info: the client and its round, as ``begin`` had it.
        start: what the server sent, and what the client kept.
        seen: beats that the client had used before.
        what: the name of the loss or parameter, and its value.
    """
    where, found = f"client {data.ids.get(info.index, info.index)} in round {info.round}", f"{what[0]} is {what[1]}"
    tried = _tried(method, data, plan, info.index, seen)
    beats = _unstable_beats(method, data, info, start, tried)
    if not len(beats) or not _finite_with(method, data, plan, info, start, seen, np.setdiff1d(tried, beats)):
        return DivergedError(where, found, "a finite number", "lower the learning rate with --set lr=...")
    action = "look at them with 'ecgfed inspect', and prepare the cohort without them"
    return DivergedError(
        where,
        f"{found}, because of {count_of(len(beats), 'beat')}: {_places(data, beats)}",
        "windows that a net can learn from; without them the round stays finite",
        action,
    )


def _tried(method: Method, data: TrainingData, plan: TrainPlan, client: int, seen: int) -> NDArray[np.int64]:
    """Return the rows that are tried by themselves, at most ``MOST_BEATS``: those of the round, and others."""
    groups = local_rows(data, plan, client, seen, method.requirements.batches_per_step)
    of_round = np.unique(np.concatenate([rows for group in groups for rows in group]))
    others = np.setdiff1d(data.rows[client], of_round)
    return np.sort(np.concatenate([of_round, others])[:MOST_BEATS])


def _unstable_beats(
    method: Method, data: TrainingData, info: ClientInfo, start: tuple[Tree, Tree], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the rows that move the model beyond all others, each by a step on it alone; none where all do."""
    per_step = method.requirements.batches_per_step
    counts, moved, length = data.class_counts(info.index), np.empty(len(rows)), 0.0
    for at, row in enumerate(rows.tolist()):
        before = method.init_round(*start, info)
        batch = replace(data.batch(np.array([row])), counts=counts)
        old = {name: leaf.clone() for name, leaf in _leaves(before).items()}
        after, _ = method.step(before, (batch,) * per_step, 0)
        moved[at] = _length(leaf - old[name] for name, leaf in _leaves(after).items() if name in old)
        length = _length(old.values())
    moved[~np.isfinite(moved)] = np.inf
    beyond = moved > max(length, OUTLIER * float(np.quantile(moved, 0.25, method="lower")))
    beyond |= np.isinf(moved)
    return np.empty(0, np.int64) if beyond.all() else rows[beyond]


def _finite_with(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    info: ClientInfo,
    start: tuple[Tree, Tree],
    seen: int,
    rows: NDArray[np.int64],
) -> bool:
    """Run the round on these rows alone; say whether it stays finite."""
    without = replace(data, rows={**data.rows, info.index: rows})
    state = method.init_round(*start, info)
    for t, group in enumerate(local_batches(without, plan, info.index, seen, method.requirements.batches_per_step)):
        state, losses = method.step(state, group, t)
        if not all(math.isfinite(float(value)) for value in losses.values()):
            return False
    return math.isfinite(_length(_leaves(state).values()))


def _leaves(tree: Tree) -> dict[str, torch.Tensor]:
    return {name: leaf for name, leaf in flatten(tree).items() if leaf.is_floating_point()}


def _length(leaves: Iterable[torch.Tensor]) -> float:
    return math.sqrt(sum(float(leaf.double().square().sum()) for leaf in leaves))


def _places(data: TrainingData, rows: NDArray[np.int64]) -> str:
    """Name the recordings of some beats with their seconds; rows where nobody knows of which recording they are."""
    if data.times is None:
        return f"rows {listed([str(row) for row in rows.tolist()], NAMED_SECONDS)}"
    seconds = data.times.seconds(rows)
    named = [
        f"recording {name} at {listed([f'{one:.1f} s' for one in at], NAMED_SECONDS)}" for name, at in seconds.items()
    ]
    return listed(named, NAMED_RECORDINGS)
