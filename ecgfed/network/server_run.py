"""A federation's run at the server: hello, rounds, end; a checkpoint after every round, before the next one begins."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flwr.app import RecordDict

from ecgfed.errors import OptionError, RunError, StorageError
from ecgfed.federation.state import State
from ecgfed.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.federation.updates import describe_aggregation, describe_privacy_spent
from ecgfed.files import read_json, write_json, write_text
from ecgfed.locks import locked
from ecgfed.methods.registry import method_by_name
from ecgfed.network import messages
from ecgfed.network.engine import NetworkEngine
from ecgfed.network.errors import NetworkError
from ecgfed.network.leaves import END_UP, Leaf, delivered, leaves_of_end
from ecgfed.network.messages import read_end_reply, read_hello_reply
from ecgfed.network.orders import Order
from ecgfed.network.policy import read_policy
from ecgfed.network.post import Answers, GridLike, Post
from ecgfed.network.roster import Roster, read_roster, roster_of, write_roster
from ecgfed.network.server_folder import LEAVES, RESULT, SCORES, Asked, check_run, read_asked, refuse_asked, server_run
from ecgfed.network.site_end import EndScores, scores_in_words
from ecgfed.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.runs.history import HISTORY, read_lines
from ecgfed.runs.noise_key import noise_key
from ecgfed.runs.run import Run
from ecgfed.text import count_of

#: A server that was killed may hold its folder a moment longer than it lives.
HELD_S = 30.0


class SaveFirst(SaveCheckpoint):
    """Saves every round before the next one begins: a site must never be two rounds ahead of the server."""

    def on_round(self, outcome: RoundOutcome) -> None:
        """Save the round, and wait for the disk; raises StorageError."""
        super().on_round(outcome)
        if self._writer is not None:
            self._writer.wait()


class _NoteMissing(Callback):
    """Writes into a round's record which sites it went on without."""

    def __init__(self, engine: NetworkEngine) -> None:
        self.engine = engine

    def on_round(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round, before its line is written."""
        sites = self.engine.roster.sites
        if self.engine.left_out:
            outcome.record["left_out"] = {sites[place].name: why for place, why in sorted(self.engine.left_out.items())}


class _Score(Callback):
    """Has the sites score every n-th round on their validation beats; it stands behind what saves the round."""

    def __init__(self, folder: Path, run: Run, roster: Roster, engine: NetworkEngine, every: int) -> None:
        self.folder, self.run, self.roster, self.engine, self.every = folder, run, roster, engine, every

    def on_start(self, state: State) -> None:
        """Score the last round where a session that was killed had saved it, and had not scored it."""
        if state.round and state.round not in [line["round"] for line in self._lines(state.round)]:
            self._score(state)

    def on_round(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""
        self._score(outcome.state)

    def _lines(self, number: int) -> list[dict[str, Any]]:
        return read_lines(self.folder / SCORES, number)

    def _score(self, state: State) -> None:
        number = state.round
        if not self.every or number % self.every or number >= self.run.plan.rounds:
            return
        answers = _deliver(self.run, self.roster, state, self.engine, "valid")
        names = {site.node: site.name for site in self.roster.sites}
        sites = [{"site": names[node], **one.as_json()} for node, one in answers.replies.items()]
        lines = [*self._lines(number - 1), {"round": number, "split": "valid", "sites": sites}]
        write_text(self.folder / SCORES, "".join(json.dumps(line) + "\n" for line in lines))
        about = "; ".join(f"{one['site']} {scores_in_words(one)}" for one in sites)
        self.engine.post.say(f"round {number} on each site's validation beats: {about}")


class _Tell(Callback):
    """Says a line a round, and writes down once what travels."""

    def __init__(self, folder: Path, engine: NetworkEngine, rounds: int, say: Callable[[str], None]) -> None:
        self.folder, self.engine, self.rounds, self.say = folder, engine, rounds, say

    def on_round(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""
        record = outcome.record
        about = f"loss mean {record['loss_mean']:.3f} max {record['loss_max']:.3f}"
        missing = record.get("left_out", {})
        without = f", without {'; '.join(f'site {name}, which {why}' for name, why in missing.items())}"
        self.say(f"round {outcome.state.round} of {self.rounds}: {about}{without if missing else ''}")
        write_json(self.folder / LEAVES, {"leaves": [leaf.as_json() for leaf in self.engine.traffic]})


def serve(folder: Path, grid: GridLike, names: dict[int, str], say: Callable[[str], None] = print) -> Run:
    """Run a federation from where its folder stands to its end.

    Args:
        folder: the server's.
        grid: Flower's.
        names: node -> name of each site, in their order.
        say: told of what happens, a line at a time.

    Raises:
        NetworkError: a site refused or failed; every finished round is saved.
        EcgfedError: the folder, or what was asked for, cannot be used.
    """
    with locked(folder, wait_s=HELD_S):
        asked, policy = read_asked(folder), read_policy(folder)
        post = Post(grid, dict(names), policy, say)
        run, roster = _begun(folder, asked, names, post)
        state = run.state() if run.store.exists() else initial_state(run.method, run.plan)
        data = roster.data()
        about = f"{run.method.name}, {count_of(run.plan.rounds, 'round')}"
        where = count_of(len(roster.sites), "site")
        say(f"{about}, {count_of(len(data.clients), 'patient')} at {where} ({roster.in_words()})")
        for line in (*roster.warnings(), *describe_aggregation(run.plan)):
            say(line)
        if state.round:
            say(f"going on after round {state.round}")
        options = asked.options()
        last = last_rounds(run, roster, state)
        engine = NetworkEngine(
            folder, post, roster, run.plan, lambda place: order_for(run, roster, place, options), last
        )
        watching: list[Callback] = [
            _NoteMissing(engine),
            WriteHistory(run.path),
            SaveFirst(run.store),
            _Tell(folder, engine, run.plan.rounds, say),
            _Score(folder, run, roster, engine, asked.eval_every),
        ]
        train(run.method, data, run.plan, engine, state, watching, secret=noise_key(run.path, run.plan))
        _end(folder, run, roster, state, engine, say)
        return run


def _begun(folder: Path, asked: Asked, names: dict[int, str], post: Post) -> tuple[Run, Roster]:
    """Return the run and its sites; a new run is checked with what the sites say before any of it is written."""
    before = read_roster(folder)
    roster = _roster(folder, asked, names, post, before)
    try:
        post.policy.check(asked.sites, method_by_name(asked.method).needs)
        check_run(folder, asked, roster)
    except OptionError as problem:
        refuse_asked(folder, problem)
        raise
    if before is None:
        write_roster(folder, roster)
    return server_run(folder, asked, roster), roster


def _roster(folder: Path, asked: Asked, names: dict[int, str], post: Post, before: Roster | None) -> Roster:
    """Ask the sites who they are: the first time all of them, later those that the policy wants.

    A site that says something else than when the run was begun, or claims too much, is one that failed: without a
    policy that is the end, with one it is left out of this session.
    """
    if before is None and len(names) != asked.sites:
        raise NetworkError("the sites", f"are {count_of(len(names), 'key')}", f"{asked.sites}", "one key a site")
    rr = asked.rr is not False
    request = messages.hello_request(rr=rr, leave_out=asked.leave_out)
    roster = None if before is None else before.with_nodes(names)
    # who is left out of the first hello would be left out of every number: the policy is for what comes later
    asking = Post(post.grid, names, say=post.say) if before is None else post

    def read(node: int, content: RecordDict) -> dict[str, Any]:
        hello = read_hello_reply(content)
        post.barred[node] = "says of itself what cannot be"
        if roster is not None and not roster.agrees(node, hello):
            found = f"its run was begun with other sites, or with other patients or counts of site {names[node]}"
            raise NetworkError(folder, found, "the same cohorts", "put them back, or begin in a new folder")
        post.policy.check_claim(hello)
        del post.barred[node]
        return hello

    answers = asking.ask(messages.HELLO, dict.fromkeys(names, request), read)
    if roster is None:
        return roster_of(names, list(answers.replies.items()))
    for node, why in answers.missing.items():
        post.say(f"site {names[node]} {why}")
    for site in roster.sites:
        if site.node not in names:
            post.say(f"site {site.name} has no key in the folder any more")
    return roster


def order_for(run: Run, roster: Roster, place: int, options: Mapping[str, str] | None = None) -> Order:
    """Return what the site at a place is told of the run; ``options`` as of ``Order``."""
    return Order(
        run.identity,
        run.method.name,
        asdict(run.method.settings),
        run.net.spec.as_json(),
        asdict(run.plan),
        roster.classes,
        roster.firsts[place],
        roster.clients,
        dict(options or {}),
    )


def last_rounds(run: Run, roster: Roster, state: State) -> dict[int, int]:
    """Return the last round of each site that counts, by its place, from the history up to the checkpoint.

    Raises:
        RunError: the history lacks rounds.
    """
    lines = read_lines(run.path / HISTORY, state.round)
    if len(lines) < state.round:
        raise RunError(
            run.path / HISTORY, "lacks rounds that the checkpoint has", count_of(state.round, "line"), "restore it"
        )
    last: dict[int, int] = {}
    for line in lines:
        last |= {roster.site_of(int(client)): int(line["round"]) for client in line["clients"]}
    return last


def _end(
    folder: Path, run: Run, roster: Roster, state: State, engine: NetworkEngine, say: Callable[[str], None]
) -> None:
    """Hand the trained answer to every site, and write down the scores; a site that is away gets it another time."""
    answers = _deliver(run, roster, state, engine, "test")
    names = {site.node: site.name for site in roster.sites}
    scores = _scores_before(folder)
    for node, one in answers.replies.items():
        scores[names[node]] = one.as_json()
        say(f"site {names[node]}: {count_of(one.patients, 'patient')}, {scores_in_words(one.as_json())}")
    for node, why in answers.missing.items():
        say(f"site {names[node]} {why}: it has no result yet; the same command hands it out again")
    for line in describe_privacy_spent(run.plan, run.last_record().get("epsilon")):
        say(line)
    if travelled := engine.traffic or _leaves_before(folder):
        travelled = [*travelled, *leaves_of_end(run.method, state.server)]
        write_json(folder / LEAVES, {"leaves": [leaf.as_json() for leaf in travelled]})
    sites = [{"site": site.name, **scores[site.name]} for site in roster.sites if site.name in scores]
    missing = [site.name for site in roster.sites if site.name not in scores]
    more = {"missing": missing} if missing else {}
    write_json(folder / RESULT, {"method": run.method.name, "rounds": state.round, "sites": sites, **more})


def _deliver(run: Run, roster: Roster, state: State, engine: NetworkEngine, split: str) -> Answers[EndScores]:
    """Send every site the answer as it stands, to be scored on a split."""
    leaves = delivered(run.method, state.server)
    contents = {
        site.node: messages.end_request(engine.order(place), engine.last.get(place, 0), leaves, split)
        for place, site in enumerate(roster.sites)
        if site.node in engine.post.names and site.node not in engine.post.barred
    }
    return engine.post.ask(messages.END, contents, lambda _, content: read_end_reply(content), group=split)


def _leaves_before(folder: Path) -> list[Leaf]:
    """Return the leaves of a round, where an earlier session ran the last one; raises StorageError."""
    if not (folder / LEAVES).is_file():
        return []
    try:
        found = [Leaf.from_json(one) for one in read_json(folder / LEAVES, StorageError)["leaves"]]
    except (KeyError, TypeError, ValueError) as problem:
        raise StorageError(folder / LEAVES, f"lacks {problem!s:.100}", "leaves of messages", "remove it") from problem
    return [leaf for leaf in found if leaf.way != "end"]


def _scores_before(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what sites have scored that got their result in an earlier session."""
    if not (folder / RESULT).is_file():
        return {}
    found = read_json(folder / RESULT, StorageError)["sites"]
    return {str(one["site"]): {name: one[name] for name in END_UP if name in one} for one in found}
