"""Audit a method's communication card against the data that real rounds exchanged and stored."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ecgfed.core.federation.communication_log import ClientExchange, CommunicationLog
from ecgfed.core.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.core.nets.layers import Params, is_buffer, trainable
from ecgfed.core.nets.parts import extractor_of, head_of, without_norm

Leaves = Mapping[str, Tensor]
Entries = Sequence[Sent] | Sequence[Stored]


def audit_communication(log: CommunicationLog) -> list[str]:
    """Return the discrepancies between a method's card and the log, one sentence each; empty if there are none.

    - Every leaf that was sent, returned or stored must have an entry, and every entry must occur in its declared form.
    - Entries for all clients must be identical for all; data forwarded from another client must be declared.
    - State that the card declares private must not be sent, nor its change. BatchNorm statistics are exempt.

    Log several rounds of three or more clients with two or more local steps, up to the last phase of the method:
    entries of a phase that did not run are reported as missing.
    """
    card = log.method.communication.with_settings(log.method.settings)
    exchanges = [exchange for of_round in log.rounds for exchange in of_round]
    problems = [
        *_names("sends down", card.down, [exchange.down for exchange in exchanges]),
        *_names("sends up", card.up, [exchange.up for exchange in exchanges]),
        *_names("keeps", card.stores, [exchange.state_after for exchange in exchanges]),
        *_reports(card, exchanges),
        *_forms(log, [(card.down, exchange.down) for exchange in exchanges]),
        *_forms(log, [(card.up, exchange.up) for exchange in exchanges]),
        *_same_for_all(log, card),
        *_forwarded(log, card),
        *_withheld(log, card),
    ]
    return list(dict.fromkeys(problems))


def entry_of(path: str, entries: Entries) -> str | None:
    """Return the name of the entry a leaf belongs to: the longest one that equals the path or is a prefix of it."""
    above = [entry.name for entry in entries if path == entry.name or path.startswith(f"{entry.name}/")]
    return max(above, key=len, default=None)


def _under(name: str, entries: Entries, leaves: Leaves) -> dict[str, Tensor]:
    """Return the leaves of an entry by relative path; ``""`` is the entry itself."""
    return {path[len(name) + 1 :]: leaf for path, leaf in leaves.items() if entry_of(path, entries) == name}


def _names(verb: str, entries: Entries, trees: Sequence[Leaves]) -> Iterator[str]:
    """Report leaves without an entry on the card, and entries without a leaf."""
    paths = {path for leaves in trees for path in leaves}
    of_paths = {path: entry_of(path, entries) for path in sorted(paths)}
    for path, name in of_paths.items():
        if name is None:
            yield f"it {verb} {path}, which its card does not name"
    for entry in entries:
        if entry.name not in of_paths.values():
            yield f"its card says that it {verb} {entry.name} ({entry.what}), which never happened"


def _reports(card: CommunicationSpec, exchanges: Iterable[ClientExchange]) -> Iterator[str]:
    reported = {name for exchange in exchanges for name in exchange.result.losses}
    named = {entry.name for entry in card.metrics}
    for name in sorted(reported - named):
        yield f"it reports {name}, which its card does not name"
    for name in sorted(named - reported):
        yield f"its card says that it reports {name}, which never happened"


def _forms(log: CommunicationLog, sent: Iterable[tuple[Sequence[Sent], Leaves]]) -> Iterator[str]:
    """Report entries whose leaves do not match the declared form."""
    initial = log.method.net.initial(0)
    parts = {
        "model": initial,
        "trainable": trainable(initial),
        "extractor": extractor_of(initial),
        "head": head_of(initial),
        "without norm": without_norm(initial),
    }
    for entries, leaves in sent:
        for entry in entries:
            under = _under(entry.name, entries, leaves)
            prototypes = log.method.net.spec.classes, log.method.net.features
            if under and not _has_form(entry, under, parts, prototypes):
                yield f"{entry.name} ({entry.what}) is not of the form {entry.form!r} that its card says"


def _has_form(entry: Sent, under: Leaves, parts: Mapping[str, Params], prototypes: tuple[int, int]) -> bool:
    if entry.form in parts:
        return _shapes(under) == _shapes(parts[entry.form])
    if entry.form == "models":
        model_shapes = _shapes(parts["model"])
        return all(_shapes(branch) == model_shapes for branch in _branches(under).values())
    if entry.form == "number":
        return set(under) == {""} and under[""].numel() == 1
    if entry.form == "numbers":
        return set(under) == {""} and under[""].dim() == 1
    if entry.form == "prototypes":
        return set(under) == {""} and under[""].shape == prototypes
    if entry.form == "beats":
        return {"examples", "label"} <= set(under) <= {"examples", "label", "rr"}
    return "" not in under


def _shapes(leaves: Leaves) -> dict[str, torch.Size]:
    return {path: leaf.shape for path, leaf in leaves.items()}


def _branches(leaves: Leaves) -> dict[str, dict[str, Tensor]]:
    """Group leaves by the first part of their path."""
    branches: dict[str, dict[str, Tensor]] = {}
    for path, leaf in leaves.items():
        first, _, rest = path.partition("/")
        branches.setdefault(first, {})[rest] = leaf
    return branches


def _same_for_all(log: CommunicationLog, card: CommunicationSpec) -> Iterator[str]:
    """Report entries for all clients that differ between the participants of a round."""
    for entry in card.down:
        if entry.scope != "everybody":
            continue
        for of_round in log.rounds:
            received = [under for exchange in of_round if (under := _under(entry.name, card.down, exchange.down))]
            if any(not _equal(leaves, received[0]) for leaves in received[1:]):
                yield f"{entry.name} ({entry.what}) is not the same for everybody"


def _equal(a: Leaves, b: Leaves) -> bool:
    return a.keys() == b.keys() and all(torch.equal(leaf, b[path]) for path, leaf in a.items())


def _forwarded(log: CommunicationLog, card: CommunicationSpec) -> Iterator[str]:
    """Report undeclared data of other clients, and entries declared as another client's that no client sent."""
    sent: dict[int, list[_ByName]] = {}
    known = [_by_name(log.method.net.initial(0))]
    for of_round in log.rounds:
        for exchange in of_round:
            known_trees = [*known, *sent.get(exchange.client, [])]
            foreign_trees = [tree for client, trees in sent.items() if client != exchange.client for tree in trees]
            for entry in card.down:
                under = _under(entry.name, card.down, exchange.down)
                for branch in _branches(under).values() if entry.form == "models" else [under]:
                    if entry.scope == "another":
                        if not any(all(_contains(tree, *item) for item in branch.items()) for tree in foreign_trees):
                            yield f"{entry.name} ({entry.what}) is not what another client sent, as its card says"
                    elif any(
                        _appears_in(foreign_trees, *item) and not _appears_in(known_trees, *item)
                        for item in branch.items()
                    ):
                        yield f"{entry.name} ({entry.what}) holds what another client sent, as it is"
        for exchange in of_round:
            sent.setdefault(exchange.client, []).append(_by_name(exchange.up))


#: leaves by the last part of their path
_ByName = dict[str, list[Tensor]]


def _by_name(leaves: Leaves) -> _ByName:
    by_name: _ByName = {}
    for path, leaf in leaves.items():
        by_name.setdefault(path.rpartition("/")[2], []).append(leaf)
    return by_name


def _contains(tree: _ByName, path: str, leaf: Tensor) -> bool:
    return any(_tensors_equal(leaf, candidate) for candidate in tree.get(path.rpartition("/")[2], []))


def _appears_in(trees: Iterable[_ByName], path: str, leaf: Tensor) -> bool:
    return leaf.is_floating_point() and any(_contains(tree, path, leaf) for tree in trees)


def _withheld(log: CommunicationLog, card: CommunicationSpec) -> Iterator[str]:
    """Report private state that was sent, and state declared as sent that was not."""
    known = {entry.name: entry.known for entry in card.stores}
    previous_clients: set[int] = set()
    sent_unchanged: set[str] = set()
    for exchange in (exchange for of_round in log.rounds for exchange in of_round):
        for path, leaf in exchange.state_after.items():
            name = entry_of(path, card.stores)
            if name is None or not leaf.is_floating_point() or not leaf.any():
                continue
            unchanged = any(_tensors_equal(leaf, up) for up in exchange.up.values())
            if unchanged:
                sent_unchanged.add(name)
            # all clients start from one model, so different entries can coincide in a client's first round
            is_checked = known[name] == "never" and exchange.client in previous_clients and not is_buffer(path)
            if is_checked and (unchanged or _change_sent(exchange, path)):
                yield f"{path} goes up or its change does; its card says that the server never knows {name}"
        previous_clients.add(exchange.client)
    for entry in card.stores:
        if entry.known == "as it is" and entry.name not in sent_unchanged:
            yield f"its card says that {entry.name} ({entry.what}) goes up as it is, which never happened"


def _change_sent(exchange: ClientExchange, path: str) -> bool:
    before = exchange.state_before.get(path)
    return before is not None and any(_close(exchange.state_after[path] - before, up) for up in exchange.up.values())


def _tensors_equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.to(b.dtype), b)


def _close(change: Tensor, sent: Tensor) -> bool:
    """Return whether the leaf that was sent equals a non-zero change, to float tolerance."""
    if change.shape != sent.shape or not sent.is_floating_point() or not sent.any():
        return False
    return torch.allclose(change.double(), sent.double(), rtol=1e-3, atol=1e-4 * float(sent.abs().max()))
