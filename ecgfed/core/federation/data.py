"""A client's training beats as batches: shuffled from a seed, deterministic."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError
from ecgfed.core.config import PrivacyConfig
from ecgfed.core.federation.augment import augment
from ecgfed.core.federation.own_functions import Augmentation, augmented
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Batch, Method
from ecgfed.core.nets.net import Inputs
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.cohort.clients import FIRST_LEAD
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import VALID


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
        examples: (N, 1, 256) float32 millivolt, images (N, 3, 32, 32) uint8, or arrays of another shape, float32, uint8
            or int64; often memory-mapped.
        rr: (N, features) float32 RR features, or None for a net without RR.
        label: (N,) class numbers.
        classes: number of classes.
        ids: client number -> the client's id, for messages.
        valid_rows: client number -> rows of its validation beats; clients without any are absent.
        times: recording and position of each row; None if unknown.
        excluded: number of a weak client -> (classes,) bool, which its beats, without a label, are not of.
        most_per_class: examples of each class that an epoch of a client draws at most; None draws all. Beats without a
            label are a class of their own.
        augmentation: a user's function that varies training batches; None for none.
        rr_version: of the RR features.
    """

    clients: NDArray[np.int64]
    rows: dict[int, NDArray[np.int64]]
    examples: NDArray[np.float32] | NDArray[np.uint8] | NDArray[np.int64]
    rr: NDArray[np.float32] | None
    label: NDArray[np.integer]
    classes: int
    ids: dict[int, str] = field(default_factory=dict)
    valid_rows: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    times: BeatTimes | None = None
    excluded: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    most_per_class: int | None = None
    augmentation: Augmentation | None = None
    rr_version: int = 1

    @property
    def train_examples(self) -> NDArray[np.int64]:
        """Training beats of each client in an epoch, (M,)."""
        return np.array([self.epoch_length(int(client)) for client in self.clients], dtype=np.int64)

    def epoch_length(self, client: int) -> int:
        """Training beats that one epoch of a client draws."""
        rows, most = self.rows[client], self.most_per_class
        if most is None:
            return len(rows)
        return int(np.minimum(np.unique(self.label[rows], return_counts=True)[1], most).sum())

    def epoch_rows(self, seed: int, client: int, epoch: int) -> NDArray[np.int64]:
        """Return the rows of one epoch of a client in their order: of a permutation the first of each class."""
        rows = self.rows[client]
        rows = rows[epoch_order(seed, client, epoch, len(rows))]
        if self.most_per_class is None:
            return rows
        label = self.label[rows]
        first = [np.flatnonzero(label == number)[: self.most_per_class] for number in np.unique(label)]
        return rows[np.sort(np.concatenate(first))]

    def class_counts(self, client: int) -> torch.Tensor:
        """Training beats per class in an epoch of one client, (classes,) int64; zeros for a weak client."""
        rows = np.empty(0, np.int64) if client in self.excluded else self.rows[client]
        counts = np.bincount(self.label[rows], minlength=self.classes)
        return torch.from_numpy(counts if self.most_per_class is None else np.minimum(counts, self.most_per_class))

    def excluded_classes(self, client: int) -> torch.Tensor | None:
        """``Batch.excluded`` of one client, (classes,) bool; None if no weak client takes part."""
        if not self.excluded:
            return None
        return torch.from_numpy(self.excluded.get(client, np.zeros(self.classes, np.bool_)))

    def pooled(self) -> "TrainingData":
        """Return the beats of all labelled clients as those of one, which has the first one's number.

        Validation beats stay with their clients. An epoch draws at most ``most_per_class`` beats of a class times the
        number of clients.
        """
        labelled = [int(client) for client in self.clients if int(client) not in self.excluded]
        first, most = labelled[0], self.most_per_class
        return replace(
            self,
            clients=np.array([first], dtype=np.int64),
            rows={first: np.concatenate([self.rows[client] for client in labelled])},
            ids={first: "all clients together"},
            excluded={},
            most_per_class=None if most is None else most * len(labelled),
        )

    def for_method(self, method: Method) -> "TrainingData":
        """Return the data as the method is trained on: pooled if it requires so, otherwise unchanged."""
        return self.pooled() if method.requirements.pooled else self

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Gather a batch of the given rows."""
        rr = None if self.rr is None else torch.from_numpy(self.rr[rows])
        examples = torch.from_numpy(np.take(self.examples, rows, axis=0))
        return Batch(Inputs(examples, rr), torch.from_numpy(self.label[rows].astype(np.int64)))


def uses_weak_labels(method: Method | type[Method], settings: object, privacy: PrivacyConfig) -> bool:
    """Return whether clients of whom only a label of the recording is known take part in training by a method.

    Not without a global model, which is all they could improve; with pooled beats, which have no clients; with
    ``risk=meta-bsm``, whose parameters labels are needed for; or with differential privacy, which promises something of
    one patient, where a weak client has many.
    """
    weighted = getattr(settings, "weak_weight", 0) > 0 and getattr(settings, "risk", "ce") != "meta-bsm"
    return method.has_global_model and weighted and not privacy.clips and not method.requirements.pooled


def weak_groups(cohort: Cohort) -> list[list[Client]]:
    """Group the weak clients by site and excluded classes, without those that exclude none or all.

    A strip of 30 s is no patient to train a model for, and hundreds of them would outnumber the patients wherever
    clients count the same (docs/decisions/0079-weak-clients.md). So each group takes part as one client.
    """
    groups: dict[tuple[str | None, bytes], list[Client]] = {}
    for client in cohort.weak_clients:
        excluded = cohort.excluded_classes[client.index]
        if excluded.any() and not excluded.all():
            groups.setdefault((client.site, excluded.tobytes()), []).append(client)
    return list(groups.values())


def training_data(
    cohort: Cohort, *, rr: bool, leave_out: str = "nothing", weak: bool = False, most_per_class: int | None = None
) -> TrainingData:
    """Return the training beats of a cohort's clients; without held-out clients and clients that have none.

    Args:
        rr: whether the net takes RR features.
        leave_out: training beats to exclude, as in ``TrainPlan``, besides those with an empty window;
            the latter are excluded from validation too.
        weak: whether ``weak_groups`` take part, each as one client with the number of its first.
        most_per_class: as in ``TrainingData``.

    Raises:
        CohortError: no client has a training beat.
    """
    rows = {client.index: cohort.usable(cohort.training_rows(client), leave_out) for client in cohort.federation}
    ids = {client.index: client.id for client in cohort.federation}
    groups = {group[0].index: group for group in weak_groups(cohort)} if weak else {}
    for index, group in groups.items():
        unlabelled = np.concatenate([cohort.weak_rows(client) for client in group])
        rows[index] = cohort.usable(unlabelled, leave_out)
        ids[index] = group[0].id if len(group) == 1 else f"{group[0].id} and {len(group) - 1:,} more"
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
        ids=ids,
        valid_rows={
            c.index: client_rows for c in cohort.federation if len(client_rows := cohort.usable(cohort.rows(c, VALID)))
        },
        times=_times(cohort),
        excluded={index: cohort.excluded_classes[index] for index in groups if index in rows},
        most_per_class=most_per_class,
        rr_version=cohort.rr_version if rr else 1,
    )


def excluded_beats(cohort: Cohort, leave_out: str) -> Exclusions:
    """Count the training beats of a cohort's clients that ``training_data`` excludes, of all leads, by reason."""
    what = "training example" if cohort.other_lead.any() else "training beat"
    return cohort.exclusions(cohort.training_pool(), leave_out, what)


def _times(cohort: Cohort) -> BeatTimes | None:
    if cohort.modality != "ecg":
        return None
    records = cohort.meta["records"]
    names = tuple(f"{r['name']} in lead {r['lead']}" if FIRST_LEAD in r else str(r["name"]) for r in records)
    return BeatTimes(cohort.record, cohort.sample, names, tuple(float(record["fs_hz"]) for record in records))


@lru_cache(maxsize=256)
def epoch_order(seed: int, client: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return the order of a client's beats in an epoch, (count,); it depends on seed, client and epoch. Read-only.

    Cached, because short rounds need the same epoch's order many times.
    """
    return np.random.default_rng([seed, 2, client, epoch]).permutation(count)


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
    count = data.epoch_length(client)
    epochs = lru_cache(2)(partial(data.epoch_rows, plan.seed, client))
    for _ in range(plan.steps_for(count)):
        group = []
        for _ in range(per_step):
            length = min(plan.batch_size, count)
            if plan.local_steps is None:
                length = min(length, count - beats_used % count)
            epoch, offset = divmod(beats_used, count)
            rows = epochs(epoch)[offset : offset + length]
            if len(rows) < length:  # no batch is longer than an epoch
                rows = np.concatenate([rows, epochs(epoch + 1)[: length - len(rows)]])
            group.append(rows)
            beats_used += length
        yield tuple(group)


def local_batches(
    data: TrainingData, plan: TrainPlan, client: int, beats_used: int, per_step: int
) -> Iterator[tuple[Batch, ...]]:
    """Yield the batches of each local step of one client's round: ``local_rows``, gathered and, if asked, augmented."""
    counts, excluded = data.class_counts(client), data.excluded_classes(client)
    for group in local_rows(data, plan, client, beats_used, per_step):
        batches = []
        for rows in group:
            batch = replace(data.batch(rows), counts=counts, excluded=excluded)
            if plan.augment:  # the place in the client's stream decides, so that a resumed run draws the same
                batch = augment(batch, np.random.default_rng([plan.seed, 4, client, beats_used]), data.rr_version)
            if data.augmentation is not None:
                batch = augmented(batch, data.augmentation, np.random.default_rng([plan.seed, 5, client, beats_used]))
            batches.append(batch)
            beats_used += len(rows)
        yield tuple(batches)
