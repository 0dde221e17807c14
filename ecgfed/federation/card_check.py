"""Whether a method's card is true: what it says travels and stays, against rounds that were run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ecgfed.federation.traffic import Parcel, Traffic
from ecgfed.methods.communication import CommunicationSpec, Sent, Stored
from ecgfed.nets.layers import Params, is_buffer, trainable
from ecgfed.nets.parts import extractor_of, head_of

Leaves = Mapping[str, Tensor]
Entries = Sequence[Sent] | Sequence[Stored]


def card_problems(traffic: Traffic) -> list[str]:
    """Return what is wrong with a method's card, a sentence each; none where everything is as it says.

    Every leaf that went down, came up or was kept has to be named; everything named has to occur, in the form it says.
    What is for everybody has to be the same for all; another client's own thing has to be declared; what a client keeps
    to itself must not go up, nor its change (BatchNorm's statistics are left to the card's words).

    The rounds should be several, of three or more clients, of two or more steps, and reach as far into the run as the
    method changes: what the card says of a phase that was not run counts as untrue.
    """
    card = traffic.method.communication.with_settings(traffic.method.settings)
    parcels = [parcel for of_round in traffic.rounds for parcel in of_round]
    found = [
        *_names("sends down", card.down, [parcel.down for parcel in parcels]),
        *_names("sends up", card.up, [parcel.up for parcel in parcels]),
        *_names("keeps", card.stores, [parcel.kept for parcel in parcels]),
        *_reports(card, parcels),
        *_forms(traffic, [(card.down, parcel.down) for parcel in parcels]),
        *_forms(traffic, [(card.up, parcel.up) for parcel in parcels]),
        *_same_for_all(traffic, card),
        *_passed_on(traffic, card),
        *_kept_to_itself(traffic, card),
    ]
    return list(dict.fromkeys(found))


def entry_of(path: str, entries: Entries) -> str | None:
    """The name of the entry that a leaf belongs to: the longest that is the path or a branch above it."""
    above = [entry.name for entry in entries if path == entry.name or path.startswith(f"{entry.name}/")]
    return max(above, key=len, default=None)


def _under(name: str, entries: Entries, leaves: Leaves) -> dict[str, Tensor]:
    """The leaves of an entry by what is left of their paths; ``""`` for the entry itself."""
    return {path[len(name) + 1 :]: leaf for path, leaf in leaves.items() if entry_of(path, entries) == name}


def _names(verb: str, entries: Entries, trees: Sequence[Leaves]) -> Iterator[str]:
    """Leaves without a name on the card, and names without a leaf."""
    paths = {path for leaves in trees for path in leaves}
    of_paths = {path: entry_of(path, entries) for path in sorted(paths)}
    for path, name in of_paths.items():
        if name is None:
            yield f"it {verb} {path}, which its card does not name"
    for entry in entries:
        if entry.name not in of_paths.values():
            yield f"its card says that it {verb} {entry.name} ({entry.what}), which never happened"


def _reports(card: CommunicationSpec, parcels: Iterable[Parcel]) -> Iterator[str]:
    told, named = {name for parcel in parcels for name in parcel.result.losses}, {entry.name for entry in card.metrics}
    for name in sorted(told - named):
        yield f"it reports {name}, which its card does not name"
    for name in sorted(named - told):
        yield f"its card says that it reports {name}, which never happened"


def _forms(traffic: Traffic, sent: Iterable[tuple[Sequence[Sent], Leaves]]) -> Iterator[str]:
    """Entries whose leaves are not what their form has."""
    initial = traffic.method.net.initial(0)
    parts = {
        "model": initial,
        "trainable": trainable(initial),
        "extractor": extractor_of(initial),
        "head": head_of(initial),
    }
    for entries, leaves in sent:
        for entry in entries:
            under = _under(entry.name, entries, leaves)
            if under and not _has_form(entry, under, parts):
                yield f"{entry.name} ({entry.what}) is not of the form {entry.form!r} that its card says"


def _has_form(entry: Sent, under: Leaves, parts: Mapping[str, Params]) -> bool:
    if entry.form in parts:
        return _shapes(under) == _shapes(parts[entry.form])
    if entry.form == "models":
        wanted = _shapes(parts["model"])
        return all(_shapes(one) == wanted for one in _branches(under).values())
    if entry.form == "number":
        return set(under) == {""} and under[""].numel() == 1
    if entry.form == "numbers":
        return set(under) == {""} and under[""].dim() == 1
    if entry.form == "beats":
        return {"examples", "label"} <= set(under) <= {"examples", "label", "rr"}
    return "" not in under


def _shapes(leaves: Leaves) -> dict[str, torch.Size]:
    return {path: leaf.shape for path, leaf in leaves.items()}


def _branches(leaves: Leaves) -> dict[str, dict[str, Tensor]]:
    """Leaves by the first part of their path."""
    found: dict[str, dict[str, Tensor]] = {}
    for path, leaf in leaves.items():
        first, _, rest = path.partition("/")
        found.setdefault(first, {})[rest] = leaf
    return found


def _same_for_all(traffic: Traffic, card: CommunicationSpec) -> Iterator[str]:
    """Things for everybody that differ between the participants of a round."""
    for entry in card.down:
        if entry.scope != "everybody":
            continue
        for of_round in traffic.rounds:
            got = [under for parcel in of_round if (under := _under(entry.name, card.down, parcel.down))]
            if any(not _equal(one, got[0]) for one in got[1:]):
                yield f"{entry.name} ({entry.what}) is not the same for everybody"


def _equal(one: Leaves, other: Leaves) -> bool:
    return one.keys() == other.keys() and all(torch.equal(leaf, other[path]) for path, leaf in one.items())


def _passed_on(traffic: Traffic, card: CommunicationSpec) -> Iterator[str]:
    """Another client's own things sent down undeclared; and things declared so that are nobody's."""
    sent: dict[int, list[_ByName]] = {}
    known = [_by_name(traffic.method.net.initial(0))]
    for of_round in traffic.rounds:
        for parcel in of_round:
            own = [*known, *sent.get(parcel.client, [])]
            others = [tree for client, trees in sent.items() if client != parcel.client for tree in trees]
            for entry in card.down:
                under = _under(entry.name, card.down, parcel.down)
                for branch in _branches(under).values() if entry.form == "models" else [under]:
                    if entry.scope == "another":
                        if not any(all(_holds(tree, *item) for item in branch.items()) for tree in others):
                            yield f"{entry.name} ({entry.what}) is not what another client sent, as its card says"
                    elif any(_came_from(others, *item) and not _came_from(own, *item) for item in branch.items()):
                        yield f"{entry.name} ({entry.what}) holds what another client sent, as it is"
        for parcel in of_round:
            sent.setdefault(parcel.client, []).append(_by_name(parcel.up))


#: leaves by the last part of their path
_ByName = dict[str, list[Tensor]]


def _by_name(leaves: Leaves) -> _ByName:
    found: _ByName = {}
    for path, leaf in leaves.items():
        found.setdefault(path.rpartition("/")[2], []).append(leaf)
    return found


def _holds(tree: _ByName, path: str, leaf: Tensor) -> bool:
    return any(_same(leaf, other) for other in tree.get(path.rpartition("/")[2], []))


def _came_from(trees: Iterable[_ByName], path: str, leaf: Tensor) -> bool:
    return leaf.is_floating_point() and any(_holds(tree, path, leaf) for tree in trees)


def _kept_to_itself(traffic: Traffic, card: CommunicationSpec) -> Iterator[str]:
    """Kept things that go up although the card says never, and those that do not although it says they do."""
    known = {entry.name: entry.known for entry in card.stores}
    met: set[int] = set()
    as_it_is: set[str] = set()
    for parcel in (parcel for of_round in traffic.rounds for parcel in of_round):
        for path, leaf in parcel.kept.items():
            name = entry_of(path, card.stores)
            if name is None or not leaf.is_floating_point() or not leaf.any():
                continue
            whole = any(_same(leaf, up) for up in parcel.up.values())
            if whole:
                as_it_is.add(name)
            # all begin at one model, so that in a client's first round different things may be the same
            looked_at = known[name] == "never" and parcel.client in met and not is_buffer(path)
            if looked_at and (whole or _its_change_goes_up(parcel, path)):
                yield f"{path} goes up or its change does; its card says that the server never knows {name}"
        met.add(parcel.client)
    for entry in card.stores:
        if entry.known == "as it is" and entry.name not in as_it_is:
            yield f"its card says that {entry.name} ({entry.what}) goes up as it is, which never happened"


def _its_change_goes_up(parcel: Parcel, path: str) -> bool:
    before = parcel.kept_before.get(path)
    return before is not None and any(_close(parcel.kept[path] - before, up) for up in parcel.up.values())


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.to(other.dtype), other)


def _close(change: Tensor, sent: Tensor) -> bool:
    """Whether what was sent is a change that is more than nothing, to float tolerance."""
    if change.shape != sent.shape or not sent.is_floating_point() or not sent.any():
        return False
    return torch.allclose(change.double(), sent.double(), rtol=1e-3, atol=1e-4 * float(sent.abs().max()))
