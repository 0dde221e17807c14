"""Asking the models of bundles in Node and in headless Chromium: what ``make browser`` brings, or a test that skips."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from browser_driver import chromium_path
from node_runtime import BROWSER, RUNTIME, Refused, node_path
from numpy.typing import NDArray

WHERE = ("node", "chromium")


def golden(bundle: Path) -> dict[str, Any]:
    """Return the job that computes a bundle's golden vectors again."""
    return {"call": "golden", "bundle": str(bundle.resolve())}


def signature(bundle: Path, trusted: list[str] | None = None) -> dict[str, Any]:
    """Return the job that says who signed a bundle."""
    job: dict[str, Any] = {"call": "signature", "bundle": str(bundle.resolve())}
    return job if trusted is None else {**job, "trusted": trusted}


def logits(
    bundle: Path, patient: str | None, window_mv: NDArray[np.float32], rr: NDArray[np.float32] | None, *, int8: bool
) -> dict[str, Any]:
    """Return the job that asks a model of beats (beats, 1, 256), (beats, features)."""
    about = {"call": "logits", "bundle": str(bundle.resolve()), "patient": patient, "int8": int8}
    return {**about, "window": window_mv, "rr": rr}


def in_models(where: str, *jobs: dict[str, Any]) -> list[Any]:
    """Do jobs in ``node`` or ``chromium``; return each one's answer, logits (beats, classes) as ``found``."""
    chromium = chromium_path() if where == "chromium" else None
    package = {"node": "onnxruntime-node", "chromium": "onnxruntime-web"}[where]
    node = node_path(package, *(["puppeteer-core"] if chromium else []))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        asked = [_laid_out(job, folder / str(number)) for number, job in enumerate(jobs)]
        given = {"chromium": chromium, "runtime": str(RUNTIME.resolve()), "jobs": asked}
        (folder / "given.json").write_text(json.dumps(given))
        command = [node, "--no-warnings", str(BROWSER / "models.mjs"), str(folder / "given.json")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["errors"] == []
        return [_read(one, job) for one, job in zip(told["answers"], asked, strict=True)]


def _laid_out(job: dict[str, Any], stem: Path) -> dict[str, Any]:
    """Write a job's matrices into files."""
    made = dict(job)
    for name in ("window", "rr"):
        if isinstance(job.get(name), np.ndarray):
            made[name] = f"{stem}.{name}"
            Path(made[name]).write_bytes(job[name].astype("<f4").tobytes())
    if job["call"] == "logits":
        made["out"] = f"{stem}.logits"
    return made


def _read(one: dict[str, Any], job: dict[str, Any]) -> Any:
    if "error" in one:
        return Refused(one["error"])
    if "out" not in job:
        return one["answer"]
    beats = Path(job["window"]).stat().st_size // (256 * 4)
    return {**one["answer"], "found": np.fromfile(job["out"], "<f4").reshape(beats, -1)}
