"""The walls of the house: which folder may import which, and what never gets loaded on a device."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ecgfed

ROOT = Path(ecgfed.__file__).parent
#: folder -> folders of ecgfed it may import (itself and the base always)
ALLOWED = {
    "record": set(),
    "signal": {"record"},
    "beats": {"record", "signal"},
    "cohort": {"record", "signal", "beats"},
    "nets": set(),
    "methods": {"nets"},
    "federation": {"nets", "methods", "cohort"},
    "runs": {"nets", "methods", "cohort", "federation"},
    "evaluation": {"record", "beats", "nets", "methods", "cohort", "federation", "runs"},
    "device": {"record", "signal", "beats"},
    "bundles": {"nets", "methods", "cohort", "federation", "runs", "evaluation", "beats", "device"},
    "reports": set(),
}
BASE = {"errors", "files", "text", "__init__"}
#: third-party packages a folder must not import, not even inside a function
FORBIDDEN = {
    "record": {"torch"},
    "signal": {"torch"},
    "beats": {"torch", "wfdb"},
    "cohort": {"torch", "wfdb"},
    "device": {"torch", "wfdb", "onnx"},
    "reports": {"torch"},
    "nets": {"wfdb", "onnx"},
    "methods": {"wfdb", "onnx"},
    "federation": {"wfdb", "onnx"},
    "evaluation": {"wfdb", "onnx", "onnxruntime"},
}


def _imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} uses a relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "ecgfed")
    return found


def test_every_folder_is_named() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ALLOWED)


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_imports_run_one_way(folder: str) -> None:
    for file in (ROOT / folder).glob("*.py"):
        for name in _imports(file):
            parts = name.split(".")
            if parts[0] == "ecgfed" and len(parts) > 1 and parts[1] not in BASE and parts[1] != "__version__":
                assert parts[1] in ALLOWED[folder] | {folder}, f"{file.name} imports {name}"
            assert parts[0] not in FORBIDDEN.get(folder, set()), f"{file.name} imports {name}"
            assert parts[0] not in {"ecgfed_cli", "typer", "rich"}, f"{file.name} imports {name}"


def test_walls_have_no_cycle() -> None:
    order: list[str] = []
    while len(order) < len(ALLOWED):
        free = [name for name in ALLOWED if name not in order and ALLOWED[name] <= set(order)]
        assert free, "the allowed imports form a cycle"
        order += free


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        ("import ecgfed.device", {"torch", "wfdb", "neurokit2", "onnx", "pandas", "scipy"}),
        ("import ecgfed.cohort.build", {"torch", "onnx", "onnxruntime", "neurokit2"}),
        ("import ecgfed.record.reader", {"torch", "wfdb", "edfio", "pandas", "neurokit2", "scipy"}),
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
