"""Patients who took no part: who is held out with whom, and what is known of each: five minutes, or twenty labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from person import grouped, labelled

import ecgfed
from ecgfed.base.errors import RecordError
from ecgfed.core.evaluation.new_client import FirstBeats, first_beats
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.labels.spread import spread
from ecgfed.domain.record.reader import read_annotation
from ecgfed.tasks.grouped import GroupedBeats

MINUTES, LABELS = 5.0, 20
#: What a patient's model is made from: every label of the first five minutes; twenty labels of the whole record, each
#: beat with that of its group; those twenty beats alone.
FIRST, SPREAD, ALONE = "five minutes", "twenty labels, spread", "twenty labels alone"
Numbers = NDArray[np.int64]


def folds_of(counts: Mapping[str, Numbers], person: Mapping[str, str], folds: int) -> list[list[str]]:
    """Deal records into folds by their rare classes, all records of a person into one.

    Class after class, that of the fewest people first, who has most of its beats first: each goes where the fewest have
    this class, of such folds into the smallest. So a class of two people is never held out as a whole.

    Args:
        counts: record -> beats of each class (classes,).
        person: record -> whose it is, where that is another record's name.
        folds: how many.
    """
    records: dict[str, list[str]] = {}
    for name in sorted(counts):
        records.setdefault(person.get(name, name), []).append(name)
    own = {whose: np.sum([counts[name] for name in names], axis=0) for whose, names in records.items()}
    people = np.sum([beats > 0 for beats in own.values()], axis=0)
    dealt: list[list[str]] = [[] for _ in range(folds)]
    left = dict(own)
    for one in np.argsort(people, kind="stable").tolist():
        for whose in sorted((who for who, beats in left.items() if beats[one]), key=lambda who: (-own[who][one], who)):
            having = [sum(own[who][one] > 0 for who in fold) for fold in dealt]
            dealt[min(range(folds), key=lambda at: (having[at], len(dealt[at]), at))].append(whose)
            del left[whose]
    return [sorted(name for whose in fold for name in records[whose]) for fold in dealt]


def class_counts(source: Path, records: Sequence[str], labels: LabelMap) -> dict[str, Numbers]:
    """Count the annotated beats of each class (classes,) of some records."""
    found = {}
    for name in records:
        label = labels.encode(read_annotation(source / name).beats().symbol)
        found[name] = np.bincount(label[label >= 0], minlength=len(labels.classes))
    return found


@dataclass(frozen=True)
class Questions:
    """The twenty labels of one record.

    Attributes:
        asked: (labels,) the beats that were asked for, numbers among all annotated ones.
        told: (beats,) the class that their groups give all annotated beats; where that is none of the classes (a
            symbol such as ``Q``), the class of the model that looked at the beats.
    """

    asked: Numbers
    told: Numbers


def questions(source: Path, record: str, bundle: ecgfed.Bundle, count: int = LABELS) -> Questions:
    """Ask a simulated person for labels, as ``ecgfed label`` does: in the reference's own symbols.

    The person names all twelve classes, also those that the page has no button for: what is compared is the same for
    all answers then.

    Args:
        source: folder of the record.
        record: its name; beats are at its annotated R peaks.
        bundle: a model that has not seen the patient.
        count: labels.
    """
    found: GroupedBeats = grouped(source, record, bundle, "annotated")
    assert found.beats.annotation is not None
    symbol = found.beats.annotation.beats().symbol
    ((_, label),) = labelled(found, symbol, [count], "ours")
    told = bundle.labels.encode(spread(found.groups, label)[0]).astype(np.int64)
    said = bundle.labels.encode(found.names).astype(np.int64)
    return Questions(np.array(sorted(label), np.int64), np.where(told < 0, said, told))


@dataclass(frozen=True)
class Lesson:
    """What a patient's model is made from, and what it is scored on.

    Attributes:
        first: the patient's beats, labelled as they are known; ``rows`` those learned from, ``rest`` those scored.
        truth: (beats,) their true classes.
        steps_of: beats whose passes say how many steps are trained: those of five minutes, whatever is learned from.
    """

    first: FirstBeats
    truth: Numbers
    steps_of: int

    @property
    def learn(self) -> Numbers:
        """Rows of the beats learned from."""
        return self.first.data.rows[0]

    def passes(self, epochs: int, batch_size: int) -> int:
        """Return the passes over this lesson's beats of as many steps as ``epochs`` over five minutes have."""
        steps = epochs * -(-self.steps_of // batch_size)
        return max(1, round(steps / -(-len(self.learn) // batch_size)))


def lessons(
    beats: RecordingBeats, labels: LabelMap, asked: Questions, *, rr: bool, minutes: float = MINUTES
) -> dict[str, Lesson]:
    """Return what each way of knowing a patient gives: ``FIRST``, ``SPREAD`` and ``ALONE``.

    Args:
        beats: all annotated beats.
        labels: the classes.
        asked: the twenty labels.
        rr: whether the net takes RR features.
        minutes: length of ``FIRST``.

    Raises:
        RecordError: nothing to learn from, or nothing to be scored on.
    """
    cut, name = beats.labelled(labels), beats.recording.name
    keep = beats.labels(labels).keep
    truth = cut.label.astype(np.int64)
    first = first_beats(cut, beats.recording.fs_hz, minutes, len(labels.classes), name, rr=rr)
    was_asked = np.isin(keep, asked.asked)
    told, own, rest = asked.told[keep], np.flatnonzero(was_asked), np.flatnonzero(~was_asked)
    told = np.where(was_asked, truth, told)
    if not len(own) or not len(rest) or not len(first.rest):
        raise RecordError(name, "too few beats of the classes", "some to learn from and others to be scored on")
    few = first.data.rows[0]
    return {
        FIRST: Lesson(first, truth, len(few)),
        SPREAD: _of_twenty(first, truth, np.arange(len(told)), told, rest),
        ALONE: _of_twenty(first, truth, own, told, rest),
    }


def _of_twenty(first: FirstBeats, truth: Numbers, learn: Numbers, label: Numbers, rest: Numbers) -> Lesson:
    data = replace(first.data, rows={0: learn}, label=label)
    return Lesson(FirstBeats(data, rest), truth, len(first.data.rows[0]))
