"""The end of a run at a site: what was trained becomes a run of the site's own patients, is scored, and exported.

Scores are the only thing that travels (``ecgfed.network.leaves.END_UP``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ecgfed.errors import EcgfedError
from ecgfed.federation.train import initial_state
from ecgfed.federation.trees import flatten, unflatten
from ecgfed.files import remove, replacing_folder, write_text
from ecgfed.network.errors import SiteError
from ecgfed.network.site_folder import Site
from ecgfed.network.site_round import SiteRound
from ecgfed.runs.checkpoint import Snapshot
from ecgfed.runs.history import HISTORY
from ecgfed.runs.run import create_run
from ecgfed.tasks.evaluate import evaluate
from ecgfed.tasks.export import export

RESULT, BUNDLE = "result", "bundle"
#: Where a run lies while it is scored on the way.
SCORED = "scored"


@dataclass(frozen=True)
class EndScores:
    """What a site says when the run is over: see ``END_UP``; None where it keeps its scores to itself."""

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
        return "keeps its scores to itself (its --most-epsilon)"
    return f"T_g {scores['T_g']:.3f}, T_p {scores['T_p']:.3f}"


def end_run(site: Site, part: SiteRound, leaves: Mapping[str, Tensor]) -> EndScores:
    """Make the site's own run, score it on the test split, and export its bundle.

    Args:
        site: the site.
        part: the run.
        leaves: what the server delivers, by path.

    Raises:
        SiteError: it delivers what is not of this method and net, or nothing can be made of it.
    """
    server = _server_of(part, leaves)
    try:
        folder = write_result(site, part, server)
        scores = evaluate(folder, cohort=site.cohort_path, local_models=False)
        export(folder, site.path / BUNDLE, cohort=site.cohort_path, overwrite=True)
    except EcgfedError as problem:
        raise SiteError("training", problem.where, problem.found, problem.expected, problem.action) from problem
    return EndScores(len(part.data.clients), scores.T_g, scores.T_p)


def score_run(site: Site, part: SiteRound, leaves: Mapping[str, Tensor]) -> EndScores:
    """Score the run where it stands on the validation split; nothing of it stays. As ``end_run`` otherwise."""
    server = _server_of(part, leaves)
    try:
        folder = write_result(site, part, server, SCORED)
        try:
            scores = evaluate(folder, cohort=site.cohort_path, split="valid", local_models=False)
        finally:
            remove(folder)
    except EcgfedError as problem:
        raise SiteError("training", problem.where, problem.found, problem.expected, problem.action) from problem
    return EndScores(len(part.data.clients), scores.T_g, scores.T_p)


def _server_of(part: SiteRound, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the server's state with what was delivered in its place; raises SiteError."""
    begun = flatten(initial_state(part.method, part.plan).server)
    for path, leaf in leaves.items():
        there = begun.get(path)
        if there is None or there.shape != leaf.shape or there.dtype != leaf.dtype:
            raise SiteError("request", f"delivered leaf {path[:200]}", "is not of the run's method and net")
    return {**begun, **leaves}


def write_result(site: Site, part: SiteRound, server: Mapping[str, Tensor], name: str = RESULT) -> Path:
    """Write a run folder of the site's patients, under their own ids; raises EcgfedError."""
    state, cohort, first = part.state(), part.cohort, part.order.first
    kept = {site.index_of(client, first): (state.round, state.kept[client]) for client in state.kept}
    seen = {site.index_of(client, first): count for client, count in state.seen.items()}
    history = (part.folder / HISTORY).read_text() if (part.folder / HISTORY).is_file() else ""
    with replacing_folder(site.path / name, overwrite=True) as partial:
        run = create_run(partial, cohort, part.method, part.plan, {"device": "cpu", "engine": "flower"})
        write_text(partial / HISTORY, history)
        fresh = initial_state(part.method, part.plan)
        store = run.store
        store.attach(fresh)
        store.write(Snapshot(max(1, state.round), kept, unflatten(dict(server)), seen))
    return site.path / name
