"""Why a client's round ended in numbers that are not finite: some of its beats, or the learning rate."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import DivergedError, OptionError, param
from ecgfed.base.text import count_of, listed
from ecgfed.core.federation.data import TrainingData, local_batches, local_rows
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Batch, ClientInfo, Method, Tree

#: Maximum number of a client's beats that are tested individually, those of the round first.
MAX_BEATS = 2048
#: A beat is suspect if a step on it alone moves the model by more than the model's norm and by more than this multiple
#: of the first quartile over beats.
OUTLIER = 100.0
#: Maximum number of recordings, and of times per recording, in a message.
NAMED_RECORDINGS, NAMED_SECONDS = 3, 5


def diverged(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    info: ClientInfo,
    start: tuple[Tree, Tree],
    beats_used: int,
    what: tuple[str, float],
) -> DivergedError:
    """Return the error for a client's diverged round; it names the beats that caused it, if any.

    Beats are the cause if a step on each of them alone moves the model far more than any other beat does, and the same
    round without them stays finite. Otherwise the learning rate is.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        info: the client and its round, as passed to ``begin``.
        start: what the server sent, and the client's state.
        beats_used: beats that the client had used before this round.
        what: the name of the loss or parameter, and its value.
    """
    where, problem = f"client {data.ids.get(info.index, info.index)} in round {info.round}", f"{what[0]} is {what[1]}"
    slower = f"lower the learning rate with {param('settings')} lr=..."
    per_step = method.requirements.batches_per_step
    groups = local_rows(data, plan, info.index, beats_used, per_step)
    of_round = np.unique(np.concatenate([rows for group in groups for rows in group]))
    tried = np.sort(np.concatenate([of_round, np.setdiff1d(data.rows[info.index], of_round)])[:MAX_BEATS])
    counts, excluded = data.class_counts(info.index), data.excluded_classes(info.index)
    moved, length = np.empty(len(tried)), 0.0
    for at, row in enumerate(tried.tolist()):
        before = method.init_round(*start, info)
        batch = replace(data.batch(np.array([row])), counts=counts, excluded=excluded)
        old = {name: leaf.clone() for name, leaf in _leaves(before).items()}
        try:
            after, _ = method.step(before, (batch,) * per_step, 0)
        except OptionError:  # a net of one's own whose BatchNorm takes no single example
            return DivergedError(where, problem, "a finite number", slower)
        moved[at] = _length(leaf - old[name] for name, leaf in _leaves(after).items() if name in old)
        length = _length(old.values())
    moved[~np.isfinite(moved)] = np.inf
    beyond = moved > max(length, OUTLIER * float(np.quantile(moved, 0.25, method="lower")))
    beyond |= np.isinf(moved)
    beats = np.empty(0, np.int64) if beyond.all() else tried[beyond]
    without = replace(data, rows={**data.rows, info.index: np.setdiff1d(tried, beats)})
    batches = local_batches(without, plan, info.index, beats_used, per_step)
    if not len(beats) or not _stays_finite(method, info, start, batches):
        return DivergedError(where, problem, "a finite number", slower)
    action = "look at them with 'ecgfed inspect', and prepare the cohort without them"
    actual = f"{problem}, because of {count_of(len(beats), 'beat')}: {_locations(data, beats)}"
    expected = "windows that a net can learn from; without them the round stays finite"
    return DivergedError(where, actual, expected, action)


def _stays_finite(
    method: Method, info: ClientInfo, start: tuple[Tree, Tree], batches: Iterable[Sequence[Batch]]
) -> bool:
    state = method.init_round(*start, info)
    for t, group in enumerate(batches):
        state, losses = method.step(state, group, t)
        if not all(math.isfinite(float(value)) for value in losses.values()):
            return False
    return math.isfinite(_length(_leaves(state).values()))


def _leaves(tree: Tree) -> dict[str, torch.Tensor]:
    return {name: leaf for name, leaf in flatten(tree).items() if leaf.is_floating_point()}


def _length(leaves: Iterable[torch.Tensor]) -> float:
    return math.sqrt(sum(float(leaf.double().square().sum()) for leaf in leaves))


def _locations(data: TrainingData, rows: NDArray[np.int64]) -> str:
    """Return the recordings and times of beats, as text; row numbers if the recordings are unknown."""
    if data.times is None:
        return f"cohort rows {listed([str(row) for row in rows.tolist()], NAMED_SECONDS)}"
    seconds = data.times.seconds(rows)
    named = [
        f"recording {name} at {listed([f'{time_s:.1f} s' for time_s in at], NAMED_SECONDS)}"
        for name, at in seconds.items()
    ]
    return listed(named, NAMED_RECORDINGS)
