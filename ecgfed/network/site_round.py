"""A site's part of a round: what its patients keep is read, trained on and saved, and the reply is kept beside it.

A round counts once the server has aggregated it, which a site learns with the next message: ``last`` is the last round
of this site that counts. So a round that was trained is pending first, in a checkpoint of its own beside the site's;
the next message moves it there or has it dropped, as one that came too late for the server. A server that was killed
asks for its round again with the same message, and gets the reply that lies there: nothing is trained twice.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ecgfed.cohort.cohort import Cohort
from ecgfed.durable import make_folder
from ecgfed.errors import EcgfedError, StorageError
from ecgfed.federation.client_round import ClientResult, ClientWork
from ecgfed.federation.plan import available_cores, check_requirements
from ecgfed.federation.single_thread import single_torch_thread
from ecgfed.federation.state import State
from ecgfed.federation.threads import ThreadEngine
from ecgfed.federation.trees import flatten, stack, unflatten
from ecgfed.federation.updates import NoisedEngine, check_combining
from ecgfed.files import append_line, read_json, write_json, write_text
from ecgfed.methods.base import ClientInfo, Tree
from ecgfed.network.budget import charge, check_budget, noised_numbers
from ecgfed.network.errors import SiteError
from ecgfed.network.leaves import check_down, check_up
from ecgfed.network.orders import Order
from ecgfed.network.site_folder import Site
from ecgfed.privacy.noise import SERVER
from ecgfed.runs.checkpoint import CheckpointStore, Snapshot
from ecgfed.runs.document import HELD_OUT
from ecgfed.runs.history import HISTORY, read_lines
from ecgfed.runs.noise_key import noise_key
from ecgfed.runs.tree_files import serialised

#: Folder of a site that holds a folder for each run it takes part in.
RUNS = "runs"
#: Folder of a run at a site: the checkpoint of a round that does not count yet.
PENDING = "pending"
#: What the run was when this site first took part in it, in that folder.
ORDER = "order.json"
#: Which cohort the run was begun with, there.
COHORT = "cohort.json"


def run_folder(site: Site, run: str) -> Path:
    """Return where a site keeps what it has of a run: ``checkpoint/`` and ``history.jsonl``."""
    return site.path / RUNS / run[:16]


@dataclass(frozen=True)
class RoundReply:
    """What a site's participants send back; places are those of the participants asked for.

    Attributes:
        returned: each one's tree.
        losses: each one's losses.
        examples: beats each one used.
    """

    returned: list[Tree]
    losses: list[dict[str, float]]
    examples: list[int]


@dataclass(frozen=True)
class RoundRequest:
    """What the server asks for.

    Attributes:
        order: the run.
        round: its number, from 1 on.
        clients: participants of this site, numbers in the federation, increasing.
        last: the last round of this site that counts, as the server has it; 0 for none.
        shared: what each is sent.
    """

    order: Order
    round: int
    clients: tuple[int, ...]
    last: int
    shared: Sequence[Tree]

    def digest(self) -> Tensor:
        """SHA-256 of all of it, (32,) uint8."""
        text = json.dumps([self.order.as_text(), self.round, list(self.clients), self.last])
        found = hashlib.sha256(text.encode())
        for tree in self.shared:
            found.update(serialised(tree))
        return torch.frombuffer(bytearray(found.digest()), dtype=torch.uint8).clone()


class SiteRound:
    """What a site needs for the rounds of one run.

    Args:
        site: the site.
        order: the run.

    Raises:
        SiteError: the run cannot be taken part in with this cohort.
    """

    def __init__(self, site: Site, order: Order) -> None:
        self.site, self.order = site, order
        self.folder = run_folder(site, order.run)
        self._check_as_begun()
        self.method, self.plan = order.made_method(), order.made_plan()
        site.limits.check_rounds(self.plan.rounds)
        self.cohort = self._checked_cohort()
        self._check_cohort_as_begun()
        spec = self.method.net.spec
        self.data = site.training_data(self.cohort, rr=spec.rr, leave_out=self.plan.leave_out, first=order.first)
        try:
            check_requirements(self.method.needs, self.plan, order.federation)
            check_combining(self.method, self.plan)
        except EcgfedError as problem:
            raise SiteError("request", "the server's plan", f"{problem.line:.300}") from problem
        self.store = CheckpointStore(self.folder, order.run)
        self.pending = CheckpointStore(self.folder / PENDING, order.run)
        self.initial = self.method.net.initial(self.plan.seed)

    def _check_as_begun(self) -> None:
        """Refuse an order that is another one than this run was begun with; raises SiteError, StorageError.

        With other numbers one patient's model would be another's; with another plan a patient could be asked about with
        more or less noise, as a server likes.
        """
        file = self.folder / ORDER
        if file.is_file() and read_json(file, StorageError) != json.loads(self.order.as_text()):
            raise SiteError("request", "the server's order", "is another one than this run was begun with")

    def _check_cohort_as_begun(self) -> None:
        """Refuse another cohort than this run was begun with; raises SiteError, StorageError.

        What patients keep stands under their places in it: prepared anew, one patient's model would go on as another's.
        """
        file = self.folder / COHORT
        if not (self.folder / ORDER).is_file() or not file.is_file():  # an older version wrote none
            return
        begun, now = read_json(file, StorageError), _about(self.cohort)
        # version 0.2 did not write down who is held out
        if not isinstance(begun, dict) or {**now, **begun} != now or "fingerprint" not in begun:
            raise SiteError(
                "cohort",
                self.cohort.path,
                f"has other beats, labels, splits or held-out clients than when run {self.folder.name} was begun here",
                action="put the cohort of then back, or begin a new run",
            )

    def begin(self) -> None:
        """Write down what the run is, before it leaves anything else here; raises SiteError, StorageError."""
        if not (self.folder / ORDER).is_file():
            self.site.limits.check_room(self.folder.parent, self.folder)
            _made(self.folder)
            write_json(self.folder / COHORT, _about(self.cohort))
            write_text(self.folder / ORDER, self.order.as_text())

    def _checked_cohort(self) -> Cohort:
        cohort, spec = self.site.cohort(), self.method.net.spec
        fits = tuple(cohort.classes) == self.order.classes and cohort.modality == spec.modality
        if not fits or spec.classes != len(cohort.classes) or (spec.rr and spec.rr_version != cohort.rr_version):
            raise SiteError("cohort", cohort.path, "has other classes or features than the server's run")
        return cohort

    def state(self) -> State:
        """Return where the site stands in this run, rounds that count; raises RunError where its folder is damaged."""
        return self.store.load() if self.store.exists() else State(0, {})

    def settle(self, last: int) -> State:
        """Have the pending round count if it is ``last``, and return where the site stands then.

        Raises:
            SiteError: what its patients keep is not of round ``last``.
            EcgfedError: its folder is damaged, or the disk refuses.
        """
        state = self.state()
        if last > state.round and self.pending.exists() and self.pending.rounds() == last:
            self._count(state, self.pending.load())
            state = self.state()
        if state.round != last:
            raise SiteError(
                "behind",
                self.folder,
                f"is of round {state.round}; for the server its last round is {last}",
                action="begin a new run where one of the two was lost",
            )
        return state

    def run(self, request: RoundRequest) -> RoundReply:
        """Train the participants' round, or return the reply that is there already.

        Raises:
            SiteError: the request cannot be met; what counts is as it was.
        """
        if request.round <= request.last:
            raise SiteError("request", "the server's round", f"is {request.round} after {request.last}")
        if request.round > self.plan.rounds:
            raise SiteError("request", "the server's round", f"is {request.round} of {self.plan.rounds}")
        state = self.settle(request.last)
        if self.pending.exists() and self.pending.rounds() == request.round:
            there = self.pending.load()
            if torch.equal(there.server["request"], request.digest()):
                return reply_of(there.server)
        unknown = [client for client in request.clients if client not in self.data.rows]
        if unknown or not request.clients:
            raise SiteError("request", "the server's round", f"names patients {unknown}", "patients of this site")
        check_down(self.method, request.shared)
        check_budget(self.site.path, self.site.most_epsilon, self.plan, request.round)
        self.begin()  # a run that is refused takes none of the runs that the site keeps
        charge(self.site.path, self.site.most_epsilon, self.order.run, self.plan, request.round)
        results = self._train(state, request)
        reply = RoundReply(
            [result.returned for result in results],
            [result.losses for result in results],
            [result.examples for result in results],
        )
        check_up(self.method, reply.returned, reply.losses)
        self._save(state, request, results, reply)
        return reply

    @single_torch_thread()
    def _train(self, state: State, request: RoundRequest) -> list[ClientResult]:
        progress = (request.round - 1) / self.plan.rounds
        work = []
        for client, shared in zip(request.clients, request.shared, strict=True):
            beats = len(self.data.rows[client])
            info = ClientInfo(
                client,
                request.round,
                beats,
                self.data.class_counts(client),
                self.plan.steps_for(beats),
                progress,
                seed=self.plan.seed,
            )
            kept = (
                state.client_states[client] if client in state.client_states else self.method.client_start(self.initial)
            )
            work.append(ClientWork(info, shared, kept, state.beats_used.get(client, 0)))
        try:
            with ThreadEngine(self.data, self.plan, available_cores()) as engine:
                secret = self._secret(request)
                found = NoisedEngine(engine, self.plan, secret).run(self.method, work)
                results = [one for one in found if one is not None]  # threads leave nobody out
                if self.site.most_epsilon is not None:
                    results = noised_numbers(self.method, self.plan, results, request.round, secret)
                return results
        except EcgfedError as problem:
            raise SiteError("training", problem.where, problem.found, problem.expected, problem.action) from problem

    def _secret(self, request: RoundRequest) -> bytes:
        """Return what this answer's noise is drawn from: another question, however little it differs, gets other noise.

        Of two answers with the same noise the difference bears none: nothing that a server may choose (plan, settings,
        who takes part, one patient's model) can be left out of it.
        """
        if self.plan.dp_at == SERVER or not (key := noise_key(self.folder, self.plan)):
            return b""
        return hmac.digest(key, request.digest().numpy().tobytes(), "sha256")

    def _save(self, state: State, request: RoundRequest, results: Sequence[ClientResult], reply: RoundReply) -> None:
        """Write the round beside what counts: what the participants keep, and the reply; raises StorageError."""
        self.pending.attach(State(0, {}))
        pairs = list(zip(request.clients, results, strict=True))
        kept = {client: (request.round, result.client_state) for client, result in pairs}
        seen = {client: state.beats_used.get(client, 0) + result.examples for client, result in pairs}
        server = {"request": request.digest(), **stored_reply(reply)}
        self.pending.write(Snapshot(request.round, kept, server, seen))

    def _count(self, state: State, pending: State) -> None:
        """Move the pending round to what counts: the history's line, then what everybody keeps; raises StorageError."""
        self.store.attach(state)
        seen = {**state.beats_used, **pending.beats_used}
        kept = {client: (pending.round, pending.client_states[client]) for client in sorted(pending.beats_used)}
        history = self.folder / HISTORY
        lines = read_lines(history, state.round)
        write_text(history, "".join(json.dumps(line) + "\n" for line in lines))
        append_line(history, json.dumps(self._record(pending, seen)))
        for client, (_, tree) in kept.items():
            state.client_states[client] = tree
        self.store.write(Snapshot(pending.round, kept, pending.server, seen))

    def _record(self, pending: State, seen: Mapping[int, int]) -> dict[str, object]:
        clients, reply = sorted(pending.beats_used), reply_of(pending.server)
        losses = [one["loss"] for one in reply.losses]
        return {
            "round": pending.round,
            "passes": sum(seen.values()) / int(self.data.train_examples.sum()),
            "loss_mean": sum(losses) / len(losses),
            "loss_max": max(losses),
            "worst_client": clients[losses.index(max(losses))],
            "clients": clients,
            "losses": {name: [one[name] for one in reply.losses] for name in reply.losses[0]},
        }


def _about(cohort: Cohort) -> dict[str, object]:
    """What a run's folder keeps of the cohort that it was begun with."""
    return {"fingerprint": cohort.fingerprint, HELD_OUT: list(cohort.held_out)}


def _made(folder: Path) -> None:
    try:
        make_folder(folder)
    except OSError as problem:
        raise StorageError(folder, f"cannot be made ({problem.strerror})", action="free some space") from problem


def stored_reply(reply: RoundReply) -> Tree:
    """Return a reply as a tree, for the checkpoint."""
    names = list(reply.losses[0])
    return {
        "returned": stack(reply.returned),
        "losses": {n: torch.tensor([one[n] for one in reply.losses], dtype=torch.float64) for n in names},
        "examples": torch.tensor(reply.examples),
    }


def reply_of(stored: Mapping[str, Tree]) -> RoundReply:
    """Return the reply of ``stored_reply``."""
    examples: list[int] = stored["examples"].tolist()  # type: ignore[attr-defined]
    leaves = flatten(stored.get("returned", {}))
    losses: Mapping[str, Tensor] = stored["losses"]
    return RoundReply(
        [unflatten({path: leaf[place] for path, leaf in leaves.items()}) for place in range(len(examples))],
        [{name: float(values[place]) for name, values in losses.items()} for place in range(len(examples))],
        examples,
    )
