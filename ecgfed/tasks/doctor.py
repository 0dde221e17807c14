"""``doctor``: check the installation and the machine, with a short self-test against stored results."""

import gc
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ecgfed import __version__
from ecgfed.base.errors import EcgfedError
from ecgfed.base.extras import EXTRA_OF, is_installed
from ecgfed.base.platform import cores

#: Packages of the base installation.
BASE = ("numpy", "scipy", "onnxruntime", "typer", "rich", "rfc8785", "defusedxml")
#: Mean training loss of each round of the self-test: FedAvg, plain mean, two synthetic patients, seed 0, width 0.25.
LOSSES = (1.76409, 0.62608)
#: Largest relative deviation due to rounding on other machines; a wrong kernel deviates more.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Check:
    """One part of the self-test.

    Attributes:
        name: what was checked.
        ok: whether the results match the stored ones; None if skipped.
        message: the result, or the reason for skipping.
        seconds: computing time.
    """

    name: str
    ok: bool | None
    message: str
    seconds: float


@dataclass(frozen=True)
class Extra:
    """One extra of ``pip install 'ecgfed[NAME]'``.

    Attributes:
        name: name of the extra.
        installed: package -> version.
        missing: packages that are not installed.
    """

    name: str
    installed: dict[str, str]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """Hardware, operating system and Python.

    Attributes:
        system: operating system and processor architecture.
        python: version and path of the interpreter.
        cores: number of cores available to this process.
        free_memory_bytes: None if unknown.
        free_disk_bytes: free space of the current folder.
        gpu: name and memory, or the reason for none.
        locale: encoding of file names and of the terminal.
    """

    system: str
    python: str
    cores: int
    free_memory_bytes: int | None
    free_disk_bytes: int
    gpu: str
    locale: str


@dataclass(frozen=True)
class Examination:
    """Results of ``examine``.

    Attributes:
        ecgfed: version of ecgfed.
        folder: folder of the installation.
        base: package -> version, or ``missing``.
        extras: the extras.
        machine: the machine.
        checks: results of the self-test; empty if skipped.
    """

    ecgfed: str
    folder: Path
    base: dict[str, str]
    extras: tuple[Extra, ...]
    machine: Machine
    checks: tuple[Check, ...]

    @property
    def healthy(self) -> bool:
        """Whether no check failed and all base packages are installed."""
        return all(check.ok is not False for check in self.checks) and "missing" not in self.base.values()

    def to_dict(self) -> dict[str, object]:
        """Return the output of ``ecgfed doctor --json``."""
        names = {"name": "name", "ok": "ok", "says": "message", "seconds": "seconds"}
        checks = [{key: getattr(check, name) for key, name in names.items()} for check in self.checks]
        return {**asdict(self), "folder": str(self.folder), "checks": checks, "healthy": self.healthy}


def examine(*, self_test: bool = True) -> Examination:
    """Examine the installation and the machine, and test detection, prediction and training. No files remain.

    Args:
        self_test: run the tests; about ten seconds, mostly the import of torch.
    """
    extras: dict[str, list[str]] = {}
    for package, extra in EXTRA_OF.items():
        extras.setdefault(extra, []).append(package)
    parts = (("detection and prediction", _check_prediction), ("training", _check_training))
    checks = tuple(_run_check(name, part) for name, part in parts) if self_test else ()
    terminal = getattr(sys.stdout, "encoding", None) or "unknown"
    return Examination(
        __version__,
        Path(__file__).parents[1],
        {name: _version(name) or "missing" for name in BASE},
        tuple(_extra(name, packages) for name, packages in extras.items()),
        Machine(
            f"{platform.platform()}, {platform.machine()}",
            f"{platform.python_version()}, {sys.executable}",
            cores(),
            _free_memory(),
            shutil.disk_usage(Path.cwd()).free,
            _gpu(),
            f"files {sys.getfilesystemencoding()}, terminal {terminal}",
        ),
        checks,
    )


def _version(package: str) -> str | None:
    if find_spec(package) is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:  # importable, but without metadata
        return "of unknown version"


def _extra(name: str, packages: list[str]) -> Extra:
    versions = {package: _version(package) for package in packages}
    installed = {package: text for package, text in versions.items() if text is not None}
    return Extra(name, installed, tuple(package for package in packages if package not in installed))


def _free_memory() -> int | None:
    """Return the available memory without swapping in bytes (Linux only)."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024 if kilobytes else None


def _gpu() -> str:
    if not is_installed("torch"):
        return "unknown: torch is not installed"
    import torch

    if not torch.cuda.is_available():
        return f"none that torch {torch.__version__} can use"
    name, memory = torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).total_memory
    return f"{name}, {memory / 1e9:.0f} GB, CUDA {torch.version.cuda}"


def _run_check(name: str, part: Callable[[], tuple[bool | None, str]]) -> Check:
    """Run one part of the self-test; an exception becomes its message."""
    started = time.perf_counter()
    try:
        ok, message = part()
    except EcgfedError as problem:
        ok, message = False, problem.line
    except Exception as problem:  # a broken package may raise anything
        ok, message = False, f"{type(problem).__name__}: {problem}"
    return Check(name, ok, message, time.perf_counter() - started)


def _check_prediction() -> tuple[bool | None, str]:
    """Compare every stage from recording to labels with the golden vectors of the packaged model."""
    from ecgfed.exports.device.bundle import open_bundle
    from ecgfed.exports.device.golden import check_golden
    from ecgfed.exports.device.shipped import shipped_model

    report = check_golden(open_bundle(shipped_model()))
    return report.first is None, str(report)


def _check_training() -> tuple[bool | None, str]:
    """Train two rounds on two synthetic patients and compare the losses."""
    missing = [package for package in ("torch", "safetensors", "wfdb") if not is_installed(package)]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRA_OF[package] for package in missing))
        return None, f"skipped: {', '.join(missing)} not installed (pip install 'ecgfed[{extras}]')"
    with tempfile.TemporaryDirectory(prefix="ecgfed-doctor-") as folder:
        losses = losses_of(Path(folder))
        gc.collect()  # Windows does not delete memory-mapped files
    difference = max(abs(loss / stored - 1) for loss, stored in zip(losses, LOSSES, strict=True))
    measured = ", ".join(f"{loss:.4f}" for loss in losses)
    expected = ", ".join(f"{loss:.4f}" for loss in LOSSES)
    deviation = f"{difference:.1%} apart, {TOLERANCE:.0%} is allowed"
    return difference < TOLERANCE, f"losses {measured}; stored {expected}; {deviation}"


def losses_of(folder: Path) -> list[float]:
    """Train the run of the self-test inside a folder and return the mean loss of each round."""
    from ecgfed.core.methods.server_sgd import PLAIN_MEAN
    from ecgfed.core.runs.history import read_history
    from ecgfed.tasks.prepare import prepare_demo
    from ecgfed.tasks.train import train

    cohort = prepare_demo(folder / "cohort", patients=2, minutes=1.0, workers=1)
    run = train(
        cohort,
        folder / "run",
        method="fedavg",
        settings={**PLAIN_MEAN, "lr": 0.005},
        rounds=len(LOSSES),
        local_steps=20,
        width=0.25,
        device="cpu",
        engine="threads",
        workers=1,
        eval_every=0,
    )
    return [float(line["loss_mean"]) for line in read_history(run.path)]
