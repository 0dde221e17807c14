"""The engine whose clients are elsewhere: a round's work goes out as messages, the results come back as replies.

What ``ecgfed.federation.train`` does around it, and every method's hooks, are the same as on one machine. The clients
of a site that gave no answer did not take part in the round.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flwr.app import RecordDict

from ecgfed.errors import EcgfedError, StorageError
from ecgfed.federation.client_round import ClientResult, ClientWork
from ecgfed.federation.plan import TrainPlan
from ecgfed.files import read_json, write_json
from ecgfed.methods.base import Method
from ecgfed.network import messages
from ecgfed.network.errors import NetworkError
from ecgfed.network.expected import Form, beats_of, check_beats, form_of
from ecgfed.network.leaves import Leaf, check_up, leaves_of_round
from ecgfed.network.orders import Order
from ecgfed.network.post import Post
from ecgfed.network.programs import BOUND
from ecgfed.network.roster import Roster
from ecgfed.network.site_round import RoundReply, RoundRequest

#: Which sites the round in flight goes on without, in the server's folder.
LEFT_OUT = "left_out.json"
#: What a reply may be longer than its leaves: Flower's headers, numbers, a reply that is sent once more.
_TIMES, _MORE_BYTES = 3, 4 << 20


class NetworkEngine:
    """Runs the clients of a round at their sites.

    Args:
        folder: the server's.
        post: the way to the sites.
        roster: the sites.
        plan: the run's.
        order: makes the order for the site at a place.
        last: place -> the last round of the site that counts; changed here.

    Attributes:
        traffic: every leaf of the first participant of the last round.
        left_out: place -> why its clients took no part in the last round.
    """

    def __init__(
        self,
        folder: Path,
        post: Post,
        roster: Roster,
        plan: TrainPlan,
        order: Callable[[int], Order],
        last: dict[int, int],
    ) -> None:
        self.folder, self.post, self.roster, self.plan, self.order, self.last = folder, post, roster, plan, order, last
        self.traffic: list[Leaf] = []
        self.left_out: dict[int, str] = {}

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult | None]:
        """Run the clients of a round.

        Returns:
            A result for each, or None for those of a site that gave no answer which could be used.

        Raises:
            NetworkError: too few sites answered; nothing of the round has changed here.
        """
        number = work[0].info.round
        requests = self._requests(work)
        decided = self._decided(number)
        for place in requests:
            node = self.roster.sites[place].node
            if node not in self.post.names:
                decided.setdefault(place, "has no key in the folder any more")
            elif node in self.post.barred:
                decided.setdefault(place, self.post.barred[node])
        asked = {place: request for place, request in requests.items() if place not in decided}
        place_of = {self.roster.sites[place].node: place for place in asked}
        form = form_of(method, self.plan, work[0])
        self._bound(form, requests)

        per_step = method.needs.batches_per_step
        beats = {one.info.index: beats_of(self.plan, one.info.train_examples, one.beats_used, per_step) for one in work}

        def read(node: int, content: RecordDict) -> RoundReply:
            return _read(content, asked[place_of[node]], method, form, beats)

        contents = {node: messages.round_request(asked[place]) for node, place in place_of.items()}
        answers = self.post.ask(messages.ROUND, contents, read, group=str(number))
        self.left_out = {**decided, **{place_of[node]: why for node, why in answers.missing.items()}}
        if self.left_out:  # a server that is killed from here on decides the same again
            sites = {self.roster.sites[place].name: why for place, why in sorted(self.left_out.items())}
            write_json(self.folder / LEFT_OUT, {"round": number, "sites": sites})
        results: dict[int, ClientResult] = {}
        for node, reply in answers.replies.items():
            for k, client in enumerate(asked[place_of[node]].clients):
                results[client] = ClientResult(reply.returned[k], {}, reply.losses[k], reply.examples[k])
            self.last[place_of[node]] = number
        if not results:
            raise NetworkError(self.folder / LEFT_OUT, "leaves nobody for the round", action="remove it")
        transport = self.order(0).transport
        self.traffic = leaves_of_round(method, work[0].shared, form, sorted(form.losses), transport)
        return [results.get(one.info.index) for one in work]

    def _requests(self, work: Sequence[ClientWork]) -> dict[int, RoundRequest]:
        by_site: dict[int, list[ClientWork]] = {}
        for one in work:
            by_site.setdefault(self.roster.site_of(one.info.index), []).append(one)
        return {
            place: RoundRequest(
                self.order(place),
                work[0].info.round,
                tuple(one.info.index for one in parts),
                self.last.get(place, 0),
                [one.shared for one in parts],
            )
            for place, parts in by_site.items()
        }

    def _decided(self, number: int) -> dict[int, str]:
        """Return the sites that a session which was killed had decided to go on without, in this very round."""
        file = self.folder / LEFT_OUT
        if not file.is_file():
            return {}
        value = read_json(file, StorageError)
        names = {site.name: place for place, site in enumerate(self.roster.sites)}
        try:
            if int(value["round"]) != number:
                return {}
            return {names[name]: str(why) for name, why in value["sites"].items() if name in names}
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise StorageError(file, f"lacks {problem!s:.100}", "a round's missing sites", "remove it") from problem

    def _bound(self, form: Form, requests: Mapping[int, RoundRequest]) -> None:
        """Tell the SuperLink how much any site may send until the next question."""
        most = max(len(request.clients) for request in requests.values())
        write_json(self.folder / BOUND, {"bytes": _TIMES * most * form.bytes + _MORE_BYTES})


def _read(
    content: RecordDict, request: RoundRequest, method: Method, form: Form, beats: Mapping[int, int]
) -> RoundReply:
    try:
        reply = messages.read_round_reply(content, request, form)
        check_beats(request.clients, reply.examples, beats)
        check_up(method, reply.returned, reply.losses)
    except EcgfedError as problem:
        raise NetworkError(problem.where, problem.found, problem.expected) from problem
    except Exception as problem:
        raise NetworkError(
            "a site's reply", f"cannot be read ({type(problem).__name__}: {problem!s:.200})"
        ) from problem
    return reply
