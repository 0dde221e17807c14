"""The whole path in one go, on a synthetic cohort: prepare, train GRP-FED, evaluate, export, predict, a strip on paper.

    python examples/demo.py [--out demo]        (what `make demo` runs)

No download, no real recording: the demo cohort proves that the software runs, never that a method is good.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

ECGFED = str(Path(sys.executable).with_name("ecgfed"))
PATIENT = "demo02"


def steps(out: Path) -> list[list[str]]:
    """Return the commands, as a user would type them."""
    cohort, records, run, bundle, predictions = (
        str(out / name) for name in ("cohort", "records", "run", "bundle", "predictions")
    )
    return [
        ["prepare", "demo", "--out", cohort, "--records", records],
        ["train", cohort, "--method", "grp-fed", "--local-steps", "4", "--passes", "20", "--out", run],
        ["evaluate", run],
        ["export", run, "--out", bundle],
        ["predict", bundle, f"{records}/{PATIENT}", "--patient", PATIENT, "--strip", "--out", predictions],
    ]


def main() -> int:
    """Run the demo; the exit code is the first failing command's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to make anew; default: demo")
    out: Path = parser.parse_args().out
    if out.exists() and not (out / "cohort" / "cohort.json").is_file() and any(out.iterdir()):
        print(f"{out} holds something else than a demo; choose another --out", file=sys.stderr)
        return 2
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    for command in steps(out):
        print(f"\n$ ecgfed {' '.join(command)}", flush=True)
        code = subprocess.run([ECGFED, *command]).returncode
        if code:
            return code
    print(f"\nDone in {time.perf_counter() - started:.0f} s.")
    print(f"  bundle   {out / 'bundle'}")
    print(f"  strip    {out / 'predictions' / (PATIENT + '.png')}")
    print("The same on real recordings (fetched from PhysioNet, 94 MB):")
    print("  ecgfed prepare mitbih --download --source mitdb --out cohort")
    print("  ecgfed train cohort --out run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
