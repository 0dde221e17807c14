"""The engine of secure aggregation: of a round's updates the server learns only their weighted sum over sites.

A round has four exchanges (``ecgfed.network.masks``): every site sends public keys; then shares of its secrets,
encrypted for the others; then, with the shares of the others, it trains and sends its masked sum; then the sites that
did so send the shares that unmask the sum over them. A site may be missing from any exchange on.

What each site's updates are is not known, so bounds on them are bounds on the sum, and none is named.
"""

from collections.abc import Callable, Mapping

from flwr.app import RecordDict

from ecgfed.core.federation.client_round import ClientResult
from ecgfed.core.federation.sums import client_weights, shared_out
from ecgfed.core.methods.base import Method, Tree
from ecgfed.network import masks, messages
from ecgfed.network import sum_messages as stages
from ecgfed.network.config import FEWEST_SUMMED
from ecgfed.network.engine import AskedRound, NetworkEngine
from ecgfed.network.errors import NetworkError
from ecgfed.network.messenger import AGAIN, Replies
from ecgfed.network.sum_messages import PublicKeys, SumReply
from ecgfed.network.tensor_schema import check_beats
from ecgfed.network.update_bounds import measured


class SumEngine(NetworkEngine):
    """Runs the clients of a round at their sites, and learns the sum of their updates."""

    def collect(
        self, method: Method, asked: AskedRound, decide: Callable[[Mapping[int, str]], None]
    ) -> dict[int, ClientResult]:
        """Return the results of the clients of every site whose sum arrived: each with the mean of all.

        Args:
            asked: the round.
            decide: called with the sites whose sum did not arrive, before the sum is unmasked.

        Raises:
            NetworkError: too few sites replied, or the sum is no update.
        """
        public, boxes, without = self._exchange_keys(asked)
        replies = self._collect_sums(asked, boxes, len(public))
        site_of = self._site_of()
        decide({**without, **replies.missing})
        sums = {site_of[node]: reply for node, reply in replies.replies.items()}
        total = self._unmask(asked, public, list(boxes), {site: reply.vector for site, reply in sums.items()})
        return self._results(method, asked, sums, total)

    def _site_of(self) -> dict[int, int]:
        return {site.node: index for index, site in enumerate(self.roster.sites)}

    def _exchange_keys(
        self, asked: AskedRound
    ) -> tuple[dict[int, PublicKeys], dict[int, dict[int, bytes]], dict[int, str]]:
        """Return every site's public keys, site -> its encrypted shares for the others, and node -> why it has none.

        A site that the round leaves out takes part in this all the same, so that three do.
        """
        names, excluded, site_of = self.messenger.names, self.messenger.excluded, self._site_of()
        nodes = {site: self.roster.sites[site].node for site in asked.requests}
        here = {site: node for site, node in nodes.items() if node in names and node not in excluded}
        number, group = asked.number, str(asked.number)
        weights = ",".join(sorted({stages.digest_of(work.shared) for work in asked.work.values()}))
        contents = {
            node: stages.stage_request(asked.requests[site].run_spec, number, weights=weights)
            for site, node in here.items()
        }
        self._check_enough(contents, FEWEST_SUMMED, number)
        keys = self.messenger.request(
            stages.KEYS, contents, lambda _, content: stages.read_keys_reply(content), group=group, fewest=FEWEST_SUMMED
        )
        public = {site_of[node]: one for node, one in keys.replies.items()}
        contents = {
            node: stages.shares_request(asked.requests[site_of[node]].run_spec, number, public) for node in keys.replies
        }
        shares = self.messenger.request(
            stages.SHARES,
            contents,
            lambda node, content: stages.read_shares_reply(content, site_of[node], list(public)),
            group=group,
            fewest=masks.threshold(len(public)),
        )
        active = {self.roster.sites[site].node for site in asked.active}
        missing = {node: reason for node, reason in {**keys.missing, **shares.missing}.items() if node in active}
        return public, {site_of[node]: boxes for node, boxes in shares.replies.items()}, missing

    def _check_enough(self, contents: Mapping[int, RecordDict], fewest: int, number: int) -> None:
        if len(contents) < fewest:
            reason = f"has {len(contents)} sites for secure aggregation"
            raise NetworkError(f"round {number}", reason, f"{fewest} or more", AGAIN)

    def _collect_sums(
        self, asked: AskedRound, boxes: Mapping[int, Mapping[int, bytes]], sites: int
    ) -> Replies[SumReply]:
        """Return the masked sums of the sites that take part in the round.

        Args:
            boxes: site -> its encrypted shares for the others.
            sites: number of sites that have sent keys.
        """
        site_of, fewest = self._site_of(), masks.threshold(sites)
        contents = {}
        for site, request in asked.active.items():
            if site in boxes:
                received = {source: box[site] for source, box in sorted(boxes.items()) if source != site}
                more = {stages.BOXES: stages.boxes_record(received)}
                contents[self.roster.sites[site].node] = messages.round_request(request, more)
        self._check_enough(contents, fewest, asked.number)

        def read(node: int, content: RecordDict) -> SumReply:
            request = asked.active[site_of[node]]
            try:
                reply = stages.read_sum_reply(content, request, asked.schema)
                check_beats(request.clients, reply.examples, asked.beats)
            except NetworkError:
                raise
            except Exception as problem:
                reason = f"cannot be read ({type(problem).__name__}: {problem!s:.200})"
                raise NetworkError("a site's reply", reason) from problem
            return reply

        return self.messenger.request(messages.ROUND, contents, read, group=str(asked.number), fewest=fewest)

    def _unmask(
        self,
        asked: AskedRound,
        public: Mapping[int, PublicKeys],
        sharing: list[int],
        vectors: Mapping[int, masks.Words],
    ) -> masks.Words:
        """Return the sum of the vectors.

        Args:
            public: site -> its public keys.
            sharing: the sites whose shares were passed on.
            vectors: site -> its masked vector.
        """
        arrived, fewest, number = sorted(vectors), masks.threshold(len(public)), asked.number
        contents = {
            self.roster.sites[site].node: stages.stage_request(asked.active[site].run_spec, number, arrived=arrived)
            for site in arrived
        }
        replies = self.messenger.request(
            stages.UNMASK,
            contents,
            lambda _, content: stages.read_unmask_reply(content, sharing),
            group=str(number),
            fewest=fewest,
        )
        shares = list(replies.replies.values())[:fewest]
        try:
            secrets = {site: masks.secret_of([share[site] for share in shares]) for site in sharing}
            seeds = {site: secrets[site] for site in arrived}
            dropped = {site: secrets[site] for site in sharing if site not in vectors}
            return masks.unmasked(vectors, seeds, dropped, {site: keys.mask for site, keys in public.items()})
        except ValueError as problem:
            reason = f"cannot be unmasked ({problem!s:.200})"
            raise NetworkError(f"the sum of round {number}", reason, action=AGAIN) from problem

    def _results(
        self, method: Method, asked: AskedRound, sums: Mapping[int, SumReply], total: masks.Words
    ) -> dict[int, ClientResult]:
        """Return a result for each client of the sites, each with the mean of all.

        Raises:
            NetworkError: the mean is longer than an update may be.
        """
        clients = [client for site in sums for client in asked.active[site].clients]
        work = [asked.work[client] for client in clients]
        losses = [of_client for reply in sums.values() for of_client in reply.losses]
        examples = [count for reply in sums.values() for count in reply.examples]
        run_spec = self.run_spec(0)
        weights = client_weights([task.info.train_examples for task in work], run_spec.examples, run_spec.federation)
        changes = masks.from_integers(total, stages.shapes(asked.schema))
        sent = [task.shared for task in work]
        trees: list[Tree] = shared_out(method, sent, changes, weights, asked.schema.leaves)
        try:
            asked.schema.check(trees[0], losses[0])  # the trees are alike, and the losses were checked
            measured(method, self.plan, work, trees, losses, self.messenger.policy.max_change)
        except NetworkError as problem:
            names = ", ".join(self.roster.sites[site].name for site in sums)
            _, reason, expected, _ = problem.parts
            action = "which site it is of does not show; train without secure aggregation to find it"
            raise NetworkError(f"the sum of sites {names}", reason, expected, action) from problem
        parts = zip(clients, trees, losses, examples, strict=True)
        return {client: ClientResult(tree, {}, of_client, count) for client, tree, of_client, count in parts}
