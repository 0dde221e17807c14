"""The status of a server or a site, read from its folder during or after a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import read_json
from ecgfed.base.text import count_of, safe_text
from ecgfed.core.privacy.accountant import DELTA
from ecgfed.core.runs.document import FILE_NAME as RUN_FILE
from ecgfed.core.runs.document import finished_rounds
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.core.runs.run import open_run
from ecgfed.network.audit import AUDIT, answered
from ecgfed.network.budget import epsilon_spent, spent_by
from ecgfed.network.leaves import Leaf
from ecgfed.network.policy import read_policy
from ecgfed.network.roster import read_roster
from ecgfed.network.server_app import ENDED as ENDED_AT_SERVER
from ecgfed.network.server_app import MESSAGES
from ecgfed.network.server_folder import FILE_NAME as SERVER_FILE
from ecgfed.network.server_folder import LEAVES, RESULT, RUN, config_refusal, read_config
from ecgfed.network.site_folder import FILE_NAME as SITE_FILE
from ecgfed.network.site_folder import open_site
from ecgfed.network.site_results import BUNDLE, DELIVERED, ENDED, scores_in_words
from ecgfed.network.site_results import RESULT as RESULT_AT_SITE
from ecgfed.network.site_run import RUNS


@dataclass(frozen=True)
class Status:
    """The status of a server or a site.

    Attributes:
        kind: ``server`` or ``site``.
        folder: the server's or site's folder.
        values: the status, JSON-ready.
        lines: the status as text.
        leaves: for a server, every leaf of its messages.
    """

    kind: str
    folder: Path
    values: dict[str, Any]
    lines: list[str]
    leaves: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the status as a JSON-ready dict."""
        return {"kind": self.kind, "folder": str(self.folder), **self.values, "leaves": self.leaves}

    def sentences(self) -> list[str]:
        """Return the status as text lines."""
        return self.lines


def status_of(folder: Path) -> Status:
    """Read the status of a server's or a site's folder.

    Raises:
        OptionError: the folder is neither a server's nor a site's.
        EcgfedError: the folder is damaged.
    """
    if (folder / SERVER_FILE).is_file():
        return _server(folder)
    if (folder / SITE_FILE).is_file():
        return _site(folder)
    expected = f"a folder with {SERVER_FILE} or {SITE_FILE}"
    raise OptionError(str(folder), "is neither a server's nor a site's folder", expected)


def _server(folder: Path) -> Status:
    config, roster = read_config(folder), read_roster(folder)
    values: dict[str, Any] = {"method": config.method, "sites": config.sites, "round": 0, "rounds": None}
    policy = read_policy(folder)
    wait_s = policy.timeout_s if policy.min_sites else None
    values |= {"min_sites": policy.min_sites, "wait_s": wait_s, "transport": config.transport}
    needed = "all of them" if policy.min_sites is None else f"{policy.min_sites} of them, after {policy.timeout_s:g} s"
    values["secure_aggregation"] = config.secure_aggregation
    lines = [f"Server of {count_of(config.sites, 'site')}, method {config.method}; a round needs {needed}."]
    if config.secure_aggregation:
        lines.append("Secure aggregation: it learns only sums of the sites' updates.")
    if refused := config_refusal(folder):
        values["refused"] = refused
        lines.append(f"It could not start: {refused}. Start it again with other options.")
    if roster is not None:
        values["patients"] = [len(site.clients) for site in roster.sites]
        lines.append("; ".join(f"{site.name}: {count_of(len(site.clients), 'patient')}" for site in roster.sites) + ".")
    if (folder / RUN / RUN_FILE).is_file():
        run = open_run(folder / RUN)
        history = read_lines(run.path / HISTORY, finished := run.store.rounds())
        last = history[-1] if history else {}
        values |= {"round": finished, "rounds": run.plan.rounds, "loss_mean": last.get("loss_mean")}
        with _reading(run.path / HISTORY):
            losses = f", loss mean {last['loss_mean']:.3f} max {last['loss_max']:.3f}" if last else ""
            lines.append(f"Round {finished} of {run.plan.rounds}{losses}.")
            values["left_out"] = missed = _missed_rounds(history)
            for name, rounds in missed.items():
                several = f"{count_of(len(rounds), 'round')}, the last of them {rounds[-1]}"
                rounds_text = several if len(rounds) > 1 else f"round {rounds[0]}"
                reason = history[rounds[-1] - 1]["left_out"][name]
                lines.append(f"Site {name} missed {rounds_text}: it {reason}.")
    if (folder / MESSAGES).is_file():
        messages = (folder / MESSAGES).read_text("utf-8", errors="replace").splitlines()
        lines += [f"Last message: {message}" for message in messages[-1:]]
    if not refused and (problem := _why_ended(folder)):
        values["problem"] = problem
        lines.append(f"Its last session ended early: {problem}. Start it again to resume.")
    if (folder / RESULT).is_file():
        values["result"] = result = read_json(folder / RESULT, StorageError)
        with _reading(folder / RESULT):
            each = (f"{entry['site']} {scores_in_words(entry)}" for entry in result["sites"])
            lines.append(f"Done. On each site's own test beats: {'; '.join(each)}.")
            if result.get("missing"):
                sites = ", ".join(result["missing"])
                lines.append(f"No result yet at {sites}: run the same 'ecgfed federate server' to send it again.")
    leaves: list[dict[str, Any]] = []
    if (folder / LEAVES).is_file():
        document = read_json(folder / LEAVES, StorageError)
        with _reading(folder / LEAVES):
            leaves = [Leaf.from_json(entry).as_json() for entry in document["leaves"]]
    return Status("server", folder, values, lines, leaves)


def _why_ended(folder: Path) -> str:
    """Return why the server's last session ended early, "" if it did not."""
    if not (folder / ENDED_AT_SERVER).is_file():
        return ""
    document = read_json(folder / ENDED_AT_SERVER, StorageError)
    with _reading(folder / ENDED_AT_SERVER):
        return safe_text(document["problem"][:1000]).rstrip(".")


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn errors from malformed content of a file into StorageError."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
        raise StorageError(file, f"has invalid content ({problem!s:.100})", action="restore it") from problem


def _missed_rounds(history: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return the rounds that each site took no part in though it was asked, by its name."""
    missed: dict[str, list[int]] = {}
    for line in history:
        for name in line.get("left_out", {}):
            missed.setdefault(str(name), []).append(int(line["round"]))
    return missed


def _results(folder: Path) -> dict[str, str]:
    """Return the results in a site's folder: name -> run, "" if unknown."""
    results = {}
    for path in (folder / RESULT_AT_SITE, *sorted(folder.glob(f"{RESULT_AT_SITE}-*"))):
        if path.is_dir():
            document = read_json(path / DELIVERED, StorageError) if (path / DELIVERED).is_file() else {}
            with _reading(path / DELIVERED):
                results[path.name] = str(document.get("run", ""))
    return results


def _site(folder: Path) -> Status:
    site = open_site(folder)
    runs = sorted(path for path in (folder / RUNS).glob("*") if path.is_dir())
    values: dict[str, Any] = {"cohort": str(site.cohort_path), "patients": len(site.order), "runs": {}}
    lines = [f"Site with {count_of(len(site.order), 'patient')}, cohort {site.cohort_path}."]
    for path in runs:
        finished = finished_rounds(path, "")
        values["runs"][path.name] = finished
        suffix = "" if (path / ENDED).is_file() else ", not finished here"
        lines.append(f"Run {path.name}: took part up to round {finished}{suffix}; its patients' state is in {path}.")
    values |= site.limits.as_json()
    most_runs, most_rounds = count_of(site.limits.runs, "run"), count_of(site.limits.rounds, "round")
    lines.append(f"It takes part in at most {most_runs}, each of at most {most_rounds}.")
    if site.partners is not None:
        values["partners"] = str(site.partners)
        lines.append(f"It sends updates only in sums with the sites whose keys are in {site.partners}.")
    if (folder / AUDIT).is_file():
        refused = answered(folder, lambda line: str(line["answer"]).startswith("refused"))
        values["questions"], values["refused"] = answered(folder, lambda line: True), refused
        asked = count_of(values["questions"], "question")
        lines.append(f"It was asked {asked}, and refused {refused}: see 'ecgfed federate audit {folder}'.")
    if site.max_epsilon is not None:
        values["most_epsilon"], values["epsilon"] = site.max_epsilon, epsilon_spent(folder)
        lines.append(f"Privacy: epsilon {values['epsilon']:.3g} of {site.max_epsilon:g} spent at delta {DELTA:g}.")
        charged = {run[: len(path.name)] for path in runs for run in spent_by(folder)}
        if uncharged := [path.name for path in runs if values["runs"][path.name] and path.name not in charged]:
            lines.append(f"Not included, because they started before the budget was set: {', '.join(uncharged)}.")
    values["results"] = results = _results(folder)
    for name, run in results.items():
        bundle = folder / name.replace(RESULT_AT_SITE, BUNDLE, 1)
        their_bundle = f"; their bundle: {bundle}" if bundle.exists() else ""
        lines.append(f"Its patients' run{f' of run {run[:16]}' if run else ''}: {folder / name}{their_bundle}.")
    return Status("site", folder, values, lines)
