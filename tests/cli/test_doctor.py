"""``ecgfed doctor``: what it says is what there is, and a wrong answer is found."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from support import Command

import ecgfed
from ecgfed.tasks import doctor


def test_what_it_says_is_what_there_is(ecgfed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    said = ecgfed("doctor", "--json")
    found = json.loads(said.out)
    assert (said.code, found["healthy"]) == (0, True)
    assert found["base"]["numpy"] == version("numpy")
    extras = {one["name"]: one for one in found["extras"]}
    assert extras["train"]["installed"]["torch"] == version("torch")
    assert {one["name"]: one["ok"] for one in found["checks"]} == {"detection and prediction": True, "training": True}
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["free_disk_bytes"] == pytest.approx(shutil.disk_usage(Path.cwd()).free, rel=0.2)
    assert list(tmp_path.glob("ecgfed*")) == []  # nothing of ours is left


def test_without_the_self_test(ecgfed: Command) -> None:
    said = ecgfed("doctor", "--no-self-test")
    assert said.code == 0
    assert f"ecgfed    {version('ecgfed')}" in said.out
    assert "training:" not in said.out


def test_another_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "losses_of", lambda folder: [doctor.LOSSES[0], doctor.LOSSES[1] * 1.05])
    found = doctor.examine()
    assert not found.healthy
    assert [one.ok for one in found.checks] == [True, False]
    assert "5.0% apart" in found.checks[1].message


def test_what_a_broken_package_raises_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path) -> list[float]:
        raise ImportError("libtorch.so: cannot open shared object file")

    monkeypatch.setattr(doctor, "losses_of", broken)
    found = doctor.examine().checks[1]
    assert (found.ok, found.message) == (False, "ImportError: libtorch.so: cannot open shared object file")


def test_training_is_left_out_where_its_packages_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_installed", lambda package: package not in ("torch", "safetensors"))
    found = doctor.examine()
    assert found.healthy
    assert found.checks[1].ok is None
    assert "pip install 'ecgfed[train]'" in found.checks[1].message
    assert found.machine.gpu == "unknown: torch is not installed"
    assert found.ecgfed == ecgfed.__version__


def test_a_base_that_is_not_whole_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "BASE", ("numpy", "no_such_package"))
    found = doctor.examine(self_test=False)
    assert found.base == {"numpy": version("numpy"), "no_such_package": "missing"}
    assert not found.healthy
