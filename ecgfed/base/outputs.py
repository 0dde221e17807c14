"""Checks of the files and folders that a command is asked to write, before it does any work."""

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ecgfed.base.errors import OptionError, param
from ecgfed.base.locks import LOCK_NAME
from ecgfed.base.text import shortened

_TEMPORARY = re.compile(r"\.\d+-[0-9a-f]{8}\..*\.partial", re.DOTALL)
#: Files that mark a folder as ecgfed's output, which a command may replace: a bundle, a cohort, a run or runs of
#: several seeds, scores, a federation. Commands whose folders are likely to hold a user's own files (recordings, C
#: sources) pass their own markers.
MARKERS = ("manifest.json", "cohort.json", "run.json", "seed-*/run.json", "scores.json", "server/server.json")


def is_temporary(path: Path) -> bool:
    """Return whether a path is a temporary file or a lock file of ecgfed."""
    return path.name == LOCK_NAME or bool(_TEMPORARY.fullmatch(path.name))


def check_new_folder(
    path: Path,
    *,
    overwrite: bool = False,
    option: str = "out",
    markers: Sequence[str] = MARKERS,
    contents: Sequence[str] = ("*",),
) -> None:
    """Check before the work that ``replacing_folder`` may create a folder; raises OptionError.

    Args:
        path: the folder to create.
        overwrite: an existing folder may be replaced if it contains one of ``markers``.
        option: the option to name in the error.
        markers: patterns of files that mark a folder as ecgfed's output.
        contents: patterns of all files a replaced folder may contain; by default any.
    """
    if path.exists() and not path.is_dir():
        raise OptionError(option, f"{path} is a file", "a folder to create")
    if path.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise OptionError(option, f"{path} is the working directory", "a new folder", "name one inside it")
    if path.is_dir() and not all(map(is_temporary, path.iterdir())) and not overwrite:
        advice = f"choose another, or pass {param('overwrite=True')}"
        raise OptionError(option, f"{path} is not empty", "a new folder", advice, code="exists")
    if overwrite and path.is_dir():  # names that ecgfed did not write: all of them if the folder has no marker
        names = sorted(entry.name for entry in path.iterdir() if not is_temporary(entry))
        if any(True for marker in markers for _ in path.glob(marker)):
            names = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in contents)]
        if names:
            reason = f"{path} contains {shortened(', '.join(names), 60)}, which ecgfed did not write"
            action = "choose another, or move your own files; nothing was removed"
            raise OptionError(option, reason, "a new folder, or one to replace", action, code="exists")


def check_free(
    targets: Sequence[Path], inputs: Iterable[Path] = (), *, overwrite: bool = False, option: str = "out"
) -> None:
    """Refuse to overwrite existing files, and input files in any case; raises OptionError.

    Args:
        targets: the files to write, in one folder.
        inputs: the files that were read.
        overwrite: existing files may be replaced.
        option: the option to name in the error.
    """
    sources = {os.path.realpath(file) for file in inputs}  # Path.resolve raises RuntimeError at a link to itself
    overwritten = [target.name for target in targets if os.path.realpath(target) in sources]
    if overwritten:
        raise OptionError(option, f"{', '.join(overwritten)} is the recording itself", "another folder")
    taken = [target.name for target in targets if target.exists()]
    if taken and not overwrite:
        reason = f"{targets[0].parent} already has {', '.join(taken[:3])}"
        action = f"choose another folder, or pass {param('overwrite=True')}"
        raise OptionError(option, reason, "no such files", action, code="exists")
