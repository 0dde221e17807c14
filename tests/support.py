"""What the tests of runs, bundles and commands share."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
import torch
from conftest import write_record
from numpy.typing import NDArray
from safetensors.torch import load_file

import ecgfed
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.exports.bundles.graphs import GraphTemplate

_TEMPLATES: dict[Any, GraphTemplate] = {}
#: A training of whole epochs, as runs of the session are.
#: FedAvg as in its paper: the server takes the mean, whatever length is planned.
PLAIN = tuple(part for name, value in PLAIN_MEAN.items() for part in ("--set", f"{name}={value}"))
FEDAVG = ("--method", "fedavg", "--local-epochs", 1, *PLAIN)
#: The installed command, for what needs a process of its own.
ECGFED = str(Path(sys.executable).with_name("ecgfed"))


class Said(Protocol):
    """What ``conftest.Said`` offers."""

    code: int
    out: str
    err: str
    error_lines: list[str]


Command = Callable[..., Said]


class Recorder(ecgfed.ProgressReporter):
    """Stores all it receives."""

    def __init__(self) -> None:
        self.counted: dict[str, list[tuple[int, int | None]]] = {}
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def update(self, what: str, completed: int, total: int | None, *more: Any, **others: Any) -> None:
        self.counted.setdefault(what, []).append((completed, total))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    @property
    def finished(self) -> set[str]:
        """What was counted up to its end."""
        return {what for what, steps in self.counted.items() if steps[-1][0] == steps[-1][1]}


def assert_refused(said: Said, *fragments: str) -> None:
    """A user's error: one line on stderr that says all of ``fragments``, nothing on stdout, exit code 2."""
    assert said.code == 2, said
    assert said.out == ""
    assert len(said.error_lines) == 1, said.err
    line = said.error_lines[0]
    assert line.startswith("ecgfed: ")
    assert "Traceback" not in said.err
    for fragment in fragments:
        assert fragment in line, f"{fragment!r} is not in: {line}"


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, hidden ones too, by its path in it; nothing for a folder that is not there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copied(folder: Path, to: Path) -> Path:
    """Copy a run or bundle of the session, to be changed."""
    shutil.copytree(folder, to)
    return to


def manifest_of(bundle: Path) -> dict[str, Any]:
    """A bundle's manifest."""
    manifest: dict[str, Any] = json.loads((bundle / "manifest.json").read_text())
    return manifest


def change_json(path: Path, **values: Any) -> None:
    """Replace some top-level values of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_manifest(bundle: Path, **values: Any) -> None:
    """Replace some top-level values of a bundle's manifest (None: take one out), and make its digest anew."""
    from ecgfed.exports.device.canonical import digest_of

    path = bundle / "manifest.json"
    merged = {**json.loads(path.read_text()), **values}
    manifest = {name: value for name, value in merged.items() if value is not None or name in ("weights", "scores")}
    if "digest" in manifest:
        manifest["digest"] = digest_of(manifest, "digest")
    path.write_text(json.dumps(manifest))


def run_limited(file_bytes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process that may not write a file longer than ``file_bytes``: a full disk."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    command = [ECGFED, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)


def assert_full_disk(result: subprocess.CompletedProcess[str], file: str) -> None:
    """One line that names the file which could not be written, exit code 2."""
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert result.stderr.startswith("ecgfed: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert file in result.stderr
    assert "could not be written" in result.stderr


def resealed(cohort: Path) -> Path:
    """Make a changed cohort's hashes true again, as its own maker would; return it."""
    document = json.loads((cohort / "cohort.json").read_text())
    document.pop("digest", None)  # as versions 0.1 and 0.2 wrote none
    for name in document["sha256"]:
        document["sha256"][name] = hashlib.sha256(np.load(cohort / f"{name}.npy").tobytes()).hexdigest()
    hashes = "".join(document["sha256"][name] for name in sorted(document["sha256"]))
    document["fingerprint"] = hashlib.sha256(hashes.encode()).hexdigest()
    (cohort / "cohort.json").write_text(json.dumps(document))
    return cohort


@cache
def exported(run: Path) -> Path:
    """The bundle of a session's run: made once, never changed by a test."""
    from ecgfed.core.runs.run import open_run
    from ecgfed.exports.bundles.export import export_bundle

    opened = open_run(run)
    bundle = run.with_name(f"{run.name}-bundle")
    export_bundle(opened, opened.cohort(), opened.state(), bundle)
    return bundle


def trace_once(patch: pytest.MonkeyPatch) -> None:
    """Trace each role of a net once for all tests: for exports whose graphs are not what is tested."""
    import ecgfed.exports.bundles.graph_writer as module

    def template(net: ResNet1d, role: str, params: dict[str, torch.Tensor]) -> Any:
        key = (net.spec, role)
        if key not in _TEMPLATES:
            _TEMPLATES[key] = GraphTemplate(net, role, params)
        return _TEMPLATES[key]

    patch.setattr(module, "GraphTemplate", template)


@pytest.fixture
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """See ``trace_once``."""
    trace_once(monkeypatch)


def other_cohort(folder: Path) -> Path:
    """A small cohort of one other patient."""
    from ecgfed.domain.cohort.build import build_cohort
    from ecgfed.domain.cohort.folder import folder_sources
    from ecgfed.domain.cohort.sources import PrepareOptions

    write_record(folder / "other-records", "x1", "NNNV" * 6, seed=99)
    out = folder / "other-cohort"
    build_cohort(folder_sources(folder / "other-records"), out, PrepareOptions(), kind="folder", workers=1)
    return out


class SavedRun:
    """A run read by hand, without the code that wrote it: JSON, safetensors and npy files."""

    def __init__(self, run: Path, cohort: Path) -> None:
        self.meta = json.loads((run / "run.json").read_text())
        self.net = ResNet1d(NetSpec(**self.meta["net"]))
        self.files = json.loads((run / "checkpoint" / "progress.json").read_text())["files"]
        self.folder = run / "checkpoint"
        self.array = {path.stem: np.load(path) for path in cohort.glob("*.npy")}
        self.clients = [client["id"] for client in json.loads((cohort / "cohort.json").read_text())["clients"]]

    def params(self, key: str) -> dict[str, torch.Tensor]:
        """The model of ``server`` or ``client/N``."""
        flat = load_file(self.folder / self.files[key]["name"])
        return {name.removeprefix("model/"): value for name, value in flat.items() if name.startswith("model/")}

    def inputs(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Windows and, for a net with RR, RR features of some beats."""
        rr = self.array["rr"][rows] if self.meta["net"]["rr"] else None
        return self.array["beats"][rows], rr

    def logits(
        self, key: str, window: NDArray[np.float32], rr: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """What torch computes with that model."""
        return self.logits_of(self.params(key), window, rr)

    def logits_of(
        self, params: dict[str, torch.Tensor], window: NDArray[np.float32], rr: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """What torch computes with some parameters."""
        inputs = Inputs(torch.from_numpy(window), None if rr is None else torch.from_numpy(rr))
        with torch.inference_mode():
            return np.asarray(self.net.logits(params, inputs))


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Probabilities by the definition, in double precision."""
    from scipy.special import softmax as reference

    return np.asarray(reference(np.asarray(logits, np.float64), axis=1))
