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
from ecgfed.network.policy import EVERY_SITE, Policy

#: How long between two looks for replies, and between two looks for who is connected, s.
POLL_S, LOOK_S = 0.5, 3.0
#: Flower's error codes for a message or a node that is gone, as when a site was killed.
_GONE = (3, 4, 5)
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
class Answers(Generic[T]):
    """What came of a question.

    Attributes:
        replies: node -> its answer, in the order asked.
        missing: node -> why there is none, in a few words.
    """

    replies: dict[int, T]
    missing: dict[int, str]


@dataclass
class _Question(Generic[T]):
    """A question that is under way."""

    kind: str
    group: str
    contents: Mapping[int, RecordDict]
    read: Callable[[int, RecordDict], T]
    replies: dict[int, T] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def open(self) -> list[int]:
        """Nodes of which nothing is known yet."""
        return [node for node in self.contents if node not in self.replies and node not in self.failed]


class Post:
    """The way to the sites.

    Args:
        grid: Flower's.
        names: node -> the site's name.
        policy: how many have to answer, and by when.
        say: told of sites that are away, late or back.

    Attributes:
        barred: node -> why it is asked nothing more in this session.
    """

    def __init__(
        self,
        grid: GridLike,
        names: Mapping[int, str],
        policy: Policy = EVERY_SITE,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.grid, self.names, self.policy, self.say = grid, names, policy, say
        self.barred: dict[int, str] = {}
        self._out: dict[str, int] = {}  # messages of the question under way
        self._owed: dict[str, int] = {}  # messages of questions that are over
        self._since: dict[int, str] = {}  # node -> when it had connected as it was asked
        self._away: set[int] = set()
        self._given_up: set[int] = set()  # missed a question, and nothing could be sent to them since

    def ask(
        self, kind: str, contents: Mapping[int, RecordDict], read: Callable[[int, RecordDict], T], *, group: str = ""
    ) -> Answers[T]:
        """Send each node its message, and wait for as many replies as the policy wants.

        Args:
            kind: of the message.
            contents: node -> content.
            read: checks and reads a reply; raises NetworkError where it cannot be used.
            group: shown in Flower's log: the round.

        Raises:
            NetworkError: so many sites refused, failed or sent what cannot be used that too few are left.
        """
        question = _Question(kind, group, contents, read)
        needed, begun, looked, told = self.policy.needed(len(contents)), time.monotonic(), -LOOK_S, False
        if self._owed:
            self._take(question)
        while True:
            if question.open and time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                self._send(question)
            self._take(question)
            if len(contents) - len(question.failed) < needed:
                node, why = next(iter(question.failed.items()))
                self._close()
                raise NetworkError(f"site {self.names[node]}", why, action=SEE if why.startswith("refused") else AGAIN)
            late = time.monotonic() - begun >= self.policy.longest_s
            waited_for = not late and not self._given_up.issuperset(question.open)
            if not question.open or (not waited_for and len(question.replies) >= needed):
                break
            if late and not told:
                told = True
                self.say(f"waiting on: {len(question.replies)} of the {needed} sites that are needed have answered")
            time.sleep(POLL_S)
        for node in question.open:
            question.failed[node] = self._silence(node)
            self._given_up.add(node)
        self._close()
        return Answers({node: question.replies[node] for node in contents if node in question.replies}, question.failed)

    def _silence(self, node: int) -> str:
        if node in self._away:
            return "is not connected"
        if node in self._owed.values():
            return "is still busy with an earlier round"
        return f"gave no answer in {self.policy.longest_s:g} s"

    def _close(self) -> None:
        """What is not answered by now is owed."""
        self._owed |= self._out
        self._out.clear()

    def _send(self, question: _Question[T]) -> None:
        """Send what has to be sent: to nodes that were not asked yet, or were away, or have been started again."""
        connected = {int(node.node_id): str(node.last_activated_at) for node in self.grid.get_nodes()}
        for message, node in [*self._out.items(), *self._owed.items()]:
            if node in connected and connected[node] != self._since.get(node):  # it cannot answer what it has forgotten
                self._out.pop(message, None)
                self._owed.pop(message, None)
        busy = {*self._out.values(), *self._owed.values()}
        wanted = [node for node in question.open if node not in busy]
        for node in wanted:
            self._is_away(node, node not in connected)
        ready = [node for node in wanted if node in connected]
        if not ready:
            return
        out = [Message(question.contents[node], node, question.kind, group_id=question.group) for node in ready]
        ids = list(self.grid.push_messages(out))
        if len(ids) != len(out):
            raise NetworkError("Flower", "did not take a message", "every message", "look at the SuperLink's log")
        for node, message in zip(ready, ids, strict=True):
            if message:
                self._out[message] = node
                self._given_up.discard(node)
                self._since[node] = connected[node]

    def _take(self, question: _Question[T]) -> None:
        """Take the replies that are there."""
        asked = [*self._out, *self._owed]
        for reply in self.grid.pull_messages(asked) if asked else ():
            to = reply.metadata.reply_to_message_id
            gone = reply.has_error() and reply.error.code in _GONE
            if self._owed.pop(to, None) is not None or (node := self._out.pop(to, None)) is None:
                continue
            if gone:
                self._is_away(node, True)
            elif reply.has_error():
                question.failed[node] = f"gave no answer (Flower's error {reply.error.code})"
            elif reason := messages.refused(reply.content):
                question.failed[node] = f"refused: {reason}"
            else:
                try:
                    question.replies[node] = question.read(node, reply.content)
                except NetworkError as problem:
                    question.failed[node] = f"sent what cannot be used ({problem.line:.300})"

    def _is_away(self, node: int, away: bool) -> None:
        if away and node not in self._away:
            self.say(f"site {self.names[node]} is not connected")
        if not away and node in self._away:
            self.say(f"site {self.names[node]} is back")
        (self._away.add if away else self._away.discard)(node)
