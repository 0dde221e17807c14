"""The training loop: select participants, run them, aggregate, call the callbacks."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, param
from ecgfed.core.config import SITE
from ecgfed.core.federation.client_round import ClientEngine, ClientResult, ClientWork
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.meta_set import with_meta_set
from ecgfed.core.federation.own_functions import RoundFunctions, RoundInfo, sampled, scheduled
from ecgfed.core.federation.plan import TrainPlan, check_requirements, participants
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.federation.state import State
from ecgfed.core.federation.trees import stack
from ecgfed.core.federation.updates import check_combining, combined, spent
from ecgfed.core.methods.base import ClientInfo, Method, Returned, Tree
from ecgfed.core.nets.layers import Params


@dataclass
class RoundOutcome:
    """Outcome of a round, passed to callbacks.

    Attributes:
        state: the state after the round.
        changed: clients whose state has changed.
        record: the round's line in the history, JSON-ready; callbacks may add to it.
        examples: training beats or images that the participants used.
        last: whether this was the run's last round.
        stopping: whether the session stops here on request, before the run's last round.
    """

    state: State
    changed: list[int]
    record: dict[str, Any]
    examples: int
    last: bool
    stopping: bool = False


class Callback:
    """Base class of callbacks; they are called in the order they are passed."""

    def on_start(self, state: State) -> None:
        """Called before the first round of the session."""

    def on_round(self, outcome: RoundOutcome) -> None:
        """Called after every round."""

    def on_end(self, state: State) -> None:
        """Called after the last round of the session."""

    def on_failure(self, state: State) -> None:
        """Called instead of ``on_end`` if an error or Ctrl-C ended the session; must not raise."""


def initial_state(method: Method, plan: TrainPlan) -> State:
    """Return the state before the first round."""
    return State(0, method.server_start(method.net.initial(plan.seed)))


@single_torch_thread()
def train(
    method: Method,
    data: TrainingData,
    plan: TrainPlan,
    engine: ClientEngine,
    state: State,
    callbacks: Sequence[Callback] = (),
    should_stop: Callable[[], bool] = lambda: False,
    secret: bytes = b"",
    own: RoundFunctions | None = None,
) -> State:
    """Run the remaining rounds.

    Args:
        method: the federated method.
        data: the clients' training beats.
        plan: rounds, local work, seeds.
        engine: runs the clients.
        state: the state to continue from; changed in place.
        callbacks: called after every round.
        should_stop: called after every round; True ends the session.
        secret: seed of the noise if the server adds any; must be kept from everybody who sees the models.
        own: a user's sampler and schedule.

    Returns:
        The state after the session's last round.

    Raises:
        RunError: a client's loss was not finite, or its state cannot be read.
        OptionError: a user's function returned something else than it should.
        StorageError: a callback could not write.
    """
    check_requirements(method.requirements, plan, len(data.clients))
    check_combining(method, plan)
    session = _Session(method, data, plan, engine, secret, state.round, own or RoundFunctions())
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
    """Everything that does not change between rounds."""

    def __init__(
        self,
        method: Method,
        data: TrainingData,
        plan: TrainPlan,
        engine: ClientEngine,
        secret: bytes,
        finished: int,
        own: RoundFunctions,
    ) -> None:
        self.method, self.data, self.plan, self.engine, self.secret = method, data, plan, engine, secret
        self.own, self.last_losses = own, dict(own.last_losses)
        if own.sampler is not None and plan.clips:
            problem = f"given with {param('dp_clip')}, whose epsilon is that of participants at random"
            raise OptionError("sampler", problem, "one of them", code="conflict")
        if own.sampler is not None and method.requirements.pooled:
            problem = f"with {method.name}, which pools all patients: there is no client to choose"
            raise OptionError("sampler", problem, action=f"leave {param('sampler')} out", code="conflict")
        #: the hooks that run; what is sent, and the card, are those of the method
        self.runs = with_meta_set(method, data, plan.seed)
        self.initial = method.net.initial(plan.seed)
        self.train_examples = dict(zip(data.clients.tolist(), data.train_examples.tolist(), strict=True))
        self.total = sum(self.train_examples.values())
        #: number of rounds each client was selected for, which epsilon depends on
        self.charged: Counter[int] = Counter()
        for number in range(1, finished + 1 if plan.clips else 1):
            self._charge(number)

    def _charge(self, number: int) -> None:
        self.charged.update(participants(self.plan, self.data.clients, number).tolist())

    def _participants(self, number: int) -> NDArray[np.int64]:
        """Return the round's participants, chosen at random or by the user's sampler."""
        clients, plan = self.data.clients, self.plan
        if self.own.sampler is None:
            return participants(plan, clients, number)
        info = RoundInfo(
            round=number,
            rounds=plan.rounds,
            clients=clients.copy(),
            ids=tuple(self.data.ids.get(int(client), str(client)) for client in clients),
            train_examples=self.data.train_examples,
            losses=np.array([self.last_losses.get(int(client), np.nan) for client in clients]),
            clients_per_round=plan.clients_per_round or len(clients),
            random=np.random.default_rng([plan.seed, 1, number]),
        )
        chosen = sampled(self.own.sampler, info)
        if self.method.requirements.all_clients and len(chosen) < len(clients):
            problem = f"returned {len(chosen)} of {len(clients)} clients in round {number}"
            raise OptionError("sampler", problem, "all with this method", code="conflict")
        return chosen

    def _set_rates(self, number: int) -> None:
        """Set the hooks that run to those with the learning rates of the round, if there is a schedule."""
        if self.own.lr_schedule is None:
            return
        of_round = scheduled(self.method, self.own.lr_schedule, number, self.plan.rounds)
        if of_round.settings != self.runs.settings:  # an engine prepares a method's step once
            self.runs = with_meta_set(of_round, self.data, self.plan.seed)

    def run_round(self, state: State) -> RoundOutcome:
        """Run the next round; ``state`` is changed in place. Only participants are held in memory."""
        number, progress = state.round + 1, state.round / self.plan.rounds
        selected = [int(client) for client in self._participants(number)]
        self._set_rates(number)
        work = [
            client_work(
                self.runs, self.data, self.plan, state, client, initial=self.initial, number=number, progress=progress
            )
            for client in selected
        ]
        replies = list(zip(selected, work, self.engine.run(self.runs, work), strict=True))
        took_part = [(client, task.shared, result) for client, task, result in replies if result is not None]
        chosen = [client for client, _, _ in took_part]
        sent = [shared for _, shared, _ in took_part]
        results = [result for _, _, result in took_part]
        del work, replies, took_part
        returned = self._returned(chosen, results, sent, number, progress)
        del sent
        state.server = self.runs.aggregate(state.server, returned)
        for client, result in zip(chosen, results, strict=True):
            state.client_states[client] = result.client_state
            state.beats_used[client] = state.beats_used.get(client, 0) + result.examples
        state.round = number
        losses = np.array([result.losses["loss"] for result in results])
        self.last_losses.update(zip(chosen, losses.tolist(), strict=True))
        record = {
            "round": state.round,
            "passes": sum(state.beats_used.values()) / self.total,
            "loss_mean": float(losses.mean()),
            "loss_max": float(losses.max()),
            "worst_client": chosen[int(losses.argmax())],
            "clients": chosen,
            "losses": {name: [r.losses[name] for r in results] for name in results[0].losses},
            **self.runs.round_report(state.server),
        } | self._epsilon(number)
        beats = sum(result.examples for result in results)
        return RoundOutcome(state, chosen, record, beats, last=number == self.plan.rounds)

    def _epsilon(self, number: int) -> dict[str, float]:
        """Return epsilon of the client selected most often; a late update may have been observed, so it is charged."""
        if not self.plan.clips:
            return {}
        self._charge(number)
        # a site takes part when one of its patients does
        epsilon = spent(self.plan, number if self.plan.dp_at == SITE else max(self.charged.values()))
        return {} if epsilon is None or math.isinf(epsilon) else {"epsilon": epsilon}

    def _returned(
        self, chosen: list[int], results: list[ClientResult], sent: list[Tree], number: int, progress: float
    ) -> Returned:
        stacked = stack([result.returned for result in results])
        return Returned(
            tree=combined(self.method, self.plan, sent, stacked, number, self.secret),
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
    """Return one client's input for round ``number``: what the server sends it, and its state.

    Args:
        data: the training beats.
        plan: local work and seed.
        state: the run before the round.
        client: client number.
        initial: the run's first parameters.
        number: the round, from 1.
        progress: fraction of the run's rounds that are finished.
    """
    beats = data.epoch_length(client)
    steps = plan.steps_for(beats)
    used = state.beats_used.get(client, 0)
    per_round = plan.examples_for(beats) * method.requirements.batches_per_step
    info = ClientInfo(
        client,
        number,
        beats,
        data.class_counts(client),
        steps,
        progress,
        earlier_rounds=used // per_round,
        seed=plan.seed,
    )
    client_state = state.client_states[client] if client in state.client_states else method.client_start(initial)
    return ClientWork(info, method.server_message(state.server, client), client_state, used)
