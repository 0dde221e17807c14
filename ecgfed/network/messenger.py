"""Send requests to the sites and collect their replies, refusals and timeouts.

A request to an offline site is sent again when the site is back; the message is the same, and the site has at most one
reply to it. A site that was too slow for a round gets no further request until its late reply has arrived and been
discarded, so it never works on an old round while the next one waits. A site that missed a round is not waited for
until a request could be sent to it again: a site that is offline for a day costs ``--wait`` once, not in every round.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from flwr.app import Message, RecordDict

from ecgfed.network import messages
from ecgfed.network.errors import NetworkError
from ecgfed.network.policy import ALL_SITES, Policy

#: Seconds between two polls for replies, and between two checks for connected sites.
POLL_S, CHECK_S = 0.5, 3.0
#: Flower's error codes for an unavailable message or node, as after a site was killed; and of ``CheckedGrid`` for a
#: reply that cannot be read.
UNAVAILABLE, MALFORMED = (3, 4, 5), 1000
AGAIN = "the round is repeated when the server starts again"
#: Code of a refusal by a site that did not reach the server while it trained.
GONE = "gone"
#: Changes of one site's connection that are logged for a request.
MOST_CHANGES = 20
SEE = f"the full error is in that site's log.txt; {AGAIN}"
T = TypeVar("T")


class NodeLike(Protocol):
    """The attributes used of Flower's ``NodeInfo``."""

    node_id: int
    last_activated_at: str


class GridLike(Protocol):
    """The methods used of Flower's ``HttpGrid``."""

    def get_nodes(self) -> Sequence[NodeLike]:
        """Return the connected nodes."""

    def push_messages(self, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages; returns an id for each, "" for a rejected message."""

    def pull_messages(self, message_ids: Sequence[str]) -> Sequence[Message]:
        """Return the replies that have arrived."""


@dataclass(frozen=True)
class Replies(Generic[T]):
    """The outcome of a request.

    Attributes:
        replies: node -> its reply, in the order of the request.
        missing: node -> why it has no valid reply.
    """

    replies: dict[int, T]
    missing: dict[int, str]


@dataclass
class _Request(Generic[T]):
    """A request in progress."""

    kind: str
    group: str
    contents: Mapping[int, RecordDict]
    read: Callable[[int, RecordDict], T]
    replies: dict[int, T] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[int]:
        """Nodes that have neither replied nor failed."""
        return [node for node in self.contents if node not in self.replies and node not in self.failed]


class SiteMessenger:
    """Sends requests to the sites.

    Args:
        grid: Flower's grid.
        names: node -> the site's name.
        policy: how many sites must reply, and by when.
        log: receives messages about sites that are offline, late or back.

    Attributes:
        excluded: node -> why it gets no more requests in this session.
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
        self._in_flight: dict[str, int] = {}  # message -> node, of the current request
        self._late_replies: dict[str, int] = {}  # message -> node, of earlier requests
        self._connected_since: dict[int, str] = {}  # node -> its connection time at the request
        self._away: set[int] = set()
        self._changes = Counter[int]()  # of nodes' connections since the request
        self._unresponsive: set[int] = set()  # missed a request, and none could be sent since

    def request(
        self,
        kind: str,
        contents: Mapping[int, RecordDict],
        read: Callable[[int, RecordDict], T],
        *,
        group: str = "",
        fewest: int = 0,
    ) -> Replies[T]:
        """Send each node its message, and wait for as many replies as the policy requires.

        Args:
            kind: Flower's message type.
            contents: node -> content.
            read: checks and decodes a reply; raises NetworkError if it is invalid.
            group: the round, shown in Flower's log.
            fewest: replies that are needed whatever the policy says; at most as many as there are messages.

        Raises:
            NetworkError: too few sites remain after refusals, failures and invalid replies.
        """
        request = _Request(kind, group, contents, read)
        self._changes.clear()
        needed, start = max(fewest, self.policy.needed(len(contents))), time.monotonic()
        last_check, reported = -CHECK_S, False
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
                action = SEE if reason.startswith("refused") else AGAIN
                raise NetworkError(f"site {self.names[node]}", reason, action=action)
            timed_out = time.monotonic() - start >= self.policy.timeout_s
            waiting = not timed_out and not self._unresponsive.issuperset(request.unanswered)
            if not request.unanswered or (not waiting and len(request.replies) >= needed):
                break
            if timed_out and not reported:
                reported = True
                self.log(f"still waiting: {len(request.replies)} of {needed} required sites have replied")
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
        return f"did not reply within {self.policy.timeout_s:g} s"

    def _close(self) -> None:
        """Mark the messages without a reply as late."""
        self._late_replies |= self._in_flight
        self._in_flight.clear()

    def _send(self, request: _Request[T]) -> None:
        """Send the message to nodes that have not got it yet, were offline, or were restarted."""
        connected = {int(node.node_id): str(node.last_activated_at) for node in self.grid.get_nodes()}
        for message, node in [*self._in_flight.items(), *self._late_replies.items()]:
            # a site that was restarted has lost its message
            if node in connected and connected[node] != self._connected_since.get(node):
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
            raise NetworkError("Flower", "rejected a message", action="see the SuperLink's log")
        for node, message in zip(ready, ids, strict=True):
            if message:
                self._in_flight[message] = node
                self._unresponsive.discard(node)
                self._connected_since[node] = connected[node]

    def _receive(self, request: _Request[T]) -> None:
        """Process the replies that have arrived."""
        message_ids = [*self._in_flight, *self._late_replies]
        for reply in self.grid.pull_messages(message_ids) if message_ids else ():
            message_id = reply.metadata.reply_to_message_id
            late, node = self._late_replies.pop(message_id, None), self._in_flight.pop(message_id, None)
            if late is not None or node is None:
                continue
            if reply.has_error() and reply.error.code in UNAVAILABLE:
                self._set_away(node, True)
            elif reply.has_error() and reply.error.code == MALFORMED:
                request.failed[node] = f"sent an invalid reply ({reply.error.reason:.300})"
            elif reply.has_error():
                request.failed[node] = f"did not reply (Flower's error {reply.error.code})"
            elif messages.refusal_code(reply.content) == GONE:  # it stopped, and trains when it is asked again
                self._set_away(node, True)
            elif reason := messages.refusal_reason(reply.content, request.kind):
                request.failed[node] = f"refused: {reason}"
            else:
                try:
                    request.replies[node] = request.read(node, reply.content)
                except NetworkError as problem:
                    request.failed[node] = f"sent an invalid reply ({problem.line:.300})"
                except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as problem:
                    reason = f"cannot be read: {type(problem).__name__}: {problem!s:.200}"
                    request.failed[node] = f"sent an invalid reply ({reason})"

    def _set_away(self, node: int, away: bool) -> None:
        if away != (node in self._away):
            self._changes[node] += 1
            if self._changes[node] <= MOST_CHANGES:
                self.log(f"site {self.names[node]} is {'not connected' if away else 'back'}")
        (self._away.add if away else self._away.discard)(node)
