"""Run rounds of a method and log every tree that was sent, returned or stored.

``ecgfed.core.federation.communication_audit`` compares the log with the method's card, ``ecgfed.core.federation.cost``
counts bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ecgfed.core.federation.client_round import ClientResult, ClientWork, run_client
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten, tree_bytes
from ecgfed.core.methods.base import Method


@dataclass(frozen=True)
class ClientExchange:
    """Input and output of one client in one round.

    Attributes:
        work: what the server sent, and the client's state before the round.
        result: what the client returned, its state after the round, and its losses.
    """

    work: ClientWork
    result: ClientResult

    @property
    def client(self) -> int:
        """Client number."""
        return self.work.info.index

    @cached_property
    def down(self) -> dict[str, Tensor]:
        """Leaves that the server sent, by path."""
        return flatten(self.work.shared)

    @cached_property
    def up(self) -> dict[str, Tensor]:
        """Leaves that the client returned, by path."""
        return flatten(self.result.returned)

    @cached_property
    def state_before(self) -> dict[str, Tensor]:
        """Leaves of the client's state before the round, by path."""
        return flatten(self.work.client_state)

    @cached_property
    def state_after(self) -> dict[str, Tensor]:
        """Leaves of the client's state after the round, by path."""
        return flatten(self.result.client_state)


@dataclass(frozen=True)
class CommunicationLog:
    """All exchanges of some rounds of a method.

    Attributes:
        method: the method, with its net and settings.
        rounds: for each round, one exchange per participant.
    """

    method: Method
    rounds: tuple[tuple[ClientExchange, ...], ...]

    def down_bytes(self, index: int) -> int:
        """Return the bytes sent in the round at ``index`` to the client that received most."""
        return max(tree_bytes(exchange.work.shared) for exchange in self.rounds[index])

    def up_bytes(self, index: int) -> int:
        """Return the bytes returned in the round at ``index`` by the client that returned most.

        A client's losses, number and beat count (``methods.communication.ALWAYS_SENT``) are not included.
        """
        return max(tree_bytes(exchange.result.returned) for exchange in self.rounds[index])


class _Recorder:
    """An engine that runs clients one after the other in this thread and records every exchange."""

    def __init__(self, data: TrainingData, plan: TrainPlan) -> None:
        self.data, self.plan = data, plan
        self.rounds: list[tuple[ClientExchange, ...]] = []

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round."""
        results = [run_client(method, self.data, self.plan, client_work) for client_work in work]
        self.rounds.append(tuple(map(ClientExchange, work, results)))
        return results


def record_communication(
    method: Method, data: TrainingData, plan: TrainPlan, rounds: Sequence[int] | None = None
) -> CommunicationLog:
    """Run rounds as training does and return everything that was exchanged. All rounds are held in memory.

    Args:
        data: several clients, with validation beats if the method or its risk needs them.
        rounds: the rounds to run, increasing; the others are skipped as if without participants, so that the end of a
            run can be logged without its middle. Default all.

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
    return CommunicationLog(method, tuple(recorder.rounds))
