"""Personal answers of a run's patients: the method's own, or made from its global model and the patient's beats."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ecgfed.errors import RunError
from ecgfed.federation.data import TrainingData
from ecgfed.federation.single_thread import single_torch_thread
from ecgfed.federation.state import State
from ecgfed.methods.answers import Chain
from ecgfed.methods.base import Batch, Tree
from ecgfed.nets.layers import Params
from ecgfed.personal.base import OwnBeats, Personal
from ecgfed.personal.registry import METHODS_OWN
from ecgfed.runs.run import Run


def chosen_name(run: Run, asked: str | None) -> str:
    """Return which personal answer a run gives: the one asked for, or the one its method is made for."""
    return run.method.personal if asked is None else asked


@dataclass(frozen=True)
class PersonalAnswers:
    """The personal answers of a run's patients.

    Attributes:
        run: the run.
        state: its checkpoint.
        how: a way to make one from the global model, or None for the method's own.
        data: training and validation beats of the cohort; asked only for ``how``.

    Raises:
        RunError: on use, where a global model is needed and the method has none.
    """

    run: Run
    state: State
    how: Personal | None
    data: Callable[[], TrainingData]

    @cached_property
    def _beats(self) -> TrainingData:
        return self.data()

    @cached_property
    def model(self) -> Params:
        """The global model's parameters; the very tensors, so that what is shared is known to be."""
        assert self.how is not None
        answer = (
            self.run.method.global_answer(self.state.server, (), "ensemble")
            if self.run.method.has_global_model
            else None
        )
        if not isinstance(answer, Chain) or not {part.role for part in answer.parts} <= {"model", "extractor", "head"}:
            raise RunError(
                self.run.path,
                f"--personal {self.how.name}: {self.run.method.name} has no global model of extractor and head",
                "a method that has one",
                f"leave it out, or pass --personal {METHODS_OWN}",
            )
        return {name: value for part in answer.parts for name, value in part.params.items()}

    @cached_property
    def _everyone(self) -> Tensor:
        counts = sum((self._beats.class_counts(int(c)) for c in self._beats.clients), torch.zeros(self._beats.classes))
        return counts / counts.sum()

    def of(self, client: int, kept: Tree | None = None) -> Chain:
        """Return one patient's answer; the method's own where the patient has no training beats.

        Args:
            client: the patient's number.
            kept: what the patient keeps, where it has been read already.

        Raises:
            RunError: the method has no global model.
        """
        if self.how is None or client not in self._beats.rows:
            kept = self.run.client_state(self.state, client) if kept is None else kept
            return self.run.method.personal_answer(self.state.server, kept)
        valid = self._beats.valid_rows.get(client)
        own = self._beats.batch(self._beats.rows[client])
        return self.made_from(own, None if valid is None else self._beats.batch(valid), client)

    @single_torch_thread()  # so that its bits do not depend on the machine's cores
    def made_from(self, train: Batch, valid: Batch | None, client: int) -> Chain:
        """Return the answer of a patient with these beats; ``client`` may be a number that nobody has.

        Raises:
            RunError: the method has no global model.
        """
        assert self.how is not None
        own = OwnBeats(train, valid, self._everyone, (self.run.plan.seed, client))
        return self.how.fit(self.run.net, self.model, own)
