"""What travels: rounds of a method run for real, with every tree that went down, came up or stayed at hand.

``ecgfed.federation.card_check`` compares it with what the method's card says, ``ecgfed.federation.cost`` counts bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ecgfed.federation.client_round import ClientResult, ClientWork, run_client
from ecgfed.federation.data import TrainingData
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.train import initial_state, train
from ecgfed.federation.trees import flatten, tree_bytes
from ecgfed.methods.base import Method


@dataclass(frozen=True)
class Parcel:
    """One client's part of one round: what went in and what came out.

    Attributes:
        work: what the engine was given: what the server sent, what the client kept before.
        result: what came of it: what went back, what the client keeps now, its losses.
    """

    work: ClientWork
    result: ClientResult

    @property
    def client(self) -> int:
        """The client's number."""
        return self.work.info.index

    @cached_property
    def down(self) -> dict[str, Tensor]:
        """What the server sent, leaves by path."""
        return flatten(self.work.shared)

    @cached_property
    def up(self) -> dict[str, Tensor]:
        """What went back, leaves by path."""
        return flatten(self.result.returned)

    @cached_property
    def kept_before(self) -> dict[str, Tensor]:
        """What the client kept from its last round, leaves by path."""
        return flatten(self.work.kept)

    @cached_property
    def kept(self) -> dict[str, Tensor]:
        """What the client keeps after this one, leaves by path."""
        return flatten(self.result.kept)


@dataclass(frozen=True)
class Traffic:
    """Rounds of a method.

    Attributes:
        method: the method, with its net and settings.
        rounds: a parcel for each participant of each round.
    """

    method: Method
    rounds: tuple[tuple[Parcel, ...], ...]

    def down_bytes(self, place: int) -> int:
        """Bytes the server sent in the round at ``place``, to the client it sent most."""
        return max(tree_bytes(parcel.work.shared) for parcel in self.rounds[place])

    def up_bytes(self, place: int) -> int:
        """Bytes that came back in the round at ``place``, from the client that sent most; but for a few numbers.

        A client's loss, its number and how many beats it has (``methods.communication.ALWAYS_SENT``) are not counted.
        """
        return max(tree_bytes(parcel.result.returned) for parcel in self.rounds[place])


class _Recorder:
    """An engine that runs one client after the other in this thread, and remembers all of it."""

    def __init__(self, data: TrainingData, plan: TrainPlan) -> None:
        self.data, self.plan = data, plan
        self.rounds: list[tuple[Parcel, ...]] = []

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round."""
        results = [run_client(method, self.data, self.plan, one) for one in work]
        self.rounds.append(tuple(map(Parcel, work, results)))
        return results


def traffic_of(method: Method, data: TrainingData, plan: TrainPlan, rounds: Sequence[int] | None = None) -> Traffic:
    """Run rounds of a method as a training does, and return all that travelled. Memory holds every round.

    Args:
        method: the method.
        data: a federation: several clients, with validation beats where the method or its risk needs them.
        plan: the run.
        rounds: the rounds that are run, increasing; others are left out as if nobody had taken part, so that a run's
            end is seen without its middle. Default all.

    Raises:
        OptionError: a plan that the method is not defined for.
        CohortError: the data lack validation beats.
        RunError: a loss was not finite.
    """
    plan = plan.without_privacy
    recorder, state = _Recorder(data, plan), initial_state(method, plan)
    for number in range(1, plan.rounds + 1) if rounds is None else rounds:
        state.round = number - 1
        train(method, data, plan, recorder, state, should_stop=lambda: True)
    return Traffic(method, tuple(recorder.rounds))
