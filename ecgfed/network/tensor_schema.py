"""The expected structure of a client's reply in a round: leaves with shapes and dtypes, and the names of the losses.

The server derives it from two short local rounds on random beats, not from the first reply, which may itself be
malformed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ecgfed.core.federation.client_round import ClientResult, ClientWork, prepared, train_locally
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.nets.net import NetSpec
from ecgfed.network.errors import NetworkError

_EXAMPLES = 8
#: Larger than any trained weight or loss; sums and squares of smaller values stay finite in float32.
MAX_ABS = 1e9
#: Largest accepted loss: far above that of a model that has broken down. What a method reports as ``loss`` is at least
#: 0, its other losses may be negative.
MAX_LOSS = 1e6


@dataclass(frozen=True)
class TensorSchema:
    """The structure of one client's reply in a round.

    Attributes:
        leaves: path -> dtype and shape, in the tree's order.
        losses: names of the losses.
    """

    leaves: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
    losses: frozenset[str]

    @property
    def bytes(self) -> int:
        """Size of the leaves in bytes."""
        return sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in self.leaves.values())

    def check(self, returned: Tree, losses: Mapping[str, float]) -> None:
        """Reject a reply with another structure, or with a value that is not finite or exceeds ``MAX_ABS``.

        The server saves the mean of such values and sends it to every site, so one bad reply would ruin the run.
        Raises NetworkError.
        """
        received = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(returned).items()}
        if received != dict(self.leaves):
            mismatch = sorted(set(received.items()) ^ set(self.leaves.items()), key=str)[0][0]
            reason = f"has leaves or shapes that differ from the method's ({mismatch[:100]!r})"
            raise NetworkError("a site's reply", reason)
        for path, leaf in flatten(returned).items():
            if leaf.is_floating_point() and not bool((leaf.abs() <= MAX_ABS).all()):
                problem = "has numbers that are too large" if bool(torch.isfinite(leaf).all()) else "is not finite"
                raise NetworkError("a site's reply", f"{problem} in {path[:100]!r}", f"numbers of {MAX_ABS:g} at most")
            if path.rpartition("/")[2] == "loss" and not bool(((leaf >= 0) & (leaf <= MAX_LOSS)).all()):
                raise NetworkError("a site's reply", f"has {path[:100]} {leaf.flatten()[0]:g}", f"0 to {MAX_LOSS:g}")
        self.check_losses(losses)

    def check_losses(self, losses: Mapping[str, float]) -> None:
        """Reject losses of other names, or out of range; raises NetworkError."""
        if set(losses) != self.losses:
            raise NetworkError("a site's reply", f"has the losses {sorted(losses)!s:.100}", str(sorted(self.losses)))
        for name, value in losses.items():
            least = 0.0 if name == "loss" else -MAX_LOSS  # GRP-FED's ``local_loss`` has an adversary's part
            if not least <= value <= MAX_LOSS:  # also rejects NaN
                raise NetworkError("a site's reply", f"has {name} {value:g}", f"{least:g} to {MAX_LOSS:g}")


def expected_beats(plan: TrainPlan, count: int, beats_used: int, per_step: int) -> int:
    """Return how many beats a client uses in a round: as many as ``ecgfed.core.federation.data.local_rows`` yields.

    Args:
        plan: the run's training plan.
        count: the client's training beats.
        beats_used: beats it has used in earlier rounds.
        per_step: batches per step.
    """
    steps = plan.steps_for(count) * per_step
    if plan.local_steps is not None:
        return steps * min(plan.batch_size, count)
    start = beats_used
    for _ in range(steps):  # a batch ends with the epoch
        beats_used += min(plan.batch_size, count, count - beats_used % count)
    return beats_used - start


def check_beats(clients: Sequence[int], examples: Sequence[int], expected: Mapping[int, int]) -> None:
    """Reject a reply whose beat counts differ from what the plan gives for the registered counts.

    Args:
        clients: numbers of the clients in the federation.
        examples: the reported beats of each client.
        expected: client -> ``expected_beats``.

    Raises:
        NetworkError: naming the first client that differs.
    """
    for client, claimed in zip(clients, examples, strict=True):
        if claimed != expected[client]:
            reason = f"claims {claimed:,} beats for patient number {client}"
            raise NetworkError("a site's reply", reason, f"{expected[client]:,}, from the plan and its registration")


def round_schema(method: Method, plan: TrainPlan, work: ClientWork) -> TensorSchema:
    """Return the structure of a round's replies.

    Args:
        plan: the run's training plan.
        work: any client's work in the round; the structure may depend on what the client is sent.
    """
    data = _noise(method.net.spec, work.info.index)
    short = replace(plan, local_epochs=None, local_steps=1, batch_size=4)
    info = replace(work.info, train_examples=_EXAMPLES, class_counts=data.class_counts(work.info.index), steps=1)
    initial = method.net.initial(plan.seed)
    message = method.server_message(method.server_start(initial), info.index)
    work = replace(work, info=info, beats_used=0)
    # the message may depend on state from an earlier round, as LG-FedAvg's head does on the client's own extractor
    first = replace(work, shared=message, client_state=method.client_start(initial))
    client_state = _run_unchecked(method, data, short, first).client_state
    result = _run_unchecked(method, data, short, replace(work, client_state=client_state))
    leaves = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(result.returned).items()}
    return TensorSchema(leaves, frozenset(result.losses))


def _run_unchecked(method: Method, data: TrainingData, plan: TrainPlan, work: ClientWork) -> ClientResult:
    """Run a client's round as ``run_client`` does; values that are not finite do not matter."""
    work = prepared(method, data, work)
    state, losses, beats = train_locally(method, data, plan, work)
    returned, client_state = method.finish_round(state, work.info)
    return ClientResult(returned, client_state, {name: float(value) for name, value in losses.items()}, beats)


def _noise(spec: NetSpec, client: int) -> TrainingData:
    """Return random beats or images: half for training, half for validation."""
    rng = np.random.default_rng(0)
    examples: Any = rng.normal(0.0, 0.3, (2 * _EXAMPLES, 1, 256)).astype(np.float32)
    if spec.modality != "ecg":
        examples = np.random.default_rng(0).integers(0, 256, (2 * _EXAMPLES, 3, 32, 32), dtype=np.uint8)
    rows = np.arange(2 * _EXAMPLES, dtype=np.int64)
    return TrainingData(
        clients=np.array([client], dtype=np.int64),
        rows={client: rows[:_EXAMPLES]},
        examples=examples,
        rr=np.full((2 * _EXAMPLES, spec.rr_count), 0.8, np.float32) if spec.rr else None,
        label=(rows % spec.classes).astype(np.int64),
        classes=spec.classes,
        ids={client: "noise"},
        valid_rows={client: rows[_EXAMPLES:]},
    )
