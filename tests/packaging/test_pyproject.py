"""What pyproject.toml says of packages, beside what the code imports and what lies in the folders."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from ecgfed.base.errors import MissingExtraError
from ecgfed.base.extras import EXTRA_OF, naming_the_extra, require

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = DOCUMENT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
#: Where the code of each installed package lies.
FOLDERS = {"ecgfed": ROOT / "ecgfed", "ecgfed_cli": ROOT / "cli"}


#: Extras that ``all`` leaves out, since they ask for older versions of what everybody has.
BESIDE_ALL = {"flower"}
#: Packages of an environment of their own, as code imports them and as they are installed: one file needs them.
APART = {"tensorflow": "tensorflow-cpu", "tflite_micro": "tflite-micro"}
APART_FILE = FOLDERS["ecgfed"] / "exports" / "bundles" / "tflite_convert.py"


def names(requirements: list[str]) -> set[str]:
    """Return the names of some requirements, those of the extra ``ecgfed[...]`` left out."""
    return {re.split(r"[^\w-]", one, maxsplit=1)[0] for one in requirements} - {"ecgfed"}


def imported(folder: Path) -> set[str]:
    """Return the top-level packages that any file below a folder imports, inside functions too."""
    return set().union(*map(imported_by, folder.rglob("*.py")))


def imported_by(file: Path) -> set[str]:
    """Return the top-level packages that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def test_every_folder_is_a_package_that_is_installed() -> None:
    """Setuptools finds packages by itself only where no folder is renamed, as ``cli`` is."""
    there = {
        ".".join([package, *file.parent.relative_to(folder).parts])
        for package, folder in FOLDERS.items()
        for file in folder.rglob("*.py")
    }
    assert sorted(DOCUMENT["tool"]["setuptools"]["packages"]) == sorted(there)


def test_what_is_imported_is_asked_for() -> None:
    base = names(PROJECT["dependencies"])
    used = set().union(*map(imported, FOLDERS.values())) - set(sys.stdlib_module_names) - set(FOLDERS)
    used.discard("_typeshed")  # for the type checker alone, which brings it
    assert used - set(APART) <= base | set(EXTRA_OF), "a package that neither the base nor an extra brings"
    assert base <= used, "a dependency that nothing imports"
    assert used.isdisjoint(names(EXTRAS["dev"]))


def test_one_file_alone_imports_what_lies_apart_and_the_lock_brings_it() -> None:
    for folder in FOLDERS.values():
        for file in folder.rglob("*.py"):
            here = imported_by(file)
            assert here & set(APART) == (set(APART) if file == APART_FILE else set()), file
    asked = (ROOT / "constraints" / "tflite.in").read_text().splitlines()
    assert set(APART.values()) <= {line.partition("==")[0] for line in asked}


@pytest.mark.parametrize("package", EXTRA_OF)
def test_the_extra_that_is_named_brings_the_package(package: str) -> None:
    assert package in names(EXTRAS[EXTRA_OF[package]])
    assert package not in names(PROJECT["dependencies"])


def test_the_extra_all_is_every_extra_for_users() -> None:
    (line,) = EXTRAS["all"]
    assert set(line.removeprefix("ecgfed[").removesuffix("]").split(",")) == set(EXTRAS) - {"all", "dev", *BESIDE_ALL}


def test_ci_pins_every_direct_dependency() -> None:
    asked = names(PROJECT["dependencies"]).union(*(names(of) for name, of in EXTRAS.items() if name not in BESIDE_ALL))
    lines = (ROOT / "constraints" / "versions.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    assert pinned == asked - {"torch"}
    for kind in ("cpu", "gpu"):
        assert "torch==" in (ROOT / "constraints" / f"{kind}.txt").read_text()


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch", "training")  # is here
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtraError, match=r"^torch: is not installed, but training needs it; pip install 'ecgfed\[train\]'$"
    ):
        require("torch", "training")


def test_an_import_that_fails_below_a_command_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'ecgfed\[records\]'") as caught, naming_the_extra():
        raise ModuleNotFoundError("No module named 'wfdb.io'", name="wfdb.io")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(ModuleNotFoundError), naming_the_extra():
        raise ModuleNotFoundError("No module named 'ecgfed.nonsense'", name="ecgfed.nonsense")
