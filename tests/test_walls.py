"""The walls of the house: each contract in pyproject.toml holds, and falls when it is broken; what is never loaded."""

import shutil
import subprocess
import sys
import tomllib
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
    ("folders", "ecgfed/exports/bundles/graphs.py", LAZY.format("ecgfed.tasks.export")),
    ("device", "ecgfed/domain/signal/filters.py", LAZY.format("wfdb")),
    ("core", "ecgfed/core/federation/plan.py", LAZY.format("ecgfed.core.runs.run")),
    ("exports", "ecgfed/exports/device/bundle.py", LAZY.format("ecgfed.exports.bundles.export")),
    ("no-cycles", "ecgfed/core/nets/layers.py", LAZY.format("ecgfed.core.nets.images")),
    ("no-torch", "ecgfed/domain/signal/quality.py", LAZY.format("torch")),
    ("base-files", "ecgfed/base/extras.py", LAZY.format("numpy")),
    ("nets-and-methods", "ecgfed/core/methods/losses.py", "import ecgfed.domain.cohort.cohort"),
    ("training", "ecgfed/core/federation/train.py", LAZY.format("matplotlib.figure")),
    ("reports", "ecgfed/reports/recording_page.py", LAZY.format("ecgfed.domain.signal.quality")),
    ("command-line", "ecgfed/core/federation/progress.py", "from rich.progress import Progress"),
    ("thin-command-line", "ecgfed_cli/train.py", LAZY.format("torch")),
    ("verbs", "ecgfed_cli/train.py", LAZY.format("ecgfed.core.federation.train")),
    ("edfio", "ecgfed/domain/record/reader.py", LAZY.format("edfio")),
    ("pydicom", "ecgfed/domain/record/reader.py", LAZY.format("pydicom")),
    ("wfdb", "ecgfed/domain/cohort/build.py", LAZY.format("wfdb")),
    ("onnx", "ecgfed/core/evaluation/predict.py", "import onnx.helper"),
    ("tensorflow", "ecgfed/exports/bundles/tflite.py", LAZY.format("tensorflow")),
    ("onnxruntime", "ecgfed/exports/bundles/graphs.py", LAZY.format("onnxruntime")),
    ("detectors", "ecgfed/domain/signal/quality.py", LAZY.format("neurokit2")),
    ("cryptography", "ecgfed/exports/device/bundle.py", LAZY.format("cryptography")),
    ("flower", "ecgfed/core/federation/train.py", LAZY.format("flwr.app")),
    ("matplotlib", "ecgfed/core/evaluation/scores.py", LAZY.format("matplotlib.pyplot")),
    ("templates", "ecgfed/tasks/report.py", LAZY.format("jinja2")),
    ("device", "ecgfed/exports/device/bundle.py", LAZY.format("jinja2")),
    ("record", "ecgfed/domain/record/checks.py", "import ecgfed.domain.record.tables"),
    ("methods", "ecgfed/core/methods/ditto.py", LAZY.format("ecgfed.core.methods.grp_fed")),
    ("fed-rod", "ecgfed/core/methods/ditto.py", "import ecgfed.core.methods.fedprox"),
    ("fedrep", "ecgfed/core/methods/grp_fed.py", "import ecgfed.core.methods.fedper"),
    ("federation", "ecgfed/core/federation/client_round.py", "import ecgfed.core.federation.threads"),
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages beside their contracts, to be broken."""
    for name, source in (("ecgfed", "ecgfed"), ("ecgfed_cli", "cli")):
        shutil.copytree(ROOT / source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def test_every_contract_is_broken_below() -> None:
    assert {contract for contract, _, _ in BREAKS} == set(CONTRACTS)


def test_broken_contracts_are_reported(house: Path) -> None:
    """All broken at once, in one run on the copy, which Python finds before the installed packages."""
    for _, file, text in BREAKS:
        path = house / file
        if not path.parent.is_dir():
            path.parent.mkdir()
            (path.parent / "__init__.py").touch()
        path.write_text((path.read_text() if path.exists() else "") + f"\n{text}\n")
    command = [Path(sys.executable).with_name("lint-imports"), "--cache-dir", "cache"]
    done = subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    for contract, name in CONTRACTS.items():
        assert f"{name} BROKEN" in said, contract


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
