"""A federation's run at the server: registration, rounds, final scores; every round ends with a checkpoint."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import RecordDict

from ecgfed.base.errors import OptionError, RunError, StorageError
from ecgfed.base.files import read_json, write_json, write_text
from ecgfed.base.locks import locked
from ecgfed.base.text import count_of
from ecgfed.core.federation.data import uses_weak_labels
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.federation.updates import describe_aggregation, describe_privacy_spent
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.core.runs.noise_key import noise_key
from ecgfed.core.runs.run import Run
from ecgfed.exports.device.federation import FEDERATION, differences
from ecgfed.network import messages
from ecgfed.network.config import NAMES, FederationConfig
from ecgfed.network.engine import NetworkEngine
from ecgfed.network.errors import NetworkError
from ecgfed.network.kept_rounds import KeptRounds
from ecgfed.network.leaves import END_UP, Leaf, final_leaves, leaves_of_end
from ecgfed.network.messages import read_end_reply, read_registration_reply
from ecgfed.network.messenger import GridLike, Replies, SiteMessenger
from ecgfed.network.policy import read_policy
from ecgfed.network.provenance import sources_of
from ecgfed.network.roster import Roster, build_roster, read_roster, write_roster
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.server_folder import LEAVES, RESULT, SCORES, check_run, read_config, record_refusal, server_run
from ecgfed.network.site_results import EndScores, scores_in_words
from ecgfed.network.sum_engine import SumEngine
from ecgfed.network.update_bounds import check_state

#: Seconds to wait for the folder's lock: a killed server may release it late.
LOCK_WAIT_S = 30.0
#: Why a site gets no request.
LEFT_OUT = "is left out with --without"


class SaveEveryRound(SaveCheckpoint):
    """Saves every round before the next one starts, so that no site gets two rounds ahead of the server."""

    def on_start(self, state: State) -> None:
        """Keep the last saved round, if a killed session saved it and did not keep it."""
        super().on_start(state)
        KeptRounds(self.store).keep()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Save and keep the round, and wait until it is on disk; raises StorageError."""
        super().on_round(outcome)
        if self._writer is not None:
            self._writer.wait()
        KeptRounds(self.store).keep()


class _CheckState(Callback):
    """Refuses a model that has broken down before it is saved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_round(self, outcome: RoundOutcome) -> None:
        """Check the finished round's state; raises NetworkError."""
        check_state(outcome.state.server, self.folder, outcome.state.round)


class _RecordSkipped(Callback):
    """Adds the skipped sites to a round's record."""

    def __init__(self, engine: NetworkEngine) -> None:
        self.engine = engine

    def on_round(self, outcome: RoundOutcome) -> None:
        """Add the skipped sites before the record is written."""
        sites, skipped = self.engine.roster.sites, sorted(self.engine.skipped.items())
        if skipped:
            outcome.record["left_out"] = {sites[position].name: reason for position, reason in skipped}


class _ScoreAtSites(Callback):
    """Scores every n-th round on the sites' validation beats; runs after the round was saved."""

    def __init__(self, run: Run, engine: NetworkEngine, every: int) -> None:
        self.file, self.run, self.engine, self.every = engine.folder / SCORES, run, engine, every

    def on_start(self, state: State) -> None:
        """Score the last round if a killed session saved it but did not score it."""
        if state.round and state.round not in [line["round"] for line in read_lines(self.file, state.round)]:
            self._score(state)

    def on_round(self, outcome: RoundOutcome) -> None:
        """Score the finished round."""
        self._score(outcome.state)

    def _score(self, state: State) -> None:
        round_number = state.round
        if not self.every or round_number % self.every or round_number >= self.run.plan.rounds:
            return
        replies = _deliver(self.run, state, self.engine, "valid")
        names = {site.node: site.name for site in self.engine.roster.sites}
        sites = [{"site": names[node], **scores.as_json()} for node, scores in replies.replies.items()]
        lines = [*read_lines(self.file, round_number - 1), {"round": round_number, "split": "valid", "sites": sites}]
        write_text(self.file, "".join(json.dumps(line) + "\n" for line in lines))
        summary = "; ".join(f"{scores['site']} {scores_in_words(scores)}" for scores in sites)
        self.engine.messenger.log(f"round {round_number} on each site's validation beats: {summary}")


class _ReportProgress(Callback):
    """Logs every round, and writes the leaves of its messages to a file."""

    def __init__(self, engine: NetworkEngine) -> None:
        self.engine = engine

    def on_round(self, outcome: RoundOutcome) -> None:
        """Log the finished round."""
        record = outcome.record
        losses = f"loss mean {record['loss_mean']:.3f} max {record['loss_max']:.3f}"
        missing = record.get("left_out", {})
        without = f", without {'; '.join(f'site {name}, which {reason}' for name, reason in missing.items())}"
        done = f"round {outcome.state.round} of {self.engine.plan.rounds}"
        self.engine.messenger.log(f"{done}: {losses}{without if missing else ''}")
        write_json(self.engine.folder / LEAVES, {"leaves": [leaf.as_json() for leaf in self.engine.round_leaves]})


def serve(folder: Path, grid: GridLike, names: dict[int, str], log: Callable[[str], None] = print) -> Run:
    """Run a federation to its end, from the last saved round.

    Args:
        folder: the server's folder.
        grid: Flower's grid.
        names: node -> name of each site, in order.
        log: receives status messages, one line at a time.

    Raises:
        NetworkError: a site refused or failed; every finished round is saved.
        EcgfedError: the folder or the configuration cannot be used.
    """
    with locked(folder, wait_s=LOCK_WAIT_S):
        config, policy = read_config(folder), read_policy(folder)
        messenger = SiteMessenger(grid, dict(names), policy, log)
        left_out = policy.without
        messenger.excluded |= {node: LEFT_OUT for node, name in names.items() if name in left_out}
        run, roster = _open_run(folder, config, messenger)
        state = run.state() if run.store.exists() else initial_state(run.method, run.plan)
        data = roster.data()
        run_text = f"{run.method.name}, {count_of(run.plan.rounds, 'round')}"
        sites_text = count_of(len(roster.sites), "site")
        log(f"{run_text}, {count_of(len(data.clients), 'patient')} at {sites_text} ({roster.describe()})")
        different = differences(sources_of(roster.sites, NAMES))
        for line in (*roster.warnings(), *different, *describe_aggregation(run.plan)):
            log(line)
        if config.secure_aggregation:
            log("Secure aggregation: of the updates only sums over sites arrive here; losses and counts as before.")
        if state.round:
            log(f"resuming after round {state.round}")
        options, last_by_site = config.options(), last_rounds(run, roster, state)
        spec_of = partial(run_spec_for, run, roster, options=options)
        kind = SumEngine if config.secure_aggregation else NetworkEngine
        engine = kind(folder, messenger, roster, run.plan, spec_of, last_by_site)
        callbacks: list[Callback] = [
            _CheckState(folder),
            _RecordSkipped(engine),
            WriteHistory(run.path),
            SaveEveryRound(run.store),
            _ReportProgress(engine),
            _ScoreAtSites(run, engine, config.eval_every),
        ]
        train(run.method, data, run.plan, engine, state, callbacks, secret=noise_key(run.path, run.plan))
        _end(run, state, engine)
        return run


def _open_run(folder: Path, config: FederationConfig, messenger: SiteMessenger) -> tuple[Run, Roster]:
    """Return the run and its sites; a new run is checked against the registrations before anything is written."""
    recorded = read_roster(folder)
    roster = _register(folder, config, messenger, recorded)
    try:
        needs = method_by_name(config.method).requirements
        messenger.policy.check(config.sites, needs, secure=config.secure_aggregation)
        check_run(folder, config, roster)
    except OptionError as problem:
        record_refusal(folder, problem)
        raise
    if recorded is None or any(
        one.version != site.version for one, site in zip(recorded.sites, roster.sites, strict=True)
    ):
        write_roster(folder, roster)
    return server_run(folder, config, roster), roster


def _register(folder: Path, config: FederationConfig, messenger: SiteMessenger, recorded: Roster | None) -> Roster:
    """Register the sites: all of them in the first session, later as many as the policy requires."""
    names = messenger.names
    if recorded is None and len(names) != config.sites:
        keys = count_of(len(names), "key")
        raise NetworkError("the sites", f"have {keys}", f"{config.sites}", "add one key per site")
    known = {site.name for site in recorded.sites} if recorded is not None else set()
    if unknown := sorted(set(messenger.policy.without) - known):
        expected = f"sites of the run: {', '.join(sorted(known)) or 'none yet, for it has not begun'}"
        raise OptionError("without", ", ".join(unknown), expected)
    rr = config.rr is not False
    kind = method_by_name(config.method)
    weak = uses_weak_labels(kind, make_settings(kind.settings_type, config.settings), config)
    request = messages.registration_request(rr=rr, leave_out=config.leave_out, weak=weak, most=config.most_per_class)
    roster = None if recorded is None else recorded.with_nodes(names)
    # the policy does not apply to the first registration, which fixes the patients' numbers for the whole run
    registrar = SiteMessenger(messenger.grid, names, log=messenger.log) if recorded is None else messenger

    # a site whose registration has changed or exceeds the limits fails: without a policy that ends the session
    def read(node: int, content: RecordDict) -> dict[str, Any]:
        registration = read_registration_reply(content)
        messenger.excluded[node] = "sent an invalid registration"
        if roster is not None and not roster.matches(node, registration):
            reason = f"its run was started with other sites, or with other patients or counts of site {names[node]}"
            raise NetworkError(folder, reason, "the same cohorts", "restore them, or start in a new folder")
        messenger.policy.check_claim(registration)
        del messenger.excluded[node]
        return registration

    asked = [node for node in names if node not in messenger.excluded]
    replies = registrar.request(messages.REGISTRATION, dict.fromkeys(asked, request), read)
    if roster is None:
        return build_roster(names, list(replies.replies.items()))
    for node, failure in replies.missing.items():
        messenger.log(f"site {names[node]} {failure}")
    for site in roster.sites:
        if site.node not in names:
            messenger.log(f"site {site.name} no longer has a key in the folder")
    return roster.completed(replies.replies)


def run_spec_for(run: Run, roster: Roster, position: int, options: Mapping[str, str] | None = None) -> RunSpec:
    """Return the run specification for the site with an index; ``options`` as in ``RunSpec``."""
    federation: list[dict[str, Any]] = run.meta[FEDERATION]["sites"]
    return RunSpec(
        run.identity,
        run.method.name,
        asdict(run.method.settings),
        run.net.spec.as_json(),
        run.plan.as_json(),
        roster.classes,
        roster.first_numbers[position],
        roster.clients,
        dict(options or {}),
        federation[position]["name"],
        federation,
    )


def last_rounds(run: Run, roster: Roster, state: State) -> dict[int, int]:
    """Return each site's last committed round, by site index, from the history up to the checkpoint.

    Raises:
        RunError: rounds are missing from the history.
    """
    lines = read_lines(run.path / HISTORY, state.round)
    if len(lines) < state.round:
        expected = count_of(state.round, "line")
        raise RunError(run.path / HISTORY, "lacks rounds that the checkpoint has", expected, "restore it")
    rounds: dict[int, int] = {}
    for line in lines:
        rounds |= {roster.site_of(int(client)): int(line["round"]) for client in line["clients"]}
    return rounds


def _end(run: Run, state: State, engine: NetworkEngine) -> None:
    """Send the trained model to every site and store the scores; offline sites get it at a later start."""
    folder, roster, log = engine.folder, engine.roster, engine.messenger.log
    replies = _deliver(run, state, engine, "test")
    names = {site.node: site.name for site in roster.sites}
    scores = _previous_scores(folder)
    for node, scored in replies.replies.items():
        scores[names[node]] = scored.as_json()
        log(f"site {names[node]}: {count_of(scored.patients, 'patient')}, {scores_in_words(scored.as_json())}")
    for node, reason in replies.missing.items():
        log(f"site {names[node]} {reason}: it has no result yet; run the same command to send it again")
    for line in describe_privacy_spent(run.plan, run.last_record().get("epsilon")):
        log(line)
    if leaves := engine.round_leaves or _previous_leaves(folder):
        leaves = [*leaves, *leaves_of_end(run.method, state.server)]
        write_json(folder / LEAVES, {"leaves": [leaf.as_json() for leaf in leaves]})
    sites = [{"site": site.name, **scores[site.name]} for site in roster.sites if site.name in scores]
    missing = [site.name for site in roster.sites if site.name not in scores]
    optional = {"missing": missing} if missing else {}
    write_json(folder / RESULT, {"method": run.method.name, "rounds": state.round, "sites": sites, **optional})


def _deliver(run: Run, state: State, engine: NetworkEngine, split: str) -> Replies[EndScores]:
    """Send every site the current model to be scored on a split."""
    leaves = final_leaves(run.method, state.server)
    contents = {
        site.node: messages.end_request(engine.run_spec(position), engine.last_rounds.get(position, 0), leaves, split)
        for position, site in enumerate(engine.roster.sites)
        if site.node in engine.messenger.names and site.node not in engine.messenger.excluded
    }
    return engine.messenger.request(messages.END, contents, lambda _, content: read_end_reply(content), group=split)


def _previous_leaves(folder: Path) -> list[Leaf]:
    """Return the leaves of a round stored by an earlier session; raises StorageError."""
    if not (folder / LEAVES).is_file():
        return []
    try:
        leaves = [Leaf.from_json(entry) for entry in read_json(folder / LEAVES, StorageError)["leaves"]]
    except (KeyError, TypeError, ValueError) as problem:
        raise StorageError(folder / LEAVES, f"lacks {problem!s:.100}", "leaves of messages", "remove it") from problem
    return [leaf for leaf in leaves if leaf.way != "end"]


def _previous_scores(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the scores that sites reported in earlier sessions."""
    if not (folder / RESULT).is_file():
        return {}
    sites = read_json(folder / RESULT, StorageError)["sites"]
    return {str(site["site"]): {name: site[name] for name in END_UP if name in site} for site in sites}
