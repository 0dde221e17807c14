"""Import paths of before the layers: the same modules, with a warning; those that are public without one."""

import ast
import importlib
import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import ecgfed
from ecgfed.base.aliases import PLACE_OF, PUBLIC, REMOVED

#: The folder of each package before 0.3, and one of its modules.
OLD = {
    "ecgfed.errors": "ecgfed.base.errors",
    "ecgfed.record.recording": "ecgfed.domain.record.recording",
    "ecgfed.signal.detectors.registry": "ecgfed.domain.signal.detectors.registry",
    "ecgfed.nets.build": "ecgfed.core.nets.build",
    "ecgfed.bundles.card": "ecgfed.exports.bundles.card",
}


@pytest.fixture
def fresh_names() -> Iterator[None]:
    """Old names are imported anew, and forgotten afterwards."""
    old = [name for name in sys.modules if name.partition(".")[2].partition(".")[0] in PLACE_OF]
    held = {name: sys.modules.pop(name) for name in old}
    yield
    sys.modules.update(held)


@pytest.mark.usefixtures("fresh_names")
@pytest.mark.parametrize(("old", "new"), OLD.items())
def test_an_old_path_is_the_new_module_and_warns(old: str, new: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        module = importlib.import_module(old)
    assert str(said[-1].message) == f"{old} is {new} now; the old name goes with ecgfed {REMOVED}"
    assert {one.category for one in said} == {DeprecationWarning}
    assert module is importlib.import_module(new)
    assert module.__name__ == new
    assert module.__spec__ is not None
    assert module.__spec__.name == new
    assert len(said) == old.count(".")  # each package on the way, and the module


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", ["ecgfed.device", "ecgfed.exports.device"])
def test_the_public_paths_are_the_same_objects_without_a_warning(first: str) -> None:
    code = (
        f"import json, sys, {first}, ecgfed.device, ecgfed.device.stream, ecgfed.testing\n"
        "from ecgfed.device.classifier import Classifier\n"
        "import ecgfed.exports.device as new\n"
        "same = [ecgfed.device is new, ecgfed.device.stream is new.stream, Classifier is new.Classifier,\n"
        "        Classifier is ecgfed.Classifier, new.__spec__.name == 'ecgfed.exports.device']\n"
        "twice = {module.__file__: 0 for name, module in sys.modules.items() if name.startswith('ecgfed.')}\n"
        "modules = {id(module) for name, module in sys.modules.items() if name.startswith('ecgfed.')}\n"
        "print(json.dumps([same, len(twice) == len(modules)]))\n"
    )
    done = python("-W", "error", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [[True] * 5, True]


def test_what_a_method_needs_is_public_without_a_warning() -> None:
    code = (
        "import ecgfed.methods, ecgfed.core.methods\n"
        "from ecgfed.methods import Method, server_step\n"
        "from ecgfed.core.methods.base import Method as same\n"
        "assert ecgfed.methods is ecgfed.core.methods and Method is same\n"
        "assert all(getattr(ecgfed.methods, name) is not None for name in ecgfed.methods.__all__)\n"
        "print(len(ecgfed.methods.__all__))\n"
    )
    done = python("-W", "error", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 40
    listed = (Path(ecgfed.__file__).parent.parent / "docs" / "extend.md").read_text()
    from ecgfed.core import methods

    assert [name for name in methods.__all__ if f"`{name}`" not in listed] == []
    with pytest.raises(AttributeError, match=r"ecgfed.methods.* has no attribute 'nothing'; it offers Batch"):
        methods.nothing  # noqa: B018


def test_the_warning_is_of_the_line_that_imports(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(
        "import ecgfed\nfrom ecgfed.errors import EcgfedError\nassert EcgfedError is ecgfed.EcgfedError\n"
    )
    done = python("-W", "always::DeprecationWarning", str(script))
    assert done.returncode == 0, done.stderr
    assert f"{script}:2: DeprecationWarning: ecgfed.errors is ecgfed.base.errors now" in done.stderr


@pytest.mark.usefixtures("fresh_names")
def test_a_class_that_was_pickled_under_its_old_name_is_found() -> None:
    with pytest.warns(DeprecationWarning, match=r"ecgfed\.base\.errors"):
        assert pickle.loads(b"cecgfed.errors\nEcgfedError\n.") is ecgfed.EcgfedError


def test_what_never_was_there_is_not_found() -> None:
    for name in ("ecgfed.nothing", "ecgfed.record.nothing", "ecgfed.device.nothing", "ecgfed.domain.nothing"):
        with pytest.raises(ModuleNotFoundError, match=rf"No module named '{name}'"):
            importlib.import_module(name)


def test_every_old_name_is_in_the_folder_that_is_named() -> None:
    folder = Path(ecgfed.__file__).parent
    for name, place in PLACE_OF.items():
        there = folder.joinpath(*place.split("."))
        assert there.with_suffix(".py").is_file() or (there / "__init__.py").is_file(), name
        assert not any((folder / name).glob("*.py"))  # of a checkout before, caches may be left
    for name in PUBLIC:
        assert (folder / f"{name}.pyi").is_file()


def test_our_own_code_imports_the_new_paths() -> None:
    """import-linter sees no import of an old name: its contracts would not hold there."""
    folder = Path(ecgfed.__file__).parent
    for file in (*folder.rglob("*.py"), *(folder.parent / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                named = [f"{node.module}.{name}" for name in named]
            for name in named:
                package, *rest = name.split(".")
                assert package != "ecgfed" or not {*rest[:1]} & {*PLACE_OF}, f"{file}:{node.lineno} imports {name}"


def test_the_old_names_go_with_the_version_that_is_named() -> None:
    now, goes = (tuple(map(int, version.split(".")[:2])) for version in (ecgfed.__version__, REMOVED))
    assert now < goes, "remove ecgfed/base/aliases.py but for PUBLIC"


@pytest.mark.slow
def test_a_type_checker_sees_what_is_public(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import ecgfed\nfrom ecgfed.device import Classifier, open_bundle\nfrom ecgfed.testing import check_detector\n"
        "reveal_type(open_bundle)\nreveal_type(ecgfed.predict)\nreveal_type(check_detector)\n"
        "x: Classifier = 1\nfrom ecgfed.device import nothing\n"
    )
    options = ["--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "own.py"],
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": str(Path(ecgfed.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert "-> ecgfed.exports.device.bundle.Bundle" in lines[0]
    assert "-> ecgfed.tasks.predict_batch" in lines[1] or "-> ecgfed." in lines[1]
    assert "def (" in lines[2]
    assert "Incompatible types in assignment" in lines[3]
    assert 'has no attribute "nothing"' in lines[4]
    assert len(lines) == 6, done.stdout
