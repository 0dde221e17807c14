"""Train a patient's personal model on a few labels, and cross-validate it on these labels."""

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

#: Maximum number of beats for training; the optimizer steps use fewer.
MAX_LEARNED = 4000
#: Number of folds; there is no cross-validation with fewer labels.
FOLDS = 5
#: Minimum share of labelled beats that are followed by another labelled beat, if folds are blocks of time.
MIN_CONSECUTIVE = 0.5
#: Predictors that are compared on the labels of the test fold.
PREDICTORS = ("groups", "personal", "global", "scratch")
#: Significance levels for a loss of sensitivity in a class, of scattered labels and of consecutive beats. A scattered
#: label is of a group of its own, and a loss says less. Chosen on DS1 and SVDB (docs/decisions/0097).
MAX_CHANCE, MAX_CHANCE_BY_TIME = 0.02, 0.25
#: Weight of the labels that a model has learned, all right, in its estimated accuracy; the labels held back have the
#: rest (Efron, J Am Stat Assoc 78:316-331, 1983).
LEARNED_WEIGHT = 0.368
#: Significance level of a gain over the global model, for labels of consecutive beats.
MAX_CHANCE_OF_GAIN = 0.05


@dataclass(frozen=True, eq=False)
class TrainingBeats:
    """Beats for training, as inputs of a net.

    Attributes:
        row: (beats,) int64 increasing, numbers of the beats in the recording.
        inputs: windows, and RR features if the net uses them.
    """

    row: NDArray[np.int64]
    inputs: Inputs

    def some(self, rows: NDArray[np.int64]) -> Inputs:
        """Return the inputs of some of these beats, by their numbers in the recording."""
        at = torch.from_numpy(np.searchsorted(self.row, rows))
        return Inputs(self.inputs.examples[at], None if self.inputs.rr is None else self.inputs.rr[at])


def training_beats(grouped: GroupedBeats, label: Mapping[int, str], *, whole: bool = False) -> TrainingBeats:
    """Cut at most ``MAX_LEARNED`` beats for training: the labelled ones, and some of the others.

    Args:
        grouped: the recording's beats.
        label: labelled beat -> its label.
        whole: choose the others among all beats of the recording, not among the grouped ones only.
    """
    beats, symbols = np.array(sorted(label), dtype=np.int64), sorted(set(label.values()))
    by_symbol = [np.array([beat for beat in beats.tolist() if label[beat] == symbol]) for symbol in symbols]
    chosen = [np.empty(0, np.int64)]
    for served, of_symbol in enumerate(sorted(by_symbol, key=len)):
        room = (MAX_LEARNED - sum(map(len, chosen))) // (len(by_symbol) - served)
        chosen.append(_evenly(of_symbol, room))
    labelled = np.sort(np.concatenate(chosen))
    count = len(grouped.beats.r_samples) if whole else grouped.grouped
    unlabelled = np.setdiff1d(np.arange(count), np.array(list(label), dtype=np.int64))
    unlabelled = _evenly(unlabelled, MAX_LEARNED - len(labelled))
    row = np.union1d(labelled, unlabelled)
    blocks = list(grouped.beats.blocks(row))
    examples = np.concatenate([block.window_mv for block in blocks])
    rr = np.concatenate([block.rr_s for block in blocks]) if grouped.bundle.rr_version else None
    return TrainingBeats(row, Inputs(torch.from_numpy(examples), None if rr is None else torch.from_numpy(rr)))


def _evenly(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return at most ``limit`` evenly spaced numbers."""
    return numbers[np.linspace(0, len(numbers) - 1, min(limit, len(numbers))).astype(np.int64)]


@dataclass(frozen=True, eq=False)
class Learner:
    """Trains personal models from labels.

    Attributes:
        start: the global model.
        groups: groups of the recording's first beats.
        labels: classes and their symbols.
        beats: the beats for training.
        how: the personalization method.
        everyone: (classes,) share of each class among all training beats of the bundle.
        seed: random seed.
    """

    start: GlobalModel
    groups: Groups
    labels: LabelMap
    beats: TrainingBeats
    how: Personal
    everyone: torch.Tensor
    seed: int

    def some(self, count: int) -> Inputs:
        """Return at most ``count`` evenly spaced beats."""
        return self.beats.some(_evenly(self.beats.row, count))

    def patient_beats(self, label: dict[int, str]) -> PatientBeats | None:
        """Propagate labels in the groups and return the labelled beats; None if no label has a class of the bundle.

        Beats without a label of their own are also the unlabelled ones, if the personalization method uses such.
        """
        names, _ = spread(self.groups, label)
        grouped = self.beats.row[self.beats.row < len(names)]
        number = self.labels.encode(names[grouped]).astype(np.int64)
        known = np.flatnonzero(number >= 0)
        if not len(known):
            return None
        train = Batch(self.beats.some(grouped[known]), torch.from_numpy(number[known]))
        others = np.setdiff1d(self.beats.row, np.array(list(label), dtype=np.int64))
        unlabelled = self.beats.some(others) if self.how.uses_unlabelled and len(others) else None
        return PatientBeats(train, None, self.everyone, (self.seed, 0), unlabelled)

    @single_torch_thread()
    def personal(self, patient_beats: PatientBeats) -> Pipeline:
        """Return the personal model, trained from the global model."""
        return self.how.fit(self.start.net, self.start.params, patient_beats)

    @single_torch_thread()
    def from_scratch(self, patient_beats: PatientBeats) -> Pipeline:
        """Return a model trained on these beats only: a kernel machine (``ecgfed.core.personal.kernel``) on the window
        shape and on the features of an untrained net.
        """
        return Kernel().fit(self.start.net, self.start.net.initial(self.seed), patient_beats)

    @single_torch_thread()
    def predict(self, chain: Pipeline, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class numbers (rows,) predicted by a model for some of the beats."""
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
    """Cross-validation result for the labels of a class.

    Attributes:
        labels: number of labels.
        right: predictor, of ``PREDICTORS`` -> number of labels predicted correctly.
        lost: predictor -> number of labels correct for the global model and wrong for the predictor.
        gained: predictor -> number of labels wrong for the global model and correct for the predictor.
    """

    labels: int
    right: dict[str, int]
    lost: dict[str, int]
    gained: dict[str, int]

    def lowers(self, predictor: str, max_chance: float) -> bool:
        """Whether a predictor is significantly worse than the global model: one-sided sign test on the labels that only
        one of them predicts correctly (McNemar, Psychometrika 12:153-157, 1947), p at most ``max_chance``.
        """
        lost, gained = self.lost[predictor], self.gained[predictor]
        return lost > gained and float(binom.cdf(gained, lost + gained, 0.5)) <= max_chance


@renamed_fields("0.3", "0.5", parts="folds")
@dataclass(frozen=True)
class CrossValidation:
    """Cross-validation result.

    Attributes:
        labels: number of labels.
        folds: number of folds.
        right: predictor, of ``PREDICTORS`` -> number of labels predicted correctly.
        by_class: labelled class -> result for its labels.
        by_time: whether the folds are blocks of time.
    """

    labels: int
    folds: int
    right: dict[str, int]
    by_class: dict[str, ClassResult] = field(default_factory=dict)
    by_time: bool = False

    def lowered(self, predictor: str) -> list[str]:
        """Return the classes for which a predictor lowers the global model's sensitivity (``ClassResult.lowers``)."""
        max_chance = MAX_CHANCE_BY_TIME if self.by_time else MAX_CHANCE
        return [name for name, result in self.by_class.items() if result.lowers(predictor, max_chance)]

    def estimate(self, predictor: str) -> float:
        """Estimated number of labels right with all labels known.

        A scattered label is of a group that no other label is of, so a model without it knows less than the exported
        one: ``right`` alone would favour the global model, which learns no label. Of labels of consecutive beats it is
        ``right``: beats to come are like those held back.
        """
        right = self.right[predictor]
        learns = predictor != "global" and not self.by_time
        return right + LEARNED_WEIGHT * (self.labels - right) if learns else float(right)

    def gains(self, predictor: str) -> bool:
        """Whether a predictor is significantly better than the global model: the test of ``ClassResult.lowers`` the
        other way round, on the labels of all classes, p at most ``MAX_CHANCE_OF_GAIN``.
        """
        lost = sum(result.lost[predictor] for result in self.by_class.values())
        gained = sum(result.gained[predictor] for result in self.by_class.values())
        return gained > lost and float(binom.cdf(lost, lost + gained, 0.5)) <= MAX_CHANCE_OF_GAIN

    @property
    def best(self) -> str:
        """The model to export: the one with the highest ``estimate``, in a tie the personal model before the global
        one before the one from scratch. Models that lower the sensitivity for a class are excluded, and with labels of
        consecutive beats those that gain nothing: what comes later is not among the labels, and may be forgotten.
        """
        made = [name for name in ("personal", "scratch") if not self.lowered(name)]
        allowed = [name for name in made if self.gains(name) or not self.by_time]
        order = [name for name in ("personal", "global", "scratch") if name == "global" or name in allowed]
        return max(order, key=self.estimate)


def assign_folds(number: NDArray[np.integer], folds: int, seed: int) -> NDArray[np.int64]:
    """Assign labels to folds, stratified by class.

    Args:
        number: (labels,) class numbers.
        folds: number of folds, at most the number of labels.
        seed: random seed; the same seed gives the same folds.

    Returns:
        (labels,) fold of each label, 0 to ``folds`` - 1; the sizes of folds differ by at most one.
    """
    shuffled = np.random.default_rng([seed, 16]).permutation(len(number))
    order = shuffled[np.argsort(np.asarray(number)[shuffled], kind="stable")]
    fold = np.empty(len(number), np.int64)
    fold[order] = np.arange(len(number)) % folds
    return fold


def are_consecutive(beats: NDArray[np.integer]) -> bool:
    """Whether most of the labelled beats (labels,), increasing, are followed by another labelled beat."""
    return bool((np.diff(beats) == 1).sum() >= MIN_CONSECUTIVE * len(beats))


def assign_blocks(count: int, folds: int) -> NDArray[np.int64]:
    """Assign labels in order of time to folds, each a block of time.

    Args:
        count: number of labels.
        folds: number of folds, at most the number of labels.

    Returns:
        (labels,) fold of each label, increasing; the sizes of folds differ by at most one.
    """
    return np.arange(count, dtype=np.int64) * folds // count


def cross_validate(
    learner: Learner,
    label: dict[int, str],
    global_class: NDArray[np.integer],
    on_progress: Callable[[int, int], None] = lambda completed, total: None,
) -> CrossValidation | None:
    """Predict the labels of each fold from those of the other folds and count correct predictions.

    Labels of consecutive beats, such as all of the first five minutes, are held back in blocks of time: the model is
    for later beats, and a random beat would be predicted from its labelled neighbours. Other labels are assigned to
    folds at random, stratified by class.

    Labels without a class of the bundle (such as ``?`` and ``|``) are always in the training folds, since no model can
    predict them. Only labels of the training beats are used, if there are more than ``MAX_LEARNED``.

    Args:
        learner: trains the models.
        label: labelled beat -> its label.
        global_class: (beats,) class predicted by the global model for each beat of the recording.
        on_progress: called with the number of completed folds and of all folds.

    Returns:
        The result, or None if there are fewer than ``FOLDS`` labels.
    """
    beats = np.intersect1d(np.array(list(label), dtype=np.int64), learner.beats.row)
    truth = learner.labels.encode(np.array([label[beat] for beat in beats.tolist()], dtype=np.str_)).astype(np.int64)
    beats, truth = beats[truth >= 0], truth[truth >= 0]
    if len(beats) < FOLDS:
        return None
    by_time = are_consecutive(np.array(sorted(label), dtype=np.int64))
    fold = assign_blocks(len(beats), FOLDS) if by_time else assign_folds(truth, FOLDS, learner.seed)
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
    by_class, models = {}, [name for name in right if name != "global"]
    for name, rows in classes.items():
        hits = {predictor: correct[rows] for predictor, correct in right.items()}
        by_class[name] = ClassResult(
            int(rows.sum()),
            {predictor: int(correct.sum()) for predictor, correct in hits.items()},
            {model: int((hits["global"] & ~hits[model]).sum()) for model in models},
            {model: int((hits[model] & ~hits["global"]).sum()) for model in models},
        )
    counts = {name: int(hits.sum()) for name, hits in right.items()}
    return CrossValidation(len(beats), FOLDS, counts, by_class, by_time)
