"""One bundle and the places it runs: ``python docs/images/bundle/look.py`` writes ``numbers.json``.

A bundle and C sources are made of one run on four synthetic patients; Python, Node, Chromium and a C compiler compute
the golden vectors again. Needs what ``make browser`` brings, ``make`` and a C compiler.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

import ecgfed
from ecgfed.device import check_golden, open_bundle
from ecgfed.tasks.export_mcu import export_mcu

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))

PATIENT = "demo01"


class Numbers(TypedDict):
    """What ``numbers.json`` holds: bytes of each file, and what each place says of the golden vectors."""

    files: dict[str, int]
    sources: int
    places: dict[str, str]


def made(folder: Path) -> tuple[Path, Path]:
    """Train in an empty folder; return the bundle and the C sources of one patient's model."""
    cohort = ecgfed.prepare_demo(folder / "cohort", patients=4, minutes=3)
    run = ecgfed.train(cohort, folder / "run", method="grp-fed", passes=3, rr=False)
    ecgfed.export(run, folder / "bundle")
    export_mcu(run, folder / "firmware", patient=PATIENT)
    return folder / "bundle", folder / "firmware"


def numbers(folder: Path) -> Numbers:
    """Make bundle and sources in an empty folder, and compute the golden vectors everywhere."""
    from models_in_js import golden, in_models

    bundle, firmware = made(folder)
    files = {
        one.relative_to(bundle).as_posix(): one.stat().st_size for one in sorted(bundle.rglob("*")) if one.is_file()
    }
    sources = sum(one.stat().st_size for one in firmware.glob("*.[ch]"))
    done = subprocess.run(["make", "-C", str(firmware), "test"], check=True, capture_output=True, text=True)
    (in_c,) = (one for one in done.stdout.splitlines() if one.startswith("golden: "))
    places = {"python": str(check_golden(open_bundle(bundle)))}
    for where in ("node", "chromium"):
        (told,) = in_models(where, golden(bundle))
        places[where] = told["text"]
    return {"files": files, "sources": sources, "places": {**places, "c": in_c}}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = numbers(Path(temporary))
    (HERE / "numbers.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
