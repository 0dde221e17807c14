"""A site's part of a run: load its patients' state, train a round, and save the new state together with the reply.

A round is committed once the server has aggregated it, which the site learns from the next request: ``last`` is the
site's last committed round. Until then a trained round is pending, in a checkpoint of its own; the next request commits
it, or discards it because it arrived too late. A server that was killed repeats the same request and gets the stored
reply, so no round is trained twice.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.files import append_line, create_folder, read_json, write_json, write_text
from ecgfed.core.config import SERVER
from ecgfed.core.federation.client_round import ClientResult, ClientRunner, ClientWork, run_client
from ecgfed.core.federation.data import uses_weak_labels
from ecgfed.core.federation.plan import available_cores, check_requirements
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.federation.state import State
from ecgfed.core.federation.sums import check_sums
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.trees import flatten, stack, unflatten
from ecgfed.core.federation.updates import NoisedEngine, check_combining
from ecgfed.core.methods.base import ClientInfo, Tree
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.runs.checkpoint import CheckpointStore, Snapshot
from ecgfed.core.runs.document import HELD_OUT
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.core.runs.noise_key import noise_key
from ecgfed.core.runs.state_check import StateCheck
from ecgfed.core.runs.tree_files import serialised
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network.audit import STORED, UPDATE, check_questions, count_of_answers
from ecgfed.network.budget import charge, check_budget, noised_scalars
from ecgfed.network.errors import SiteError
from ecgfed.network.kept_rounds import KeptRounds
from ecgfed.network.leaves import check_down, check_up
from ecgfed.network.private_answers import UniformRunner
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_folder import Site
from ecgfed.network.tensor_schema import round_schema
from ecgfed.network.watch import watched

#: Folder of a site that holds one folder per run.
RUNS = "runs"
#: Folder in a run's folder: the checkpoint of the pending round.
PENDING = "pending"
#: File in a run's folder: the run specification at the start of the run.
ORDER = "order.json"
#: File in a run's folder: identifies the cohort at the start of the run.
COHORT = "cohort.json"


def run_folder(site: Site, run: str) -> Path:
    """Return a run's folder at a site, with ``checkpoint/`` and ``history.jsonl``."""
    return site.path / RUNS / run[:16]


@dataclass(frozen=True)
class RoundReply:
    """A site's reply in a round, one entry per requested client, in the order of the request.

    Attributes:
        returned: each client's tree.
        losses: each client's losses.
        examples: number of beats each client used.
    """

    returned: list[Tree]
    losses: list[dict[str, float]]
    examples: list[int]


@dataclass(frozen=True)
class RoundRequest:
    """The server's request for a round.

    Attributes:
        run_spec: the run.
        round: number of the round, from 1.
        clients: numbers of this site's participants in the federation, increasing.
        last: the site's last committed round according to the server; 0 for none.
        shared: the tree sent to each participant.
    """

    run_spec: RunSpec
    round: int
    clients: tuple[int, ...]
    last: int
    shared: Sequence[Tree]

    def digest(self) -> Tensor:
        """Return the SHA-256 of the request, (32,) uint8."""
        text = json.dumps([self.run_spec.as_text(), self.round, list(self.clients), self.last])
        sha256 = hashlib.sha256(text.encode())
        for tree in self.shared:
            sha256.update(serialised(tree))
        return torch.frombuffer(bytearray(sha256.digest()), dtype=torch.uint8).clone()


class SiteRun:
    """One run at a site: its cohort, method, plan and checkpoints.

    Args:
        site: the site.
        run_spec: the run.

    Raises:
        SiteError: the site cannot take part in the run with its cohort.
    """

    def __init__(self, site: Site, run_spec: RunSpec) -> None:
        self.site, self.run_spec = site, run_spec
        self.folder = run_folder(site, run_spec.run)
        order = self.folder / ORDER
        # other numbers would assign one patient's model to another patient; another plan would let the server choose a
        # different noise for the same patient
        if order.is_file():
            self._check_order(read_json(order, StorageError))
        self.method, self.plan = run_spec.build_method(), run_spec.train_plan()
        site.limits.check_rounds(self.plan.rounds)
        if site.partners is not None and not run_spec.is_secure:
            raise SiteError("alone", "the server's run", "uses no secure aggregation", "sums with this site's partners")
        self.cohort, spec = site.cohort(), self.method.net.spec
        self._check_cohort(spec)
        self.data = site.training_data(
            self.cohort,
            rr=spec.rr,
            leave_out=self.plan.leave_out,
            first=run_spec.first,
            weak=uses_weak_labels(self.method, self.method.settings, self.plan),
            most_per_class=self.plan.most_per_class,
        )
        try:
            check_requirements(self.method.requirements, self.plan, run_spec.federation)
            check_combining(self.method, self.plan)
            if run_spec.is_secure:
                check_sums(self.method.name, self.method.communication.with_settings(self.method.settings), self.plan)
        except EcgfedError as problem:
            raise SiteError("request", "the server's plan", f"{problem.marked:.300}") from problem
        self.store = CheckpointStore(self.folder, run_spec.run)
        self.pending = CheckpointStore(self.folder / PENDING, run_spec.run)
        self.kept = KeptRounds(self.store)
        self.initial = self.method.net.initial(self.plan.seed)
        self.check = StateCheck(self.method, self.plan, is_site=True)
        #: client -> why its training failed in this session, where the server is not told
        self.failures: dict[int, str] = {}

    def _check_order(self, recorded: object) -> None:
        """Refuse another specification than the one that started the run; raises SiteError."""
        current = json.loads(self.run_spec.as_text())
        # a run may go on with a newer protocol, of whose fields it has only those that it began with
        same = (
            {**current, **recorded, "protocol": current["protocol"]}
            if isinstance(recorded, dict) and "plan" in recorded
            else {}
        )
        if same != current:
            raise SiteError("request", "the server's run specification", "differs from the one that started this run")

    def _check_cohort(self, spec: NetSpec) -> None:
        """Refuse a cohort that does not fit the net, or differs from the one at the start of the run."""
        cohort = self.cohort
        compatible = tuple(cohort.classes) == self.run_spec.classes and cohort.modality == spec.modality
        if not compatible or spec.classes != len(cohort.classes) or (spec.rr and spec.rr_version != cohort.rr_version):
            raise SiteError("cohort", cohort.path, "has other classes or features than the server's run")
        file = self.folder / COHORT
        if not (self.folder / ORDER).is_file() or not file.is_file():  # an older version wrote none
            return
        # states are stored by position: in a newly prepared cohort, one patient's model could continue as another's
        recorded, current = read_json(file, StorageError), _cohort_identity(cohort)
        # version 0.2 did not store the held-out clients
        if not isinstance(recorded, dict) or {**current, **recorded} != current or "fingerprint" not in recorded:
            reason = f"has other beats, labels, splits or held-out clients than at the start of run {self.folder.name}"
            action = "restore the original cohort, or start a new run"
            raise SiteError("cohort", cohort.path, reason, action=action)

    def begin(self) -> None:
        """Store the run's specification before anything else of the run; raises SiteError, StorageError."""
        if not (self.folder / ORDER).is_file():
            self.site.limits.check_room(self.folder.parent, self.folder)
            create_folder(self.folder, "free some space")
            write_json(self.folder / COHORT, _cohort_identity(self.cohort))
            write_text(self.folder / ORDER, self.run_spec.as_text())

    def state(self) -> State:
        """Return the site's state after its last committed round; raises RunError if the folder is damaged."""
        return self.store.load(self.check) if self.store.exists() else State(0, {})

    def settle(self, last: int) -> State:
        """Commit the pending round if it is ``last``, or go back to it, and return the state after it.

        Raises:
            SiteError: the clients' state is not from round ``last``.
            EcgfedError: the folder is damaged or cannot be written.
        """
        state = self.state()
        if last > state.round and self.pending.exists() and self.pending.rounds() == last:
            self._count(state, self.pending.load(self.check))
            state = self.state()
        if state.round != last and last in self.kept.rounds():  # the server went back to an earlier round
            self.kept.restore(last)
            state = self.state()
        self.kept.keep()
        if state.round != last:
            reason = f"is at round {state.round}, but the server expects round {last}"
            raise SiteError("behind", self.folder, reason, action="start a new run if either of the two was lost")
        return state

    def run(self, request: RoundRequest) -> RoundReply:
        """Train a round, or return its reply if it was trained already.

        Raises:
            SiteError: the request cannot be fulfilled; the committed state is unchanged.
        """
        if request.round <= request.last:
            raise SiteError("request", "the server's round", f"is {request.round} after {request.last}")
        if request.round > self.plan.rounds:
            raise SiteError("request", "the server's round", f"is {request.round} of {self.plan.rounds}")
        state = self.settle(request.last)
        if self.pending.exists() and self.pending.rounds() == request.round:
            pending = self.pending.load(self.check)
            if torch.equal(pending.server["request"], request.digest()):
                self.site.asked["answer"] = STORED
                return reply_of(pending.server)
        unknown = [client for client in request.clients if client not in self.data.rows]
        if unknown or not request.clients:
            raise SiteError("request", "the server's round", f"names patients {unknown}", "patients of this site")
        check_down(self.method, request.shared)
        self._check_bounds(request)
        check_budget(self.site.path, self.site.max_epsilon, self.plan, request.round)
        self.begin()  # after the checks: a refused run does not count towards the site's number of runs
        charge(self.site.path, self.site.max_epsilon, self.run_spec.run, self.plan, request.round)
        results = self._train(state, request)
        reply = RoundReply(
            [result.returned for result in results],
            [result.losses for result in results],
            [result.examples for result in results],
        )
        check_up(self.method, reply.returned, reply.losses)
        self._save(state, request, results, reply)
        return reply

    def _check_bounds(self, request: RoundRequest) -> None:
        """Refuse a round beyond the site's bounds on steps, batches and questions; raises SiteError, StorageError."""
        per_step = self.method.requirements.batches_per_step
        beats = [self.data.epoch_length(client) for client in request.clients]
        steps = max(self.plan.steps_for(count) * per_step for count in beats)
        self.site.asked["steps"] = steps
        self.site.limits.check_work(self.plan, steps, max(beats), self.method.net.spec.width)
        kind = count_of_answers(
            {"question": "round", "answer": UPDATE, "run": self.run_spec.run, "round": request.round}
        )
        check_questions(self.site.path, self.site.limits.questions, f"answers in round {request.round}", kind)

    @single_torch_thread()
    def _train(self, state: State, request: RoundRequest) -> list[ClientResult]:
        progress = (request.round - 1) / self.plan.rounds
        work = []
        for client, shared in zip(request.clients, request.shared, strict=True):
            beats, counts = self.data.epoch_length(client), self.data.class_counts(client)
            steps = self.plan.steps_for(beats)
            used = state.beats_used.get(client, 0)
            per_round = self.plan.examples_for(beats) * self.method.requirements.batches_per_step
            info = ClientInfo(
                client,
                request.round,
                beats,
                counts,
                steps,
                progress,
                earlier_rounds=used // per_round,
                seed=self.plan.seed,
            )
            client_state = (
                state.client_states[client] if client in state.client_states else self.method.client_start(self.initial)
            )
            work.append(ClientWork(info, shared, client_state, used))
        try:
            runner = self._runner(work[0])
            with ThreadEngine(self.data, self.plan, available_cores(), runner) as engine:
                secret = self.secret(state, request.clients, request.digest().numpy().tobytes())
                method = watched(self.method, self.site.path, self.site.limits.seconds)
                outcomes = NoisedEngine(engine, self.plan, secret).run(method, work)
                results = [result for result in outcomes if result is not None]  # ThreadEngine skips no client
                if self.site.max_epsilon is not None:
                    results = noised_scalars(self.method, self.plan, results, request.round, secret)
                if isinstance(runner, UniformRunner):
                    self.failures = runner.failures
                return results
        except SiteError:
            raise
        except EcgfedError as problem:
            raise SiteError("training", *problem.parts) from problem

    def _runner(self, work: ClientWork) -> ClientRunner:
        """Return what runs a client's round: at a site with a privacy budget, a failure must not be told."""
        if self.site.max_epsilon is None:
            return run_client
        return UniformRunner(round_schema(self.method, self.plan, work))

    def secret(self, state: State, clients: Sequence[int], request: bytes) -> bytes:
        """Return the seed of a reply's noise, b"" without noise.

        The difference of two replies with the same noise would have none, so everything that a reply depends on is in
        it: the server's request, and what the clients keep, which differs after the server went back.

        Args:
            state: the site's state before the reply.
            clients: the clients that the reply is about.
            request: digest of the request.
        """
        if self.plan.dp_at == SERVER or not (key := noise_key(self.folder, self.plan)):
            return b""
        words = hashlib.sha256(request)
        for client in clients:
            words.update(json.dumps([client, state.beats_used.get(client, 0)]).encode())
            if client in state.client_states:
                words.update(serialised(state.client_states[client]))
        return hmac.digest(key, words.digest(), "sha256")

    def _save(self, state: State, request: RoundRequest, results: Sequence[ClientResult], reply: RoundReply) -> None:
        """Write the pending round, the clients' state and the reply, beside the committed one; raises StorageError."""
        self.pending.attach(State(0, {}))
        pairs = list(zip(request.clients, results, strict=True))
        client_states = {client: (request.round, result.client_state) for client, result in pairs}
        beats_used = {client: state.beats_used.get(client, 0) + result.examples for client, result in pairs}
        server = {"request": request.digest(), **stored_reply(reply)}
        self.pending.write(Snapshot(request.round, client_states, server, beats_used))

    def _count(self, state: State, pending: State) -> None:
        """Commit the pending round: the history's line first, then the clients' state; raises StorageError."""
        self.store.attach(state)
        beats_used = {**state.beats_used, **pending.beats_used}
        clients, reply = sorted(pending.beats_used), reply_of(pending.server)
        losses = [client_losses["loss"] for client_losses in reply.losses]
        record = {
            "round": pending.round,
            "passes": sum(beats_used.values()) / int(self.data.train_examples.sum()),
            "loss_mean": sum(losses) / len(losses),
            "loss_max": max(losses),
            "worst_client": clients[losses.index(max(losses))],
            "clients": clients,
            "losses": {name: [client_losses[name] for client_losses in reply.losses] for name in reply.losses[0]},
        }
        history = self.folder / HISTORY
        write_text(history, "".join(json.dumps(line) + "\n" for line in read_lines(history, state.round)))
        append_line(history, json.dumps(record))
        state.client_states.update({client: pending.client_states[client] for client in clients})
        client_states = {client: (pending.round, pending.client_states[client]) for client in clients}
        self.store.write(Snapshot(pending.round, client_states, pending.server, beats_used))


def _cohort_identity(cohort: Cohort) -> dict[str, object]:
    """Return what identifies a cohort in a run's folder."""
    return {"fingerprint": cohort.fingerprint, HELD_OUT: list(cohort.held_out)}


def stored_reply(reply: RoundReply) -> Tree:
    """Return a reply as a tree for the checkpoint."""
    values = {name: [client_losses[name] for client_losses in reply.losses] for name in reply.losses[0]}
    losses = {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in values.items()}
    return {"returned": stack(reply.returned), "losses": losses, "examples": torch.tensor(reply.examples)}


def reply_of(stored: Mapping[str, Tree]) -> RoundReply:
    """Return the reply from ``stored_reply``'s tree."""
    examples: list[int] = stored["examples"].tolist()  # type: ignore[attr-defined]
    leaves = flatten(stored.get("returned", {}))
    losses: Mapping[str, Tensor] = stored["losses"]
    return RoundReply(
        [unflatten({path: leaf[position] for path, leaf in leaves.items()}) for position in range(len(examples))],
        [{name: float(values[position]) for name, values in losses.items()} for position in range(len(examples))],
        examples,
    )
