"""The end of a run at a site: what was trained becomes a run of the site's own patients, is scored, and exported.

Scores are the only thing that travels (``ecgfed.network.leaves.END_UP``). A server chooses when it asks for an end and
what it delivers; it never gets to replace a result. The first run's is ``result/``, a further one's has the run's ID
behind its name, and a run has one end: the same one asked for again gets the same scores, another one is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from ecgfed.cohort.split import TEST, VALID
from ecgfed.errors import EcgfedError, StorageError
from ecgfed.evaluation.result import Scores
from ecgfed.federation.train import initial_state
from ecgfed.federation.trees import flatten, unflatten
from ecgfed.files import read_json, remove, replacing_folder, write_json, write_text
from ecgfed.network.errors import SiteError
from ecgfed.network.site_folder import Site
from ecgfed.network.site_round import SiteRound, run_folder
from ecgfed.runs.checkpoint import Snapshot
from ecgfed.runs.history import HISTORY
from ecgfed.runs.run import create_run
from ecgfed.runs.tree_files import serialised
from ecgfed.tasks.evaluate import evaluate
from ecgfed.tasks.export import export

RESULT, BUNDLE = "result", "bundle"
#: In a result: which run's it is, and SHA-256 of what it was made of. In a run's folder: its scores, once all is there.
DELIVERED, ENDED = "delivered.json", "ended.json"
#: Where a run lies while it is scored on the way.
SCORED = "scored"


@dataclass(frozen=True)
class EndScores:
    """What a site says when the run is over: see ``END_UP``; None where it keeps its scores to itself, or has none."""

    patients: int
    t_g: float | None
    t_p: float | None

    def as_json(self) -> dict[str, float]:
        """Return it as it stands in files and messages, without what is kept."""
        told = {"patients": self.patients, "T_g": self.t_g, "T_p": self.t_p}
        return {name: value for name, value in told.items() if value is not None}


def scores_in_words(scores: Mapping[str, Any]) -> str:
    """Return what is to be said of a site's scores, as ``EndScores.as_json`` has them."""
    if "T_g" not in scores:
        return "keeps its scores to itself (its --most-epsilon) or has no beats to score"
    return f"T_g {scores['T_g']:.3f}, T_p {scores['T_p']:.3f}"


def end_run(site: Site, part: SiteRound, leaves: Mapping[str, Tensor]) -> EndScores:
    """Make the site's own run, score it on the test split, and export its bundle.

    Args:
        site: the site.
        part: the run.
        leaves: what the server delivers, by path.

    Raises:
        SiteError: it delivers what is not of this method and net, or nothing can be made of it; or the run has ended
            here with another answer.
        StorageError: the disk refuses.
    """
    server = _server_of(part, leaves)
    part.begin()
    result, bundle = places(site, part.order.run)
    delivered = {"run": part.order.run, "sha256": _digest(part, server)}
    if result.exists() and _json(result / DELIVERED) != delivered:
        found = "is the result of another end of this run"
        raise SiteError("ended", result, found, action="move it away and have the server ask again to take the other")
    told = _json(part.folder / ENDED)
    if result.exists() and bundle.exists() and told.get("sha256") == delivered["sha256"]:
        return EndScores(*(told[one.name] for one in fields(EndScores)))
    try:
        if not result.exists():
            write_result(site, part, server, result.name, delivered)
        scored = _has_beats(part, TEST)
        scores = evaluate(result, cohort=site.cohort_path, local_models=False) if scored else None
        if not bundle.exists():
            export(result, bundle, cohort=site.cohort_path)
    except StorageError:
        raise
    except EcgfedError as problem:
        raise SiteError("training", problem.where, problem.found, problem.expected, problem.action) from problem
    end = _told(part, scores)
    write_json(part.folder / ENDED, {"sha256": delivered["sha256"], **asdict(end)})
    return end


def places(site: Site, run: str) -> tuple[Path, Path]:
    """Return where a run's result and bundle are, or shall be: ``result`` and ``bundle`` where these are nobody's.

    Args:
        site: the site.
        run: the run's SHA-256.
    """
    plain = site.path / RESULT, site.path / BUNDLE
    name = run_folder(site, run).name
    own = site.path / f"{RESULT}-{name}", site.path / f"{BUNDLE}-{name}"
    taken = plain[0].exists() or plain[1].exists()
    if own[0].exists() or (taken and _json(plain[0] / DELIVERED).get("run") != run):
        return own
    return plain


def _json(file: Path) -> dict[str, Any]:
    """Return what a file of ours says; nothing where there is none. Raises StorageError."""
    value = read_json(file, StorageError) if file.is_file() else {}
    if not isinstance(value, dict):
        raise StorageError(file, "is no JSON object", action="move its folder away")
    return value


def _digest(part: SiteRound, server: Mapping[str, Tensor]) -> str:
    """SHA-256 of what a result is made of: the run, the round that counts, what was delivered."""
    found = hashlib.sha256(json.dumps([part.order.as_text(), part.state().round]).encode())
    found.update(serialised(unflatten(dict(server))))
    return found.hexdigest()


def score_run(site: Site, part: SiteRound, leaves: Mapping[str, Tensor]) -> EndScores:
    """Score the run where it stands on the validation split; nothing of it stays. As ``end_run`` otherwise."""
    server = _server_of(part, leaves)
    if not _has_beats(part, VALID):
        return _told(part, None)
    try:
        remove(site.path / SCORED)  # of a kill
        folder = write_result(site, part, server, SCORED)
        try:
            scores = evaluate(folder, cohort=site.cohort_path, split="valid", local_models=False)
        finally:
            remove(folder)
    except StorageError:
        raise
    except EcgfedError as problem:
        raise SiteError("training", problem.where, problem.found, problem.expected, problem.action) from problem
    return _told(part, scores)


def _has_beats(part: SiteRound, split: int) -> bool:
    """Return whether there is anything to score: a patient of few beats has none for tests, and holds nobody up."""
    return len(part.cohort.pool(split)) > 0


def _told(part: SiteRound, scores: Scores | None) -> EndScores:
    patients = len(part.data.clients)
    return EndScores(patients, None, None) if scores is None else EndScores(patients, scores.T_g, scores.T_p)


def _server_of(part: SiteRound, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the server's state with what was delivered in its place; raises SiteError."""
    begun = flatten(initial_state(part.method, part.plan).server)
    for path, leaf in leaves.items():
        there = begun.get(path)
        if there is None or there.shape != leaf.shape or there.dtype != leaf.dtype:
            raise SiteError("request", f"delivered leaf {path[:200]}", "is not of the run's method and net")
    return {**begun, **leaves}


def write_result(
    site: Site,
    part: SiteRound,
    server: Mapping[str, Tensor],
    name: str = RESULT,
    delivered: Mapping[str, str] | None = None,
) -> Path:
    """Write a run folder of the site's patients, under their own ids.

    Args:
        site: the site.
        part: the run.
        server: the server's state, leaves by path.
        name: of the folder, which must not be there.
        delivered: what its file ``DELIVERED`` says; None is no such file.

    Raises:
        EcgfedError: it is there, or cannot be written.
    """
    state, cohort, first = part.state(), part.cohort, part.order.first
    kept = {site.index_of(client, first): (state.round, state.client_states[client]) for client in state.client_states}
    seen = {site.index_of(client, first): count for client, count in state.beats_used.items()}
    history = (part.folder / HISTORY).read_text() if (part.folder / HISTORY).is_file() else ""
    with replacing_folder(site.path / name) as partial:
        run = create_run(partial, cohort, part.method, part.plan, {"device": "cpu", "engine": "flower"})
        write_text(partial / HISTORY, history)
        if delivered is not None:
            write_json(partial / DELIVERED, dict(delivered))
        fresh = initial_state(part.method, part.plan)
        store = run.store
        store.attach(fresh)
        store.write(Snapshot(max(1, state.round), kept, unflatten(dict(server)), seen))
    return site.path / name
