"""What a participant's answer of a round looks like: its leaves, shapes and types, and the names of its losses.

The server learns it from two rounds of its own, of one step on a few beats of noise, and not from the first answer that
comes: that may be the one that is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ecgfed.federation.client_round import ClientWork, run_client
from ecgfed.federation.data import TrainingData
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.trees import flatten
from ecgfed.methods.base import Method, Tree
from ecgfed.nets.net import NetSpec
from ecgfed.network.errors import NetworkError

_BEATS = 8
#: No weight or loss of a training is near this; sums and squares of what is below stay finite in float32.
MOST = 1e9


@dataclass(frozen=True)
class Form:
    """What one participant sends in a round.

    Attributes:
        leaves: path -> type and shape, in the tree's order.
        losses: names.
    """

    leaves: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
    losses: frozenset[str]

    @property
    def bytes(self) -> int:
        """Of the leaves."""
        return sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in self.leaves.values())

    def check(self, returned: Tree, losses: Mapping[str, float]) -> None:
        """Refuse a participant's answer that has another form, or a number that is not finite or beyond ``MOST``.

        A mean of such numbers is saved and sent to everybody: the run could never go on. Raises NetworkError.
        """
        found = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(returned).items()}
        if found != dict(self.leaves):
            other = sorted(set(found.items()) ^ set(self.leaves.items()), key=str)[0][0]
            raise NetworkError("a site's reply", f"has other leaves or shapes than the method ({other[:100]!r})")
        if set(losses) != self.losses:
            raise NetworkError("a site's reply", f"has the losses {sorted(losses)!s:.100}", str(sorted(self.losses)))
        for path, leaf in flatten(returned).items():
            if leaf.is_floating_point() and not bool((leaf.abs() <= MOST).all()):
                what = "has numbers beyond belief" if bool(torch.isfinite(leaf).all()) else "is not finite"
                raise NetworkError("a site's reply", f"{what} in {path[:100]!r}", f"numbers of {MOST:g} at most")
        for name, value in losses.items():
            if not abs(value) <= MOST:  # NaN is not
                raise NetworkError("a site's reply", f"has {name} {value:g}", f"a number of {MOST:g} at most")


def beats_of(plan: TrainPlan, count: int, seen: int, per_step: int) -> int:
    """Return how many beats a participant uses in a round: as many as ``ecgfed.federation.data.local_rows`` yields.

    Args:
        plan: the run's.
        count: the participant's training beats.
        seen: beats it has used in earlier rounds.
        per_step: batches of a step.
    """
    steps = plan.steps_for(count) * per_step
    if plan.local_steps is not None:
        return steps * min(plan.batch_size, count)
    begun = seen
    for _ in range(steps):  # a batch ends with the epoch
        seen += min(plan.batch_size, count, count - seen % count)
    return seen - begun


def check_beats(clients: Sequence[int], examples: Sequence[int], beats: Mapping[int, int]) -> None:
    """Refuse an answer that claims other counts of beats than the plan has for what these sites said at first.

    Args:
        clients: participants, numbers in the federation.
        examples: what is claimed for each.
        beats: participant -> ``beats_of``.

    Raises:
        NetworkError: naming the first.
    """
    for client, claimed in zip(clients, examples, strict=True):
        if claimed != beats[client]:
            found = f"claims {claimed:,} beats for patient number {client}"
            raise NetworkError("a site's reply", found, f"{beats[client]:,}, as the plan and its hello have it")


def form_of(method: Method, plan: TrainPlan, work: ClientWork) -> Form:
    """Return the form of a round's answers.

    Args:
        method: the run's.
        plan: its plan.
        work: any participant's part of the round: what it is sent decides, too.
    """
    data = _noise(method.net.spec, work.info.index)
    short = replace(plan, local_epochs=None, local_steps=1, batch_size=4)
    info = replace(work.info, train_examples=_BEATS, class_counts=data.class_counts(work.info.index), steps=1)
    initial = method.net.initial(plan.seed)
    first = method.shared(method.server_start(initial), info.index)
    work = replace(work, info=info, beats_used=0)
    # what a client is sent may count on what it kept of a round before, as LG-FedAvg's head on its own extractor
    kept = run_client(
        method, data, short, replace(work, shared=first, client_state=method.client_start(initial))
    ).client_state
    result = run_client(method, data, short, replace(work, client_state=kept))
    leaves = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(result.returned).items()}
    return Form(leaves, frozenset(result.losses))


def _noise(spec: NetSpec, client: int) -> TrainingData:
    """Return beats, or images, that nobody has: half for training, half for validation."""
    rng = np.random.default_rng(0)
    ecg = spec.modality == "ecg"
    examples: Any = (
        rng.normal(0.0, 0.3, (2 * _BEATS, 1, 256)).astype(np.float32)
        if ecg
        else rng.integers(0, 256, (2 * _BEATS, 3, 32, 32), dtype=np.uint8)
    )
    rows = np.arange(2 * _BEATS, dtype=np.int64)
    return TrainingData(
        clients=np.array([client], dtype=np.int64),
        rows={client: rows[:_BEATS]},
        examples=examples,
        rr=np.full((2 * _BEATS, spec.rr_count), 0.8, np.float32) if spec.rr else None,
        label=(rows % spec.classes).astype(np.int64),
        classes=spec.classes,
        ids={client: "noise"},
        valid_rows={client: rows[_BEATS:]},
    )
