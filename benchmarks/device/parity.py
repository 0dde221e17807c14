"""Whether JavaScript answers as Python does: every patient's model on their test beats, in Node and in Chromium.

    python benchmarks/device/parity.py --cohort COHORT --bundle BUNDLE [--results FILE]

Python's answers are onnxruntime's, by ``ecgfed.device``; JavaScript's those of ``ecgfed/exports/js`` with
onnxruntime-node and onnxruntime-web (the packages of ``tests/browser``: ``make browser``). Float forms, and int8 forms
where the bundle has them; the global model is asked of all patients' test beats. Writes ``parity.json`` beside this
file; ``benchmarks/pages.py`` puts its summary into ``README.md``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, benchmark, option, save, table
from forms import logits_of, test_rows

import ecgfed
import ecgfed.exports
from ecgfed.base.errors import OptionError
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.manifest import models_in
from ecgfed.tasks.pdf import BROWSERS

Logits = NDArray[np.float32]

DRIVER = ROOT / "tests" / "browser" / "models.mjs"
RUNTIME = Path(ecgfed.exports.__file__).with_name("js")
#: Where JavaScript runs.
WHERE = {"node": "Node", "chromium": "Chromium"}


def compared(python: Logits, other: Logits) -> dict[str, Any]:
    """Compare logits (beats, classes): the largest difference, and how many beats have the same label."""
    return {
        "max_logit_difference": float(np.abs(python - other).max()),
        "same_labels": int((python.argmax(1) == other.argmax(1)).sum()),
    }


def asked(where: str, jobs: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    """Let JavaScript answer all jobs into their files; return the versions of what ran.

    Raises:
        OptionError: no Node, no Chromium, not the npm packages, or a model that JavaScript refuses.
    """
    chromium = next((path for name in BROWSERS if (path := which(name))), None)
    node = which("node")
    if node is None or chromium is None or not (DRIVER.parent / "node_modules").is_dir():
        raise OptionError(
            "tests/browser", "Node, Chromium or the npm packages are missing", "all three", "make browser"
        )
    given = {"chromium": chromium if where == "chromium" else None, "runtime": str(RUNTIME.resolve()), "jobs": jobs}
    (folder / "given.json").write_text(json.dumps(given))
    command = [node, "--no-warnings", str(DRIVER), str(folder / "given.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OptionError(where, f"has failed: {done.stderr.strip()[-300:]}", "answers")
    told = json.loads(done.stdout)
    for one in (*told["errors"], *(one["error"] for one in told["answers"] if "error" in one)):
        raise OptionError(where, f"says {one:.300}", "answers")
    return dict(told["versions"])


def laid_out(bundle: Bundle, cohort: ecgfed.Cohort, folder: Path) -> tuple[list[dict[str, Any]], list[Logits]]:
    """Write every model's beats into files; return the jobs, and what Python says of them."""
    pool = np.concatenate([test_rows(cohort, client) for client in bundle.patients])
    jobs, answers = [], []
    for number, (client, form, _) in enumerate(models_in(bundle.manifest)):
        rows = pool if client is None else test_rows(cohort, client)
        if not len(rows):
            continue
        job: dict[str, Any] = {"call": "logits", "bundle": str(bundle.path.resolve()), "patient": client, "rr": None}
        job |= {"int8": form == "int8", "out": str(folder / f"{number}.logits"), "window": str(folder / f"{number}.w")}
        np.take(cohort.beats, rows, axis=0).astype("<f4").tofile(job["window"])
        if bundle.rr_version:
            job["rr"] = str(folder / f"{number}.rr")
            np.asarray(cohort.rr[rows]).astype("<f4").tofile(job["rr"])
        jobs.append(job)
        answers.append(logits_of(bundle, cohort, client, rows, int8=job["int8"]))
    return jobs, answers


def measured(bundle: Bundle, cohort: ecgfed.Cohort) -> dict[str, Any]:
    """Ask every model in all three places; return a row for each, and the versions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        jobs, answers = laid_out(bundle, cohort, folder)
        rows = [
            {"client": job["patient"], "form": "int8" if job["int8"] else "float", "beats": len(python)}
            for job, python in zip(jobs, answers, strict=True)
        ]
        versions: dict[str, dict[str, str]] = {"python": {"onnxruntime": onnxruntime.__version__}}
        for where in WHERE:
            versions[where] = asked(where, jobs, folder)
            for row, job, python in zip(rows, jobs, answers, strict=True):
                row[where] = compared(python, np.fromfile(job["out"], "<f4").reshape(python.shape))
            print(where, flush=True)
    return {"versions": versions, "rows": rows}


def summed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what rows add up to: one of each form for the patients' own models, and for the global one."""
    found = []
    for whose in ("patients", "global"):
        for form in ("float", "int8"):
            some = [row for row in rows if row["form"] == form and (row["client"] is None) == (whose == "global")]
            if not some:
                continue
            one: dict[str, Any] = {"whose": whose, "form": form, "models": len(some)}
            one["beats"] = sum(row["beats"] for row in some)
            for where in WHERE:
                one[where] = {
                    "max_logit_difference": max(row[where]["max_logit_difference"] for row in some),
                    "same_labels": sum(row[where]["same_labels"] for row in some),
                }
            found.append(one)
    return found


def table_of(results: dict[str, Any]) -> str:
    """Return the table of the README."""
    columns = ["models", "form", "test beats"]
    for name in WHERE.values():
        columns += [f"{name}: same labels", "largest difference of a logit"]
    lines = []
    for one in summed(results["rows"]):
        whose = f"{one['models']} patients' own" if one["whose"] == "patients" else "the global one"
        cells = [whose, one["form"], f"{one['beats']:,}"]
        for where in WHERE:
            cells += [f"{one[where]['same_labels']:,}", f"{one[where]['max_logit_difference']:.2g}"]
        lines.append(cells)
    python, node, chromium = (results["versions"][name] for name in ("python", *WHERE))
    ran = (
        f"Python with onnxruntime {python['onnxruntime']}; Node {node['node']} with onnxruntime-node "
        f"{node['onnxruntime']}; {chromium['chromium'].replace('/', ' ')} with onnxruntime-web "
        f"{chromium['onnxruntime']}."
    )
    return "\n".join([*table(columns, lines), "", ran])


def main(given: argparse.Namespace) -> None:
    """Measure, and write results and table."""
    bundle, cohort = ecgfed.open_bundle(given.bundle), ecgfed.open_cohort(given.cohort)
    if not bundle.patients:
        raise OptionError("--bundle", f"{given.bundle} has no patients", "one with their models")
    results = measured(bundle, cohort)
    save(given, {"method": bundle.manifest["method"], "rounds": bundle.manifest["rounds"], **results})
    print(table_of(results))


if __name__ == "__main__":
    benchmark(
        main,
        option("--cohort", type=Path, required=True, help="the cohort whose test beats are asked about"),
        option("--bundle", type=Path, required=True, help="a bundle with those patients"),
        option("--results", type=Path, default=Path(__file__).with_name("parity.json")),
        standard=False,
    )
