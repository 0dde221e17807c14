"""What a run folder says of itself, read without torch and without opening its net or method: nothing it names is run.

Everything is checked for its type, since a folder may be damaged or come from a stranger.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ecgfed.errors import RunError
from ecgfed.files import read_folder_document, read_json
from ecgfed.gate import check_links

SCHEMA_VERSION = 1
FILE_NAME = "run.json"
#: The folder of the last checkpoint, and its index.
CHECKPOINT, PROGRESS = "checkpoint", "progress.json"
#: SHA-256 of the file of somebody's own method, in ``run.json``.
PIN = "method_sha256"
#: Ids of the clients that the cohort held out, in ``run.json``; version 0.2 did not write them.
HELD_OUT = "held_out_clients"
_AGAIN = "train again into a new folder"
_KINDS = {str: "text", dict: "a JSON object", list: "a list", int: "a whole number", float: "a number"}
T = TypeVar("T")


@dataclass(frozen=True)
class RunDocument:
    """``run.json``, as far as a list, a description or a comparison of runs needs it.

    Attributes:
        path: the run's folder.
        method: the method's name, or where it lies.
        settings: of the method.
        plan: rounds, local work, seeds.
        net: its specification.
        rounds: how many rounds were asked for.
        cohort_path: where the cohort lay.
        fingerprint: of that cohort.
        clients: ids of its clients.
        held_out: those of them that took no part in training; None where it does not say it (0.2 and before).
        classes: names of its classes.
        versions: of ecgfed, Python, torch and numpy, where it says them.
        identity: what a checkpoint of this run carries (``identity_of``).
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
    """Return an entry of a JSON object; a whole number is a number too, true and false are none.

    Raises:
        RunError: it is not there, or of another type.
    """
    value = values.get(name)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000:
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RunError(where, f"{name} is {_brief(value) if name in values else 'missing'}", _KINDS[kind], action)
    return value


def _flat(values: Mapping[str, Any], name: str, where: Path) -> dict[str, Any]:
    """Return an entry that is an object of values, or of lists of values; deeper ones are nobody's settings."""
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
    """Read ``run.json``; raises RunError. An overwrite that was killed before it saved a round is undone first."""
    return read_folder_document(
        path,
        FILE_NAME,
        SCHEMA_VERSION,
        RunError,
        what="a run",
        command="ecgfed train",
        proof=f"{CHECKPOINT}/{PROGRESS}",
    )


def read_document(path: Path) -> RunDocument:
    """Read ``run.json`` of a run folder; raises RunError when it is none, damaged, or of another schema version."""
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
    """Return SHA-256 over what makes two runs the same: method, settings, net, plan but its rounds, cohort.

    Args:
        meta: everything in ``run.json``.
    """
    same = {name: meta[name] for name in ("method", "settings", "net")}
    plan = {name: value for name, value in meta["plan"].items() if name != "rounds"}
    text = json.dumps({**same, "plan": plan, "cohort": str(meta["cohort"]["fingerprint"])}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def pin_of(meta: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the file of the run's own method, None where it does not say one (runs before 0024)."""
    pin = meta.get(PIN)
    return None if pin is None else str(pin)


def parts_of(path: Path) -> list[str]:
    """Return the names of what a run's folder and its checkpoint hold: none of it may be a link out of the folder."""
    parts = []
    for folder, within in ((path, ""), (path / CHECKPOINT, f"{CHECKPOINT}/")):
        with suppress(OSError):  # what is no folder is refused where it is read
            parts += [within + part.name for part in folder.iterdir()]
    return parts


def finished_rounds(path: Path, identity: str) -> int:
    """Return how many rounds of a run the last checkpoint has, 0 where there is none.

    Raises:
        RunError: the checkpoint's index is damaged, or another run's.
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
    """Refuse the checkpoint of another run; one of the first version names none. Raises RunError."""
    if identity and owner not in ("", identity):
        raise RunError(
            checkpoint,
            "is the checkpoint of another run (its method, settings, net, plan or cohort differ)",
            "the one of the run.json beside it",
            "put this run's own back, or train again into a new folder",
        )
