"""The walls of the house: each contract in pyproject.toml holds, and falls when it is broken; what is never loaded."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent
CONTRACTS = {
    contract["id"]: contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
LAZY = "def later():\n    import {0}\n"

#: contract -> (a file, what is added to it, made where it is not there)
BREAKS = [
    ("domain", "ecgfed/domain/record/checks.py", "import ecgfed.domain.signal.filters"),
    ("base", "ecgfed/base/errors.py", "import ecgfed.base.files"),
    ("folders", "ecgfed/base/extras.py", "import ecgfed.domain.record.leads"),
    ("device", "ecgfed/exports/device/bundle.py", "import ecgfed.domain.cohort.split"),
    ("core", "ecgfed/core/federation/plan.py", LAZY.format("ecgfed.core.runs.run")),
    (
        "core",
        "ecgfed/core/runs/run.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ecgfed.core.evaluation.scores",
    ),
    ("folders", "ecgfed/exports/bundles/graphs.py", LAZY.format("ecgfed.tasks.export")),
    ("domain", "ecgfed/domain/events/rules.py", "import ecgfed.domain.record.checks"),
    ("folders", "ecgfed/domain/labels/groups.py", "import ecgfed.exports.device.bundle"),
    ("folders", "ecgfed/web/page.py", LAZY.format("ecgfed.domain.events.rules")),
    ("folders", "ecgfed/attic/__init__.py", ""),
    ("folders", "ecgfed/core/nets/layers.py", LAZY.format("ecgfed.exports.device.bundle")),
    ("folders", "ecgfed/domain/beats/rr.py", "import ecgfed.core.nets.layers"),
    ("domain", "ecgfed/domain/attic/__init__.py", ""),
    ("exports", "ecgfed/exports/device/bundle.py", LAZY.format("ecgfed.exports.bundles.export")),
    ("base", "ecgfed/base/attic.py", ""),
    ("no-cycles", "ecgfed/core/evaluation/scores.py", "import ecgfed.core.evaluation.scenarios"),
    ("no-cycles", "ecgfed/core/nets/layers.py", LAZY.format("ecgfed.core.nets.images")),
    ("no-torch", "ecgfed/base/files.py", "import torch"),
    ("no-torch", "ecgfed/domain/signal/quality.py", LAZY.format("torch")),
    ("no-torch", "ecgfed/exports/device/stream/engine.py", "import torch"),
    ("no-torch", "ecgfed/domain/labels/choose.py", LAZY.format("torch")),
    ("no-torch", "ecgfed/domain/beats/labels.py", "import safetensors.numpy"),
    ("device", "ecgfed/exports/device/bundle.py", "import ecgfed.domain.record.reader"),
    ("device", "ecgfed/domain/signal/filters.py", LAZY.format("wfdb")),
    ("base-files", "ecgfed/base/errors.py", "import torch"),
    ("base-files", "ecgfed/base/extras.py", LAZY.format("numpy")),
    ("base-files", "ecgfed/base/locks.py", LAZY.format("numpy")),
    ("folders", "ecgfed/base/fsync.py", LAZY.format("ecgfed.core.runs.run")),
    ("nets-and-methods", "ecgfed/core/methods/losses.py", "import ecgfed.domain.cohort.cohort"),
    ("nets-and-methods", "ecgfed/core/nets/layers.py", "import ecgfed.domain.beats.windows"),
    ("training", "ecgfed/core/runs/run.py", "import ecgfed.domain.cohort.build"),
    ("training", "ecgfed/core/federation/train.py", LAZY.format("matplotlib.figure")),
    ("reports", "ecgfed/reports/curves.py", "import ecgfed.core.runs.summary"),
    ("reports", "ecgfed/reports/recording_page.py", LAZY.format("ecgfed.domain.signal.quality")),
    ("command-line", "ecgfed/core/federation/progress.py", "from rich.progress import Progress"),
    ("command-line", "ecgfed/base/files.py", "import ecgfed_cli.output"),
    ("thin-command-line", "ecgfed_cli/train.py", LAZY.format("torch")),
    ("verbs", "ecgfed_cli/train.py", LAZY.format("ecgfed.core.federation.train")),
    ("verbs", "ecgfed_cli/predict.py", "import ecgfed.exports.device"),
    ("verbs", "ecgfed_cli/report.py", LAZY.format("ecgfed.domain.signal.quality")),
    ("verbs", "ecgfed_cli/label.py", LAZY.format("ecgfed.domain.beats.path")),
    ("edfio", "ecgfed/domain/record/reader.py", LAZY.format("edfio")),
    ("pydicom", "ecgfed/domain/record/reader.py", LAZY.format("pydicom")),
    ("wfdb", "ecgfed/domain/cohort/build.py", LAZY.format("wfdb")),
    ("onnx", "ecgfed/core/evaluation/predict.py", "import onnx.helper"),
    ("tensorflow", "ecgfed/exports/bundles/tflite.py", LAZY.format("tensorflow")),
    ("onnxruntime", "ecgfed/exports/bundles/graphs.py", LAZY.format("onnxruntime")),
    ("detectors", "ecgfed/domain/signal/quality.py", LAZY.format("neurokit2")),
    ("detectors", "ecgfed/domain/beats/extract.py", LAZY.format("sleepecg")),
    ("cryptography", "ecgfed/exports/device/bundle.py", LAZY.format("cryptography")),
    ("flower", "ecgfed/core/federation/train.py", LAZY.format("flwr.app")),
    ("verbs", "ecgfed_cli/federate.py", LAZY.format("ecgfed.core.federation.train")),
    ("folders", "ecgfed/tasks/train.py", LAZY.format("ecgfed.network.federate")),
    ("matplotlib", "ecgfed/core/evaluation/scores.py", LAZY.format("matplotlib.pyplot")),
    ("templates", "ecgfed/tasks/report.py", LAZY.format("jinja2")),
    ("device", "ecgfed/exports/device/bundle.py", LAZY.format("jinja2")),
    ("record", "ecgfed/domain/record/checks.py", "import ecgfed.domain.record.tables"),
    ("record", "ecgfed/domain/record/csv_files.py", "import ecgfed.domain.record.edf_files"),
    ("methods", "ecgfed/core/methods/base.py", "import ecgfed.core.methods.fedavg"),
    ("methods", "ecgfed/core/methods/ditto.py", LAZY.format("ecgfed.core.methods.grp_fed")),
    ("methods", "ecgfed/core/methods/new_method.py", ""),
    ("fed-rod", "ecgfed/core/methods/ditto.py", "import ecgfed.core.methods.fedprox"),
    ("fedrep", "ecgfed/core/methods/grp_fed.py", "import ecgfed.core.methods.fedper"),
    ("federation", "ecgfed/core/federation/client_round.py", "import ecgfed.core.federation.threads"),
    ("federation", "ecgfed/core/federation/plan.py", "import ecgfed.core.federation.data"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages beside their contracts, to be broken."""
    folder = tmp_path_factory.mktemp("house")
    for name, source in (("ecgfed", "ecgfed"), ("ecgfed_cli", "cli")):
        shutil.copytree(ROOT / source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


@pytest.fixture
def spoil(house: Path) -> Iterator[Callable[[str, str], None]]:
    """Return a function that adds a text to a file of the house; afterwards all is as before."""
    before: dict[Path, str | None] = {}

    def add(name: str, text: str) -> None:
        path = house / name
        before[path] = path.read_text() if path.exists() else None
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text((before[path] or "") + "\n" + text + "\n")

    yield add
    for path, text in before.items():
        if text is not None:
            path.write_text(text)
        elif path.parent.name in ("stream", "attic"):
            shutil.rmtree(path.parent)
        else:
            path.unlink()


def lint(house: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run lint-imports on the copy, which Python finds before the installed packages."""
    command = [Path(sys.executable).with_name("lint-imports"), "--cache-dir", "cache", *options]
    return subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)


def test_the_house_keeps_its_contracts(house: Path) -> None:
    done = lint(house)
    assert done.returncode == 0, done.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


def test_every_contract_is_broken_below() -> None:
    assert {contract for contract, _, _ in BREAKS} == set(CONTRACTS)


@pytest.mark.parametrize(("contract", "file", "text"), BREAKS, ids=[f"{c}-{f}" for c, f, _ in BREAKS])
def test_a_broken_contract_is_reported(
    house: Path, spoil: Callable[[str, str], None], contract: str, file: str, text: str
) -> None:
    spoil(file, text)
    done = lint(house, "--contract", contract)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "0 kept, 1 broken" in done.stdout
    said = " ".join(done.stdout.split())
    assert f"{CONTRACTS[contract]} BROKEN" in said
    assert f".{Path(file.removesuffix('/__init__.py')).stem}" in said
    assert not done.stderr


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        (
            "import ecgfed, ecgfed.base.errors, ecgfed.base.files, ecgfed.base.extras",
            {"torch", "numpy", "typer", "rich"},
        ),
        ("import ecgfed.device", {"torch", "wfdb", "neurokit2", "onnx", "pandas", "scipy", "jinja2"}),
        ("import ecgfed.domain.cohort.build", {"torch", "onnx", "onnxruntime", "neurokit2"}),
        ("import ecgfed.domain.record.reader", {"torch", "wfdb", "edfio", "pydicom", "pandas", "neurokit2", "scipy"}),
        ("import ecgfed_cli.main", {"torch", "wfdb", "neurokit2", "onnx", "onnxruntime", "matplotlib"}),
        (
            "import ecgfed.core.federation.train, ecgfed.core.runs.run, ecgfed.core.evaluation.scenarios, "
            "ecgfed.reports.curves",
            {"wfdb", "neurokit2", "onnx", "onnxruntime", "pandas"},
        ),
    ],
)
def test_a_fresh_interpreter_does_not_load(statement: str, never: set[str]) -> None:
    loaded = _loaded_by(statement)
    assert "ecgfed" in loaded
    assert not loaded & never


def test_the_picture_of_the_house_shows_the_layers() -> None:
    """docs/images/house.svg is what its script draws from the contract, and every room has its words."""
    draw_house = load_script(ROOT / "docs" / "images" / "draw_house.py")
    assert draw_house.drawn() == (ROOT / "docs" / "images" / "house.svg").read_text("utf-8")
    rooms = {room for layer in draw_house.layers() for room in layer}
    assert set(draw_house.GROUPS) <= rooms
    inside = {room for group in draw_house.GROUPS for layer in draw_house.layers(f"ecgfed.{group}") for room in layer}
    assert (rooms | inside) - {*draw_house.GROUPS, "base"} == set(draw_house.WHAT)
