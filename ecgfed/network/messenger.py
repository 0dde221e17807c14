"""Questions to the sites, and what becomes of them: an answer, a refusal, or silence that is waited out.

A site that is away is asked again when it is back, with the same message, to which it has at most one answer. A site
that was too slow for a round still owes that answer; until it comes, and is thrown away, it is asked nothing else, so
that it is never busy with a round that is over while the next one waits. A site that missed a round is not waited
for again before it could be asked again: one that is away for a day costs ``--wait`` once and not in every round.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from flwr.app import Message, RecordDict

from ecgfed.network import messages
from ecgfed.network.errors import NetworkError
from ecgfed.network.policy import ALL_SITES, Policy

#: How long between two looks for replies, and between two looks for who is connected, s.
POLL_S, CHECK_S = 0.5, 3.0
#: Flower's error codes for a message or a node that is gone, as when a site was killed.
_UNAVAILABLE = (3, 4, 5)
AGAIN = "the round is asked for again when the server starts again"
SEE = f"the whole line is in that site's log.txt; {AGAIN}"
T = TypeVar("T")


class NodeLike(Protocol):
    """What is used of Flower's ``NodeInfo``."""

    node_id: int
    last_activated_at: str


class GridLike(Protocol):
    """What is used of Flower's ``HttpGrid``."""

    def get_nodes(self) -> Sequence[NodeLike]:
        """Nodes that are connected."""

    def push_messages(self, messages: Sequence[Message]) -> Sequence[str]:
        """Send; returns an id for each message, "" for one that was not taken."""

    def pull_messages(self, message_ids: Sequence[str]) -> Sequence[Message]:
        """Return the replies that are there."""


@dataclass(frozen=True)
class Replies(Generic[T]):
    """What came of a question.

    Attributes:
        replies: node -> its answer, in the order asked.
        missing: node -> why there is none, in a few words.
    """

    replies: dict[int, T]
    missing: dict[int, str]


@dataclass
class _Request(Generic[T]):
    """A question that is under way."""

    kind: str
    group: str
    contents: Mapping[int, RecordDict]
    read: Callable[[int, RecordDict], T]
    replies: dict[int, T] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[int]:
        """Nodes of which nothing is known yet."""
        return [node for node in self.contents if node not in self.replies and node not in self.failed]


class SiteMessenger:
    """The way to the sites.

    Args:
        grid: Flower's.
        names: node -> the site's name.
        policy: how many have to answer, and by when.
        log: told of sites that are away, late or back.

    Attributes:
        barred: node -> why it is asked nothing more in this session.
    """

    def __init__(
        self,
        grid: GridLike,
        names: Mapping[int, str],
        policy: Policy = ALL_SITES,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.grid, self.names, self.policy, self.log = grid, names, policy, log
        self.excluded: dict[int, str] = {}
        self._in_flight: dict[str, int] = {}  # messages of the question under way
        self._late_replies: dict[str, int] = {}  # messages of questions that are over
        self._connected_since: dict[int, str] = {}  # node -> when it had connected as it was asked
        self._away: set[int] = set()
        self._unresponsive: set[int] = set()  # missed a question, and nothing could be sent to them since

    def request(
        self, kind: str, contents: Mapping[int, RecordDict], read: Callable[[int, RecordDict], T], *, group: str = ""
    ) -> Replies[T]:
        """Send each node its message, and wait for as many replies as the policy wants.

        Args:
            kind: of the message.
            contents: node -> content.
            read: checks and reads a reply; raises NetworkError where it cannot be used.
            group: shown in Flower's log: the round.

        Raises:
            NetworkError: so many sites refused, failed or sent what cannot be used that too few are left.
        """
        request = _Request(kind, group, contents, read)
        needed, start, last_check, reported = self.policy.needed(len(contents)), time.monotonic(), -CHECK_S, False
        if self._late_replies:
            self._receive(request)
        while True:
            if request.unanswered and time.monotonic() - last_check >= CHECK_S:
                last_check = time.monotonic()
                self._send(request)
            self._receive(request)
            if len(contents) - len(request.failed) < needed:
                node, reason = next(iter(request.failed.items()))
                self._close()
                raise NetworkError(
                    f"site {self.names[node]}", reason, action=SEE if reason.startswith("refused") else AGAIN
                )
            timed_out = time.monotonic() - start >= self.policy.timeout_s
            waiting = not timed_out and not self._unresponsive.issuperset(request.unanswered)
            if not request.unanswered or (not waiting and len(request.replies) >= needed):
                break
            if timed_out and not reported:
                reported = True
                self.log(f"waiting on: {len(request.replies)} of the {needed} sites that are needed have answered")
            time.sleep(POLL_S)
        for node in request.unanswered:
            request.failed[node] = self._missing_reason(node)
            self._unresponsive.add(node)
        self._close()
        return Replies({node: request.replies[node] for node in contents if node in request.replies}, request.failed)

    def _missing_reason(self, node: int) -> str:
        if node in self._away:
            return "is not connected"
        if node in self._late_replies.values():
            return "is still busy with an earlier round"
        return f"gave no answer in {self.policy.timeout_s:g} s"

    def _close(self) -> None:
        """What is not answered by now is owed."""
        self._late_replies |= self._in_flight
        self._in_flight.clear()

    def _send(self, request: _Request[T]) -> None:
        """Send what has to be sent: to nodes that were not asked yet, or were away, or have been started again."""
        connected = {int(node.node_id): str(node.last_activated_at) for node in self.grid.get_nodes()}
        for message, node in [*self._in_flight.items(), *self._late_replies.items()]:
            if node in connected and connected[node] != self._connected_since.get(
                node
            ):  # it cannot answer what it has forgotten
                self._in_flight.pop(message, None)
                self._late_replies.pop(message, None)
        busy = {*self._in_flight.values(), *self._late_replies.values()}
        pending = [node for node in request.unanswered if node not in busy]
        for node in pending:
            self._set_away(node, node not in connected)
        ready = [node for node in pending if node in connected]
        if not ready:
            return
        outgoing = [Message(request.contents[node], node, request.kind, group_id=request.group) for node in ready]
        ids = list(self.grid.push_messages(outgoing))
        if len(ids) != len(outgoing):
            raise NetworkError("Flower", "did not take a message", "every message", "look at the SuperLink's log")
        for node, message in zip(ready, ids, strict=True):
            if message:
                self._in_flight[message] = node
                self._unresponsive.discard(node)
                self._connected_since[node] = connected[node]

    def _receive(self, request: _Request[T]) -> None:
        """Take the replies that are there."""
        message_ids = [*self._in_flight, *self._late_replies]
        for reply in self.grid.pull_messages(message_ids) if message_ids else ():
            message_id = reply.metadata.reply_to_message_id
            unavailable = reply.has_error() and reply.error.code in _UNAVAILABLE
            if (
                self._late_replies.pop(message_id, None) is not None
                or (node := self._in_flight.pop(message_id, None)) is None
            ):
                continue
            if unavailable:
                self._set_away(node, True)
            elif reply.has_error():
                request.failed[node] = f"gave no answer (Flower's error {reply.error.code})"
            elif reason := messages.refusal_reason(reply.content):
                request.failed[node] = f"refused: {reason}"
            else:
                try:
                    request.replies[node] = request.read(node, reply.content)
                except NetworkError as problem:
                    request.failed[node] = f"sent what cannot be used ({problem.line:.300})"

    def _set_away(self, node: int, away: bool) -> None:
        if away and node not in self._away:
            self.log(f"site {self.names[node]} is not connected")
        if not away and node in self._away:
            self.log(f"site {self.names[node]} is back")
        (self._away.add if away else self._away.discard)(node)
