"""The plan of a training run: rounds, local work, participants, seeds."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base import platform
from ecgfed.base.errors import OptionError, param
from ecgfed.base.text import count_of
from ecgfed.core.config import SERVER, DataOptions, PrivacyConfig, WorkOptions
from ecgfed.core.methods.base import Requirements
from ecgfed.core.privacy.robust import MEAN, Aggregation

#: Fields that runs and sites of earlier versions do not know, with their defaults.
_LATER = {"most_per_class": None, "augment": False}


@dataclass(frozen=True)
class TrainPlan(PrivacyConfig, DataOptions, WorkOptions):
    """Rounds, local work and participants of a training run: the options that ``run.json`` records under ``plan``.

    Either ``local_epochs`` or ``local_steps`` is None; the others are as in ``TrainConfig``.
    """

    rounds: int = 20
    local_epochs: int | None = 1
    batch_size: int = 64

    def check_together(self) -> None:
        """Raise OptionError unless either epochs or steps are set, and the rest fits together."""
        super().check_together()
        self.check_clip()
        if (self.local_epochs is None) == (self.local_steps is None):
            actual = "both or neither given"
            expected = "one of them"
            raise OptionError(f"{param('local_epochs')} and {param('local_steps')}", actual, expected, code="conflict")
        Aggregation.parse(self.aggregation)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; those that version 0.2 did not have are omitted at their defaults."""
        return {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}

    @property
    def without_privacy(self) -> "TrainPlan":
        """The plan with the plain mean and no noise, which communication and cost do not depend on."""
        return replace(self, aggregation=MEAN, dp_clip=0.0, dp_noise=0.0, dp_at=SERVER)

    def steps_for(self, train_examples: int) -> int:
        """Return a client's local steps in a round; ``train_examples`` are those of an epoch."""
        if self.local_steps is not None:
            return self.local_steps
        return int(self.local_epochs or 0) * math.ceil(train_examples / self.batch_size)

    def examples_for(self, train_examples: int) -> int:
        """Return the beats a client uses in a round (one batch per step)."""
        if self.local_steps is not None:
            return self.local_steps * min(self.batch_size, train_examples)
        return int(self.local_epochs or 0) * train_examples

    def rounds_for_passes(self, passes: float, train_examples: NDArray[np.int64], per_step: int = 1) -> int:
        """Return the rounds after which clients have gone through all training beats ``passes`` times on average.

        Args:
            passes: passes over all training beats, on average.
            train_examples: (M,) each client's training beats.
            per_step: batches that the method reads in a step (``Requirements.batches_per_step``).
        """
        per_round = per_step * float(sum(self.examples_for(int(n)) for n in train_examples))
        if self.clients_per_round:
            per_round *= min(self.clients_per_round, len(train_examples)) / len(train_examples)
        return max(1, round(passes * int(train_examples.sum()) / per_round))

    def with_passes(self, passes: float, train_examples: NDArray[np.int64], per_step: int = 1) -> "TrainPlan":
        """Return the plan with ``rounds_for_passes`` rounds."""
        return replace(self, rounds=self.rounds_for_passes(passes, train_examples, per_step))


def check_requirements(needs: Requirements, plan: TrainPlan, clients: int) -> None:
    """Raise OptionError if the method is not defined for the plan.

    Args:
        clients: number of clients in the federation.
    """
    if needs.pooled and plan.clips:
        actual = f"{plan.dp_clip:g} with beats of all patients in one place, where no patient has an update of its own"
        raise OptionError("dp_clip", actual, "a federated method", "leave it out", code="conflict")
    if needs.single_step and plan.local_steps != 1:
        requested = (
            count_of(plan.local_epochs or 0, "local epoch") if plan.local_steps is None else f"{plan.local_steps}"
        )
        action = "see 'ecgfed methods' for its form with more"
        raise OptionError("local_steps", requested, "1 with this method", action, code="conflict")
    if needs.all_clients and plan.clients_per_round not in (None, clients):
        expected = f"all {clients} with this method"
        raise OptionError("clients_per_round", f"{plan.clients_per_round}", expected, "leave it out", code="conflict")


def participants(plan: TrainPlan, clients: NDArray[np.int64], round_number: int) -> NDArray[np.int64]:
    """Choose the round's participants: all clients, or m of them uniformly without replacement.

    Args:
        plan: m and the seed.
        clients: (M,) client numbers.
        round_number: from 1; the choice depends only on it and the seed, so a resumed run chooses the same.

    Returns:
        (m,) client numbers in increasing order.

    Raises:
        OptionError: more clients per round than there are.
    """
    m = plan.clients_per_round
    if m is None:
        return np.sort(clients)
    if m > len(clients):
        raise OptionError("clients_per_round", f"{m}", f"at most {len(clients)}, the clients of the cohort")
    return np.sort(np.random.default_rng([plan.seed, 1, round_number]).choice(clients, size=m, replace=False))


def worker_count(workers: int | None) -> int:
    """Return the number of workers, by default one per core; raises OptionError below 1."""
    if workers is None:
        return available_cores()
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise OptionError("workers", f"{workers!r}", "a whole number, 1 or more")
    return workers


def available_cores() -> int:
    """Return the processor cores this process may use."""
    return platform.cores()
