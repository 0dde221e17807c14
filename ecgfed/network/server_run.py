"""A federation's run at the server: hello, rounds, end; a checkpoint after every round, before the next one begins."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ecgfed.errors import RunError
from ecgfed.federation.state import State
from ecgfed.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.federation.updates import in_words, spent_in_words
from ecgfed.files import write_json
from ecgfed.locks import locked
from ecgfed.network import messages
from ecgfed.network.engine import GridLike, NetworkEngine, ask
from ecgfed.network.errors import NetworkError
from ecgfed.network.leaves import delivered, leaves_of_end
from ecgfed.network.orders import Order
from ecgfed.network.roster import Roster, read_roster, roster_of, write_roster
from ecgfed.network.server_folder import LEAVES, RESULT, Asked, read_asked, server_run
from ecgfed.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.runs.history import HISTORY, read_lines
from ecgfed.runs.noise_key import noise_key
from ecgfed.runs.run import Run

#: A server that was killed may hold its folder a moment longer than it lives.
HELD_S = 30.0


class SaveFirst(SaveCheckpoint):
    """Saves every round before the next one begins: a site must never be two rounds ahead of the server."""

    def on_round(self, outcome: RoundOutcome) -> None:
        """Save the round, and wait for the disk; raises StorageError."""
        super().on_round(outcome)
        if self._writer is not None:
            self._writer.wait()


class _Tell(Callback):
    """Says a line a round, and writes down once what travels."""

    def __init__(self, folder: Path, engine: NetworkEngine, rounds: int, say: Callable[[str], None]) -> None:
        self.folder, self.engine, self.rounds, self.say = folder, engine, rounds, say

    def on_round(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""
        record = outcome.record
        about = f"loss mean {record['loss_mean']:.3f} max {record['loss_max']:.3f}"
        self.say(f"round {outcome.state.round} of {self.rounds}: {about}")
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
        asked = read_asked(folder)
        roster = _roster(folder, asked, grid, names)
        run = server_run(folder, asked, roster)
        state = run.state() if run.store.exists() else initial_state(run.method, run.plan)
        data = roster.data()
        who = ", ".join(f"{site.name}: {len(site.clients)}" for site in roster.sites)
        say(
            f"{run.method.name}, {run.plan.rounds} rounds, "
            f"{len(data.clients)} patients at {len(roster.sites)} sites ({who})"
        )
        for line in in_words(run.plan):
            say(line)
        if state.round:
            say(f"going on after round {state.round}")
        engine = NetworkEngine(
            grid, roster, lambda place: order_for(run, roster, place), last_rounds(run, roster, state)
        )
        watching: list[Callback] = [
            WriteHistory(run.path),
            SaveFirst(run.store),
            _Tell(folder, engine, run.plan.rounds, say),
        ]
        train(run.method, data, run.plan, engine, state, watching, secret=noise_key(run.path, run.plan))
        _end(folder, run, roster, state, grid, engine, say)
        return run


def _roster(folder: Path, asked: Asked, grid: GridLike, names: dict[int, str]) -> Roster:
    """Ask the sites who they are; the first time it is written down, later it must be the same."""
    if len(names) != asked.sites:
        raise NetworkError("the sites", f"are {len(names)} keys", f"{asked.sites}", "one key a site")
    rr = asked.rr is not False
    request = messages.hello_request(rr=rr, leave_out=asked.leave_out)
    replies = ask(grid, messages.HELLO, dict.fromkeys(names, request), names)
    told = []
    for node, content in replies.items():
        try:
            told.append((node, messages.read_hello_reply(content)))
        except NetworkError as problem:
            raise NetworkError(f"site {names[node]}", f"{problem.line:.300}") from problem
    roster, before = roster_of(names, told), read_roster(folder)
    if before is None:
        write_roster(folder, roster)
    elif before.fingerprint != roster.fingerprint:
        raise NetworkError(
            folder,
            "its run was begun with other sites, patients or counts than say hello now",
            "the same cohorts",
            "put them back, or begin in a new folder",
        )
    return roster


def order_for(run: Run, roster: Roster, place: int) -> Order:
    """Return what the site at a place is told of the run."""
    return Order(
        run.identity,
        run.method.name,
        asdict(run.method.settings),
        run.net.spec.as_json(),
        asdict(run.plan),
        roster.classes,
        roster.firsts[place],
        len(roster.data().clients),
    )


def last_rounds(run: Run, roster: Roster, state: State) -> dict[int, int]:
    """Return the last round that each site took part in, by its place, from the history up to the checkpoint.

    Raises:
        RunError: the history lacks rounds.
    """
    lines = read_lines(run.path / HISTORY, state.round)
    if len(lines) < state.round:
        raise RunError(run.path / HISTORY, "lacks rounds that the checkpoint has", f"{state.round} lines", "restore it")
    last: dict[int, int] = {}
    for line in lines:
        last |= {roster.site_of(int(client)): int(line["round"]) for client in line["clients"]}
    return last


def _end(
    folder: Path,
    run: Run,
    roster: Roster,
    state: State,
    grid: GridLike,
    engine: NetworkEngine,
    say: Callable[[str], None],
) -> None:
    """Hand the trained answer to every site, and write down the scores."""
    leaves = delivered(run.method, state.server)
    names = {site.node: site.name for site in roster.sites}
    contents = {
        site.node: messages.end_request(order_for(run, roster, place), leaves)
        for place, site in enumerate(roster.sites)
    }
    replies = ask(grid, messages.END, contents, names, group="end")
    sites: list[dict[str, Any]] = []
    for node, content in replies.items():
        try:
            scores = messages.read_end_reply(content)
        except NetworkError as problem:
            raise NetworkError(f"site {names[node]}", f"{problem.line:.300}") from problem
        sites.append({"site": names[node], "patients": scores.patients, "T_g": scores.t_g, "T_p": scores.t_p})
        say(f"site {names[node]}: {scores.patients} patients, T_g {scores.t_g:.3f}, T_p {scores.t_p:.3f}")
    for line in spent_in_words(run.plan, run.last_record().get("epsilon")):
        say(line)
    travelled = [*engine.traffic, *leaves_of_end(run.method, state.server)]
    if engine.traffic:
        write_json(folder / LEAVES, {"leaves": [leaf.as_json() for leaf in travelled]})
    write_json(folder / RESULT, {"method": run.method.name, "rounds": state.round, "sites": sites})
