"""A client's training beats as batches: shuffled from a seed, deterministic."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Batch
from ecgfed.core.nets.net import Inputs
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import TRAIN, VALID


@dataclass(frozen=True)
class BeatTimes:
    """Recording and position of each row of a cohort, for messages.

    Attributes:
        record: (N,) number of the recording.
        sample: (N,) R peak, a sample number of the recording.
        names: of the recordings.
        fs_hz: their sampling frequencies in Hz.
    """

    record: NDArray[np.integer]
    sample: NDArray[np.integer]
    names: tuple[str, ...]
    fs_hz: tuple[float, ...]

    def seconds(self, rows: NDArray[np.int64]) -> dict[str, list[float]]:
        """Return the R peak times of rows in seconds, by recording name."""
        seconds_by_record: dict[str, list[float]] = {}
        for number, sample in zip(self.record[rows].tolist(), self.sample[rows].tolist(), strict=True):
            seconds_by_record.setdefault(self.names[number], []).append(sample / self.fs_hz[number])
        return seconds_by_record


@dataclass(frozen=True)
class TrainingData:
    """The training beats of a federation's clients.

    Attributes:
        clients: (M,) int64 client numbers that take part.
        rows: client number -> (beats,) rows of the arrays below.
        examples: (N, 1, 256) float32 millivolt, or images (N, 3, 32, 32) uint8; often memory-mapped.
        rr: (N, features) float32 RR features, or None for a net without RR.
        label: (N,) class numbers.
        classes: number of classes.
        ids: client number -> the client's id, for messages.
        valid_rows: client number -> rows of its validation beats; clients without any are absent.
        times: recording and position of each row; None if unknown.
    """

    clients: NDArray[np.int64]
    rows: dict[int, NDArray[np.int64]]
    examples: NDArray[np.float32] | NDArray[np.uint8]
    rr: NDArray[np.float32] | None
    label: NDArray[np.integer]
    classes: int
    ids: dict[int, str] = field(default_factory=dict)
    valid_rows: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    times: BeatTimes | None = None

    @property
    def train_examples(self) -> NDArray[np.int64]:
        """Training beats of each client, (M,)."""
        return np.array([len(self.rows[int(client)]) for client in self.clients], dtype=np.int64)

    def class_counts(self, client: int) -> torch.Tensor:
        """Training beats per class of one client, (classes,) int64."""
        return torch.from_numpy(np.bincount(self.label[self.rows[client]], minlength=self.classes))

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Gather a batch of the given rows."""
        rr = None if self.rr is None else torch.from_numpy(self.rr[rows])
        examples = torch.from_numpy(np.take(self.examples, rows, axis=0))
        return Batch(Inputs(examples, rr), torch.from_numpy(self.label[rows].astype(np.int64)))


def training_data(cohort: Cohort, *, rr: bool, leave_out: str = "nothing") -> TrainingData:
    """Return the training beats of a cohort's clients; without held-out clients and clients that have none.

    Args:
        rr: whether the net takes RR features.
        leave_out: training beats to exclude, as in ``TrainPlan``, besides those with an empty window;
            the latter are excluded from validation too.

    Raises:
        CohortError: no client has a training beat.
    """
    rows = {client.index: cohort.usable(cohort.rows(client, TRAIN), leave_out) for client in cohort.federation}
    rows = {index: client_rows for index, client_rows in rows.items() if len(client_rows)}
    if not rows and cohort.weak_clients:
        problem, action = "no beat has a label, only recordings do", "join it with a labelled one: 'ecgfed cohort join'"
        raise CohortError(cohort.path, problem, "labelled beats to train on", action, code="no-beats")
    if not rows:
        raise CohortError(cohort.path, "no client has a training beat", action="prepare it from more recordings")
    return TrainingData(
        clients=np.array(sorted(rows), dtype=np.int64),
        rows=rows,
        examples=np.asarray(cohort.examples),
        rr=cohort.rr if rr else None,
        label=cohort.label,
        classes=len(cohort.classes),
        ids={client.index: client.id for client in cohort.federation},
        valid_rows={
            c.index: client_rows for c in cohort.federation if len(client_rows := cohort.usable(cohort.rows(c, VALID)))
        },
        times=_times(cohort),
    )


def excluded_beats(cohort: Cohort, leave_out: str) -> Exclusions:
    """Count the training beats of a cohort's clients that ``training_data`` excludes, by reason."""
    return cohort.exclusions(cohort.pool(TRAIN), leave_out, "training beat")


def _times(cohort: Cohort) -> BeatTimes | None:
    if cohort.modality == "image":
        return None
    records = cohort.meta["records"]
    names, fs_hz = tuple(str(record["name"]) for record in records), tuple(float(record["fs_hz"]) for record in records)
    return BeatTimes(cohort.record, cohort.sample, names, fs_hz)


@lru_cache(maxsize=256)
def epoch_order(seed: int, client: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return the order of a client's beats in an epoch, (count,); it depends on seed, client and epoch. Read-only.

    Cached, because short rounds need the same epoch's order many times.
    """
    return np.random.default_rng([seed, 2, client, epoch]).permutation(count)


def _positions(seed: int, client: int, count: int, start: int, length: int) -> NDArray[np.int64]:
    """Return positions ``start .. start + length`` of a client's endless stream of shuffled epochs."""
    parts = []
    while length:
        epoch, offset = divmod(start, count)
        parts.append(epoch_order(seed, client, epoch, count)[offset : offset + length])
        start, length = start + len(parts[-1]), length - len(parts[-1])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def local_rows(
    data: TrainingData, plan: TrainPlan, client: int, beats_used: int, per_step: int
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield the rows of the batches of each local step of one client's round.

    A client's beats form an endless stream of shuffled epochs, and a round continues where the last one ended. With
    ``local_epochs``, the last batch of an epoch may be short; with ``local_steps``, every batch is full.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        client: client number.
        beats_used: beats of the stream the client has used in earlier rounds.
        per_step: batches of a step.
    """
    rows = data.rows[client]
    count, steps = len(rows), plan.steps_for(len(rows))
    for _ in range(steps):
        group = []
        for _ in range(per_step):
            length = min(plan.batch_size, count)
            if plan.local_steps is None:
                length = min(length, count - beats_used % count)
            group.append(rows[_positions(plan.seed, client, count, beats_used, length)])
            beats_used += length
        yield tuple(group)


def local_batches(
    data: TrainingData, plan: TrainPlan, client: int, beats_used: int, per_step: int
) -> Iterator[tuple[Batch, ...]]:
    """Yield the batches of each local step of one client's round: ``local_rows``, gathered."""
    counts = data.class_counts(client)
    for group in local_rows(data, plan, client, beats_used, per_step):
        yield tuple(replace(data.batch(rows), counts=counts) for rows in group)
