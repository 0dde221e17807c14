"""Runs with different seeds in one folder: ``OUT/seed-0``, ``OUT/seed-1``, ...

With several splits of the same beats ``OUT/split-0/seed-0`` and so on, beside ``OUT/split-0/cohort``.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ecgfed.base.errors import RunError, param
from ecgfed.core.runs.document import FILE_NAME, HELD_OUT
from ecgfed.core.runs.seed_names import SEED, SPLIT, name_of_seed

if TYPE_CHECKING:
    from ecgfed.core.methods.base import Method
    from ecgfed.core.nets.net_source import NetFactory
    from ecgfed.core.runs.run import Run


def seed_folder(out: Path, seed: int) -> Path:
    """Return the run folder of a seed."""
    return out / f"seed-{seed}"


def split_folder(out: Path, seed: int) -> Path:
    """Return the folder of the runs on the split of a seed."""
    return out / f"split-{seed}"


def run_folders(path: Path) -> list[Path]:
    """Return the folder itself if it is a run, otherwise those of its seeds, of each split, sorted.

    Raises:
        RunError: it is neither.
    """
    if (path / FILE_NAME).is_file() or not path.is_dir():
        return [path]
    splits = _numbered(path, SPLIT)
    seeds = [part for of in [path, *splits] for part in _numbered(of, SEED)]
    folders = [part for part in seeds if (part / FILE_NAME).is_file()]
    if not folders:
        raise RunError(path, f"holds no {FILE_NAME}", "a run", "make one with 'ecgfed train'")
    return folders


def _numbered(path: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the parts of a folder with a name, by their number."""
    named = [(int(match[1]), part) for part in path.iterdir() if (match := name.fullmatch(part.name))]
    return [part for _, part in sorted(named)]


def is_run(path: Path) -> bool:
    """Return whether a folder is a run, or contains those of several seeds."""
    with suppress(RunError, OSError):
        return any((folder / FILE_NAME).is_file() for folder in run_folders(path))
    return False


def single_run_folder(path: Path) -> Path:
    """Return the folder of one run; raises RunError for a folder of several seeds, naming them."""
    folders = run_folders(path)
    if len(folders) > 1:
        names = ", ".join(map(name_of_seed, folders))
        raise RunError(path, f"holds the runs {names}", "one run", f"name one: {folders[0]}")
    return folders[0]


def open_single_run(
    path: Path, method: "str | type[Method] | None" = None, net: "str | NetFactory | None" = None
) -> "Run":
    """Open a run (``open_run``); raises RunError for a folder of several seeds, naming them."""
    from ecgfed.core.runs.run import open_run

    return open_run(single_run_folder(path), method, net)


def check_same(runs: "Sequence[Run]") -> None:
    """Check that runs differ in their seed only and are at the same round, so that their mean is defined.

    Those on different splits of the same beats differ in their cohort too, but not in who is held out.

    Raises:
        RunError: naming the first run that differs from its predecessor, and the difference.
    """
    excluded = next((run.meta[HELD_OUT] for run in runs if HELD_OUT in run.meta), None)
    for first, second in pairwise(runs):
        shared = _without_seed(first, excluded)
        if "/" in name_of_seed(first.path) and first.path.parent != second.path.parent:
            del shared["cohort"]
        for what, value in shared.items():
            if (theirs := _without_seed(second, excluded)[what]) != value:
                actual = f"differs from {first.path.name} in its {what} ({theirs}, not {value})"
                action = f"evaluate them one by one, or finish them with {param('resume=True')}"
                raise RunError(second.path, actual, "runs that differ in their seed only", action)


def _without_seed(run: "Run", excluded: object) -> dict[str, object]:
    """Return what equal runs share; version 0.2 did not record held-out clients, ``excluded`` is assumed for it."""
    plan = {name: value for name, value in run.meta["plan"].items() if name != "seed"}
    same = {name: run.meta[name] for name in ("method", "settings", "net")}
    cohort = {"cohort": run.fingerprint, "held-out clients": run.meta.get(HELD_OUT, excluded)}
    return {**same, "plan": plan, **cohort, "finished rounds": run.store.rounds()}
