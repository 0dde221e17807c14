"""Runs that differ in their seed only, side by side in one folder: ``OUT/seed-0``, ``OUT/seed-1``, ..."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ecgfed.errors import RunError
from ecgfed.runs.document import FILE_NAME

if TYPE_CHECKING:
    from ecgfed.runs.run import Run

_NAME = re.compile(r"seed-(\d+)")


def seed_folder(out: Path, seed: int) -> Path:
    """Return where the run of one seed lies."""
    return out / f"seed-{seed}"


def run_folders(path: Path) -> list[Path]:
    """Return the folder itself where it is a run, else those of its seeds, in order of the seed.

    Raises:
        RunError: it is neither.
    """
    if (path / FILE_NAME).is_file() or not path.is_dir():
        return [path]
    named = [(int(match[1]), part) for part in path.iterdir() if (match := _NAME.fullmatch(part.name))]
    found = [part for _, part in sorted(named) if (part / FILE_NAME).is_file()]
    if not found:
        raise RunError(path, f"holds no {FILE_NAME}", "a run", "make one with 'ecgfed train'")
    return found


def open_one_run(path: Path) -> "Run":
    """Open a run; raises RunError for a folder of several seeds, naming them."""
    from ecgfed.runs.run import open_run

    folders = run_folders(path)
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise RunError(path, f"holds the runs {names}", "one run", f"name one: {folders[0]}")
    return open_run(folders[0])
