"""What is compared on a newcomer's beats: what a method makes of a lesson, and what needs no method."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from patients import SPREAD, Lesson, Numbers
from sklearn.svm import SVC

from ecgfed import Cohort, Run
from ecgfed.core.evaluation.new_client import adapt_model, model_from_beats, model_from_class_distribution
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.federation.state import State
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.models import Model
from ecgfed.core.nets.net import Net
from ecgfed.core.personal.partway import Partway

#: Names of answers.
GLOBAL, OWN, MIX, PARTWAY = "global", "own way", "class mix", "partway"
SCRATCH, MACHINE, GROUPS = "from scratch", "support vector machine", "groups"
#: Passes over five minutes that the runs of ten patients chose, on five of them (``ten_patients.json``).
SCRATCH_EPOCHS, SCRATCH_LR = 30, 0.02
SVM_C = 10.0
#: (any, truth): macro-F1 over the classes in truth or prediction, and over those in truth.
Score = tuple[float, float]


def scored(lesson: Lesson, label: Numbers) -> Score:
    """Score the labels of all beats (beats,) on those that nobody learned from."""
    rest = lesson.first.rest
    matrix = confusion(lesson.truth[rest], label[rest], lesson.first.data.classes)
    return round(macro_f1(matrix), 4), round(macro_f1(matrix, "truth"), 4)


def labels_by(net: Net, lesson: Lesson, answer: Model) -> Numbers:
    """Return the class that an answer gives every beat (beats,)."""
    every = np.arange(len(lesson.truth), dtype=np.int64)
    return Predictor(net, lesson.first.data, every, 1).labels(answer)


def of_method(
    run: Run, cohort: Cohort, state: State, epochs: int, everyone: Model, lessons: dict[str, Lesson]
) -> dict[str, dict[str, Score]]:
    """Score a method's answers: lesson -> answer -> score.

    Args:
        run: the run.
        cohort: its cohort.
        state: its end.
        epochs: passes over five minutes of its own way with a newcomer.
        everyone: its global answer.
        lessons: the newcomer's.
    """
    said = labels_by(run.net, next(iter(lessons.values())), everyone)
    found: dict[str, dict[str, Score]] = {}
    for name, lesson in lessons.items():
        answers: dict[str, Model] = {}
        if run.method.has_global_model:
            answers[PARTWAY] = model_from_beats(run, cohort, state, lesson.first, Partway())
            passes = lesson.passes(epochs, run.plan.batch_size)
            answers[OWN] = adapt_model(run, cohort, state, lesson.first, passes)
        mix = model_from_class_distribution(run, state, lesson.first.data.class_counts(0).numpy())
        if mix is not None:
            answers[MIX] = mix
        scores = {key: scored(lesson, labels_by(run.net, lesson, one)) for key, one in answers.items()}
        found[name] = {GLOBAL: scored(lesson, said), **scores}
    return found


def of_nobody(run: Run, cohort: Cohort, lessons: dict[str, Lesson]) -> dict[str, dict[str, Score]]:
    """Score what needs nothing federated: lesson -> answer -> score.

    Args:
        run: any run of the fold and seed: its net, seed and batch size are used, nothing that it learned.
        cohort: its cohort.
        lessons: the newcomer's.
    """
    alone = replace(run, method=Local(run.net, SgdSettings(lr=SCRATCH_LR)))
    found: dict[str, dict[str, Score]] = {}
    for name, lesson in lessons.items():
        passes = lesson.passes(SCRATCH_EPOCHS, run.plan.batch_size)
        chain = adapt_model(alone, cohort, State(0, {}), lesson.first, passes)
        found[name] = {
            SCRATCH: scored(lesson, labels_by(run.net, lesson, chain)),
            MACHINE: scored(lesson, machine(lesson)),
        }
        if name == SPREAD:  # what was told of the beats that were not asked for
            found[name][GROUPS] = scored(lesson, lesson.first.data.label)
    return found


def machine(lesson: Lesson) -> Numbers:
    """Return the class that a support vector machine (C = 10, radial basis) gives every beat (beats,).

    It sees what the net sees: the window, each with mean 0 and standard deviation 1, and the RR features. These are not
    weighted: 0, 1, 3 and 10 times give .612, .628, .628 and .608 after five minutes (macro-F1, mean over DS1).
    """
    data, learn = lesson.first.data, lesson.learn
    label = data.label[learn]
    if (label == label[0]).all():
        return np.full(len(data.label), int(label[0]), np.int64)
    seen = points(np.asarray(data.examples, np.float32), data.rr)
    fitted = SVC(C=SVM_C).fit(seen[learn], label)
    return np.asarray(fitted.predict(seen), np.int64)


def points(window_mv: NDArray[np.float32], rr: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return z-scored windows with their RR features, (beats, samples + features) of windows (beats, 1, samples)."""
    flat = window_mv.reshape(len(window_mv), -1)
    z = (flat - flat.mean(1, keepdims=True)) / (flat.std(1, keepdims=True) + 1e-6)
    return z if rr is None else np.concatenate([z, rr], axis=1)
