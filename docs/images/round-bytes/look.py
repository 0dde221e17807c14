"""What leaves a site in a round and what stays, in bytes: ``python docs/images/round-bytes/look.py``.

Needs Flower (``ecgfed[train,flower]``) and three minutes: it runs the commands of docs/hospitals.md, "Try it", in an
empty folder, and writes ``numbers.json``. ``look.py FOLDER`` looks at a folder where they have been run.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

HERE = Path(__file__).parent
COMMANDS = ("prepare demo --out cohort --quiet", "federate try cohort --out federation")
SITE = "site-1"


class Numbers(TypedDict):
    """What ``numbers.json`` holds, in bytes where nothing else is said."""

    patients: int
    sites: int
    stays: dict[str, int]
    down: int
    up: dict[str, int]


def size(files: list[Path]) -> int:
    """Return the bytes of files; there have to be some."""
    assert files
    return sum(one.stat().st_size for one in files)


def numbers(folder: Path) -> Numbers:
    """Look at a folder in which ``COMMANDS`` have been run."""
    federation = folder / "federation"
    site = federation / SITE
    clients = json.loads((site / "cohort" / "cohort.json").read_text("utf-8"))["clients"]
    records = [file for one in clients for file in (folder / "cohort-records").glob(f"{one['id']}.*")]
    (of_run,) = (site / "runs").iterdir()
    leaves = json.loads((federation / "server" / "leaves.json").read_text("utf-8"))["leaves"]

    def travels(way: str, *, model: bool) -> int:
        found = (one for one in leaves if one["way"] == way and one["name"].startswith("model/") == model)
        return sum(one["bytes"] for one in found)

    return {
        "patients": len(clients),
        "sites": len(list(federation.glob("site-*"))),
        "stays": {
            "recordings": size(records),
            "cohort": size(list((site / "cohort").iterdir())),
            "kept": size(sorted((of_run / "checkpoint").glob("client*.safetensors"))),
            "key": size([site / "key"]),
        },
        "down": travels("down", model=True) + travels("down", model=False),
        "up": {"model": travels("up", model=True), "beside": travels("up", model=False)},
    }


def run(folder: Path) -> None:
    """Run the commands in an empty folder."""
    for command in COMMANDS:
        started = [sys.executable, "-c", "from ecgfed_cli.main import main; main()", *command.split()]
        subprocess.run(started, cwd=folder, check=True)


def main(given: Path | None) -> None:
    """Run the commands where no folder is given, look and write."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if given is None else given
        if given is None:
            run(folder)
        found = numbers(folder)
    (HERE / "numbers.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
