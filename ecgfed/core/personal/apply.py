"""Personal models of a run's patients: the method's, or fitted from its global model and the patient's beats."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ecgfed.base.errors import RunError, param
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.federation.state import State
from ecgfed.core.methods.base import Batch, Tree
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.nets.layers import Params
from ecgfed.core.personal.base import PatientBeats, Personal
from ecgfed.core.personal.registry import FROM_METHOD, personal_by_name
from ecgfed.core.runs.run import Run


def personal_of(run: Run, requested: str | type | None) -> tuple[str, Personal | None]:
    """Return the name of a run's personal models and what fits them, None for the method's own.

    Args:
        requested: as in ``personal_by_name``; None for those of the run's method.

    Raises:
        OptionError: as ``personal_by_name``.
    """
    fitter = personal_by_name(run.method.personal if requested is None else requested)
    return FROM_METHOD if fitter is None else fitter.name, fitter


@dataclass(frozen=True)
class PersonalModels:
    """The personal models of a run's patients.

    Attributes:
        run: the run.
        state: its checkpoint.
        fitter: fits them from the global model; None for the method's own.
        data: loads training and validation beats of the cohort; called only with a ``fitter``.

    Raises:
        RunError: on use, if a global model is needed and the method has none.
    """

    run: Run
    state: State
    fitter: Personal | None
    data: Callable[[], TrainingData]

    @cached_property
    def _beats(self) -> TrainingData:
        return self.data()

    @cached_property
    def model(self) -> Params:
        """The global model's parameters, not copied, so that shared stages are recognised by identity."""
        assert self.fitter is not None
        model = (
            self.run.method.global_model(self.state.server, (), "ensemble")
            if self.run.method.has_global_model
            else None
        )
        if not isinstance(model, Pipeline) or not {stage.role for stage in model.stages} <= {
            "model",
            "extractor",
            "head",
        }:
            actual = (
                f"{param('personal')} {self.fitter.name}: {self.run.method.name} has no global model of "
                "extractor and head"
            )
            expected = "a method that has one"
            raise RunError(self.run.path, actual, expected, f"leave it out, or pass {param('personal')} {FROM_METHOD}")
        return {name: value for stage in model.stages for name, value in stage.params.items()}

    @cached_property
    def _everyone(self) -> Tensor:
        drawn = replace(self._beats, most_per_class=self.run.plan.most_per_class)
        counts = sum((drawn.class_counts(int(c)) for c in drawn.clients), torch.zeros(drawn.classes))
        return counts / counts.sum()

    def of(self, client: int, client_state: Tree | None = None) -> Pipeline:
        """Return one patient's model; the method's own if the patient has no training beats.

        Args:
            client: the patient's number.
            client_state: the patient's state, if it has been read already.

        Raises:
            RunError: the method has no global model.
        """
        if self.fitter is None or client not in self._beats.rows:
            if client_state is None:
                client_state = self.run.client_state(self.state, client)
            return self.run.method.personal_model(self.state.server, client_state)
        valid = self._beats.valid_rows.get(client)
        train = self._beats.batch(self._beats.rows[client])
        return self.from_beats(train, None if valid is None else self._beats.batch(valid), client)

    @single_torch_thread()  # so that its bits do not depend on the machine's cores
    def from_beats(self, train: Batch, valid: Batch | None, client: int) -> Pipeline:
        """Return the model of a patient with these beats; ``client`` may be a number outside the cohort.

        Raises:
            RunError: the method has no global model.
        """
        assert self.fitter is not None
        beats = PatientBeats(train, valid, self._everyone, (self.run.plan.seed, client))
        return self.fitter.fit(self.run.net, self.model, beats)
