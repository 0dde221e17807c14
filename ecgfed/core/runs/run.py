"""The run folder: ``run.json`` (configuration), ``history.jsonl``, ``timing.jsonl``, ``checkpoint/``."""

import os
import platform
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed import __version__
from ecgfed.base.deprecation import deprecated
from ecgfed.base.errors import EcgfedError, RunError, param
from ecgfed.base.files import is_temporary, write_json
from ecgfed.base.fsync import make_folder
from ecgfed.base.plugins import digest_of, is_of_script, names_code
from ecgfed.base.safe_io import check_links
from ecgfed.base.text import count_of
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import name_of, stored_method
from ecgfed.core.methods.settings import stored_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.module_net import ModuleNet
from ecgfed.core.nets.net import Net, NetSpec
from ecgfed.core.nets.net_source import NetFactory, NetSource, stored_net
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.core.runs.document import FILE_NAME as FILE_NAME
from ecgfed.core.runs.document import HELD_OUT, PIN, SCHEMA_VERSION, identity_of, parts_of, pin_of, read_run_json, typed
from ecgfed.core.runs.history import HISTORY, read_history
from ecgfed.core.runs.state_check import StateCheck
from ecgfed.domain.cohort.cohort import Cohort, held_in_memory, open_cohort

#: Key of a run's previous lengths in ``run.json``.
EARLIER = "earlier_lengths"
#: Fields of the cohort in ``run.json`` besides the fingerprint, with their names in errors.
_NAMED = {
    "classes": "classes, or in another order,",
    "clients": "clients, or in another order,",
    HELD_OUT: "clients (others were held out)",
}


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """A training run.

    Attributes:
        path: its folder.
        method: the method, with its net and settings.
        plan: rounds, local work, seeds.
        cohort_path: path of the cohort when the run was created, relative to the run if it is anonymised.
        fingerprint: of that cohort.
        meta: contents of ``run.json``.
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
    def custom_method(self) -> str:
        """Location of a custom method when the run was created, ``""`` for a registered one."""
        name = str(self.meta["method"])
        return name if names_code(name) else ""

    @property
    @deprecated("0.3", "0.5", "Run.custom_method")
    def own_method(self) -> str:
        """Return where a custom method was stored when the run was created."""
        return self.custom_method

    @property
    def custom_net(self) -> str:
        """Location of a net of one's own when the run was created, ``""`` for one of this package."""
        return self.net.spec.architecture if self.net.spec.module is not None else ""

    @property
    def unpinned(self) -> str:
        """``method`` or ``net``, if that is a custom one without a recorded SHA-256 of its file; else ``""``."""
        if self.custom_method and pin_of(self.meta) is None:
            return "method"
        form = self.net.spec.module
        return "net" if form is not None and not form.sha256 else ""

    @property
    def store(self) -> CheckpointStore:
        """The run's checkpoints."""
        clients = self.meta.get("clients", ())  # version 0.1 may not name them
        return CheckpointStore(self.path, self.identity, method=str(self.meta["method"]), clients=clients)

    @cached_property
    def identity(self) -> str:
        """Digest that identifies checkpoints of this run (``identity_of``)."""
        return identity_of(self.meta)

    def cohort(self, path: Path | Cohort | None = None) -> Cohort:
        """Open the cohort the run was trained on.

        Args:
            path: its current path, if it was moved, or the cohort itself, if it is in memory.

        Raises:
            CohortError: it cannot be opened, or an array has changed since it was prepared.
            RunError: it is another cohort, or has other classes, clients or held-out clients.
        """
        if isinstance(path, Cohort):
            cohort = path if path.in_memory else open_cohort(path.path)
        else:
            held = None if path else held_in_memory(self.fingerprint, self._names_of)
            cohort = held or open_cohort(path or self.cohort_path)
        if cohort.fingerprint != self.fingerprint:
            actual = f"was trained on another cohort than {cohort.path} is now (fingerprints differ)"
            raise RunError(self.path, actual, action=f"name the right one with {param('cohort')}")
        # the fingerprint covers the arrays; clients and classes are stored separately
        for what, now in _beside_the_arrays(cohort).items():
            if what in self.meta and now != self.meta[what]:
                action = f"name the right cohort with {param('cohort')}"
                problem = f"was trained on other {_NAMED[what]} than {cohort.path} names now"
                raise RunError(self.path, problem, action=action)
        return cohort

    def _names_of(self, cohort: Cohort) -> bool:
        return all(self.meta.get(what, now) == now for what, now in _beside_the_arrays(cohort).items())

    def state(self) -> State:
        """Load the last checkpoint; raises RunError without one."""
        if not self.store.exists():
            actual = "has no finished round"
            raise RunError(self.path, actual, action="train it with 'ecgfed train ... --resume'", code="unfinished")
        return self.store.load(StateCheck(self.method, self.plan, at_sites=self.meta.get("engine") == "flower"))

    def history(self) -> list[dict[str, Any]]:
        """Return a record for each saved round: ``round``, losses, passes, metrics of the method.

        Raises:
            RunError: the history or the checkpoint cannot be read.

        Examples:
            >>> import ecgfed
            >>> [line["round"] for line in ecgfed.train("cohort", "two", rounds=2).history()]
            [1, 2]
        """
        return read_history(self.path, self.store.rounds())

    def last_record(self) -> dict[str, Any]:
        """Return the last saved round's record in the history: losses, passes, validation scores.

        Raises:
            RunError: no round is finished, or the history lacks it.
        """
        lines = self.history()
        if not lines:
            action = f"train it with {param('resume=True')}"
            raise RunError(self.path / HISTORY, "holds no finished round", action=action, code="unfinished")
        return {name: value for name, value in lines[-1].items() if name not in ("round", "clients", "losses")}

    def __repr__(self) -> str:
        try:
            progress = f"{self.store.rounds()} of {count_of(self.plan.rounds, 'round')}"
        except RunError:  # repr must not fail
            progress = "its checkpoint cannot be read"
        return f"Run({str(self.path)!r}: {self.method.name}, {progress})"

    def client_state(self, state: State, client: int) -> dict[str, Any]:
        """Return a client's state; the initial one if it never took part."""
        return state.client_states.get(client, self._client_start)

    @deprecated("0.3", "0.5", "Run.client_state")
    def kept(self, state: State, client: int) -> dict[str, Any]:
        """Return a client's state."""
        return self.client_state(state, client)

    @cached_property
    def _client_start(self) -> dict[str, Any]:
        return self.method.client_start(self._initial)

    @cached_property
    def _initial(self) -> Params:
        return self.net.initial(self.plan.seed)


def create_run(path: Path, cohort: Cohort, method: Method, plan: TrainPlan, extra: dict[str, Any]) -> Run:
    """Create a run in a new or empty folder; raises RunError, StorageError."""
    if path.exists() and not (path.is_dir() and all(map(is_interrupted_write, path.iterdir()))):
        action = f"choose another {param('out')}, or pass {param('resume=True')} or {param('overwrite=True')}"
        raise RunError(path, "is not empty", "a new folder", action, code="exists")
    spec = method.net.spec
    if spec.rr and spec.rr_version != cohort.rr_version:
        actual = f"has RR features of version {cohort.rr_version}"
        expected = f"version {spec.rr_version}, which the net takes"
        raise RunError(cohort.path, actual, expected, f"make the net with rr_version={cohort.rr_version}")
    kind = type(method)
    # a class of the running script is not pinned, as the rest of that script may change before the run is opened again
    digest = digest_of(kind) if names_code(name_of(kind)) and not is_of_script(kind) else ""
    meta = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "cohort": {"path": _path_of(cohort, path), "fingerprint": cohort.fingerprint},
        **_beside_the_arrays(cohort),
        "net": spec.as_json(),
        "method": name_of(type(method)),
        **({PIN: digest} if digest else {}),
        "settings": asdict(method.settings),
        "plan": plan.as_json(),
        **extra,
    }
    try:
        make_folder(path)
    except OSError as problem:
        action = f"choose another {param('out')}"
        raise RunError(path, f"cannot be made ({problem.strerror})", action=action) from problem
    write_json(path / FILE_NAME, meta)
    own = method.net.source if isinstance(method.net, ModuleNet) else None
    return open_run(path, type(method) if names_code(str(meta["method"])) else None, own)


def _path_of(cohort: Cohort, run: Path) -> str:
    """Return the path of a cohort for ``run.json``: relative to the run if it is anonymised; a name in memory."""
    if cohort.in_memory:
        return str(cohort.path)
    location = cohort.path.resolve()
    return os.path.relpath(location, run.resolve()) if "anonymised" in cohort.meta else str(location)


def _beside_the_arrays(cohort: Cohort) -> dict[str, list[str]]:
    """Return the fields of the cohort in ``run.json`` besides the fingerprint, by the keys of ``_NAMED``."""
    return {
        "classes": list(cohort.classes),
        "clients": [client.id for client in cohort.clients],
        HELD_OUT: list(cohort.held_out),
    }


def is_interrupted_write(part: Path) -> bool:
    """Return whether a file is left over from an interrupted write of ``run.json``, of version 0.1 too."""
    return is_temporary(part) or part.name in (f".{FILE_NAME}.lock", f".{FILE_NAME}.partial")


def _earlier(run: Run) -> list[dict[str, int]]:
    entries = typed({EARLIER: [], **run.meta}, EARLIER, list, run.path / FILE_NAME)
    for entry in entries:
        if not isinstance(entry, dict) or not all(
            type(entry.get(key)) is int and entry[key] > 0 for key in ("rounds", "until")
        ):
            raise RunError(run.path / FILE_NAME, f"{EARLIER} has {entry!r:.100}", "rounds and until, 1 or more")
    return list(entries)


def lengths_of(run: Run) -> tuple[int, ...]:
    """Return the planned rounds of a run over time, the first plan first; raises RunError."""
    return (*(entry["rounds"] for entry in _earlier(run)), run.plan.rounds)


def extend_run(run: Run, rounds: int) -> Run:
    """Change the planned rounds of a run, also in ``run.json``; raises OptionError, RunError, StorageError.

    Previous plans of finished rounds are recorded under ``earlier_lengths``: planned rounds, and last round under it.
    """
    plan, finished = replace(run.plan, rounds=rounds), run.store.rounds()
    if rounds < finished:
        expected = f"{param('rounds')} {finished} or more"
        raise RunError(run.path, f"has {count_of(finished, 'finished round')}", expected, "train into a new folder")
    meta = {**run.meta, "plan": {**run.meta["plan"], "rounds": plan.rounds}}
    earlier = _earlier(run)
    # a plan under which no round finished is not recorded
    if finished and not (earlier and earlier[-1]["until"] == finished):
        meta[EARLIER] = [*earlier, {"rounds": run.plan.rounds, "until": finished}]
    write_json(run.path / FILE_NAME, meta)
    own = run.net.source if isinstance(run.net, ModuleNet) else None
    return open_run(run.path, type(run.method) if run.custom_method else None, own)


def open_run(
    path: Path | str, method: str | type[Method] | None = None, net: str | NetFactory | NetSource | None = None
) -> Run:
    """Open a run folder.

    Args:
        path: the folder, created by ``train``.
        method: a custom method as ``FILE.py:CLASS`` or class; it must be passed, since code named in a folder is not
            run unasked. The file must be the one the run was created with. None for registered methods.
        net: the same of a net of your own, ``FILE.py:CLASS``, class or function that returns a module.

    Raises:
        RunError: not a run, an unsupported schema version, or a custom method or net that was not passed.
    """
    path = Path(path)
    meta = read_run_json(path)
    check_links(path, parts_of(path), RunError)
    kind = _kind(path, meta, method)
    try:
        if typed({"eval_every": 0, **meta}, "eval_every", int, path / FILE_NAME) < 0:
            raise ValueError(f"eval_every is {meta['eval_every']}")
        spec, plan = NetSpec.from_json(meta["net"]), TrainPlan(**meta["plan"])
        settings: Any = stored_settings(kind.settings_type, meta["settings"])
        cohort, fingerprint = path / meta["cohort"]["path"], str(meta["cohort"]["fingerprint"])
    except (KeyError, TypeError, ValueError, AttributeError, EcgfedError) as problem:
        actual = f"cannot be used ({problem})"
        raise RunError(path / FILE_NAME, actual, action="train again into a new folder") from problem
    module = make_net(spec, stored_net(spec, path / FILE_NAME, net))
    return Run(path, kind(module, settings), plan, cohort, fingerprint, meta)


def _kind(path: Path, meta: dict[str, Any], passed: str | type[Method] | None) -> type[Method]:
    """Return the run's method class; raises RunError."""
    try:
        return stored_method(meta.get("method"), path / FILE_NAME, passed, pin_of(meta))
    except RunError:
        raise
    except EcgfedError as problem:
        raise RunError(path / FILE_NAME, f"its method cannot be used ({problem.marked})") from problem
