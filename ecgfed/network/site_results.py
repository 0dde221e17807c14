"""The end of a run at a site: store the trained model as a run of the site's own patients, score it, and export it.

Only the scores are sent to the server (``ecgfed.network.leaves.END_UP``). The server chooses when to end a run and what
it delivers, but it can never replace a result. The first run's result is ``result/``; further results have the run's ID
appended to their names. A run has one final result: an identical request returns the same scores, a different one is
refused.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.files import create_folder, read_json, remove, rename_folder, replacing_folder, write_json, write_text
from ecgfed.core.federation.train import initial_state
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.runs.checkpoint import Snapshot
from ecgfed.core.runs.history import HISTORY
from ecgfed.core.runs.run import create_run
from ecgfed.core.runs.tree_files import serialised
from ecgfed.domain.cohort.split import TEST, VALID
from ecgfed.exports.device.federation import FEDERATION
from ecgfed.network.budget import charge_scores
from ecgfed.network.errors import SiteError
from ecgfed.network.leaves import check_values, final_leaves
from ecgfed.network.private_answers import digest_of, noised_scores
from ecgfed.network.provenance import federation_of
from ecgfed.network.site_folder import Site
from ecgfed.network.site_run import SiteRun, run_folder
from ecgfed.tasks.evaluate import evaluate
from ecgfed.tasks.export import export

RESULT, BUNDLE = "result", "bundle"
#: Temporary folder of a result and a bundle until both are complete.
DELIVERING = "delivering"
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
    """Score the delivered model on the test split, and store it as the site's own run and its bundle.

    Nothing is stored under its final name before the model has been scored and exported, so a model that cannot be is
    no result, and another one may be delivered.

    Args:
        leaves: the leaves from the server, by path.

    Raises:
        SiteError: the leaves are not a complete and finite model of the method, or cannot be scored; or the run already
            has a different result here.
        StorageError: the result cannot be written.
    """
    server = server_state(site_run, leaves)
    site_run.begin()
    result, bundle = result_folders(site, site_run.run_spec.run)
    delivered = {"run": site_run.run_spec.run, "sha256": _digest(site_run, server)}
    if result.exists() and _json(result / DELIVERED) != delivered:
        reason = "is a different result of this run"
        raise SiteError("ended", result, reason, action="to replace it, move it away and start the server again")
    ended = _json(site_run.folder / ENDED)
    if result.exists() and bundle.exists() and ended.get("sha256") == delivered["sha256"]:
        return EndScores(*(ended[score.name] for score in fields(EndScores)))
    folder = site.path / DELIVERING
    partial, partial_bundle = folder / result.name, folder / bundle.name
    try:
        remove(folder)  # left over from a kill
        create_folder(folder, "free some space")
        run = result if result.exists() else write_result(site, site_run, server, partial, delivered)
        end = _scores_of(site, site_run, run, "test")
        if not bundle.exists():
            export(run, partial_bundle, cohort=site.cohort_path)
        for new, name in ((partial, result), (partial_bundle, bundle)):
            if new.exists():
                rename_folder(new, name)
    except StorageError:
        raise
    except EcgfedError as problem:
        raise SiteError("training", *problem.parts) from problem
    finally:
        remove(folder)
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
    server = server_state(site_run, leaves)
    site_run.begin()  # a run that is only scored counts as one, or its number of scores would have no limit
    try:
        remove(site.path / SCORED)  # left over from a kill
        folder = write_result(site, site_run, server, site.path / SCORED)
        try:
            return _scores_of(site, site_run, folder, "valid")
        finally:
            remove(folder)
    except StorageError:
        raise
    except EcgfedError as problem:
        raise SiteError("training", *problem.parts) from problem


def _scores_of(site: Site, site_run: SiteRun, run: Path, split: str) -> EndScores:
    """Return the scores of a run's folder on a split; none for a site without beats in it."""
    patients = len(site_run.data.clients)
    if not len(site_run.cohort.pool(TEST if split == "test" else VALID)):  # patients with few beats have none
        return EndScores(patients, None, None)
    scores = evaluate(run, cohort=site.cohort_path, split=split, local_models=False)
    if not (math.isfinite(scores.T_g) and math.isfinite(scores.T_p)):
        raise SiteError("training", run, f"has T_g {scores.T_g} and T_p {scores.T_p}", "finite scores")
    return EndScores(patients, scores.T_g, scores.T_p)


def private_scores(site: Site, site_run: SiteRun, leaves: Mapping[str, Tensor], split: str) -> tuple[EndScores, str]:
    """Return the scores that a site with a privacy budget reports, and a problem that only its log may name.

    Those of validation beats bear noise and are charged; where the budget does not allow them, and of test beats, there
    are none. Whether scoring succeeds makes no difference.

    Args:
        leaves: as in ``end_run``, checked with ``server_state``.
        split: ``valid`` or ``test``.

    Raises:
        SiteError: the site has no room for the run.
        StorageError: the site's folder cannot be written.
    """
    plan, patients, problem = site_run.plan, len(site_run.data.clients), ""
    withheld = EndScores(patients, None, None)
    site_run.begin()
    run, limit = site_run.run_spec, site.max_epsilon
    if split == "valid" and (
        limit is None or not charge_scores(site.path, limit, run.run, plan, site_run.state().round)
    ):
        return withheld, problem
    scores = withheld
    try:
        scores = score_run(site, site_run, leaves) if split == "valid" else end_run(site, site_run, leaves)
    except StorageError:
        raise
    except EcgfedError as error:
        problem = error.line
    except Exception as error:
        problem = f"{type(error).__name__}: {error!s:.300}"
    if split != "valid":
        return withheld, problem
    state = site_run.state()
    request = digest_of(json.dumps([run.as_text(), state.round, split]), leaves)
    secret = site_run.secret(state, site_run.data.clients.tolist(), request)
    t_g, t_p = (math.nan if score is None else score for score in (scores.t_g, scores.t_p))
    return EndScores(patients, *noised_scores(t_g, t_p, plan.dp_noise, secret)), problem


def server_state(site_run: SiteRun, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the run's server state with the leaves of a delivered model; what is not delivered is as at the start.

    Raises:
        SiteError: a leaf of the model is missing, is not one of the method's and net's, or is not finite.
    """
    start = initial_state(site_run.method, site_run.plan).server
    initial = flatten(start)
    for path, leaf in leaves.items():
        reference = initial.get(path)
        if reference is None or reference.shape != leaf.shape or reference.dtype != leaf.dtype:
            raise SiteError("model", f"leaf {path[:200]} from the server", "does not fit the run's method and net")
    if missing := [path for path in final_leaves(site_run.method, start) if path not in leaves]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SiteError("model", "the model from the server", f"lacks {missing[0]}{more}", "every leaf of the method's")
    check_values(leaves)
    return {**initial, **leaves}


def write_result(
    site: Site,
    site_run: SiteRun,
    server: Mapping[str, Tensor],
    folder: Path,
    delivered: Mapping[str, str] | None = None,
) -> Path:
    """Write a run folder with the site's patients under their own ids.

    Args:
        server: the server's state, leaves by path.
        folder: the folder to create.
        delivered: content of the file ``DELIVERED``; None writes no such file.

    Raises:
        EcgfedError: the folder exists, or cannot be written.
    """
    state, cohort, first = site_run.state(), site_run.cohort, site_run.run_spec.first
    trained = [client for client in state.client_states if state.client_states[client] or not site_run.check.stores]
    client_states = {site.index_of(client, first): (state.round, state.client_states[client]) for client in trained}
    beats_used = {site.index_of(client, first): state.beats_used[client] for client in trained}
    history = (site_run.folder / HISTORY).read_text() if (site_run.folder / HISTORY).is_file() else ""
    with replacing_folder(folder) as partial:
        federation = federation_of(site_run.run_spec, site_run.data).as_json()
        extra = {"device": "cpu", "engine": "flower", FEDERATION: federation}
        run = create_run(partial, cohort, site_run.method, site_run.plan, extra)
        write_text(partial / HISTORY, history)
        if delivered is not None:
            write_json(partial / DELIVERED, dict(delivered))
        store, fresh = run.store, initial_state(site_run.method, site_run.plan)
        store.attach(fresh)
        store.write(Snapshot(max(1, state.round), client_states, unflatten(dict(server)), beats_used))
    return folder
