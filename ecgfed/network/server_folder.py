"""The server's folder: its configuration, the sites, and the run.

server.json      the configuration
roster.json      the sites, once all have registered
run/             a run as created by ``ecgfed train``, but without the clients' state, which stays at their sites
leaves.json      every leaf of the messages: name, description, shape, bytes
policy.json      how many sites a round needs and how long it waits for the others, from the server's last start
left_out.json    the sites that the last incomplete round skipped, and why
bound.json       how many bytes a site may upload between two requests
scores.jsonl     with --eval-every: the sites' intermediate scores
result.json      when the run is finished: the sites' scores
tls/, flower/    certificates and Flower's own files
"""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed import __version__
from ecgfed.base.errors import OptionError, StorageError, param
from ecgfed.base.files import create_folder, read_json, write_json
from ecgfed.base.plugins import names_code
from ecgfed.core.federation.plan import MOST_COUNT, TrainPlan, check_passes, check_requirements, participants
from ecgfed.core.federation.updates import check_combining
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import net_spec
from ecgfed.core.runs.document import FILE_NAME as RUN_FILE
from ecgfed.core.runs.document import SCHEMA_VERSION as RUN_SCHEMA
from ecgfed.core.runs.run import Run, open_run
from ecgfed.network.roster import Roster
from ecgfed.network.transport import PLAIN, check_transport
from ecgfed.tasks.train_options import RECIPES

FILE_NAME, RUN, LEAVES, RESULT, SCORES = "server.json", "run", "leaves.json", "result.json", "scores.jsonl"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class FederationConfig:
    """A federation's configuration; None selects the default of ``ecgfed train``.

    Attributes:
        sites: number of sites.
        method: a registered method.
        settings: the method's settings, by name.
        rounds: communication rounds, or None to use ``passes``.
        passes: passes over all training beats.
        local_epochs: epochs per client and round, or None to use ``local_steps``.
        local_steps: optimizer steps per client and round.
        clients_per_round: number of participating clients per round.
        batch_size: beats per step.
        seed: seed of all randomness.
        rr: whether the net takes RR features.
        net: architecture of the net.
        norm: normalisation of the net.
        width: width factor of the net.
        leave_out: as in ``TrainPlan``.
        transport: encoding of the updates, one of ``TRANSPORTS``.
        eval_every: score every n-th round on the sites' validation beats; 0 is never.
        aggregation: as in ``TrainPlan``.
        dp_clip: as in ``TrainPlan``.
        dp_noise: as in ``TrainPlan``.
        dp_at: as in ``TrainPlan``.
    """

    sites: int
    method: str = "grp-fed"
    settings: dict[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    passes: float | None = None
    local_epochs: int | None = None
    local_steps: int | None = None
    clients_per_round: int | None = None
    batch_size: int | None = None
    seed: int = 0
    rr: bool | None = None
    net: str | None = None
    norm: str | None = None
    width: float = 1.0
    leave_out: str = "nothing"
    transport: str = PLAIN
    eval_every: int = 0
    aggregation: str = "mean"
    dp_clip: float = 0.0
    dp_noise: float = 0.0
    dp_at: str = "server"

    def __post_init__(self) -> None:
        if names_code(self.method):
            reason = f"{self.method!s:.100}: a site runs only code that is installed there"
            raise OptionError("method", reason, "a registered name", "install it at every site as a package")
        check_transport(self.transport)
        if not 0 <= self.eval_every <= MOST_COUNT:
            raise OptionError("eval_every", f"{self.eval_every}", "0 or more rounds")
        if not 1 <= self.sites <= 10_000:
            raise OptionError("sites", f"{self.sites}", "1 to 10,000")
        if self.rounds is not None and self.passes is not None:
            raise OptionError(f"{param('rounds')} and {param('passes')}", "both given", "one of them", code="conflict")
        settings: Any = make_settings(method_by_name(self.method).settings_type, self.settings)
        if getattr(settings, "risk", "") == "meta-bsm":
            raise OptionError(
                f"{param('settings')} risk", "meta-bsm, for which beats would leave their site", "another risk"
            )
        if self.passes is not None:
            check_passes(self.passes)
        self.plan(1, 16)

    def options(self) -> dict[str, str]:
        """Return the ``ecgfed.network.run_spec.OPTIONS`` that differ from their defaults."""
        return {} if self.transport == PLAIN else {"transport": self.transport}

    def plan(self, local_steps: int, batch_size: int) -> TrainPlan:
        """Return the training plan, with one round if ``rounds`` is None; raises OptionError.

        Args:
            local_steps: default if neither steps nor epochs are set.
            batch_size: default batch size.
        """
        default_steps = self.local_epochs is None and self.local_steps is None
        return TrainPlan(
            rounds=1 if self.rounds is None else self.rounds,
            local_epochs=self.local_epochs,
            local_steps=local_steps if default_steps else self.local_steps,
            clients_per_round=self.clients_per_round,
            batch_size=batch_size if self.batch_size is None else self.batch_size,
            seed=self.seed,
            leave_out=self.leave_out,
            aggregation=self.aggregation,
            dp_clip=self.dp_clip,
            dp_noise=self.dp_noise,
            dp_at=self.dp_at,
        )


def make_server(path: Path, config: FederationConfig) -> FederationConfig:
    """Create a server's folder, or open an existing one.

    Raises:
        OptionError: the folder exists with another configuration that was not refused.
        StorageError: the folder cannot be created.
    """
    if (path / FILE_NAME).exists() and not config_refusal(path):
        existing = read_config(path)
        for name, expected in asdict(existing).items():
            if getattr(config, name) != expected:
                value = getattr(config, name)
                created_with = "left out" if expected is None else f"{expected}"
                raise OptionError(
                    name,
                    "was left out" if value is None else f"{value}",
                    f"{created_with}, as when {path} was created",
                    f"give the same options every time, {param('prepare')} included, or choose a new folder",
                    code="contradiction",
                )
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
        raise OptionError(
            str(path), "is not a server's folder", f"a folder with {FILE_NAME}", "create it with ecgfed federate server"
        )
    value = read_json(file, StorageError)
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"schema version {SCHEMA_VERSION}")
        known = {config_field.name for config_field in fields(FederationConfig)}
        return FederationConfig(**{name: part for name, part in value.items() if name in known})
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise StorageError(file, f"lacks {problem!s:.100}", "a server's configuration", "restore it") from problem


def build_method_and_plan(config: FederationConfig, roster: Roster) -> tuple[Method, TrainPlan]:
    """Return the method and the plan for these sites, as ``ecgfed train`` would for their concatenated cohorts.

    Raises:
        OptionError: the plan is not valid for the method or the number of patients.
    """
    kind = method_by_name(config.method)
    spec = net_spec(
        len(roster.classes),
        roster.modality,
        architecture=config.net,
        norm=config.norm,
        rr=config.rr,
        width=config.width,
        rr_version=roster.rr_version,
    )
    settings: Any = make_settings(kind.settings_type, config.settings)
    method = kind(make_net(spec), settings)
    recipe, data = RECIPES[roster.modality], roster.data()
    plan = config.plan(1 if method.requirements.single_step else recipe["local_steps"], recipe["batch_size"])
    participants(plan, data.clients, 1)
    if config.rounds is None:
        passes = recipe["passes"] if config.passes is None else config.passes
        plan = plan.with_passes(passes, data.train_examples, method.requirements.batches_per_step)
    check_requirements(method.requirements, plan, len(data.clients))
    check_combining(method, plan)
    return method, plan


def check_run(path: Path, config: FederationConfig, roster: Roster) -> None:
    """Refuse a run that is not valid for these sites, unless it exists already; raises OptionError, NetworkError."""
    if not (path / RUN / RUN_FILE).exists():
        build_method_and_plan(config, roster)


def server_run(path: Path, config: FederationConfig, roster: Roster) -> Run:
    """Create the server's run, or open an existing one.

    Raises:
        RunError: it is damaged, or the sites' patients or counts have changed.
        StorageError: it cannot be written.
    """
    folder = path / RUN
    if not (folder / RUN_FILE).exists():
        method, plan = build_method_and_plan(config, roster)
        create_folder(folder, "free some space")
        write_json(folder / RUN_FILE, {**_document(method, plan, roster), **config.options()})
    return open_run(folder)


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
        "plan": asdict(plan),
        "device": "cpu",
        "engine": "flower",
    }
