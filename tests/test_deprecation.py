"""What is to go is kept for two minor versions, says so, and goes."""

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ecgfed
from ecgfed.base import deprecation
from ecgfed.base.deprecation import EcgfedDeprecation, deprecated, overdue


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "REGISTER", [])


#: A thing is registered when its module is loaded, and ``import ecgfed`` loads none: this loads all that are installed.
EVERY_MODULE = """
import importlib, json, pkgutil, sys
import ecgfed, ecgfed_cli
from ecgfed.base.deprecation import overdue
version, *folders = sys.argv[1:]
ecgfed.__path__ += folders
for package in (ecgfed, ecgfed_cli):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert error.name.split(".")[0] in ("flwr", "fastapi", "httpx"), module.name
print(json.dumps([one.what for one in overdue(version)]))
"""


def overdue_anywhere(version: str, *folders: Path) -> list[str]:
    """What a version should not have, of all that our modules mark, and those in folders as if they were ours."""
    command = [sys.executable, "-c", EVERY_MODULE, version, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_nothing_is_overdue() -> None:
    """A deprecated thing that this version should not have any more has to be removed."""
    assert overdue_anywhere(ecgfed.__version__) == []


def test_what_is_overdue_in_a_module_that_nobody_loaded_is_found(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(
        "from ecgfed.base.deprecation import deprecated\n"
        "@deprecated('0.2', '0.4', 'the other')\n"
        "def classify(): 'Classify.'\n"
    )
    assert overdue_anywhere("0.4.0", tmp_path) == ["ecgfed.old.classify"]


@pytest.mark.usefixtures("register")
def test_a_call_warns_where_it_is_made_and_works() -> None:
    @deprecated("0.2", "0.4", "the other")
    def old(number: int, *, plus: int = 0) -> int:
        """Add."""
        return number + plus

    with pytest.warns(
        EcgfedDeprecation, match="old is deprecated since ecgfed 0.2 and goes with 0.4: use the other"
    ) as said:
        assert old(2, plus=3) == 5
    assert said[0].filename == __file__
    assert old.__doc__ == "Add.\n\nDeprecated since 0.2: use the other instead. It goes with 0.4."
    assert (overdue("0.3.9"), len(overdue("0.4.0")), len(overdue("1.0.0"))) == ([], 1, 1)


@pytest.mark.usefixtures("register")
def test_it_is_shown_by_default() -> None:
    """Python hides DeprecationWarning of code that is not the main program; who calls us has to see ours."""

    @deprecated("0.2", "0.4", "the other")
    def old() -> None:
        pass

    with warnings.catch_warnings(record=True) as said:
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        old()
    assert len(said) == 1


@pytest.mark.parametrize(("since", "removed"), [("0.2", "0.3"), ("0.2", "0.2"), ("two", "0.4"), ("0.2", "4")])
def test_two_minor_versions_lie_between(since: str, removed: str) -> None:
    with pytest.raises(ValueError, match=r"two minor versions|is not a version"):
        deprecated(since, removed, "the other")


def test_a_renamed_parameter_and_attribute_still_work(tmp_path: Path) -> None:
    """Recordings of 0.2: ``open_recording(least=)``, ``Recording.left_out`` and ``stands_for``."""
    np.save(tmp_path / "r.npy", np.zeros((2000, 2)))
    how = ecgfed.ReadOptions(fs_hz=250, units="mV", columns=("II", "RESP"))
    with pytest.warns(EcgfedDeprecation, match="min_samples"):
        recording = ecgfed.open_recording(tmp_path / "r.npy", "MLII", every_lead=True, how=how, least=1000)  # type: ignore[call-arg]
    assert recording.is_lazy
    with pytest.warns(EcgfedDeprecation, match="skipped"):
        assert recording.left_out == recording.skipped == ("RESP: no ECG",)
    with pytest.warns(EcgfedDeprecation, match="requested_as"):
        assert recording.stands_for == recording.requested_as == "MLII"
    with pytest.warns(EcgfedDeprecation, match="source"):
        assert replace(recording, signals_mv=np.zeros((1, 5))).signals_mv.shape == (1, 5)  # type: ignore[call-arg]
    with pytest.warns(EcgfedDeprecation, match="Recording"):
        assert ecgfed.LongRecording is ecgfed.Recording
    with pytest.raises(TypeError, match="both"):
        ecgfed.open_recording(tmp_path / "r.npy", how=how, least=1000, min_samples=1000)  # type: ignore[call-arg]
