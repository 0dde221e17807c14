"""The server's folder: what was asked for, who takes part, and the run.

server.json      what was asked for
roster.json      the sites, once all have said hello
run/             a run as ``ecgfed train`` makes it, but for what patients keep, which is at their sites
leaves.json      every leaf of the messages: name, what it is, shape, bytes
policy.json      how many sites a round needs and how long it waits for the others, as the server was last started
left_out.json    the sites that the last incomplete round went on without, and why
bound.json       how many bytes a site may send between two questions
scores.jsonl     with --eval-every: the sites' scores on the way
result.json      when the run is over: the sites' scores
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
from ecgfed.durable import make_folder
from ecgfed.errors import OptionError, StorageError
from ecgfed.federation.plan import MOST_COUNT, TrainPlan, check_passes, check_requirements, participants
from ecgfed.federation.updates import check_combining
from ecgfed.files import read_json, write_json
from ecgfed.methods.base import Method
from ecgfed.methods.registry import method_by_name
from ecgfed.methods.settings import make_settings
from ecgfed.nets.build import make_net
from ecgfed.nets.net import net_spec
from ecgfed.network.roster import Roster
from ecgfed.network.transport import PLAIN, check_transport
from ecgfed.plugins import names_code
from ecgfed.runs.document import FILE_NAME as RUN_FILE
from ecgfed.runs.document import SCHEMA_VERSION as RUN_SCHEMA
from ecgfed.runs.run import Run, open_run
from ecgfed.tasks.train_options import RECIPES

FILE_NAME, RUN, LEAVES, RESULT, SCORES = "server.json", "run", "leaves.json", "result.json", "scores.jsonl"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Asked:
    """What a federation was asked for; None is what ``ecgfed train`` takes.

    Attributes:
        sites: how many there are.
        method: a registered method.
        settings: of the method, by name.
        rounds: communication rounds, or None for ``passes``.
        passes: over all training beats.
        local_epochs: or ``local_steps``.
        local_steps: optimizer steps in a round.
        clients_per_round: participants.
        batch_size: beats of a step.
        seed: decides everything random.
        rr: whether the net takes RR features.
        net: architecture.
        norm: of the net.
        width: of the net.
        leave_out: as in ``TrainPlan``.
        transport: how updates travel, one of ``TRANSPORTS``.
        eval_every: have the sites score every n-th round on their validation beats; 0 is never.
        aggregation: as in ``TrainPlan``; so are ``dp_clip``, ``dp_noise`` and ``dp_at``.
        dp_clip: see there.
        dp_noise: see there.
        dp_at: see there.
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
            found = f"{self.method!s:.100}: a site runs nobody's code but what is installed there"
            raise OptionError("--method", found, "a registered name", "install it at every site as a package")
        check_transport(self.transport)
        if not 0 <= self.eval_every <= MOST_COUNT:
            raise OptionError("--eval-every", f"{self.eval_every}", "0 or more rounds")
        if not 1 <= self.sites <= 10_000:
            raise OptionError("--sites", f"{self.sites}", "1 to 10,000")
        if self.rounds is not None and self.passes is not None:
            raise OptionError("--rounds and --passes", "both given", "one of them")
        settings: Any = make_settings(method_by_name(self.method).settings_type, self.settings)
        if getattr(settings, "risk", "") == "meta-bsm":
            raise OptionError("--set risk", "meta-bsm, for which beats would leave their site", "another risk")
        if self.passes is not None:
            check_passes(self.passes)
        self.plan(1, 16)

    def options(self) -> dict[str, str]:
        """Return what is done to updates beside the method, for orders: some of ``ecgfed.network.orders.OPTIONS``."""
        return {} if self.transport == PLAIN else {"transport": self.transport}

    def plan(self, local_steps: int, batch_size: int) -> TrainPlan:
        """Return the plan, one round where nobody says how many; raises OptionError.

        Args:
            local_steps: where neither steps nor epochs were asked for.
            batch_size: where none was asked for.
        """
        counted = self.local_epochs is None and self.local_steps is None
        return TrainPlan(
            rounds=1 if self.rounds is None else self.rounds,
            local_epochs=self.local_epochs,
            local_steps=local_steps if counted else self.local_steps,
            clients_per_round=self.clients_per_round,
            batch_size=batch_size if self.batch_size is None else self.batch_size,
            seed=self.seed,
            leave_out=self.leave_out,
            aggregation=self.aggregation,
            dp_clip=self.dp_clip,
            dp_noise=self.dp_noise,
            dp_at=self.dp_at,
        )


def make_server(path: Path, asked: Asked) -> Asked:
    """Make a server's folder, or open the one that is there.

    Raises:
        OptionError: it was made for something else, which could be run.
        StorageError: it cannot be made.
    """
    if (path / FILE_NAME).exists() and not refused_asked(path):
        before = read_asked(path)
        for name, value in asdict(before).items():
            if getattr(asked, name) != value:
                option = "--set" if name == "settings" else f"--{name.replace('_', '-')}"
                found = getattr(asked, name)
                was = "left out" if value is None else f"{value}"
                raise OptionError(
                    option,
                    "was left out" if found is None else f"{found}",
                    f"{was}, as {path} was begun with",
                    "say the same every time, --prepare included, or choose a new folder",
                )
        return before
    _made(path, "choose another folder")
    write_json(path / FILE_NAME, {"schema_version": SCHEMA_VERSION, **asdict(asked)})
    return asked


def _made(folder: Path, action: str) -> None:
    try:
        make_folder(folder)
    except OSError as problem:
        raise StorageError(folder, f"cannot be made ({problem.strerror})", action=action) from problem


def refuse_asked(path: Path, problem: OptionError) -> None:
    """Write down that what was asked for cannot be run with these sites: another start may ask for something else.

    A run that has begun stays what it is. Raises StorageError.
    """
    if not (path / RUN / RUN_FILE).exists():
        about = {"schema_version": SCHEMA_VERSION, **asdict(read_asked(path)), "refused": problem.line}
        write_json(path / FILE_NAME, about)


def refused_asked(path: Path) -> str:
    """Return why what was asked for cannot be run, "" where it can or nobody knows yet; raises StorageError."""
    told = read_json(path / FILE_NAME, StorageError)
    begun = (path / RUN / RUN_FILE).exists()
    return str(told.get("refused", "")) if isinstance(told, dict) and not begun else ""


def read_asked(path: Path) -> Asked:
    """Read what a server's folder was made for; raises OptionError, StorageError."""
    file = path / FILE_NAME
    if not file.is_file():
        raise OptionError(
            str(path), "is no server's folder", f"one with a {FILE_NAME}", "begin with ecgfed federate server"
        )
    value = read_json(file, StorageError)
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"schema version {SCHEMA_VERSION}")
        known = {one.name for one in fields(Asked)}
        return Asked(**{name: part for name, part in value.items() if name in known})
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise StorageError(file, f"lacks {problem!s:.100}", "what a server was asked for", "restore it") from problem


def made(asked: Asked, roster: Roster) -> tuple[Method, TrainPlan]:
    """Return the method and the plan for these sites, as ``ecgfed train`` would for their cohorts as one.

    Raises:
        OptionError: a plan that the method, or the number of patients, does not allow.
    """
    kind = method_by_name(asked.method)
    spec = net_spec(
        len(roster.classes),
        roster.modality,
        architecture=asked.net,
        norm=asked.norm,
        rr=asked.rr,
        width=asked.width,
        rr_version=roster.rr_version,
    )
    settings: Any = make_settings(kind.settings_type, asked.settings)
    method = kind(make_net(spec), settings)
    recipe, data = RECIPES[roster.modality], roster.data()
    plan = asked.plan(1 if method.needs.one_step else recipe["local_steps"], recipe["batch_size"])
    participants(plan, data.clients, 1)
    if asked.rounds is None:
        passes = recipe["passes"] if asked.passes is None else asked.passes
        plan = plan.with_passes(passes, data.train_examples, method.needs.batches_per_step)
    check_requirements(method.needs, plan, len(data.clients))
    check_combining(method, plan)
    return method, plan


def check_run(path: Path, asked: Asked, roster: Roster) -> None:
    """Refuse a run that these sites cannot do, unless it has begun; raises OptionError, NetworkError."""
    if not (path / RUN / RUN_FILE).exists():
        made(asked, roster)


def server_run(path: Path, asked: Asked, roster: Roster) -> Run:
    """Make the server's run, or open the one that is there.

    Raises:
        RunError: it is damaged, or of other sites: their patients or counts have changed.
        StorageError: the disk refuses.
    """
    folder = path / RUN
    if not (folder / RUN_FILE).exists():
        method, plan = made(asked, roster)
        _made(folder, "free some space")
        write_json(folder / RUN_FILE, {**_document(method, plan, roster), **asked.options()})
    return open_run(folder)


def _document(method: Method, plan: TrainPlan, roster: Roster) -> Mapping[str, Any]:
    """``run.json`` as of any run; patients have numbers for names, and the cohort is the sites' together."""
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
