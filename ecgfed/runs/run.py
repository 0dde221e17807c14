"""The run folder: ``run.json`` (what was asked for), ``history.jsonl``, ``timing.jsonl``, ``checkpoint/``."""

import hashlib
import platform
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed import __version__
from ecgfed.cohort.cohort import Cohort, open_cohort
from ecgfed.durable import make_folder
from ecgfed.errors import CohortError, EcgfedError, RunError
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.state import State
from ecgfed.files import is_temporary, write_json
from ecgfed.methods.base import Method
from ecgfed.methods.registry import method_by_name, name_of
from ecgfed.methods.settings import stored_settings
from ecgfed.nets.build import make_net
from ecgfed.nets.net import Net, NetSpec
from ecgfed.runs.checkpoint import CheckpointStore
from ecgfed.runs.document import FILE_NAME as FILE_NAME
from ecgfed.runs.document import SCHEMA_VERSION, identity_of, read_run_json
from ecgfed.runs.history import HISTORY, read_lines


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """One training run.

    Attributes:
        path: its folder.
        method: the method, with its net and settings.
        plan: rounds, local work, seeds.
        cohort_path: where the cohort lay when the run began.
        fingerprint: of that cohort.
        meta: everything in ``run.json``.
    """

    path: Path
    method: Method
    plan: TrainPlan
    cohort_path: Path
    fingerprint: str
    meta: dict[str, Any]

    @property
    def net(self) -> Net:
        """The net the method trains."""
        return self.method.net

    @property
    def store(self) -> CheckpointStore:
        """The run's checkpoints."""
        return CheckpointStore(self.path, self.identity)

    @cached_property
    def identity(self) -> str:
        """What a checkpoint of this run carries (``identity_of``)."""
        return identity_of(self.meta)

    def cohort(self, path: Path | None = None) -> Cohort:
        """Open the cohort the run was trained on.

        Args:
            path: where it lies now, when it has moved.

        Raises:
            CohortError: it cannot be opened.
            RunError: it is another cohort.
        """
        cohort = open_cohort(path or self.cohort_path)
        if cohort.fingerprint != self.fingerprint:
            raise RunError(
                self.path,
                f"was trained on another cohort than {cohort.path} is now (fingerprints differ)",
                action="name the right one with --cohort",
            )
        return cohort

    def unchanged_cohort(self, path: Path | None = None) -> Cohort:
        """Open the cohort as ``cohort`` does, and read all of it to see that its arrays are still what they were.

        Raises:
            CohortError: it cannot be opened, or an array has changed since it was prepared.
            RunError: it is another cohort.
        """
        cohort = self.cohort(path)
        for name, digest in cohort.meta.get("sha256", {}).items():
            array = np.ascontiguousarray(cohort.arrays[name])
            if hashlib.sha256(array.data if array.size else b"").hexdigest() != digest:
                raise CohortError(
                    cohort.path / f"{name}.npy",
                    "has changed since the cohort was prepared (SHA-256 differs)",
                    "the beats this run was begun with",
                    "prepare the cohort again, as it was",
                )
        return cohort

    def state(self) -> State:
        """Load the last checkpoint; raises RunError where there is none."""
        if not self.store.exists():
            raise RunError(self.path, "has no finished round", action="train it with 'ecgfed train ... --resume'")
        return self.store.load()

    def last_record(self) -> dict[str, Any]:
        """Return the numbers of the last saved round's line in the history: losses, passes, validation scores.

        Raises:
            RunError: no round is finished, or the history lacks it.
        """
        lines = read_lines(self.path / HISTORY, self.store.rounds())
        if not lines:
            raise RunError(self.path / HISTORY, "holds no finished round", action="train it with --resume")
        return {name: value for name, value in lines[-1].items() if name not in ("round", "clients", "losses")}

    def __repr__(self) -> str:
        try:
            done = f"{self.store.rounds()} of {self.plan.rounds} rounds"
        except RunError:  # to be looked at all the same
            done = "its checkpoint cannot be read"
        return f"Run({str(self.path)!r}: {self.method.name}, {done})"

    def kept(self, state: State, client: int) -> dict[str, Any]:
        """Return what a client keeps; its start where it never took part."""
        return state.kept.get(client, self._client_start)

    @cached_property
    def _client_start(self) -> dict[str, Any]:
        return self.method.client_start(self.net.initial(self.plan.seed))


def create_run(path: Path, cohort: Cohort, method: Method, plan: TrainPlan, extra: dict[str, Any]) -> Run:
    """Write ``run.json`` into a new or empty folder and return the run; raises RunError, StorageError."""
    if path.exists() and not (path.is_dir() and all(map(_is_left_by_a_kill, path.iterdir()))):
        raise RunError(path, "is not empty", "a new folder", "choose another --out, or go on with --resume")
    meta = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "cohort": {"path": str(cohort.path.resolve()), "fingerprint": cohort.fingerprint},
        "classes": list(cohort.classes),
        "clients": [client.id for client in cohort.clients],
        "net": method.net.spec.as_json(),
        "method": name_of(type(method)),
        "settings": asdict(method.settings),
        "plan": asdict(plan),
        **extra,
    }
    try:
        make_folder(path)
    except OSError as problem:
        raise RunError(path, f"cannot be made ({problem.strerror})", action="choose another --out") from problem
    write_json(path / FILE_NAME, meta)
    return open_run(path)


def _is_left_by_a_kill(part: Path) -> bool:
    """Whether a kill leaves this while ``run.json`` is written; version 0.1 called it ``.run.json.partial``."""
    return is_temporary(part) or part.name in (f".{FILE_NAME}.lock", f".{FILE_NAME}.partial")


def extend_run(run: Run, rounds: int) -> Run:
    """Change how many rounds a run shall have, in ``run.json`` too; raises OptionError, RunError, StorageError."""
    plan = replace(run.plan, rounds=rounds)
    if run.store.exists() and rounds < (done := run.store.load().round):
        raise RunError(run.path, f"has {done} finished rounds", f"--rounds {done} or more", "train into a new folder")
    write_json(run.path / FILE_NAME, {**run.meta, "plan": {**run.meta["plan"], "rounds": plan.rounds}})
    return open_run(run.path)


def open_run(path: Path | str) -> Run:
    """Open a run folder.

    Args:
        path: the folder, made by ``train``.

    Raises:
        RunError: it is none, or of another schema version.
    """
    path = Path(path)
    meta = read_run_json(path)
    try:
        kind = method_by_name(meta["method"])
        net = make_net(NetSpec.from_json(meta["net"]))
        method = kind(net, stored_settings(kind.settings_type, meta["settings"]))
        return Run(
            path,
            method,
            TrainPlan(**meta["plan"]),
            Path(meta["cohort"]["path"]),
            str(meta["cohort"]["fingerprint"]),
            meta,
        )
    except (KeyError, TypeError, ValueError, AttributeError, EcgfedError) as problem:
        raise RunError(
            path / FILE_NAME, f"cannot be used ({problem})", action="train again into a new folder"
        ) from problem
