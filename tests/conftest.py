"""Fixtures: real recordings where they are, synthetic ones everywhere, and the command line in this process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import wfdb

os.environ.pop("COLUMNS", None)  # a console keeps the width it was made under; made without, it asks each time
import ecgfed_cli.output  # noqa: F401
from network_sites import alone, at_once, cohort_of, federation, parts, quick_end, unheld, whole, without  # noqa: F401  # network
from record_files import write_signals

os.environ["COLUMNS"] = "80"  # as where there is no terminal, whatever terminal the tests are started from

# a shell ignores it for what it starts in its background, and children inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MITDB = "ECGFED_MITDB"
CIFAR10 = "ECGFED_CIFAR10"
#: marker of tests on real data, with a browser or with compilers -> the variable that says that (and where) it is there
REAL_DATA = {
    "mitdb": MITDB,
    "cifar10": CIFAR10,
    "svdb": "ECGFED_SVDB",
    "qtdb": "ECGFED_QTDB",
    "cinc2017": "ECGFED_CINC2017",
    "browser": "ECGFED_BROWSER",
    "mcu": "ECGFED_MCU",
    "phones": "ECGFED_PHONES",
    "tflite": "ECGFED_TFLITE",
    "docs": "ECGFED_DOCS",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests too (or set ECGFED_SLOW=1)")


def touched() -> set[str]:
    """Folders and tests of the last commit; none where this is no git checkout with a history."""
    command = ["git", "diff", "--name-only", "HEAD~1", "--", "ecgfed", "cli", "tests"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return set()
    paths = [Path(line) for line in done.stdout.splitlines()]
    return {path.name for path in paths if path.name.startswith("test_")} | {path.parent.name for path in paths}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the tests of what the last commit touched."""
    first = touched() - {"tests", "ecgfed"}
    items.sort(key=lambda item: first.isdisjoint({item.path.name, item.path.parent.name}))
    if config.getoption("--slow") or os.environ.get("ECGFED_SLOW") == "1":
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Where all is there that a test asks for (recordings, images, a browser, compilers), a skip is a failure."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    wanted = [variable for marker, variable in REAL_DATA.items() if item.get_closest_marker(marker)]
    all_there = bool(wanted) and all(os.environ.get(variable) for variable in wanted)
    slow_off = item.get_closest_marker("slow") and call.when == "setup" and "slow: run" in str(report.longrepr)
    if report.skipped and all_there and not slow_off:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped although {' and '.join(wanted)} is set: {report.longrepr}"


def recordings(marker: str, example: str) -> Path:
    """The folder of real recordings that an environment variable names."""
    variable = REAL_DATA[marker]
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} is not set: needs the records of {marker} (see docs/data.md)")
    assert (Path(folder) / example).is_file(), f"{variable}={folder} holds no {example}"
    return Path(folder)


@pytest.fixture(scope="session")
def mitdb() -> Path:
    """The folder of the real MIT-BIH records, from ECGFED_MITDB."""
    return recordings("mitdb", "100.hea")


@pytest.fixture(scope="session")
def svdb() -> Path:
    """The folder of real records of the Supraventricular Arrhythmia Database, from ECGFED_SVDB."""
    return recordings("svdb", "860.hea")


@pytest.fixture(scope="session")
def qtdb() -> Path:
    """The folder of real records of the QT Database, from ECGFED_QTDB."""
    return recordings("qtdb", "sel16265.hea")


@pytest.fixture(scope="session")
def cinc2017() -> Path:
    """The folder of real strips of the Challenge 2017, from ECGFED_CINC2017."""
    return recordings("cinc2017", "A00001.mat")


@pytest.fixture(scope="session")
def cifar10() -> Path:
    """The folder (or archive) of the real CIFAR-10, from ECGFED_CIFAR10: what --source takes."""
    source = os.environ.get(CIFAR10)
    if not source:
        pytest.skip(f"{CIFAR10} is not set: needs CIFAR-10 (see docs/data.md)")
    assert Path(source).exists(), f"{CIFAR10}={source} does not exist"
    return Path(source)


@dataclass(frozen=True)
class Said:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]


@pytest.fixture
def ecgfed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Run ``ecgfed ARGS`` in this process, as the installed command does."""
    from ecgfed_cli.main import main

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["ecgfed", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capfd.readouterr()
        return Said(code, captured.out, captured.err)

    return run


#: Widths (s) and heights (mV) of a bump for each synthetic beat.
SHAPES = {"N": (0.012, 1.0), "V": (0.045, -1.4), "A": (0.012, 0.8), "L": (0.035, 0.9)}


def synthetic_signal(
    symbols: str, *, fs_hz: float = 360.0, rr_s: float = 0.8, seed: int = 0, noise_mv: float = 0.02
) -> tuple[np.ndarray, np.ndarray]:
    """Return a signal (samples,) in mV and R positions: one Gaussian bump a beat, plus noise and wander."""
    rng = np.random.default_rng(seed)
    intervals = rr_s * (1 + 0.05 * rng.standard_normal(len(symbols)))
    r_s = 0.6 + np.cumsum(intervals)
    samples = int((r_s[-1] + 1.0) * fs_hz)
    t = np.arange(samples) / fs_hz
    signal = noise_mv * rng.standard_normal(samples) + 0.15 * np.sin(2 * np.pi * 0.2 * t)
    for at, symbol in zip(r_s, symbols, strict=True):
        width, height = SHAPES[symbol]
        signal += height * np.exp(-0.5 * ((t - at) / width) ** 2)
    return signal, np.rint(r_s * fs_hz).astype(np.int64)


def write_record(
    folder: Path,
    name: str,
    symbols: str,
    *,
    fs_hz: float = 360.0,
    seed: int = 0,
    leads: tuple[str, ...] = ("MLII", "V1"),
    comments: list[str] | None = None,
    annotate: bool = True,
) -> Path:
    """Write a synthetic WFDB record (format 212, gain 200, as MIT-BIH) and its ``.atr``; return its path."""
    signal, r_samples = synthetic_signal(symbols, fs_hz=fs_hz, seed=seed)
    signals = np.stack([signal * (1 - 0.4 * i) for i in range(len(leads))])
    how = {"fmt": "212", "adc_gain": 200.0, "baseline": 1024, "comments": comments or []}
    write_signals(folder, name, signals, fs_hz=fs_hz, leads=leads, **how)
    if annotate:
        wfdb.wrann(name, "atr", r_samples, list(symbols), write_dir=str(folder))
    return folder / name


#: Four patients of different mixtures; p4 has one class only.
PATIENTS = {"p1": "NNNNV" * 12, "p2": "NNAN" * 14, "p3": "LLLLV" * 11, "p4": "N" * 52}


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four synthetic patients."""
    folder = tmp_path_factory.mktemp("records")
    for seed, (name, symbols) in enumerate(PATIENTS.items()):
        write_record(folder, name, symbols, seed=seed)
    return folder


@pytest.fixture(scope="session")
def cohort_path(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort of the four synthetic patients: never changed by a test."""
    return make_cohort(records, tmp_path_factory.mktemp("cohort") / "cohort")


def make_cohort(records: Path, out: Path, rr_version: int = 2) -> Path:
    """Make a cohort of a folder of records and return its folder."""
    from ecgfed.domain.beats.path import BeatOptions
    from ecgfed.domain.cohort.build import build_cohort
    from ecgfed.domain.cohort.folder import folder_sources
    from ecgfed.domain.cohort.sources import PrepareOptions

    options = PrepareOptions(BeatOptions(("MLII",), "annotated", rr_version=rr_version))
    build_cohort(folder_sources(records), out, options, kind="folder", workers=1)
    return out


def train_run(cohort: Path, out: Path, *, method: str = "fedavg", rounds: int = 2, rr: bool = True) -> Path:
    """Train a small run on a cohort and return its folder."""
    from ecgfed.core.federation.data import training_data
    from ecgfed.core.federation.plan import TrainPlan
    from ecgfed.core.federation.threads import ThreadEngine
    from ecgfed.core.federation.train import initial_state, train
    from ecgfed.core.methods.registry import method_by_name
    from ecgfed.core.methods.server_sgd import PLAIN_MEAN, FederatedSgdSettings
    from ecgfed.core.methods.settings import make_settings
    from ecgfed.core.nets.build import make_net
    from ecgfed.core.nets.net import net_spec
    from ecgfed.core.runs.callbacks import SaveCheckpoint, WriteHistory
    from ecgfed.core.runs.run import create_run
    from ecgfed.domain.cohort.cohort import open_cohort

    opened = open_cohort(cohort)
    kind = method_by_name(method)
    spec = net_spec(len(opened.classes), "ecg", rr=rr, rr_version=opened.rr_version)
    plain = PLAIN_MEAN if issubclass(kind.settings_type, FederatedSgdSettings) else {}  # equal however long it lasts
    made = kind(make_net(spec), make_settings(kind.settings_type, {"lr": 0.02, **plain}))
    plan = TrainPlan(rounds=rounds, local_epochs=1, batch_size=16)
    run = create_run(out, opened, made, plan, {})
    data = training_data(opened, rr=rr)
    with ThreadEngine(data, plan, 2) as engine:
        train(made, data, plan, engine, initial_state(made, plan), [WriteHistory(out), SaveCheckpoint(run.store)])
    return out


@pytest.fixture
def quick_finetuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Personal models are trained on for a few steps: what is tested holds after any number of them."""
    from ecgfed.core.personal import distilled, finetune, partway

    monkeypatch.setattr(finetune, "Stopping", partial(finetune.Stopping, steps=10, every=5))
    monkeypatch.setattr(partway, "STEPS", 10)
    monkeypatch.setattr(distilled, "STEPS", 10)


@pytest.fixture(autouse=True)
def _shared_runs_unchanged(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that writes into a run of the session fails, instead of tests after it."""
    shared = sorted({"fedavg_run", "context_run", "local_run"} & set(request.fixturenames))
    runs = [request.getfixturevalue(name) for name in shared]
    before = [sorted(run.rglob("*")) for run in runs]
    yield
    assert [sorted(run.rglob("*")) for run in runs] == before


@pytest.fixture(scope="session")
def fedavg_run(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FedAvg run on the synthetic cohort: never changed by a test."""
    return train_run(cohort_path, tmp_path_factory.mktemp("run") / "fedavg")


@pytest.fixture(scope="session")
def context_run(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FedAvg run of the net ``context`` on RR features of version 3: never changed by a test."""
    folder = tmp_path_factory.mktemp("context")
    return train_run(make_cohort(records, folder / "cohort", 3), folder / "fedavg")


@pytest.fixture(scope="session")
def local_run(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of Local on the synthetic cohort: never changed by a test."""
    return train_run(cohort_path, tmp_path_factory.mktemp("run") / "local", method="local", rr=False)
