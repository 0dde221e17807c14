"""The engine that trains clients at remote sites: it sends a round's work as messages and collects the replies.

``ecgfed.core.federation.train`` and the methods' hooks are the same as on one machine. The clients of a site that did
not reply are treated as not having taken part in the round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.app import RecordDict

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.core.federation.client_round import ClientResult, ClientWork
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Method
from ecgfed.network import messages
from ecgfed.network.errors import NetworkError
from ecgfed.network.leaves import Leaf, check_up, leaves_of_round
from ecgfed.network.messenger import AGAIN, Replies, SiteMessenger
from ecgfed.network.programs import BOUND
from ecgfed.network.roster import Roster
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_run import RoundReply, RoundRequest
from ecgfed.network.tensor_schema import TensorSchema, check_beats, expected_beats, round_schema
from ecgfed.network.update_bounds import WARN, SiteUpdate, beside_others, measured, record_updates, suspect

#: File in the server's folder with the sites that the current round skips.
SKIPPED_FILE = "left_out.json"
#: Allowed size of a reply relative to its leaves, for Flower's headers, scalars and a repeated upload; and extra bytes.
_SIZE_FACTOR, _EXTRA_BYTES = 3, 4 << 20


@dataclass(frozen=True)
class AskedRound:
    """A round that is asked of the sites.

    Attributes:
        number: the round.
        work: what each client is sent, by number.
        requests: site index -> request, of every site that has participants.
        active: the same, of the sites that are asked.
        schema: structure of each client's reply.
        beats: client -> ``expected_beats``.
    """

    number: int
    work: Mapping[int, ClientWork]
    requests: Mapping[int, RoundRequest]
    active: Mapping[int, RoundRequest]
    schema: TensorSchema
    beats: Mapping[int, int]


class NetworkEngine:
    """Runs the clients of a round at their sites.

    Args:
        folder: the server's folder.
        messenger: the connection to the sites.
        roster: the sites.
        plan: the run's training plan.
        run_spec: returns the run specification for the site with an index.
        last_rounds: site index -> the site's last committed round; updated here.

    Attributes:
        round_leaves: every leaf of the first participant's messages in the last round.
        skipped: site index -> why its clients did not take part in the last round.
    """

    def __init__(
        self,
        folder: Path,
        messenger: SiteMessenger,
        roster: Roster,
        plan: TrainPlan,
        run_spec: Callable[[int], RunSpec],
        last_rounds: dict[int, int],
    ) -> None:
        self.folder, self.messenger, self.roster, self.plan = folder, messenger, roster, plan
        self.run_spec, self.last_rounds = run_spec, last_rounds
        self.round_leaves: list[Leaf] = []
        self.skipped: dict[int, str] = {}

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult | None]:
        """Run the clients of a round.

        Returns:
            A result for each client, or None for the clients of a site without a valid reply.

        Raises:
            NetworkError: too few sites replied; the server's state is unchanged.
        """
        round_number = work[0].info.round
        requests = self._requests(work)
        skipped = self._already_skipped(round_number)
        for site in requests:
            node = self.roster.sites[site].node
            if node not in self.messenger.names:
                skipped.setdefault(site, "no longer has a key in the folder")
            elif node in self.messenger.excluded:
                skipped.setdefault(site, self.messenger.excluded[node])
        active = {site: request for site, request in requests.items() if site not in skipped}
        schema = round_schema(method, self.plan, work[0])
        largest = max(len(request.clients) for request in requests.values())
        # the upload limit per site, which the SuperLink applies until the next request
        write_json(self.folder / BOUND, {"bytes": _SIZE_FACTOR * largest * schema.bytes + _EXTRA_BYTES})
        per_step = method.requirements.batches_per_step
        beats = {
            client.info.index: expected_beats(self.plan, client.info.train_examples, client.beats_used, per_step)
            for client in work
        }
        work_of = {client.info.index: client for client in work}
        asked = AskedRound(round_number, work_of, requests, active, schema, beats)
        results = self.collect(method, asked, lambda missing: self._decide(round_number, skipped, missing))
        if not results:
            raise NetworkError(self.folder / SKIPPED_FILE, "leaves no site for the round", action="remove it")
        for client in results:
            self.last_rounds[self.roster.site_of(client)] = round_number
        self.round_leaves = leaves_of_round(method, work[0].shared, schema, sorted(schema.losses), self.run_spec(0))
        return [results.get(client.info.index) for client in work]

    def _decide(self, number: int, skipped: Mapping[int, str], missing: Mapping[int, str]) -> None:
        """Record the sites without which the round goes on: a server killed after this decides the same.

        Args:
            number: the round.
            skipped: site index -> why it was not asked.
            missing: node -> why it has no valid reply.
        """
        site_of = {site.node: index for index, site in enumerate(self.roster.sites)}
        self.skipped = {**skipped, **{site_of[node]: reason for node, reason in missing.items()}}
        if self.skipped:
            sites = {self.roster.sites[site].name: reason for site, reason in sorted(self.skipped.items())}
            write_json(self.folder / SKIPPED_FILE, {"round": number, "sites": sites})

    def collect(
        self, method: Method, asked: AskedRound, decide: Callable[[Mapping[int, str]], None]
    ) -> dict[int, ClientResult]:
        """Return the results of the clients of every site that replies.

        Args:
            asked: the round.
            decide: called with the sites that have no valid reply, before the results count.

        Raises:
            NetworkError: too few sites replied.
        """
        site_of = {self.roster.sites[site].node: site for site in asked.active}
        updates: dict[int, SiteUpdate] = {}

        def read(node: int, content: RecordDict) -> RoundReply:
            request = asked.active[site_of[node]]
            reply = _read_reply(content, request, method, asked.schema, asked.beats)
            sent = [asked.work[client] for client in request.clients]
            updates[site_of[node]] = measured(
                method, self.plan, sent, reply.returned, reply.losses, self.messenger.policy.max_change
            )
            return reply

        contents = {node: messages.round_request(asked.active[site]) for node, site in site_of.items()}
        replies = self._ask(contents, read, updates, asked.number)
        decide(replies.missing)
        results: dict[int, ClientResult] = {}
        for node, reply in replies.replies.items():
            clients = asked.active[site_of[node]].clients
            parts = zip(clients, reply.returned, reply.losses, reply.examples, strict=True)
            results |= {index: ClientResult(tree, {}, losses, count) for index, tree, losses, count in parts}
        return results

    def _ask(
        self,
        contents: Mapping[int, RecordDict],
        read: Callable[[int, RecordDict], RoundReply],
        updates: dict[int, SiteUpdate],
        number: int,
    ) -> Replies[RoundReply]:
        """Send a round's requests; without the replies of sites whose updates are far longer than the others'.

        Args:
            contents: as in ``SiteMessenger.request``.
            read: as there; it fills ``updates``.
            updates: site index -> its update.
            number: the round.

        Raises:
            NetworkError: too few sites remain; naming the site that stood out in an earlier round, if one did.
        """
        policy, names = self.messenger.policy, [site.name for site in self.roster.sites]
        try:
            replies = self.messenger.request(messages.ROUND, contents, read, group=str(number))
            record_updates(self.folder, number, dict(enumerate(names)), updates)
            for site, times in beside_others(updates).items():
                if times > WARN:
                    self.messenger.log(
                        f"round {number}: the update of site {names[site]} is {times:.3g} times as long as the others'"
                    )
                if times > policy.max_change:
                    reason = f"sent an update {times:.3g} times as long as the other sites'"
                    node = self.roster.sites[site].node
                    replies.missing[node] = f"{reason}; expected at most {policy.max_change:g} times"
                    del replies.replies[node]
                    if len(replies.replies) < policy.needed(len(contents)):
                        action = f"{AGAIN}; leave it out with --without {names[site]}"
                        raise NetworkError(f"site {names[site]}", replies.missing[node], action=action)
        except NetworkError as problem:
            why, action = suspect(self.folder, number - 1)
            if not why:
                raise
            where, reason, expected, _ = problem.parts
            raise NetworkError(where, f"{reason}; {why}", expected, action) from problem
        return replies

    def _requests(self, work: Sequence[ClientWork]) -> dict[int, RoundRequest]:
        by_site: dict[int, list[ClientWork]] = {}
        for client in work:
            by_site.setdefault(self.roster.site_of(client.info.index), []).append(client)
        requests, number = {}, work[0].info.round
        for site, clients in by_site.items():
            indices, last = tuple(client.info.index for client in clients), self.last_rounds.get(site, 0)
            shared = [client.shared for client in clients]
            requests[site] = RoundRequest(self.run_spec(site), number, indices, last, shared)
        return requests

    def _already_skipped(self, round_number: int) -> dict[int, str]:
        """Return the sites that an earlier session, killed in this round, had already decided to skip."""
        file = self.folder / SKIPPED_FILE
        if not file.is_file():
            return {}
        value = read_json(file, StorageError)
        names = {site.name: index for index, site in enumerate(self.roster.sites)}
        try:
            if int(value["round"]) != round_number:
                return {}
            return {names[name]: str(reason) for name, reason in value["sites"].items() if name in names}
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise StorageError(file, f"lacks {problem!s:.100}", "a round's missing sites", "remove it") from problem


def _read_reply(
    content: RecordDict, request: RoundRequest, method: Method, schema: TensorSchema, expected: Mapping[int, int]
) -> RoundReply:
    try:
        reply = messages.read_round_reply(content, request, schema)
        check_beats(request.clients, reply.examples, expected)
        check_up(method, reply.returned, reply.losses)
    except EcgfedError as problem:
        raise NetworkError(*problem.parts[:3]) from problem
    except Exception as problem:
        reason = f"cannot be read ({type(problem).__name__}: {problem!s:.200})"
        raise NetworkError("a site's reply", reason) from problem
    return reply
