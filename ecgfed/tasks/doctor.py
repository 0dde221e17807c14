"""``doctor``: what is installed, what the machine has, and a short self-test against stored answers."""

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

#: What the base install brings.
BASE = ("numpy", "scipy", "onnxruntime", "typer", "rich")
#: The mean training loss of each round of the self-test's run: FedAvg, two synthetic patients, seed 0, width 0.25.
LOSSES = (1.76409, 0.62608)
#: How far another machine's rounding may take them apart; a wrong kernel takes them further.
WITHIN = 0.02


@dataclass(frozen=True)
class Check:
    """One part of the self-test.

    Attributes:
        name: what was tried.
        ok: whether it gave the stored answers; None where it could not be tried.
        says: what came out, or why it was not tried.
        seconds: how long it took.
    """

    name: str
    ok: bool | None
    says: str
    seconds: float


@dataclass(frozen=True)
class Extra:
    """One extra of ``pip install 'ecgfed[NAME]'``.

    Attributes:
        name: as pip takes it.
        installed: package -> version.
        missing: packages that are not there.
    """

    name: str
    installed: dict[str, str]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """What there is to work with.

    Attributes:
        system: operating system and processor's kind.
        python: version and where its program lies.
        cores: how many this process may use.
        free_memory_bytes: None where the system does not say.
        free_disk_bytes: in the folder where this was asked.
        gpu: name and memory; or why there is none.
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
    """What ``examine`` found.

    Attributes:
        ecgfed: its version.
        folder: where it is installed.
        base: package -> version; ``missing`` where it is not there.
        extras: each extra.
        machine: what there is to work with.
        checks: the self-test; empty where it was left out.
    """

    ecgfed: str
    folder: Path
    base: dict[str, str]
    extras: tuple[Extra, ...]
    machine: Machine
    checks: tuple[Check, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing that was tried gave another answer, and the base is whole."""
        return all(one.ok is not False for one in self.checks) and "missing" not in self.base.values()

    def to_dict(self) -> dict[str, object]:
        """Return what ``ecgfed doctor --json`` prints."""
        return {**asdict(self), "folder": str(self.folder), "healthy": self.healthy}


def examine(*, self_test: bool = True) -> Examination:
    """Look at the installation and the machine, and try detection, prediction and training. Nothing is kept.

    Args:
        self_test: try them; about ten seconds, most of them torch's import.
    """
    extras: dict[str, list[str]] = {}
    for package, extra in EXTRA_OF.items():
        extras.setdefault(extra, []).append(package)
    checks = (_tried("detection and prediction", _predicts), _tried("training", _trains)) if self_test else ()
    return Examination(
        __version__,
        Path(__file__).parents[1],
        {name: _version(name) or "missing" for name in BASE},
        tuple(_extra(name, packages) for name, packages in extras.items()),
        _machine(),
        checks,
    )


def _version(package: str) -> str | None:
    if find_spec(package) is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:  # it can be imported, and nobody says which it is
        return "of unknown version"


def _extra(name: str, packages: list[str]) -> Extra:
    found = {package: _version(package) for package in packages}
    there = {package: said for package, said in found.items() if said is not None}
    return Extra(name, there, tuple(package for package in packages if package not in there))


def _machine() -> Machine:
    terminal = getattr(sys.stdout, "encoding", None) or "unknown"
    return Machine(
        f"{platform.platform()}, {platform.machine()}",
        f"{platform.python_version()}, {sys.executable}",
        cores(),
        _free_memory(),
        shutil.disk_usage(Path.cwd()).free,
        _gpu(),
        f"files {sys.getfilesystemencoding()}, terminal {terminal}",
    )


def _free_memory() -> int | None:
    """Return the memory that can be had without swapping, in bytes, as Linux says it."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024 if kilobytes else None


def _gpu() -> str:
    if not is_installed("torch"):
        return "not looked for: torch is not installed"
    import torch

    if not torch.cuda.is_available():
        return f"none that torch {torch.__version__} can use"
    name, memory = torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).total_memory
    return f"{name}, {memory / 1e9:.0f} GB, CUDA {torch.version.cuda}"


def _tried(name: str, part: Callable[[], tuple[bool | None, str]]) -> Check:
    """Run one part of the self-test; whatever it raises is what it says."""
    started = time.perf_counter()
    try:
        ok, says = part()
    except EcgfedError as problem:
        ok, says = False, problem.line
    except Exception as problem:  # a broken package may raise anything: naming it is what this is for
        ok, says = False, f"{type(problem).__name__}: {problem}"
    return Check(name, ok, says, time.perf_counter() - started)


def _predicts() -> tuple[bool | None, str]:
    """Compare every stage from a recording to labels with the packaged model's golden vectors."""
    from ecgfed.exports.device.bundle import open_bundle
    from ecgfed.exports.device.golden import check_golden
    from ecgfed.exports.device.shipped import shipped_model

    found = check_golden(open_bundle(shipped_model()))
    return found.first is None, str(found)


def _trains() -> tuple[bool | None, str]:
    """Train two rounds on two synthetic patients and compare the losses."""
    missing = [package for package in ("torch", "safetensors", "wfdb") if not is_installed(package)]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRA_OF[package] for package in missing))
        return None, f"not tried: {', '.join(missing)} not installed (pip install 'ecgfed[{extras}]')"
    with tempfile.TemporaryDirectory(prefix="ecgfed-doctor-") as folder:
        losses = losses_of(Path(folder))
        gc.collect()  # Windows removes no file that an array is still mapped to
    apart = max(abs(found / stored - 1) for found, stored in zip(losses, LOSSES, strict=True))
    said = ", ".join(f"{loss:.4f}" for loss in losses)
    wanted = ", ".join(f"{loss:.4f}" for loss in LOSSES)
    return apart < WITHIN, f"losses {said}; stored {wanted}; {apart:.1%} apart, {WITHIN:.0%} is let through"


def losses_of(folder: Path) -> list[float]:
    """Train the self-test's run below a folder and return the mean loss of each round."""
    from ecgfed.core.runs.history import HISTORY, read_lines
    from ecgfed.tasks.prepare import prepare_demo
    from ecgfed.tasks.train import train

    cohort = prepare_demo(folder / "cohort", patients=2, minutes=1.0, workers=1)
    run = train(
        cohort,
        folder / "run",
        method="fedavg",
        rounds=len(LOSSES),
        local_steps=20,
        width=0.25,
        device="cpu",
        engine="threads",
        workers=1,
        eval_every=0,
    )
    return [float(line["loss_mean"]) for line in read_lines(run.path / HISTORY)]
