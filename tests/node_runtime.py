"""Calling the JavaScript runtime in Node: what ``make browser`` brings, or a test that skips."""

import base64
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ecgfed.exports
from ecgfed.domain.record.reader import open_recording

RUNTIME = Path(ecgfed.exports.__file__).parent / "js"
BROWSER = Path(__file__).parent / "browser"
_KINDS = {"f64": np.dtype("<f8"), "f32": np.dtype("<f4"), "u8": np.dtype("u1")}


@dataclass(frozen=True)
class Refused:
    """The one line with which the runtime refused something."""

    line: str


def node_path(*packages: str) -> str:
    """Where node is; skips where it is not, or the packages of ``tests/browser`` are not."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: make browser")
    missing = [name for name in packages if not (BROWSER / "node_modules" / name).is_dir()]
    if missing:
        pytest.skip(f"not the package {missing[0]} of tests/browser: make browser")
    return node


def serial_lines(path: Path, units: str) -> str:
    """Return a recording as a device would send it on a serial line, in microvolt or steps of as much."""
    recording = open_recording(path, (), every_lead=True)
    rows = np.rint(1000 * np.asarray(recording.signals_mv).T).astype(int).tolist()
    head = f"# ecgfed fs={recording.fs_hz:g} leads={','.join(recording.leads)} units={units}"
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


def own(call: str, *args: Any) -> dict[str, Any]:
    """Return a job for a function of ``stages.mjs``."""
    return {"module": None, "call": call, "args": list(args)}


def of(module: str, call: str, *args: Any) -> dict[str, Any]:
    """Return a job for a function of a module of the runtime."""
    return {"module": module, "call": call, "args": list(args)}


def in_node(*jobs: dict[str, Any], packages: tuple[str, ...] = (), timeout_s: float = 300) -> list[Any]:
    """Do jobs in one Node, and return what each answered; arrays are float64, float32 or uint8."""
    node = node_path(*packages)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.json"
        file.write_text(json.dumps(_encoded(jobs)))
        command = [node, str(BROWSER / "stages.mjs"), str(RUNTIME), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    return [Refused(one["error"]) if "error" in one else _decoded(one["answer"]) for one in json.loads(done.stdout)]


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.ndim > 1:
            return [_encoded(row) for row in value]
        kind = {"f": "f64", "u": "u8", "b": "u8"}[value.dtype.kind]
        kind = "f32" if value.dtype == np.float32 else kind
        return {kind: base64.b64encode(value.astype(_KINDS[kind]).tobytes()).decode()}
    if isinstance(value, dict):
        return {name: _encoded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if isinstance(value, dict):
        for kind, dtype in _KINDS.items():
            if set(value) == {kind}:
                return np.frombuffer(base64.b64decode(value[kind]), dtype)
        return {name: _decoded(one) for name, one in value.items()}
    return value
