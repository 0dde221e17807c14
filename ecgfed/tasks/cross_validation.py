"""A patient's own model from a few labels, and what it is worth on labels that are held back from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from ecgfed.base.deprecation import renamed_fields
from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.nets.net import Inputs
from ecgfed.core.personal.base import BATCH, PatientBeats, Personal
from ecgfed.core.personal.kernel import Kernel
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.spread import spread
from ecgfed.exports.bundles.weights import GlobalModel
from ecgfed.tasks.grouped import GroupedBeats

#: Beats that a model learns from at most: its steps look at fewer.
MAX_LEARNED = 4000
#: Labels are held back in so many parts, and with fewer labels none are.
FOLDS = 5
#: Who answers labels that are held back.
PREDICTORS = ("groups", "personal", "global", "scratch")
#: A class is lowered where chance alone would do so with this probability at most. Chosen on MIT-BIH's DS1
#: (``benchmarks/clinical/adoption.py``).
MAX_CHANCE = 0.25


@dataclass(frozen=True, eq=False)
class TrainingBeats:
    """The beats that models learn from, as a net sees them.

    Attributes:
        row: (beats,) int64 increasing, their numbers in the recording.
        inputs: windows, and RR features where the net takes them.
    """

    row: NDArray[np.int64]
    inputs: Inputs

    def some(self, rows: NDArray[np.int64]) -> Inputs:
        """Return beats by their numbers in the recording, which are among these."""
        at = torch.from_numpy(np.searchsorted(self.row, rows))
        return Inputs(self.inputs.examples[at], None if self.inputs.rr is None else self.inputs.rr[at])


def training_beats(grouped: GroupedBeats, label: Mapping[int, str]) -> TrainingBeats:
    """Cut the beats to learn from, ``MAX_LEARNED`` at most: those with an answer, and of the others in groups some.

    Args:
        grouped: the recording's beats.
        label: answered beat -> its label.
    """
    labelled = _of_every_symbol(label, MAX_LEARNED)
    unlabelled = np.setdiff1d(np.arange(grouped.grouped), np.array(list(label), dtype=np.int64))
    unlabelled = _evenly(unlabelled, MAX_LEARNED - len(labelled))
    row = np.union1d(labelled, unlabelled)
    blocks = list(grouped.beats.blocks(row))
    examples = np.concatenate([block.window_mv for block in blocks])
    rr = np.concatenate([block.rr_s for block in blocks]) if grouped.bundle.rr_version else None
    return TrainingBeats(row, Inputs(torch.from_numpy(examples), None if rr is None else torch.from_numpy(rr)))


def _evenly(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return some of the numbers, evenly taken, at most so many."""
    return numbers[np.linspace(0, len(numbers) - 1, min(limit, len(numbers))).astype(np.int64)]


def _of_every_symbol(label: Mapping[int, str], limit: int) -> NDArray[np.int64]:
    """Return answered beats, at most so many: of each symbol evenly taken ones, all of those that are rare."""
    beats, symbols = np.array(sorted(label), dtype=np.int64), sorted(set(label.values()))
    by_symbol = [np.array([beat for beat in beats.tolist() if label[beat] == symbol]) for symbol in symbols]
    chosen = [np.empty(0, np.int64)]
    for served, of_symbol in enumerate(sorted(by_symbol, key=len)):
        room = (limit - sum(map(len, chosen))) // (len(by_symbol) - served)
        chosen.append(_evenly(of_symbol, room))
    return np.sort(np.concatenate(chosen))


@dataclass(frozen=True, eq=False)
class Learner:
    """Makes models from labels.

    Attributes:
        start: the global model.
        groups: of the recording's first beats.
        labels: classes and their symbols.
        beats: what is learned from.
        how: how a personal answer is made.
        everyone: (classes,) share of each class among all training beats of the bundle.
        seed: for whatever is drawn.
    """

    start: GlobalModel
    groups: Groups
    labels: LabelMap
    beats: TrainingBeats
    how: Personal
    everyone: torch.Tensor
    seed: int

    def some(self, count: int) -> Inputs:
        """Return some of the beats, evenly taken, at most ``count``."""
        return self.beats.some(_evenly(self.beats.row, count))

    def patient_beats(self, label: dict[int, str]) -> PatientBeats | None:
        """Return the beats with the labels that a few answers give them; None where none has a class."""
        names, _ = spread(self.groups, label)
        number = self.labels.encode(names[self.beats.row]).astype(np.int64)
        known = np.flatnonzero(number >= 0)
        if not len(known):
            return None
        train = Batch(self.beats.some(self.beats.row[known]), torch.from_numpy(number[known]))
        return PatientBeats(train, None, self.everyone, (self.seed, 0))

    @single_torch_thread()
    def personal(self, patient_beats: PatientBeats) -> Pipeline:
        """Return the patient's model, made from the global one."""
        return self.how.fit(self.start.net, self.start.params, patient_beats)

    @single_torch_thread()
    def from_scratch(self, patient_beats: PatientBeats) -> Pipeline:
        """Return a model that has seen nothing but these beats: a kernel machine (``ecgfed.core.personal.kernel``) on
        the shape of the window and on what an untrained net makes of window and intervals.
        """
        return Kernel().fit(self.start.net, self.start.net.initial(self.seed), patient_beats)

    @single_torch_thread()
    def predict(self, chain: Pipeline, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class numbers (rows,) that a model gives some of the beats."""
        inputs = self.beats.some(rows)
        class_numbers = [np.empty(0, np.int64)]
        with torch.inference_mode():
            for start in range(0, len(rows), BATCH):
                block = slice(start, start + BATCH)
                part = Inputs(inputs.examples[block], None if inputs.rr is None else inputs.rr[block])
                class_numbers.append(chain_logits(self.start.net, chain, part).argmax(1).numpy())
        return np.concatenate(class_numbers)


@dataclass(frozen=True)
class ClassResult:
    """How the held-back labels of one class were answered.

    Attributes:
        labels: how many were held back.
        right: of ``PREDICTORS``, how many each had right.
        lost: answerer -> labels that the global model had right and it had not.
        gained: answerer -> labels that it had right and the global model had not.
    """

    labels: int
    right: dict[str, int]
    lost: dict[str, int]
    gained: dict[str, int]

    def lowers(self, predictor: str) -> bool:
        """Whether an answerer has fewer right than the global model, by more than chance allows: one-sided sign test on
        the labels that one of the two alone has right (McNemar, Psychometrika 12:153-157, 1947), p at most
        ``MAX_CHANCE``.
        """
        lost, gained = self.lost[predictor], self.gained[predictor]
        return lost > gained and float(binom.cdf(gained, lost + gained, 0.5)) <= MAX_CHANCE


@renamed_fields("0.3", "0.5", parts="folds")
@dataclass(frozen=True)
class CrossValidation:
    """How many labels were answered rightly while they were held back.

    Attributes:
        labels: how many were held back in turn.
        folds: in how many parts.
        right: of ``PREDICTORS``, how many each had right.
        by_class: class -> the same of its labels, for each class that was labelled.
    """

    labels: int
    folds: int
    right: dict[str, int]
    by_class: dict[str, ClassResult] = field(default_factory=dict)

    def lowered(self, predictor: str) -> list[str]:
        """Return the classes for which an answerer lowers the global model's sensitivity (``ClassCheck.lowers``)."""
        return [name for name, check in self.by_class.items() if check.lowers(predictor)]

    @property
    def best(self) -> str:
        """Which model a patient gets: the personal one unless the global one, or one from scratch, had more right; of
        these two the global one where they are equal. A model that lowers a class's sensitivity is none of them.
        """
        allowed = [name for name in ("personal", "global", "scratch") if name == "global" or not self.lowered(name)]
        return max(allowed, key=self.right.__getitem__)


def assign_folds(number: NDArray[np.integer], folds: int, seed: int) -> NDArray[np.int64]:
    """Divide labels into parts, each with about its share of every class.

    Args:
        number: (labels,) their classes.
        folds: how many parts, at most as many as there are labels.
        seed: the same seed gives the same parts.

    Returns:
        (labels,) the part of each, 0 to ``folds`` - 1; sizes differ by one at most.
    """
    shuffled = np.random.default_rng([seed, 16]).permutation(len(number))
    order = shuffled[np.argsort(np.asarray(number)[shuffled], kind="stable")]
    fold = np.empty(len(number), np.int64)
    fold[order] = np.arange(len(number)) % folds
    return fold


def cross_validate(
    learner: Learner,
    label: dict[int, str],
    global_class: NDArray[np.integer],
    on_progress: Callable[[int, int], None] = lambda completed, total: None,
) -> CrossValidation | None:
    """Hold labels back in parts, and count who answers them rightly from the others; None with fewer than ``FOLDS``.

    Labels without a class of the bundle (``?`` and ``|`` among them) are held back from nobody: no model answers them.
    Of more than ``MAX_LEARNED`` labels those are held back that models learn from.

    Args:
        learner: makes the models.
        label: answered beat -> its label.
        global_class: (beats,) what the global model gives every beat of the recording.
        on_progress: called with the parts that are done, and all.
    """
    beats = np.intersect1d(np.array(list(label), dtype=np.int64), learner.beats.row)
    truth = learner.labels.encode(np.array([label[beat] for beat in beats.tolist()], dtype=np.str_)).astype(np.int64)
    beats, truth = beats[truth >= 0], truth[truth >= 0]
    if len(beats) < FOLDS:
        return None
    fold = assign_folds(truth, FOLDS, learner.seed)
    predictions = {name: np.full(len(beats), -1, np.int64) for name in PREDICTORS}
    predictions["global"] = global_class[beats].astype(np.int64)
    for number in range(FOLDS):
        at = np.flatnonzero(fold == number)
        test_beats = beats[at]
        excluded = set(test_beats.tolist())
        train_label = {beat: symbol for beat, symbol in label.items() if beat not in excluded}
        names, _ = spread(learner.groups, train_label)
        predictions["groups"][at] = learner.labels.encode(names[test_beats])
        patient_beats = learner.patient_beats(train_label)
        if patient_beats is not None:
            predictions["personal"][at] = learner.predict(learner.personal(patient_beats), test_beats)
            predictions["scratch"][at] = learner.predict(learner.from_scratch(patient_beats), test_beats)
        on_progress(number + 1, FOLDS)
    right = {name: predicted == truth for name, predicted in predictions.items()}
    classes = {name: truth == number for number, name in enumerate(learner.labels.classes) if (truth == number).any()}
    by_class = {name: _class_result(right, rows) for name, rows in classes.items()}
    return CrossValidation(len(beats), FOLDS, {name: int(hits.sum()) for name, hits in right.items()}, by_class)


def _class_result(right: Mapping[str, NDArray[np.bool_]], rows: NDArray[np.bool_]) -> ClassResult:
    """Count the right answers of one class's labels, and those that the global model alone has right, or has not."""
    of_global = right["global"][rows]
    not_global = {name: hits[rows] for name, hits in right.items() if name != "global"}
    return ClassResult(
        int(rows.sum()),
        {name: int(hits[rows].sum()) for name, hits in right.items()},
        {name: int((of_global & ~hits).sum()) for name, hits in not_global.items()},
        {name: int((hits & ~of_global).sum()) for name, hits in not_global.items()},
    )
