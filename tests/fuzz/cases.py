"""A case: one artefact spoiled in one place, one command over it; named by a seed and a number."""

import hashlib
import importlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from random import Random

from .child import Task
from .hospital import sealed_scp
from .jobs import ARTEFACTS, Artefact, Job, mutations_of
from .plain import Mutation, flip_bits
from .serving import serve_spoiled
from .world import command

#: A file, by what it is: ``file`` with its bytes, or another kind of thing.
Tree = dict[str, tuple[str, bytes]]
_RESEALED = 0.35


@dataclass(frozen=True)
class Case:
    """What one case is.

    Attributes:
        seed: of the series.
        number: in the series.
        artefact: what is spoiled.
        victim: the file, below the world.
        job: the command.
    """

    seed: int
    number: int
    artefact: Artefact
    victim: str
    job: Job


@dataclass(frozen=True)
class Prepared:
    """A case in its folder, ready to run.

    Attributes:
        case: which.
        folder: where the command runs.
        mutation: its name.
        what: what was done to the victim, in words.
        resealed: whether the checksums over the victim were made true again, as one who means harm would.
        before: all files, as the command finds them.
        pristine: the bytes of the victim as it was.
    """

    case: Case
    folder: Path
    mutation: str
    what: str
    resealed: bool
    before: Tree
    pristine: bytes


def pick(world: Path, seed: int, number: int) -> tuple[Case, Random]:
    """Choose artefact, file and command of a case; the generator goes on to the mutation."""
    rng = Random(f"{seed}/{number}")
    artefact = rng.choices(ARTEFACTS, [one.weight for one in ARTEFACTS])[0]
    patterns = [sorted(map(str, _files(world, pattern))) for pattern in artefact.victims]
    victim = rng.choice(rng.choice([found for found in patterns if found]))
    job = rng.choices(artefact.jobs, [one.weight for one in artefact.jobs])[0]
    return Case(seed, number, artefact, victim, job), rng


def _files(world: Path, pattern: str) -> list[Path]:
    return [path.relative_to(world) for path in world.glob(pattern) if path.is_file()]


def copied(world: Path, home: Path, holds: tuple[str, ...]) -> Path:
    """Make the folder of a case anew, deep inside its home, and copy what the case holds."""
    shutil.rmtree(home, ignore_errors=True)
    folder = home / "a" / "b" / "c" / "d" / "case"
    folder.mkdir(parents=True)
    for name in ("tmp", "home", "bait"):
        (home / name).mkdir()
    (home / "bait" / "r.dat").write_bytes(b"\0" * 60000)
    for name in holds:
        source = world / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copyfile(source, folder / name)
    return folder


def prepare(world: Path, home: Path, seed: int, number: int) -> Prepared:
    """Make a case's folder, spoiled."""
    case, rng = pick(world, seed, number)
    folder = copied(world, home, (*case.artefact.holds, *case.job.needs))
    victim = folder / case.victim
    pristine = victim.read_bytes()
    name, what = _spoil(victim, rng)
    resealed = rng.random() < _RESEALED and reseal(folder, case.victim)
    return Prepared(case, folder, name, what, resealed, tree_of(folder), pristine)


def _spoil(victim: Path, rng: Random) -> tuple[str, str]:
    choices = mutations_of(PurePosixPath(victim))
    for _ in range(20):  # a swap of two zeros changes nothing
        before = victim.read_bytes()
        mutation: Mutation = rng.choices([one for _, one in choices], [weight for weight, _ in choices])[0]
        try:
            what = mutation(victim, rng)
        except Exception as problem:  # a change that this file does not take: said in the case's own words
            victim.write_bytes(before)
            mutation, what = flip_bits, f"{flip_bits(victim, rng)} ({mutation.__name__}: {type(problem).__name__})"
        if victim.is_symlink() or not victim.is_file() or victim.stat().st_size > 1 << 30:
            break
        if victim.read_bytes() != before or mutation.__name__ == "around":
            break
    return mutation.__name__, what


def task_of(prepared: Prepared, home: Path) -> Task:
    """Return what runs the case's command."""
    return Task(home, prepared.folder, action_of(prepared.case.job), prepared)


def action_of(job: Job) -> Callable[[], None]:
    """Return what a case's process runs."""
    return serve_spoiled if job.serves else command(*job.arguments)


def tree_of(folder: Path) -> Tree:
    """Return all that lies below a folder; links are not followed, nothing but regular files is opened."""
    found: Tree = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            about = path.lstat()
            key = path.relative_to(folder).as_posix()
            if stat.S_ISLNK(about.st_mode):
                found[key] = ("link", os.fsencode(path.readlink()))
            elif stat.S_ISDIR(about.st_mode):
                found[key] = ("folder", b"")
            elif not stat.S_ISREG(about.st_mode):
                found[key] = ("special", b"")
            elif about.st_size > 256 << 20:
                found[key] = ("large", f"{about.st_size} {about.st_mtime_ns}".encode())
            else:
                found[key] = ("file", path.read_bytes())
    return found


def reseal(folder: Path, victim: str) -> bool:
    """Make the checksum over a changed file true again; returns whether there is one that could be."""
    path = folder / victim
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 30:
        return False
    data, parts = path.read_bytes(), PurePosixPath(victim).parts
    try:
        if victim.endswith(".scp"):
            path.write_bytes(sealed_scp(data))
            return True
        if parts[-2:-1] == ("checkpoint",) and victim.endswith(".safetensors"):
            return _edit(path.parent / "progress.json", lambda d: _stored(d, path.name, data))
        if parts[0] == "cohort" and victim.endswith(".npy"):
            return _edit(folder / "cohort" / "cohort.json", lambda d: _array(d, path.stem, data))
        if parts[0] in ("bundle", "own") and parts[-1] != "manifest.json":
            name = PurePosixPath(*parts[1:]).as_posix()
            return _edit(folder / parts[0] / "manifest.json", lambda d: _graph(d, name, data))
        if victim in ("bundle/manifest.json", "own/manifest.json"):
            return _edit(path, lambda d: None)
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return False
    return False


def _edit(path: Path, change: Callable[[dict], None]) -> bool:  # type: ignore[type-arg]
    document = json.loads(path.read_text())
    change(document)
    reseal_document(document)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return True


def reseal_document(document: dict) -> None:  # type: ignore[type-arg]
    """Make a document's digest of itself true again, where it carries one."""
    if "digest" in document:
        module = importlib.import_module("ecgfed.exports.device.canonical")  # decision 0025
        document["digest"] = module.digest_of(document, "digest")


def _stored(document: dict, name: str, data: bytes) -> None:  # type: ignore[type-arg]
    entry = next(entry for entry in document["files"].values() if entry["name"] == name)
    entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _array(document: dict, name: str, data: bytes) -> None:  # type: ignore[type-arg]
    """What follows the head of an array is what the cohort's hash is of."""
    body = data[10 + int.from_bytes(data[8:10], "little") :]
    document["sha256"][name] = hashlib.sha256(body).hexdigest()


def _graph(document: dict, name: str, data: bytes) -> None:  # type: ignore[type-arg]
    document["files"][name] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
