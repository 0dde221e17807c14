"""The peers' own virtual environments, made once from PyPI."""

import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import torch

#: PyPI knows the release only, not the build.
TORCH = f"torch=={torch.__version__.split('+')[0]}"
NEWER_PYTHONS = ("3.14", "3.13", "3.12")


@dataclass(frozen=True)
class Environment:
    """One peer's environment.

    Attributes:
        steps: what pip installs, one command after the other.
        needs_newer: whether it needs a Python newer than ecgfed's oldest, 3.12 or above.
    """

    steps: tuple[tuple[str, ...], ...]
    needs_newer: bool = False


ENVIRONMENTS = {
    "blazefl": Environment(((TORCH,), ("blazefl[contrib,reproducibility]==2.0.3",)), needs_newer=True),
    "flower": Environment(((TORCH,), ("flwr[simulation]==1.41.0",))),
}


def newer_python() -> str:
    """Find a Python for blazefl: 3.12 or above, on the path or among pyenv's."""
    found = [shutil.which(f"python{version}") for version in NEWER_PYTHONS]
    for version in NEWER_PYTHONS:
        found += [str(path) for path in sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))]
    if sys.version_info >= (3, 12):
        found.insert(0, sys.executable)
    for python in filter(None, found):  # a pyenv shim is on the path for versions that are not switched on
        if subprocess.run([python, "-c", "import ssl, venv"], capture_output=True).returncode == 0:
            return python
    sys.exit("blazefl needs Python 3.12 or newer, and none was found: name one with --blazefl-python")


def ready(folder: Path, name: str, newer: str | None) -> Path:
    """Make an environment unless it is there already, whole; return its Python.

    Args:
        folder: the environments' folder.
        name: which.
        newer: the Python for a peer that needs a newer one; looked for when not given.
    """
    environment, place = ENVIRONMENTS[name], folder / name
    python, stamp = place / "bin" / "python", place / "installed.txt"
    wanted = repr(environment.steps)
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"making {place} ({', '.join(' '.join(step) for step in environment.steps)})", file=sys.stderr)
    base = (newer or newer_python()) if environment.needs_newer else sys.executable
    if base == sys.executable:
        venv.create(place, clear=True, with_pip=True)
    else:
        subprocess.run([base, "-m", "venv", "--clear", str(place)], check=True)
    log = folder / f"{name}.log"
    with log.open("w") as out:
        for step in (("--upgrade", "pip"), *environment.steps):
            command = [str(python), "-m", "pip", "install", *step]
            if subprocess.run(command, stdout=out, stderr=out).returncode:
                sys.exit(f"{' '.join(command)} failed; see {log}")
    stamp.write_text(wanted)
    return python
