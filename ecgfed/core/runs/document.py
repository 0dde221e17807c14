"""Read ``run.json`` without torch, and without loading the net or method: no code that it names is run.

All types are checked, because a folder may be damaged or come from a stranger.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ecgfed.base.errors import RunError
from ecgfed.base.files import read_folder_document, read_json
from ecgfed.base.safe_io import check_links

SCHEMA_VERSION = 1
FILE_NAME = "run.json"
#: Folder of the last checkpoint, and its index.
CHECKPOINT, PROGRESS = "checkpoint", "progress.json"
#: Key of the SHA-256 of a custom method's file in ``run.json``.
PIN = "method_sha256"
#: Key of the ids of held-out clients in ``run.json``; not in version 0.2.
HELD_OUT = "held_out_clients"
_AGAIN = "train again into a new folder"
_KINDS = {str: "text", dict: "a JSON object", list: "a list", int: "a whole number", float: "a number"}
T = TypeVar("T")


@dataclass(frozen=True)
class RunDocument:
    """Contents of ``run.json`` for lists, descriptions and comparisons of runs.

    Attributes:
        path: folder of the run.
        method: name or location of the method.
        settings: of the method.
        plan: rounds, local work, seeds.
        net: its specification.
        rounds: planned rounds.
        cohort_path: path of the cohort.
        fingerprint: of that cohort.
        clients: ids of its clients.
        held_out: ids of those held out from training; None if unknown (0.2 and before).
        classes: names of its classes.
        versions: of ecgfed, Python, torch and numpy, if known.
        identity: digest of the run in its checkpoints (``identity_of``).
    """

    path: Path
    method: str
    settings: dict[str, Any]
    plan: dict[str, Any]
    net: dict[str, Any]
    rounds: int
    cohort_path: str
    fingerprint: str
    clients: tuple[str, ...]
    held_out: tuple[str, ...] | None
    classes: tuple[str, ...]
    versions: dict[str, Any]
    identity: str


def typed(values: Mapping[str, Any], name: str, kind: type[T], where: Path, action: str = "") -> T:
    """Return an entry of a JSON object, checked for its type; integers are floats too, booleans are not numbers.

    Raises:
        RunError: missing, or of another type.
    """
    value = values.get(name)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000:
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RunError(where, f"{name} is {_brief(value) if name in values else 'missing'}", _KINDS[kind], action)
    return value


def _flat(values: Mapping[str, Any], name: str, where: Path) -> dict[str, Any]:
    """Return an entry that is an object of values or lists of values; deeper nesting is rejected."""
    settings = typed(values, name, dict, where, _AGAIN)
    for key, value in settings.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict | list):
                raise RunError(where, f"{name} {key} is {_brief(part)}", "a value, or a list of values", _AGAIN)
    return settings


def _names(values: Mapping[str, Any], name: str, where: Path) -> tuple[str, ...]:
    names = typed(values, name, list, where, _AGAIN)
    if not all(isinstance(part, str) for part in names):
        raise RunError(where, f"{name} holds what is no text", "a list of names", _AGAIN)
    return tuple(names)


def _brief(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."


def read_run_json(path: Path) -> dict[str, Any]:
    """Read ``run.json``; raises RunError. An overwrite interrupted before its first saved round is rolled back."""
    marker = f"{CHECKPOINT}/{PROGRESS}"
    return read_folder_document(
        path, FILE_NAME, SCHEMA_VERSION, RunError, what="a run", command="ecgfed train", marker=marker
    )


def read_document(path: Path) -> RunDocument:
    """Read ``run.json`` of a run folder; raises RunError if missing, damaged, or of another schema version."""
    meta = read_run_json(path)
    check_links(path, parts_of(path), RunError)
    where = path / FILE_NAME
    entries = {"versions": {}, "clients": [], "classes": [], "tool_version": "", **meta}
    settings, plan, net, versions = (_flat(entries, name, where) for name in ("settings", "plan", "net", "versions"))
    cohort = typed(meta, "cohort", dict, where, _AGAIN)
    return RunDocument(
        path,
        typed(meta, "method", str, where, _AGAIN),
        settings,
        plan,
        # version 0.1 called the architecture a plan
        {"architecture" if name == "plan" else name: value for name, value in net.items()},
        typed(plan, "rounds", int, where, _AGAIN),
        typed(cohort, "path", str, where, _AGAIN),
        typed(cohort, "fingerprint", str, where, _AGAIN),
        _names(entries, "clients", where),
        _names(entries, HELD_OUT, where) if HELD_OUT in entries else None,
        _names(entries, "classes", where),
        {"ecgfed": typed(entries, "tool_version", str, where, _AGAIN), **versions},
        identity_of(meta),
    )


def identity_of(meta: Mapping[str, Any]) -> str:
    """Return the SHA-256 over method, settings, net, plan without rounds, and cohort, which identifies a run.

    Args:
        meta: contents of ``run.json``.
    """
    same = {name: meta[name] for name in ("method", "settings", "net")}
    plan = {name: value for name, value in meta["plan"].items() if name != "rounds"}
    text = json.dumps({**same, "plan": plan, "cohort": str(meta["cohort"]["fingerprint"])}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def pin_of(meta: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the file of the run's custom method, or None (runs before decision 0024)."""
    pin = meta.get(PIN)
    return None if pin is None else str(pin)


def parts_of(path: Path) -> list[str]:
    """Return the names of all entries in a run's folder and checkpoint, which must not link out of the folder."""
    parts = []
    for folder, within in ((path, ""), (path / CHECKPOINT, f"{CHECKPOINT}/")):
        with suppress(OSError):  # a missing folder is reported when it is read
            parts += [within + part.name for part in folder.iterdir()]
    return parts


def finished_rounds(path: Path, identity: str) -> int:
    """Return the finished rounds of the last checkpoint, 0 without one.

    Raises:
        RunError: the index of the checkpoint is damaged, or of another run.
    """
    index = path / CHECKPOINT / PROGRESS
    if not index.is_file():
        return 0
    progress = read_json(index, RunError)
    if not isinstance(progress, dict):
        raise RunError(index, f"is {_brief(progress)}", "a checkpoint's index", _AGAIN)
    rounds = typed(progress, "round", int, index, _AGAIN)
    if rounds < 1:
        raise RunError(index, f"round is {rounds}", "a finished round", _AGAIN)
    check_owner(path / CHECKPOINT, str(progress.get("run", "")), identity)
    return rounds


def check_owner(checkpoint: Path, owner: str, identity: str) -> None:
    """Raise RunError for the checkpoint of another run; those of the first version name none."""
    if identity and owner not in ("", identity):
        actual = "is the checkpoint of another run (its method, settings, net, plan or cohort differ)"
        expected = "the one of the run.json beside it"
        raise RunError(checkpoint, actual, expected, "put this run's own back, or train again into a new folder")
