"""A patient's own model from a few labels, and what it is worth on labels that are held back from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

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
MOST_LEARNED = 4000
#: Labels are held back in so many parts, and with fewer labels none are.
PARTS = 5
#: Who answers labels that are held back.
ANSWERERS = ("groups", "personal", "global", "scratch")
#: A class is lowered where chance alone would do so with this probability at most. Chosen on MIT-BIH's DS1
#: (``benchmarks/clinical/adoption.py``).
MOST_CHANCE = 0.25


@dataclass(frozen=True, eq=False)
class LearnedBeats:
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


def learned_beats(grouped: GroupedBeats, label: Mapping[int, str]) -> LearnedBeats:
    """Cut the beats to learn from, ``MOST_LEARNED`` at most: those with an answer, and of the others in groups some.

    Args:
        grouped: the recording's beats.
        label: answered beat -> its label.
    """
    answered = _of_every_symbol(label, MOST_LEARNED)
    others = np.setdiff1d(np.arange(grouped.grouped), np.array(list(label), dtype=np.int64))
    others = _evenly(others, MOST_LEARNED - len(answered))
    row = np.union1d(answered, others)
    blocks = list(grouped.beats.blocks(row))
    examples = np.concatenate([block.window_mv for block in blocks])
    rr = np.concatenate([block.rr_s for block in blocks]) if grouped.bundle.rr_version else None
    return LearnedBeats(row, Inputs(torch.from_numpy(examples), None if rr is None else torch.from_numpy(rr)))


def _evenly(numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return some of the numbers, evenly taken, at most so many."""
    return numbers[np.linspace(0, len(numbers) - 1, min(most, len(numbers))).astype(np.int64)]


def _of_every_symbol(label: Mapping[int, str], most: int) -> NDArray[np.int64]:
    """Return answered beats, at most so many: of each symbol evenly taken ones, all of those that are rare."""
    beats, symbols = np.array(sorted(label), dtype=np.int64), sorted(set(label.values()))
    by_symbol = [np.array([beat for beat in beats.tolist() if label[beat] == one]) for one in symbols]
    chosen = [np.empty(0, np.int64)]
    for left, some in enumerate(sorted(by_symbol, key=len)):
        room = (most - sum(map(len, chosen))) // (len(by_symbol) - left)
        chosen.append(_evenly(some, room))
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
    beats: LearnedBeats
    how: Personal
    everyone: torch.Tensor
    seed: int

    def some(self, count: int) -> Inputs:
        """Return some of the beats, evenly taken, at most ``count``."""
        return self.beats.some(_evenly(self.beats.row, count))

    def own_beats(self, label: dict[int, str]) -> PatientBeats | None:
        """Return the beats with the labels that a few answers give them; None where none has a class."""
        names, _ = spread(self.groups, label)
        number = self.labels.encode(names[self.beats.row]).astype(np.int64)
        known = np.flatnonzero(number >= 0)
        if not len(known):
            return None
        train = Batch(self.beats.some(self.beats.row[known]), torch.from_numpy(number[known]))
        return PatientBeats(train, None, self.everyone, (self.seed, 0))

    @single_torch_thread()
    def personal(self, own: PatientBeats) -> Pipeline:
        """Return the patient's model, made from the global one."""
        return self.how.fit(self.start.net, self.start.params, own)

    @single_torch_thread()
    def scratch(self, own: PatientBeats) -> Pipeline:
        """Return a model that has seen nothing but these beats: a kernel machine (``ecgfed.core.personal.kernel``) on
        the shape of the window and on what an untrained net makes of window and intervals.
        """
        return Kernel().fit(self.start.net, self.start.net.initial(self.seed), own)

    @single_torch_thread()
    def answers(self, chain: Pipeline, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class numbers (rows,) that a model gives some of the beats."""
        inputs = self.beats.some(rows)
        found = [np.empty(0, np.int64)]
        with torch.inference_mode():
            for start in range(0, len(rows), BATCH):
                some = slice(start, start + BATCH)
                part = Inputs(inputs.examples[some], None if inputs.rr is None else inputs.rr[some])
                found.append(chain_logits(self.start.net, chain, part).argmax(1).numpy())
        return np.concatenate(found)


@dataclass(frozen=True)
class ClassCheck:
    """How the held-back labels of one class were answered.

    Attributes:
        labels: how many were held back.
        right: of ``ANSWERERS``, how many each had right.
        lost: answerer -> labels that the global model had right and it had not.
        gained: answerer -> labels that it had right and the global model had not.
    """

    labels: int
    right: dict[str, int]
    lost: dict[str, int]
    gained: dict[str, int]

    def lowers(self, answerer: str) -> bool:
        """Whether an answerer has fewer right than the global model, by more than chance allows: one-sided sign test on
        the labels that one of the two alone has right (McNemar, Psychometrika 12:153-157, 1947), p at most
        ``MOST_CHANCE``.
        """
        lost, gained = self.lost[answerer], self.gained[answerer]
        return lost > gained and float(binom.cdf(gained, lost + gained, 0.5)) <= MOST_CHANCE


@dataclass(frozen=True)
class HeldBack:
    """How many labels were answered rightly while they were held back.

    Attributes:
        labels: how many were held back in turn.
        parts: in how many parts.
        right: of ``ANSWERERS``, how many each had right.
        by_class: class -> the same of its labels, for each class that was labelled.
    """

    labels: int
    parts: int
    right: dict[str, int]
    by_class: dict[str, ClassCheck] = field(default_factory=dict)

    def lowered(self, answerer: str) -> list[str]:
        """Return the classes for which an answerer lowers the global model's sensitivity (``ClassCheck.lowers``)."""
        return [name for name, check in self.by_class.items() if check.lowers(answerer)]

    @property
    def best(self) -> str:
        """Which model a patient gets: the personal one unless the global one, or one from scratch, had more right; of
        these two the global one where they are equal. A model that lowers a class's sensitivity is none of them.
        """
        allowed = [name for name in ("personal", "global", "scratch") if name == "global" or not self.lowered(name)]
        return max(allowed, key=self.right.__getitem__)


def parts_of(number: NDArray[np.integer], parts: int, seed: int) -> NDArray[np.int64]:
    """Divide labels into parts, each with about its share of every class.

    Args:
        number: (labels,) their classes.
        parts: how many parts, at most as many as there are labels.
        seed: the same seed gives the same parts.

    Returns:
        (labels,) the part of each, 0 to ``parts`` - 1; sizes differ by one at most.
    """
    shuffled = np.random.default_rng([seed, 16]).permutation(len(number))
    order = shuffled[np.argsort(np.asarray(number)[shuffled], kind="stable")]
    part = np.empty(len(number), np.int64)
    part[order] = np.arange(len(number)) % parts
    return part


def held_back(
    learner: Learner,
    label: dict[int, str],
    global_class: NDArray[np.integer],
    told: Callable[[int, int], None] = lambda done, total: None,
) -> HeldBack | None:
    """Hold labels back in parts, and count who answers them rightly from the others; None with fewer than ``PARTS``.

    Labels without a class of the bundle (``?`` and ``|`` among them) are held back from nobody: no model answers them.
    Of more than ``MOST_LEARNED`` labels those are held back that models learn from.

    Args:
        learner: makes the models.
        label: answered beat -> its label.
        global_class: (beats,) what the global model gives every beat of the recording.
        told: called with the parts that are done, and all.
    """
    beats = np.intersect1d(np.array(list(label), dtype=np.int64), learner.beats.row)
    truth = learner.labels.encode(np.array([label[beat] for beat in beats.tolist()], dtype=np.str_)).astype(np.int64)
    beats, truth = beats[truth >= 0], truth[truth >= 0]
    if len(beats) < PARTS:
        return None
    part = parts_of(truth, PARTS, learner.seed)
    answers = {name: np.full(len(beats), -1, np.int64) for name in ANSWERERS}
    answers["global"] = global_class[beats].astype(np.int64)
    for number in range(PARTS):
        at = np.flatnonzero(part == number)
        away = beats[at]
        hidden = set(away.tolist())
        rest = {beat: symbol for beat, symbol in label.items() if beat not in hidden}
        names, _ = spread(learner.groups, rest)
        answers["groups"][at] = learner.labels.encode(names[away])
        own = learner.own_beats(rest)
        if own is not None:
            answers["personal"][at] = learner.answers(learner.personal(own), away)
            answers["scratch"][at] = learner.answers(learner.scratch(own), away)
        told(number + 1, PARTS)
    right = {name: answer == truth for name, answer in answers.items()}
    classes = {name: truth == number for number, name in enumerate(learner.labels.classes) if (truth == number).any()}
    by_class = {name: _class_check(right, rows) for name, rows in classes.items()}
    return HeldBack(len(beats), PARTS, {name: int(one.sum()) for name, one in right.items()}, by_class)


def _class_check(right: Mapping[str, NDArray[np.bool_]], rows: NDArray[np.bool_]) -> ClassCheck:
    """Count the right answers of one class's labels, and those that the global model alone has right, or has not."""
    of_global = right["global"][rows]
    others = {name: answer[rows] for name, answer in right.items() if name != "global"}
    return ClassCheck(
        int(rows.sum()),
        {name: int(answer[rows].sum()) for name, answer in right.items()},
        {name: int((of_global & ~answer).sum()) for name, answer in others.items()},
        {name: int((answer & ~of_global).sum()) for name, answer in others.items()},
    )
