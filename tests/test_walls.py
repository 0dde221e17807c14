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
    ("folders", "ecgfed/record/checks.py", "import ecgfed.signal.filters"),
    ("folders", "ecgfed/errors.py", "import ecgfed.files"),
    ("folders", "ecgfed/extras.py", "import ecgfed.record.leads"),
    ("folders", "ecgfed/device/bundle.py", "import ecgfed.cohort.split"),
    ("folders", "ecgfed/federation/plan.py", LAZY.format("ecgfed.runs.run")),
    (
        "folders",
        "ecgfed/runs/run.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ecgfed.evaluation.scores",
    ),
    ("folders", "ecgfed/bundles/graphs.py", LAZY.format("ecgfed.tasks.export")),
    ("folders", "ecgfed/events/rules.py", "import ecgfed.record.checks"),
    ("folders", "ecgfed/labels/groups.py", "import ecgfed.device.bundle"),
    ("folders", "ecgfed/web/page.py", LAZY.format("ecgfed.events.rules")),
    ("folders", "ecgfed/attic/__init__.py", ""),
    ("no-cycles", "ecgfed/evaluation/scores.py", "import ecgfed.evaluation.scenarios"),
    ("no-cycles", "ecgfed/nets/layers.py", LAZY.format("ecgfed.nets.images")),
    ("no-torch", "ecgfed/files.py", "import torch"),
    ("no-torch", "ecgfed/signal/quality.py", LAZY.format("torch")),
    ("no-torch", "ecgfed/device/stream/engine.py", "import torch"),
    ("no-torch", "ecgfed/labels/choose.py", LAZY.format("torch")),
    ("no-torch", "ecgfed/beats/labels.py", "import safetensors.numpy"),
    ("device", "ecgfed/device/bundle.py", "import ecgfed.record.reader"),
    ("device", "ecgfed/signal/filters.py", LAZY.format("wfdb")),
    ("base-files", "ecgfed/errors.py", "import torch"),
    ("base-files", "ecgfed/extras.py", LAZY.format("numpy")),
    ("base-files", "ecgfed/locks.py", LAZY.format("numpy")),
    ("folders", "ecgfed/fsync.py", LAZY.format("ecgfed.runs.run")),
    ("nets-and-methods", "ecgfed/methods/losses.py", "import ecgfed.cohort.cohort"),
    ("nets-and-methods", "ecgfed/nets/layers.py", "import ecgfed.beats.windows"),
    ("training", "ecgfed/runs/run.py", "import ecgfed.cohort.build"),
    ("training", "ecgfed/federation/train.py", LAZY.format("matplotlib.figure")),
    ("reports", "ecgfed/reports/curves.py", "import ecgfed.runs.summary"),
    ("reports", "ecgfed/reports/recording_page.py", LAZY.format("ecgfed.signal.quality")),
    ("command-line", "ecgfed/federation/progress.py", "from rich.progress import Progress"),
    ("command-line", "ecgfed/files.py", "import ecgfed_cli.output"),
    ("thin-command-line", "ecgfed_cli/train.py", LAZY.format("torch")),
    ("verbs", "ecgfed_cli/train.py", LAZY.format("ecgfed.federation.train")),
    ("verbs", "ecgfed_cli/predict.py", "import ecgfed.device"),
    ("verbs", "ecgfed_cli/report.py", LAZY.format("ecgfed.signal.quality")),
    ("verbs", "ecgfed_cli/label.py", LAZY.format("ecgfed.beats.path")),
    ("edfio", "ecgfed/record/reader.py", LAZY.format("edfio")),
    ("pydicom", "ecgfed/record/reader.py", LAZY.format("pydicom")),
    ("wfdb", "ecgfed/cohort/build.py", LAZY.format("wfdb")),
    ("onnx", "ecgfed/evaluation/predict.py", "import onnx.helper"),
    ("tensorflow", "ecgfed/bundles/tflite.py", LAZY.format("tensorflow")),
    ("onnxruntime", "ecgfed/bundles/graphs.py", LAZY.format("onnxruntime")),
    ("detectors", "ecgfed/signal/quality.py", LAZY.format("neurokit2")),
    ("detectors", "ecgfed/beats/extract.py", LAZY.format("sleepecg")),
    ("cryptography", "ecgfed/device/bundle.py", LAZY.format("cryptography")),
    ("flower", "ecgfed/federation/train.py", LAZY.format("flwr.app")),
    ("verbs", "ecgfed_cli/federate.py", LAZY.format("ecgfed.federation.train")),
    ("folders", "ecgfed/tasks/train.py", LAZY.format("ecgfed.network.federate")),
    ("matplotlib", "ecgfed/evaluation/scores.py", LAZY.format("matplotlib.pyplot")),
    ("record", "ecgfed/record/checks.py", "import ecgfed.record.tables"),
    ("record", "ecgfed/record/csv_files.py", "import ecgfed.record.edf_files"),
    ("methods", "ecgfed/methods/base.py", "import ecgfed.methods.fedavg"),
    ("methods", "ecgfed/methods/ditto.py", LAZY.format("ecgfed.methods.grp_fed")),
    ("methods", "ecgfed/methods/new_method.py", ""),
    ("fed-rod", "ecgfed/methods/ditto.py", "import ecgfed.methods.fedprox"),
    ("fedrep", "ecgfed/methods/grp_fed.py", "import ecgfed.methods.fedper"),
    ("federation", "ecgfed/federation/client_round.py", "import ecgfed.federation.threads"),
    ("federation", "ecgfed/federation/plan.py", "import ecgfed.federation.data"),
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
        ("import ecgfed, ecgfed.errors, ecgfed.files, ecgfed.extras", {"torch", "numpy", "typer", "rich"}),
        ("import ecgfed.device", {"torch", "wfdb", "neurokit2", "onnx", "pandas", "scipy"}),
        ("import ecgfed.cohort.build", {"torch", "onnx", "onnxruntime", "neurokit2"}),
        ("import ecgfed.record.reader", {"torch", "wfdb", "edfio", "pydicom", "pandas", "neurokit2", "scipy"}),
        ("import ecgfed_cli.main", {"torch", "wfdb", "neurokit2", "onnx", "onnxruntime", "matplotlib"}),
        (
            "import ecgfed.federation.train, ecgfed.runs.run, ecgfed.evaluation.scenarios, ecgfed.reports.curves",
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
    rooms = {room for layer in draw_house.layers()[:-1] for room in layer}
    assert rooms == set(draw_house.WHAT)
