"""Personal models for patients who did not take part in training, from a run and the first labelled beats.

The new client runs one round of the run's method on its own: it starts from the server's message, trains on a few
beats, and stores its client state.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.text import count_of
from ecgfed.core.evaluation.accuracies import accuracy
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.meta_set import with_meta_set
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import client_work
from ecgfed.core.methods.models import Model, Pipeline
from ecgfed.core.nets.net import Inputs
from ecgfed.core.personal.apply import PersonalModels
from ecgfed.core.personal.base import Personal
from ecgfed.core.runs.run import Run
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, LabelledBeats
from ecgfed.domain.cohort.cohort import Cohort


@dataclass(frozen=True)
class FirstBeats:
    """A new patient's labelled beats, split by time.

    Attributes:
        data: all beats, as those of client 0; ``rows`` are the first ones, for training.
        rest: (beats,) rows of the others, for scoring.
    """

    data: TrainingData
    rest: NDArray[np.int64]

    def some(self, count: int) -> Inputs:
        """Return the first beats as inputs of a net, at most ``count``."""
        return self.data.batch(np.arange(min(count, len(self.data.label)))).inputs


def first_beats(
    beats: LabelledBeats, fs_hz: float, minutes: float, classes: int, name: str, *, rr: bool, leave_out: str = "nothing"
) -> FirstBeats:
    """Split a recording's labelled beats into the first minutes and the rest.

    Args:
        beats: the labelled beats, in temporal order.
        fs_hz: the recording's sampling frequency in Hz.
        minutes: length of the training part; 0: all beats are scored.
        classes: number of classes.
        name: the patient, for messages.
        rr: whether the net takes RR features.
        leave_out: beats excluded from training, as in ``TrainPlan``, but not from scoring.

    Raises:
        RecordError: no labelled beat in the first minutes.
    """
    early = beats.sample < minutes * 60 * fs_hz
    learned = early if leave_out == "nothing" else early & (beats.windows.flags & FLAG_POOR_QUALITY == 0)
    if minutes and not learned.any():
        actual = f"no beat of the run's classes in the first {count_of(minutes, 'minute')}"
        raise RecordError(name, actual, "some to learn from", f"pass more with {param('minutes')}", code="no-beats")
    data = TrainingData(
        clients=np.zeros(1, np.int64),
        rows={0: np.flatnonzero(learned)},
        examples=beats.windows.window_mv,
        rr=beats.windows.rr_s if rr else None,
        label=beats.label,
        classes=classes,
        ids={0: name},
    )
    return FirstBeats(data, np.flatnonzero(~early))


def adapt_model(run: Run, cohort: Cohort, state: State, patient: FirstBeats, epochs: int) -> Pipeline:
    """Return a new patient's personal model after ``epochs`` epochs over the first beats.

    For a method without personal models, it is the global model after local training.

    Raises:
        RunError: training was not finite.
    """
    initial = run.net.initial(run.plan.seed)
    method = with_meta_set(run.method, training_data(cohort, rr=run.net.spec.rr), run.plan.seed)
    plan = replace(run.plan, local_epochs=epochs, local_steps=None)
    new = len(cohort.clients)  # an unused number, so that the server has no state of this client
    data = patient.data
    data = replace(
        data,
        clients=np.array([new]),
        rows={new: data.rows[0]},
        ids={new: data.ids.get(0, "newcomer")},
        most_per_class=plan.most_per_class,
    )
    work = client_work(
        method,
        data,
        plan,
        State(state.round, state.server, {new: method.init_new_client(state.server, initial)}),
        new,
        initial=initial,
        number=state.round + 1,
        progress=1.0,
    )
    with ThreadEngine(data, plan, 1) as engine:
        (result,) = engine.run(method, [work])
    personal = run.method.personal_model(state.server, result.client_state)
    local = run.method.local_model(result.returned)
    return local if local is not None and all(part.shared for part in personal.stages) else personal


def model_from_beats(run: Run, cohort: Cohort, state: State, patient: FirstBeats, how: Personal) -> Pipeline:
    """Return a new patient's model, derived from the global model and the first beats.

    Raises:
        RunError: the method has no global model.
    """
    models = PersonalModels(run, state, how, lambda: training_data(cohort, rr=run.net.spec.rr))
    return models.from_beats(patient.data.batch(patient.data.rows[0]), None, len(cohort.clients))


def inputs_of(cohort: Cohort, count: int, *, rr: bool) -> Inputs:
    """Return the first rows of a cohort as inputs of a net, at most ``count``."""
    return training_data(cohort, rr=rr).batch(np.arange(min(count, len(cohort.label)))).inputs


def model_from_class_distribution(run: Run, state: State, mix: NDArray[np.floating]) -> Pipeline | None:
    """Return a new patient's model from a class distribution (classes,) only, or None if unsupported."""
    return run.method.model_from_class_distribution(state.server, torch.as_tensor(mix / mix.sum()))


def compare(run: Run, patient: FirstBeats, models: dict[str, Model]) -> dict[str, Any]:
    """Score models on the patient's beats that were not used for training.

    Returns:
        ``beats`` and, by model name, ``macro_f1``, ``macro_f1_truth`` and ``accuracy``; only ``beats`` if it is 0.
    """
    rows = patient.rest
    if not len(rows):
        return {"beats": 0}
    truth = patient.data.label[rows].astype(np.int64)
    predictor = Predictor(run.net, patient.data, rows, 1)
    scores: dict[str, Any] = {"beats": len(rows)}
    for name, model in models.items():
        matrix = confusion(truth, predictor.labels(model), patient.data.classes)
        scores[name] = {
            "macro_f1": macro_f1(matrix),
            "macro_f1_truth": macro_f1(matrix, "truth"),
            "accuracy": accuracy(matrix),
        }
    return scores
