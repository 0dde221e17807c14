"""The loop over rounds: choose participants, run them, aggregate, tell the callbacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ecgfed.federation.checkpoint import State
from ecgfed.federation.data import TrainingData
from ecgfed.federation.engine import ClientEngine, ClientResult, ClientWork
from ecgfed.federation.plan import TrainPlan, check_needs, participants
from ecgfed.federation.trees import stack
from ecgfed.methods.base import ClientInfo, Method, Returned


@dataclass
class RoundOutcome:
    """What callbacks learn of a round.

    Attributes:
        state: the run after it.
        changed: clients whose kept state is new.
        record: the round's line in the history, JSON-ready; callbacks may add to it.
        last: whether this was the run's last round.
    """

    state: State
    changed: list[int]
    record: dict[str, Any]
    last: bool


class Callback:
    """Something that watches a run. Callbacks are called in the order given."""

    def on_start(self, state: State) -> None:
        """Learn of the state before the first round of this session."""

    def on_round(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""

    def on_end(self, state: State) -> None:
        """Learn of the state after the last round."""


def initial_state(method: Method, plan: TrainPlan) -> State:
    """Return the state before the first round."""
    return State(0, method.server_start(method.net.initial(plan.seed)))


def train(
    method: Method, data: TrainingData, plan: TrainPlan, engine: ClientEngine, state: State,
    callbacks: Sequence[Callback] = (),
) -> State:  # fmt: skip
    """Run the rounds that are left.

    Args:
        method: the federated method.
        data: the clients' training beats.
        plan: rounds, local work, seeds.
        engine: runs the clients.
        state: where to go on; changed in place.
        callbacks: told of every round.

    Returns:
        The state after the last round.

    Raises:
        RunError: a client's loss was not finite.
    """
    check_needs(method.needs, plan, len(data.clients))
    torch.set_num_threads(1)  # sums on this thread must not depend on how many there are
    initial = method.net.initial(plan.seed)
    train_beats = dict(zip(data.clients.tolist(), data.train_beats.tolist(), strict=True))
    counts = {client: data.class_counts(client) for client in train_beats}
    for callback in callbacks:
        callback.on_start(state)
    while state.round < plan.rounds:
        number = state.round + 1
        progress = state.round / plan.rounds
        chosen = [int(client) for client in participants(plan, data.clients, number)]
        work = [
            ClientWork(
                ClientInfo(
                    c,
                    number,
                    train_beats[c],
                    counts[c],
                    plan.steps_for(train_beats[c]),
                    progress,
                    seed=plan.seed,
                    client_numbers=int(data.clients.max()) + 1,
                ),
                state.kept[c] if c in state.kept else method.client_start(initial),
                state.seen.get(c, 0),
            )
            for c in chosen
        ]
        results = engine.run(method, method.shared(state.server), work)
        state.server = method.aggregate(state.server, _returned(chosen, results, train_beats, progress))
        for client, result in zip(chosen, results, strict=True):
            state.kept[client] = result.kept
            state.seen[client] = state.seen.get(client, 0) + result.beats
        state.round = number
        record = _record(method, state, chosen, results, sum(train_beats.values()))
        outcome = RoundOutcome(state, chosen, record, number == plan.rounds)
        for callback in callbacks:
            callback.on_round(outcome)
    for callback in callbacks:
        callback.on_end(state)
    return state


def _returned(chosen: list[int], results: list[ClientResult], train_beats: dict[int, int], progress: float) -> Returned:
    return Returned(
        tree=stack([result.returned for result in results]),
        losses={
            name: torch.tensor([result.losses[name] for result in results], dtype=torch.float64)
            for name in results[0].losses
        },
        train_beats=torch.tensor([train_beats[client] for client in chosen], dtype=torch.float64),
        clients=torch.tensor(chosen),
        progress=progress,
        federation=len(train_beats),
    )


def _record(
    method: Method, state: State, chosen: list[int], results: list[ClientResult], total: int
) -> dict[str, Any]:  # fmt: skip
    losses = np.array([result.losses["loss"] for result in results])
    return {
        "round": state.round,
        "passes": sum(state.seen.values()) / total,
        "loss_mean": float(losses.mean()), "loss_max": float(losses.max()),
        "worst_client": chosen[int(losses.argmax())],
        "clients": chosen, "losses": {name: [r.losses[name] for r in results] for name in results[0].losses},
        **method.round_report(state.server),
    }  # fmt: skip
