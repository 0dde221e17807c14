"""The loop over rounds: choose participants, run them, aggregate, tell the callbacks."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ecgfed.federation.client_round import ClientEngine, ClientResult, ClientWork
from ecgfed.federation.data import TrainingData
from ecgfed.federation.meta_set import with_meta_set
from ecgfed.federation.one_thread import one_torch_thread
from ecgfed.federation.plan import TrainPlan, check_needs, participants
from ecgfed.federation.state import State
from ecgfed.federation.trees import stack
from ecgfed.federation.updates import check_combining, combined, spent
from ecgfed.methods.base import ClientInfo, Method, Returned, Tree
from ecgfed.nets.layers import Params
from ecgfed.privacy.noise import SITE


@dataclass
class RoundOutcome:
    """What callbacks learn of a round.

    Attributes:
        state: the run after it.
        changed: clients whose kept state is new.
        record: the round's line in the history, JSON-ready; callbacks may add to it.
        examples: training beats or images the participants went through.
        last: whether this was the run's last round.
        stopping: whether this session ends here because it was asked to, before the run's last round.
    """

    state: State
    changed: list[int]
    record: dict[str, Any]
    examples: int
    last: bool
    stopping: bool = False


class Callback:
    """Something that watches a run. Callbacks are called in the order given."""

    def on_start(self, state: State) -> None:
        """Learn of the state before the first round of this session."""

    def on_round(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""

    def on_end(self, state: State) -> None:
        """Learn of the state after the session's last round."""

    def on_failure(self, state: State) -> None:
        """Learn that an error, or Ctrl-C, ended the session instead; finish what was begun, and raise nothing."""


def initial_state(method: Method, plan: TrainPlan) -> State:
    """Return the state before the first round."""
    return State(0, method.server_start(method.net.initial(plan.seed)))


@one_torch_thread()
def train(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    engine: ClientEngine,
    state: State,
    callbacks: Sequence[Callback] = (),
    should_stop: Callable[[], bool] = lambda: False,
    secret: bytes = b"",
) -> State:
    """Run the rounds that are left.

    Args:
        method: the federated method.
        data: the clients' training beats.
        plan: rounds, local work, seeds.
        engine: runs the clients.
        state: where to go on; changed in place.
        callbacks: told of every round.
        should_stop: asked after every round; True ends the session there.
        secret: of the noise, where the plan has the server add some; nobody who sees the models may know it.

    Returns:
        The state after the session's last round.

    Raises:
        RunError: a client's loss was not finite, or what it keeps cannot be read.
        StorageError: a callback could not write.
    """
    check_needs(method.requirements, plan, len(data.clients))
    check_combining(method, plan)
    session = _Session(method, data, plan, engine, secret, state.round)
    try:
        for callback in callbacks:
            callback.on_start(state)
        stopping = False
        while state.round < plan.rounds and not stopping:
            outcome = session.run_round(state)
            stopping = outcome.stopping = not outcome.last and should_stop()
            for callback in callbacks:
                callback.on_round(outcome)
        for callback in callbacks:
            callback.on_end(state)
    except BaseException:
        for callback in callbacks:
            callback.on_failure(state)
        raise
    return state


class _Session:
    """What stays the same from round to round."""

    def __init__(
        self, method: Method, data: TrainingData, plan: TrainPlan, engine: ClientEngine, secret: bytes, done: int
    ) -> None:
        self.method, self.data, self.plan, self.engine, self.secret = method, data, plan, engine, secret
        #: what runs in the method's place; what travels, and its card, are the method's
        self.runs = with_meta_set(method, data, plan.seed)
        self.initial = method.net.initial(plan.seed)
        self.train_examples = dict(zip(data.clients.tolist(), data.train_examples.tolist(), strict=True))
        self.total = sum(self.train_examples.values())
        #: in how many rounds each client was asked, which epsilon depends on
        self.charged: Counter[int] = Counter()
        for number in range(1, done + 1 if plan.privacy.on else 1):
            self._charge(number)

    def _charge(self, number: int) -> None:
        self.charged.update(participants(self.plan, self.data.clients, number).tolist())

    def run_round(self, state: State) -> RoundOutcome:
        """Run the next round; ``state`` is changed in place. Memory holds the participants only."""
        number, progress = state.round + 1, state.round / self.plan.rounds
        asked = [int(client) for client in participants(self.plan, self.data.clients, number)]
        work = [
            client_work(
                self.runs, self.data, self.plan, state, client, initial=self.initial, number=number, progress=progress
            )
            for client in asked
        ]
        came = list(zip(asked, work, self.engine.run(self.runs, work), strict=True))
        took_part = [(client, one.shared, result) for client, one, result in came if result is not None]
        chosen = [client for client, _, _ in took_part]
        sent = [shared for _, shared, _ in took_part]
        results = [result for _, _, result in took_part]
        del work, came, took_part
        returned = self._returned(chosen, results, sent, number, progress)
        del sent
        state.server = self.runs.aggregate(state.server, returned)
        for client, result in zip(chosen, results, strict=True):
            state.kept[client] = result.kept
            state.seen[client] = state.seen.get(client, 0) + result.examples
        state.round = number
        record = _record(self.runs, state, chosen, results, self.total) | self._epsilon(number)
        beats = sum(result.examples for result in results)
        return RoundOutcome(state, chosen, record, beats, last=number == self.plan.rounds)

    def _epsilon(self, number: int) -> dict[str, float]:
        """What the round's line says of differential privacy: epsilon so far, of who was asked most often.

        Who was asked is charged, also where its update came too late to be used: it may have been seen.
        """
        if not self.plan.privacy.on:
            return {}
        self._charge(number)
        # a site takes part when one of its patients does
        most = number if self.plan.dp_at == SITE else max(self.charged.values())
        epsilon = spent(self.plan, most)
        return {} if epsilon is None or math.isinf(epsilon) else {"epsilon": epsilon}

    def _returned(
        self, chosen: list[int], results: list[ClientResult], sent: list[Tree], number: int, progress: float
    ) -> Returned:
        came = stack([result.returned for result in results])
        return Returned(
            tree=combined(self.method, self.plan, sent, came, number, self.secret),
            losses={
                name: torch.tensor([result.losses[name] for result in results], dtype=torch.float64)
                for name in results[0].losses
            },
            train_examples=torch.tensor([self.train_examples[client] for client in chosen], dtype=torch.float64),
            clients=torch.tensor(chosen),
            progress=progress,
            federation=len(self.train_examples),
            round=number,
            seed=self.plan.seed,
        )


def client_work(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    state: State,
    client: int,
    *,
    initial: Params,
    number: int,
    progress: float,
) -> ClientWork:
    """Return one client's part of round ``number``: what the server sends it, and what it kept or begins with.

    Args:
        method: the federated method.
        data: the training beats.
        plan: local work and seed.
        state: the run before the round.
        client: client number.
        initial: the run's first parameters.
        number: the round, from 1 on.
        progress: share of the run's rounds that are over.
    """
    beats = len(data.rows[client])
    steps = plan.steps_for(beats)
    info = ClientInfo(client, number, beats, data.class_counts(client), steps, progress, seed=plan.seed)
    kept = state.kept[client] if client in state.kept else method.client_start(initial)
    return ClientWork(info, method.server_message(state.server, client), kept, state.seen.get(client, 0))


def _record(method: Method, state: State, chosen: list[int], results: list[ClientResult], total: int) -> dict[str, Any]:
    losses = np.array([result.losses["loss"] for result in results])
    return {
        "round": state.round,
        "passes": sum(state.seen.values()) / total,
        "loss_mean": float(losses.mean()),
        "loss_max": float(losses.max()),
        "worst_client": chosen[int(losses.argmax())],
        "clients": chosen,
        "losses": {name: [r.losses[name] for r in results] for name in results[0].losses},
        **method.round_report(state.server),
    }
