"""The same numbers on MIT-BIH itself: three sites in processes of their own beside one machine, bit for bit.

    python benchmarks/network/mitbih.py --source MITDB --work DIR [--only METHOD ...]

All 46 records with lead MLII, each a patient, divided among three sites: ``ecgfed federate try`` (a SuperLink and three
SuperNodes with TLS and keys), then the same rounds on one machine. Compared are the server's state, the history's
bytes, and what each of the 46 patients keeps at its site. Each site scores its own test beats and exports a bundle.
Each finished method is written into ``mitbih.json`` at once, and is not run again.

Needs Flower (``make flower``) and Linux.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

common.needs_flower()
import torch
from loopback import CLI

import ecgfed
from ecgfed.base.errors import StorageError
from ecgfed.base.files import read_json
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Tree
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.runs.run import Run, open_run

SITES = 3
#: Rounds and steps: GRP-FED long enough to learn, the others for the bits alone.
LONG, SHORT = (24, 16), (4, 8)
METHODS = ("grp-fed", "fedavg", "scaffold", "fed-rod", "per-fedavg")


def difference(one: Tree, other: Tree) -> float:
    """Return the largest difference of two trees of the same leaves; 0 is bit for bit."""
    left, right = flatten(one), flatten(other)
    if set(left) != set(right):
        raise SystemExit(f"other leaves: {sorted(set(left) ^ set(right))[:3]}")
    if all(torch.equal(left[path], right[path]) for path in left):
        return 0.0
    return max(float((left[path].double() - right[path].double()).abs().max()) for path in left if left[path].numel())


def settings_of(method: str) -> dict[str, str | float]:
    """Return the settings that stand behind the rows: a plain server for all but GRP-FED."""
    if method == "grp-fed":
        return {}
    return {"lr": 5e-3, **PLAIN_MEAN, **({"alpha": 0.01} if method == "per-fedavg" else {})}


def federated(out: Path, cohort: Path, method: str, rounds: int, steps: int) -> dict[str, Any]:
    """Run ``federate try``; return what it says with ``--json``."""
    shutil.rmtree(out, ignore_errors=True)
    words = ["federate", "try", cohort, "--out", out, "--sites", SITES, "--method", method, "--rounds", rounds]
    words += [word for name, value in settings_of(method).items() for word in ("--set", f"{name}={value}")]
    done = subprocess.run(
        [*CLI, *map(str, words), "--local-steps", str(steps), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def alone(out: Path, cohort: Path, method: str, rounds: int, steps: int) -> Run:
    """Train the same rounds on this machine."""
    return ecgfed.train(
        cohort,
        out,
        method=method,
        settings=settings_of(method),
        rounds=rounds,
        local_steps=steps,
        engine="threads",
        eval_every=0,
        overwrite=True,
    )


def compared(out: Path, run: Run) -> dict[str, Any]:
    """Return how far the server's folder, and its sites', are from a run on one machine."""
    there, here = open_run(out / "server" / "run"), run.state()
    places, patients, worst = 0, [], 0.0
    for place in range(SITES):
        site = open_run(out / f"site-{place + 1}" / "result").state()
        patients.append(len(site.client_states))
        worst = max(
            [
                worst,
                *(
                    difference(site.client_states[index], here.client_states[places + index])
                    for index in site.client_states
                ),
            ]
        )
        places += len(site.client_states)
    return {
        "patients": patients,
        "server_difference": difference(there.state().server, here.server),
        "kept_difference": worst,
        "same_history": (there.path / "history.jsonl").read_bytes() == (run.path / "history.jsonl").read_bytes(),
    }


def row_of(work: Path, cohort: Path, method: str) -> dict[str, Any]:
    """Return a method's row."""
    rounds, steps = LONG if method == "grp-fed" else SHORT
    result = federated(work / f"try-{method}", cohort, method, rounds, steps)
    run = alone(work / f"alone-{method}", cohort, method, rounds, steps)
    found = compared(work / f"try-{method}", run)
    manifests = [work / f"try-{method}" / f"site-{place + 1}" / "bundle" / "manifest.json" for place in range(SITES)]
    bundles = sum(manifest.is_file() for manifest in manifests)
    return {"method": method, "rounds": rounds, "steps": steps, **found, "sites": result["sites"], "bundles": bundles}


def main(given: argparse.Namespace) -> None:
    cohort = common.prepared(given.source, given.work, by="record").path
    rows = read_json(given.results, StorageError)["mitbih"] if given.results.is_file() else []
    for method in given.only:
        if method not in {row["method"] for row in rows}:
            rows.append(row_of(given.work, cohort, method))
            common.save(given, {"mitbih": rows})
            print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    common.benchmark(main, common.option("--only", nargs="+", default=METHODS, choices=METHODS), results="mitbih.json")
