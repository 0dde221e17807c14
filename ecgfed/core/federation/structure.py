"""Leaves of a method's states with dtypes and shapes, derived from rounds on constant beats.

States read from disk are compared with them before they are passed to a method's hooks. Initial states are not
sufficient for this, since leaves may be added later, such as GRP-FED's discriminator.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ecgfed.core.federation.client_round import ClientResult, ClientWork, prepared, train_locally
from ecgfed.core.federation.cost import flat_federation, without_own_loss
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method, Tree

#: Dtype and shape of a leaf; a length that depends on the federation is ``PER_CLIENT`` or ``FREE``.
LeafForm = tuple[torch.dtype, tuple[int, ...]]
#: Path of a leaf -> its form.
Structure = Mapping[str, LeafForm]
#: A length that equals the number of clients, and one that depends on the clients otherwise.
PER_CLIENT, FREE = -1, -2
#: Placeholder for a client's number in a path of the server's state.
_ANY_CLIENT = "*"
#: In a run of this length, the first and the last round together reach every phase of a method.
_ROUNDS = 1000


@dataclass(frozen=True)
class Structures:
    """Structures of the states of a run.

    Attributes:
        client: structures of a client's state, one per phase of the method.
        server_start: leaves of the server before the first round, which are always present.
        server: all possible leaves of the server, with ``*`` for a client's number in the path.
    """

    client: Sequence[Structure]
    server_start: Structure
    server: Structure

    @property
    def of_clients(self) -> bool:
        """Whether the server has leaves for each client."""
        return any(_ANY_CLIENT in path for path in self.server)


@dataclass(frozen=True)
class Mismatch:
    """How a state differs from a structure.

    Attributes:
        leaf: path of the first differing leaf.
        actual: dtype and shape, such as ``torch.float32 of shape (3)``, or ``missing``.
        expected: dtype and shape in the structure, or ``no such leaf``.
    """

    leaf: str
    actual: str
    expected: str


def structures_of(method: Method, plan: TrainPlan) -> Structures:
    """Return the structures of a run's states.

    Args:
        method: the run's method, with its net and settings.
        plan: its plan; the number of rounds, the local work and the participants do not matter.
    """
    plan = replace(
        plan.without_privacy,
        rounds=max(plan.rounds, _ROUNDS),
        local_epochs=None,
        local_steps=1,
        batch_size=2,
        clients_per_round=None,
        leave_out="nothing",
    )
    method = without_own_loss(method)
    start = _structure(initial_state(method, plan).server)
    # the last round after the first one, and without it, as for a client that joins late
    clients, servers = _trial(method, plan, 2, (1, plan.rounds))
    late, servers_late = _trial(method, plan, 2, (plan.rounds,))
    all_servers = {**servers, **servers_late}
    if all_servers.keys() != start.keys():  # leaves with results of clients may have the number of clients as a length
        _, three_clients = _trial(method, plan, 3, (1, plan.rounds))
        all_servers = {
            path: _varying(all_servers[path], three_clients.get(path, all_servers[path])) for path in all_servers
        }
    distinct = {tuple(sorted(client.items())): client for client in (*clients, *late)}
    return Structures(tuple(distinct.values()), start, {**start, **all_servers})


def client_mismatch(structures: Structures, state: Tree, *, more: bool = False) -> Mismatch | None:
    """Return how a client's state differs from the most similar phase, None if it matches one.

    Args:
        more: accept additional leaves, such as those written by older versions.
    """
    structure = _structure(state)
    differences = [_differences(structure, phase, more=more) for phase in structures.client]
    nearest = min(differences, key=len, default=[])
    return nearest[0] if nearest else None


def server_mismatch(structures: Structures, state: Tree, participants: Collection[int]) -> Mismatch | None:
    """Return how the server's state differs from the structure, None if it matches.

    Leaves that are added in later rounds may all be missing, but not single leaves of a client.

    Args:
        participants: the numbers of the clients that took part; a leaf with an entry per client has one for each.
    """
    structure = _structure(state)
    missing = _differences(structure, structures.server_start, more=True)
    if missing:
        return missing[0]
    expected = dict(structures.server_start)
    for path in structure:
        if path not in expected:
            general = _general(path)
            branch, _, _ = general.partition(_ANY_CLIENT)
            number = path[len(branch) :].partition("/")[0]
            same = [name for name in structures.server if _ANY_CLIENT in general and name.startswith(branch)]
            expected |= {name.replace(_ANY_CLIENT, number, 1): structures.server[name] for name in same}
            if general in structures.server:
                expected[path] = structures.server[general]
    wrong = _differences(structure, expected, more=False)
    lengths = {len(participants), max(participants, default=-1) + 1}
    for path, leaf in flatten(state).items():
        if PER_CLIENT not in expected.get(path, structure[path])[1]:
            continue
        numbers = None if leaf.is_floating_point() else set(leaf.flatten().tolist())  # whole numbers name clients
        if leaf.shape[0] not in lengths if numbers is None else not numbers <= set(participants):
            wrong.append(Mismatch(path, _words(structure[path]), f"an entry for each of {len(participants)} clients"))
    return next(iter(wrong), None)


def _trial(
    method: Method, plan: TrainPlan, clients: int, rounds: Sequence[int]
) -> tuple[list[Structure], dict[str, LeafForm]]:
    """Run rounds with all clients; return the structures of client states, and the server's leaves."""
    data, state = flat_federation(clients, method.net), initial_state(method, plan)
    clients_structures: list[Structure] = []
    server: dict[str, LeafForm] = {}
    for number in rounds:
        state.round = number - 1
        train(method, data, plan, _Steps(data, plan), state, should_stop=lambda: True)
        clients_structures += [_structure(tree) for tree in state.client_states.values()]
        server |= {_general(path): form for path, form in _structure(state.server).items()}
    return clients_structures, server


class _Steps:
    """An engine that runs each client's steps; values do not matter."""

    def __init__(self, data: TrainingData, plan: TrainPlan) -> None:
        self.data, self.plan = data, plan

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round."""
        return [self._run(method, prepared(method, self.data, client_work)) for client_work in work]

    def _run(self, method: Method, work: ClientWork) -> ClientResult:
        state, sums, _ = train_locally(method, self.data, self.plan, work)
        returned, client_state = method.finish_round(state, work.info)
        return ClientResult(returned, client_state, {"loss": 0.0, **dict.fromkeys(sums, 0.0)}, 0)


def _structure(tree: Tree) -> dict[str, LeafForm]:
    return {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(tree).items()}


def _general(path: str) -> str:
    return "/".join(_ANY_CLIENT if part.isdecimal() else part for part in path.split("/"))


def _varying(of_two: LeafForm, of_three: LeafForm) -> LeafForm:
    """Return the form of a leaf with variable lengths, from its forms in federations of two and three clients."""
    (dtype, shape), (_, shape_of_three) = of_two, of_three
    if len(shape) != len(shape_of_three):
        return of_two
    pairs = zip(shape, shape_of_three, strict=True)
    return dtype, tuple(a if a == b else PER_CLIENT if (a, b) == (2, 3) else FREE for a, b in pairs)


def _differences(structure: Structure, expected: Structure, *, more: bool) -> list[Mismatch]:
    wrong = [
        Mismatch(path, _words(structure[path]) if path in structure else "missing", _words(form))
        for path, form in expected.items()
        if path not in structure or not _fits(structure[path], form)
    ]
    unknown = [] if more else [path for path in structure if path not in expected]
    return [*wrong, *(Mismatch(path, _words(structure[path]), "no such leaf") for path in unknown)]


def _fits(leaf: LeafForm, form: LeafForm) -> bool:
    (dtype, shape), (form_dtype, lengths) = leaf, form
    if dtype != form_dtype or len(shape) != len(lengths):
        return False
    if any(a != b for a, b in zip(shape, lengths, strict=True) if b >= 0):
        return False
    return len({a for a, b in zip(shape, lengths, strict=True) if b == PER_CLIENT}) <= 1


def _words(form: LeafForm) -> str:
    dtype, shape = form
    lengths = ["clients" if length == PER_CLIENT else "any" if length == FREE else str(length) for length in shape]
    return f"{dtype} of shape ({', '.join(lengths)})"
