"""The end of a run at a site: store the trained model as a run of the site's own patients, score it, and export it.

Only the scores are sent to the server (``ecgfed.network.leaves.END_UP``). The server chooses when to end a run and what
it delivers, but it can never replace a result. The first run's result is ``result/``; further results have the run's ID
appended to their names. A run has one final result: an identical request returns the same scores, a different one is
refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.files import read_json, remove, replacing_folder, write_json, write_text
from ecgfed.core.evaluation.result import Scores
from ecgfed.core.federation.train import initial_state
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.runs.checkpoint import Snapshot
from ecgfed.core.runs.history import HISTORY
from ecgfed.core.runs.run import create_run
from ecgfed.core.runs.tree_files import serialised
from ecgfed.domain.cohort.split import TEST, VALID
from ecgfed.exports.device.federation import FEDERATION
from ecgfed.network.errors import SiteError
from ecgfed.network.provenance import federation_of
from ecgfed.network.site_folder import Site
from ecgfed.network.site_run import SiteRun, run_folder
from ecgfed.tasks.evaluate import evaluate
from ecgfed.tasks.export import export

RESULT, BUNDLE = "result", "bundle"
#: In a result: its run, and the SHA-256 of its inputs. In a run's folder: the scores, once the result is complete.
DELIVERED, ENDED = "delivered.json", "ended.json"
#: Temporary folder of a run while it is scored between rounds.
SCORED = "scored"


@dataclass(frozen=True)
class EndScores:
    """A site's scores, as described in ``END_UP``; None if the site has none or does not report them."""

    patients: int
    t_g: float | None
    t_p: float | None

    def as_json(self) -> dict[str, float]:
        """Return the reported scores for files and messages."""
        values = {"patients": self.patients, "T_g": self.t_g, "T_p": self.t_p}
        return {name: value for name, value in values.items() if value is not None}


def scores_in_words(scores: Mapping[str, Any]) -> str:
    """Return a text for a site's scores from ``EndScores.as_json``."""
    if "T_g" not in scores:
        return "does not report its scores (it has a privacy budget) or has no beats to score"
    return f"T_g {scores['T_g']:.3f}, T_p {scores['T_p']:.3f}"


def end_run(site: Site, site_run: SiteRun, leaves: Mapping[str, Tensor]) -> EndScores:
    """Store the site's own run, score it on the test split, and export its bundle.

    Args:
        leaves: the leaves from the server, by path.

    Raises:
        SiteError: the leaves do not fit the method and net, or cannot be evaluated; or the run already has a different
            result here.
        StorageError: the result cannot be written.
    """
    server = _server_state(site_run, leaves)
    site_run.begin()
    result, bundle = result_folders(site, site_run.run_spec.run)
    delivered = {"run": site_run.run_spec.run, "sha256": _digest(site_run, server)}
    if result.exists() and _json(result / DELIVERED) != delivered:
        reason = "is a different result of this run"
        raise SiteError("ended", result, reason, action="to replace it, move it away and start the server again")
    ended = _json(site_run.folder / ENDED)
    if result.exists() and bundle.exists() and ended.get("sha256") == delivered["sha256"]:
        return EndScores(*(ended[score.name] for score in fields(EndScores)))
    try:
        if not result.exists():
            write_result(site, site_run, server, result.name, delivered)
        scored = len(site_run.cohort.pool(TEST))  # patients with few beats have no test beats
        scores = evaluate(result, cohort=site.cohort_path, local_models=False) if scored else None
        if not bundle.exists():
            export(result, bundle, cohort=site.cohort_path)
    except StorageError:
        raise
    except EcgfedError as problem:
        raise SiteError("training", *problem.parts) from problem
    end = _end_scores(site_run, scores)
    write_json(site_run.folder / ENDED, {"sha256": delivered["sha256"], **asdict(end)})
    return end


def result_folders(site: Site, run: str) -> tuple[Path, Path]:
    """Return the folders of a run's result and bundle: ``result`` and ``bundle`` unless another run has taken them.

    Args:
        run: the run's SHA-256.
    """
    default = site.path / RESULT, site.path / BUNDLE
    name = run_folder(site, run).name
    numbered = site.path / f"{RESULT}-{name}", site.path / f"{BUNDLE}-{name}"
    taken = default[0].exists() or default[1].exists()
    if numbered[0].exists() or (taken and _json(default[0] / DELIVERED).get("run") != run):
        return numbered
    return default


def _json(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file, empty if there is no file; raises StorageError."""
    value = read_json(file, StorageError) if file.is_file() else {}
    if not isinstance(value, dict):
        raise StorageError(file, "is not a JSON object", action="move its folder away")
    return value


def _digest(site_run: SiteRun, server: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of a result's inputs: the run, the last committed round, and the server's leaves."""
    digest = hashlib.sha256(json.dumps([site_run.run_spec.as_text(), site_run.state().round]).encode())
    digest.update(serialised(unflatten(dict(server))))
    return digest.hexdigest()


def score_run(site: Site, site_run: SiteRun, leaves: Mapping[str, Tensor]) -> EndScores:
    """Score the current model on the validation split without storing a result; arguments as in ``end_run``."""
    server = _server_state(site_run, leaves)
    if not len(site_run.cohort.pool(VALID)):
        return _end_scores(site_run, None)
    try:
        remove(site.path / SCORED)  # left over from a kill
        folder = write_result(site, site_run, server, SCORED)
        try:
            scores = evaluate(folder, cohort=site.cohort_path, split="valid", local_models=False)
        finally:
            remove(folder)
    except StorageError:
        raise
    except EcgfedError as problem:
        raise SiteError("training", *problem.parts) from problem
    return _end_scores(site_run, scores)


def _end_scores(site_run: SiteRun, scores: Scores | None) -> EndScores:
    patients = len(site_run.data.clients)
    return EndScores(patients, None, None) if scores is None else EndScores(patients, scores.T_g, scores.T_p)


def _server_state(site_run: SiteRun, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the initial server state, updated with the leaves from the server; raises SiteError."""
    initial = flatten(initial_state(site_run.method, site_run.plan).server)
    for path, leaf in leaves.items():
        reference = initial.get(path)
        if reference is None or reference.shape != leaf.shape or reference.dtype != leaf.dtype:
            raise SiteError("request", f"leaf {path[:200]} from the server", "does not fit the run's method and net")
    return {**initial, **leaves}


def write_result(
    site: Site,
    site_run: SiteRun,
    server: Mapping[str, Tensor],
    name: str = RESULT,
    delivered: Mapping[str, str] | None = None,
) -> Path:
    """Write a run folder with the site's patients under their own ids.

    Args:
        server: the server's state, leaves by path.
        name: name of the folder, which must not exist.
        delivered: content of the file ``DELIVERED``; None writes no such file.

    Raises:
        EcgfedError: the folder exists, or cannot be written.
    """
    state, cohort, first = site_run.state(), site_run.cohort, site_run.run_spec.first
    client_states = {
        site.index_of(client, first): (state.round, state.client_states[client]) for client in state.client_states
    }
    beats_used = {site.index_of(client, first): count for client, count in state.beats_used.items()}
    history = (site_run.folder / HISTORY).read_text() if (site_run.folder / HISTORY).is_file() else ""
    with replacing_folder(site.path / name) as partial:
        federation = federation_of(site_run.run_spec, site_run.data).as_json()
        extra = {"device": "cpu", "engine": "flower", FEDERATION: federation}
        run = create_run(partial, cohort, site_run.method, site_run.plan, extra)
        write_text(partial / HISTORY, history)
        if delivered is not None:
            write_json(partial / DELIVERED, dict(delivered))
        store, fresh = run.store, initial_state(site_run.method, site_run.plan)
        store.attach(fresh)
        store.write(Snapshot(max(1, state.round), client_states, unflatten(dict(server)), beats_used))
    return site.path / name
