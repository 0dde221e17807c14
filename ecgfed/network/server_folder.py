"""The server's folder: its configuration, the sites, and the run.

server.json      the configuration
roster.json      the sites, once all have registered
run/             a run as created by ``ecgfed train``, but without the clients' state, which stays at their sites; in
                 ``rounds/`` the checkpoints of earlier rounds, for ``--back-to``
leaves.json      every leaf of the messages: name, description, shape, bytes
policy.json      how many sites a round needs and how long it waits for the others, from the server's last start
left_out.json    the sites that the last incomplete round skipped, and why
bound.json       how many bytes a site may upload between two requests
updates.jsonl    how long every site's update was, round by round
scores.jsonl     with --eval-every: the sites' intermediate scores
result.json      when the run is finished: the sites' scores
tls/, flower/    certificates and Flower's own files
"""

import platform
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed import __version__
from ecgfed.base.errors import OptionError, StorageError, param
from ecgfed.base.files import create_folder, read_json, write_json
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Method
from ecgfed.core.runs.document import FILE_NAME as RUN_FILE
from ecgfed.core.runs.document import SCHEMA_VERSION as RUN_SCHEMA
from ecgfed.core.runs.document import identity_of
from ecgfed.core.runs.run import Run, open_run
from ecgfed.exports.device.federation import FEDERATION, Federation
from ecgfed.network.config import FederationConfig
from ecgfed.network.provenance import sources_of
from ecgfed.network.roster import Roster
from ecgfed.tasks.train_options import build_method_and_plan

FILE_NAME, RUN, LEAVES, RESULT, SCORES = "server.json", "run", "leaves.json", "result.json", "scores.jsonl"
SCHEMA_VERSION = 1


def make_server(path: Path, config: FederationConfig) -> FederationConfig:
    """Create a server's folder, or open an existing one.

    Raises:
        OptionError: the folder exists with another configuration that was not refused.
        StorageError: the folder cannot be created.
    """
    if (path / FILE_NAME).exists() and not config_refusal(path):
        existing = read_config(path)
        for name, expected in asdict(existing).items():
            if (value := getattr(config, name)) != expected:
                reason = "was left out" if value is None else f"{value}"
                created_with = f"{'left out' if expected is None else expected}, as when {path} was created"
                action = f"give the same options every time, {param('prepare')} included, or choose a new folder"
                raise OptionError(name, reason, created_with, action, code="contradiction")
        return existing
    create_folder(path)
    write_json(path / FILE_NAME, {"schema_version": SCHEMA_VERSION, **asdict(config)})
    return config


def record_refusal(path: Path, problem: OptionError) -> None:
    """Record that this configuration cannot run with these sites, so another start may change it.

    Does nothing once the run exists. Raises StorageError.
    """
    if not (path / RUN / RUN_FILE).exists():
        document = {"schema_version": SCHEMA_VERSION, **asdict(read_config(path)), "refused": problem.line}
        write_json(path / FILE_NAME, document)


def config_refusal(path: Path) -> str:
    """Return why the configuration cannot run, "" if it can or was not checked yet; raises StorageError."""
    document = read_json(path / FILE_NAME, StorageError)
    started = (path / RUN / RUN_FILE).exists()
    return str(document.get("refused", "")) if isinstance(document, dict) and not started else ""


def read_config(path: Path) -> FederationConfig:
    """Read the configuration in a server's folder; raises OptionError, StorageError."""
    file = path / FILE_NAME
    if not file.is_file():
        expected = f"a folder with {FILE_NAME}"
        raise OptionError(str(path), "is not a server's folder", expected, "create it with ecgfed federate server")
    value = read_json(file, StorageError)
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"schema version {SCHEMA_VERSION}")
        known = {config_field.name for config_field in fields(FederationConfig)}
        return FederationConfig(**{name: part for name, part in value.items() if name in known})
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise StorageError(file, f"lacks {problem!s:.100}", "a server's configuration", "restore it") from problem


def method_and_plan(config: FederationConfig, roster: Roster) -> tuple[Method, TrainPlan]:
    """Return the method and the plan for these sites, as ``ecgfed train`` would for their concatenated cohorts.

    Raises:
        OptionError: the plan is not valid for the method or the number of patients.
    """
    shape = len(roster.classes), roster.modality, roster.rr_version
    return build_method_and_plan(config, config.settings, shape, lambda rr, weak: roster.data())


def check_run(path: Path, config: FederationConfig, roster: Roster) -> None:
    """Refuse a run that is not valid for these sites, unless it exists already; raises OptionError, NetworkError."""
    if not (path / RUN / RUN_FILE).exists():
        method_and_plan(config, roster)


def server_run(path: Path, config: FederationConfig, roster: Roster) -> Run:
    """Create the server's run, or open an existing one.

    Raises:
        RunError: it is damaged, or the sites' patients or counts have changed.
        StorageError: it cannot be written.
    """
    folder = path / RUN
    if not (folder / RUN_FILE).exists():
        method, plan = method_and_plan(config, roster)
        create_folder(folder, "free some space")
        document = {**_document(method, plan, roster), **config.options()}
        _write_run(folder, document, config, roster)
    run = open_run(folder)
    if FEDERATION not in run.meta:  # begun with protocol 2
        _write_run(folder, run.meta, config, roster)
        run = open_run(folder)
    return run


def _write_run(folder: Path, document: Mapping[str, Any], config: FederationConfig, roster: Roster) -> None:
    """Write ``run.json`` with the federation's sites; raises StorageError."""
    federation = Federation(identity_of(document), sources_of(roster.sites, config.site_names))
    write_json(folder / RUN_FILE, {**document, FEDERATION: federation.as_json()})


def _document(method: Method, plan: TrainPlan, roster: Roster) -> Mapping[str, Any]:
    """Return ``run.json``; patients are named by their numbers, and the cohort is that of all sites together."""
    return {
        "schema_version": RUN_SCHEMA,
        "tool_version": __version__,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "cohort": {"path": "at-the-sites", "fingerprint": roster.fingerprint},
        "classes": list(roster.classes),
        "clients": [str(number) for number in roster.data().clients.tolist()],
        "net": method.net.spec.as_json(),
        "method": type(method).name,
        "settings": asdict(method.settings),
        "plan": plan.as_json(),
        "device": "cpu",
        "engine": "flower",
    }
