"""The lock files: every package that a machine needs, with versions that are asked for and digests to check them by."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = ("lock.txt", "lock-cpu.txt", "lock-audit.txt", "lock-tflite.txt", "lock-flower.txt", "lock-docs.txt")
LOCK, TORCH, AUDIT, TFLITE, FLOWER, DOCS = (ROOT / "constraints" / name for name in NAMES)
#: Where CI and the developers run.
HERE = {"sys_platform": "linux", "platform_machine": "x86_64", "platform_python_implementation": "CPython"}
PYTHONS = ("3.11", "3.12", "3.13")


def locked(file: Path) -> list[tuple[Requirement, set[str]]]:
    """Return what a lock file asks for, and the SHA-256 it allows."""
    text = "\n".join(line for line in file.read_text().splitlines() if not line.lstrip().startswith("#"))
    found = []
    for block in re.split(r"\n(?=\S)", text.strip()):
        first, *rest = block.replace("\\\n", "").split("--hash=")
        assert all(one.startswith("sha256:") for one in rest), block
        found.append((Requirement(first.strip()), {one.removeprefix("sha256:").strip() for one in rest}))
    return found


def versions(python: str) -> dict[str, str]:
    """Return the versions that the lock files give a Python on Linux."""
    about = {**HERE, "python_version": python, "python_full_version": f"{python}.5", "implementation_name": "cpython"}
    found: dict[str, list[str]] = defaultdict(list)
    for one, _ in (*locked(LOCK), *locked(TORCH)):
        if one.marker is None or one.marker.evaluate(about):
            found[canonicalize_name(one.name)].append(str(one.specifier).removeprefix("=="))
    twice = {name: given for name, given in found.items() if len(given) > 1}
    assert not twice
    return {name: given[0] for name, given in found.items()}


@pytest.mark.parametrize("file", [LOCK, TORCH, AUDIT, TFLITE, FLOWER, DOCS], ids=lambda file: file.name)
def test_every_package_has_one_version_and_its_digests(file: Path) -> None:
    for one, digests in locked(file):
        assert re.fullmatch(r"==[^=,<>]+", str(one.specifier)), one
        assert digests, one
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests), one
        assert not one.url
    assert "://" not in "".join(line for line in file.read_text().splitlines(True) if not line.startswith("#"))


@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_asked_for_is_locked_at_the_version_that_is_tested(python: str) -> None:
    have = versions(python)
    if python != "3.11":
        have["torch"] = "2.13.0"  # of torch's CPU build the file for CI's Python alone is at hand
    pinned = (ROOT / "constraints" / "versions.txt").read_text().splitlines()
    for name, pin in (line.split("==") for line in pinned if "==" in line):
        assert have[canonicalize_name(name)] == pin
    groups = PROJECT["optional-dependencies"]
    for line in (
        *PROJECT["dependencies"],
        *(line for name, lines in groups.items() if name not in ("all", "flower") for line in lines),
    ):
        asked = Requirement(line)
        assert have[canonicalize_name(asked.name)] in SpecifierSet(str(asked.specifier)), line
    assert not [name for name in have if name.startswith(("nvidia", "triton", "cuda"))], "CUDA's gigabytes"


def test_what_the_locked_packages_need_is_locked_too() -> None:
    """By what each installed package says of itself, which is not where the lock comes from."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    have = versions(python)
    about = {"extra": "", "python_version": python}
    missing = {}
    checked = 0
    for name in have:
        try:
            if version(name) != have[name]:  # the lowest or the newest versions (make oldest, make newest)
                continue
            needs = requires(name) or []
        except PackageNotFoundError:
            continue
        checked += 1
        for line in needs:
            need = Requirement(line)
            if (need.marker is None or need.marker.evaluate(about)) and canonicalize_name(need.name) not in have:
                missing[canonicalize_name(need.name)] = name
    assert checked >= 40
    assert not missing


def test_ci_installs_what_is_locked() -> None:
    assert "export LOCKED=1" in (ROOT / ".ci" / "run").read_text()
    plan = subprocess.run(
        ["make", "--dry-run", "VENV=none", "LOCKED=1", "install"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (first,) = (line for line in plan.splitlines() if "pip install" in line and "-r " in line)
    assert "--require-hashes -r constraints/lock.txt -r constraints/lock-cpu.txt" in first
    (second,) = (line for line in plan.splitlines() if "pip install" in line and line.endswith("-e ."))
    assert "--no-deps --no-build-isolation" in second


def test_the_wheel_of_torch_that_is_at_hand_is_the_locked_one() -> None:
    """Where a machine brings its own wheel (PIP_FIND_LINKS), as CI does."""
    wheels = [
        wheel
        for place in os.environ.get("PIP_FIND_LINKS", "").split()
        for wheel in Path(place).glob("torch-2.13.0+cpu-cp311-*x86_64.whl")
    ]
    ((_, digests),) = locked(TORCH)
    for wheel in wheels:
        with wheel.open("rb") as stream:
            assert hashlib.file_digest(stream, "sha256").hexdigest() in digests


def test_the_page_on_dependencies_says_why_each_is_there() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| ([\w, -]+) \| (.+?) \|$", page, flags=re.MULTILINE)
    said = {name: set(groups.split(", ")) for name, groups, _ in rows}
    assert len(said) == len(rows)
    asked: dict[str, set[str]] = defaultdict(set)
    groups = {"base": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    for group, lines in groups.items():
        for line in lines if group != "all" else ():
            asked[Requirement(line).name].add(group)
    assert said == dict(asked)
    assert all(len(why.split()) >= 2 for _, _, why in rows)
