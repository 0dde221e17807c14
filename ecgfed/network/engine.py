"""The engine whose clients are elsewhere: a round's work goes out as messages, the results come back as replies.

What ``ecgfed.federation.train`` does around it, and every method's hooks, are the same as on one machine.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from flwr.app import Message, RecordDict

from ecgfed.federation.client_round import ClientResult, ClientWork
from ecgfed.federation.trees import flatten
from ecgfed.methods.base import Method, Tree
from ecgfed.network import messages
from ecgfed.network.errors import NetworkError
from ecgfed.network.leaves import Leaf, check_up, leaves_of_round
from ecgfed.network.orders import Order
from ecgfed.network.roster import Roster
from ecgfed.network.site_round import RoundReply, RoundRequest

#: How long between two looks for replies.
POLL_S = 0.5


class GridLike(Protocol):
    """What is used of Flower's ``Grid``."""

    def get_node_ids(self) -> Sequence[int]:
        """Nodes that are connected."""

    def push_messages(self, messages: Sequence[Message]) -> Sequence[str]:
        """Send; returns an id for each message."""

    def pull_messages(self, message_ids: Sequence[str]) -> Sequence[Message]:
        """Return the replies that are there."""


def ask(
    grid: GridLike, kind: str, contents: dict[int, RecordDict], names: dict[int, str], group: str = ""
) -> dict[int, RecordDict]:
    """Send each node its message and wait for all replies.

    Args:
        grid: Flower's.
        kind: of the message.
        contents: node -> content.
        names: node -> the site's name.
        group: shown in Flower's log: the round.

    Returns:
        Node -> content of the reply.

    Raises:
        NetworkError: a site refused, failed, or its reply is not to be had.
    """
    out = [Message(content, node, kind, group_id=group) for node, content in contents.items()]
    ids = list(grid.push_messages(out))
    if len(ids) != len(out) or not all(ids):
        raise NetworkError("Flower", "did not take a message", "every message", "look at the SuperLink's log")
    node_of = dict(zip(ids, contents, strict=True))
    replies: dict[int, RecordDict] = {}
    while node_of:
        for reply in grid.pull_messages(list(node_of)):
            node = node_of.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                replies[node] = _content(reply, names[node])
        if node_of:
            time.sleep(POLL_S)
    return {node: replies[node] for node in contents}


def _content(reply: Message, name: str) -> RecordDict:
    if reply.has_error():
        raise NetworkError(f"site {name}", f"gave no answer (Flower's error {reply.error.code})", action=_SEE)
    reason = messages.refused(reply.content)
    if reason is not None:
        raise NetworkError(f"site {name}", f"refused: {reason}", action=_SEE)
    return reply.content


_SEE = "the whole line is in that site's log.txt; the round is asked for again when the server starts again"


class NetworkEngine:
    """Runs the clients of a round at their sites.

    Args:
        grid: Flower's.
        roster: the sites.
        order: makes the order for the site at a place.
        last: place -> the last round the site took part in; changed here.

    Attributes:
        traffic: every leaf of the first participant of the last round.
    """

    def __init__(self, grid: GridLike, roster: Roster, order: Callable[[int], Order], last: dict[int, int]) -> None:
        self.grid, self.roster, self.order, self.last = grid, roster, order, last
        self.traffic: list[Leaf] = []
        self.bytes: tuple[int, int] = (0, 0)

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round; raises NetworkError, after which nothing of the round has changed here."""
        number = work[0].info.round
        by_site: dict[int, list[ClientWork]] = {}
        for one in work:
            by_site.setdefault(self.roster.site_of(one.info.index), []).append(one)
        requests = {
            place: RoundRequest(
                self.order(place),
                number,
                tuple(one.info.index for one in parts),
                self.last.get(place, 0),
                [one.shared for one in parts],
            )
            for place, parts in by_site.items()
        }
        node = {place: self.roster.sites[place].node for place in requests}
        names = {site.node: site.name for site in self.roster.sites}
        contents = {node[place]: messages.round_request(request) for place, request in requests.items()}
        replies = ask(self.grid, messages.ROUND, contents, names, group=str(number))
        results: dict[int, ClientResult] = {}
        for place, request in requests.items():
            reply = _read(replies[node[place]], request, method, names[node[place]])
            for k, client in enumerate(request.clients):
                results[client] = ClientResult(reply.returned[k], {}, reply.losses[k], reply.examples[k])
        found = [results[one.info.index] for one in work]
        _check_alike(found, work)
        self.last.update(dict.fromkeys(requests, number))
        self.traffic = leaves_of_round(method, work[0].shared, found[0].returned, found[0].losses)
        return found


def _read(content: RecordDict, request: RoundRequest, method: Method, name: str) -> RoundReply:
    try:
        reply = messages.read_round_reply(content, request.clients)
        check_up(method, reply.returned, reply.losses)
    except Exception as problem:
        raise NetworkError(f"site {name}", f"sent what cannot be used ({problem!s:.300})", action=_SEE) from problem
    return reply


def _check_alike(results: Sequence[ClientResult], work: Sequence[ClientWork]) -> None:
    """Refuse results that do not have the leaves, shapes and losses of the first; raises NetworkError."""
    first = _form(results[0].returned), set(results[0].losses)
    for one, result in zip(work, results, strict=True):
        if (_form(result.returned), set(result.losses)) != first:
            where = f"patient number {one.info.index}"
            raise NetworkError(where, "came back with other leaves or shapes than the first", "the same from everybody")


def _form(tree: Tree) -> dict[str, tuple[object, ...]]:
    return {path: (leaf.dtype, *leaf.shape) for path, leaf in flatten(tree).items()}
