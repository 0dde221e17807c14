"""Detectors by name: registered ones, those of packages, a person's own file; and none because a file names it."""

import pickle
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from ecgfed.base import extras, plugins
from ecgfed.base.errors import CohortError, MissingExtraError, OptionError
from ecgfed.domain.signal.detectors import (
    Detector,
    detect_r_peaks,
    detector_by_name,
    detector_option,
    detectors,
    registry,
    stored_detector,
    stored_mains,
)
from ecgfed.domain.signal.peaks import detect_around_gaps
from ecgfed.testing import synthetic_ecg

OWN = """
from pathlib import Path
import numpy as np
from ecgfed.domain.signal.detectors import Detector
(Path(__file__).parent / "was-run").touch()
MINE = Detector("xqrs", lambda signals_mv, fs_hz, lead, mains_hz: np.array([50, 300]), "me")
THING = 3
NO_FUNCTION = Detector("x", None, "me")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delitem(sys.modules, "own", raising=False)  # as if no test before had imported one
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


def test_a_persons_own_file_is_run_and_bears_the_name_it_is_found_by(own: Path) -> None:
    found = detector_option(f"{own}:MINE")
    assert found.name == "own.py:MINE"  # not the name it gives itself, which is another's
    assert (own.parent / "was-run").exists()
    assert detect_r_peaks(synthetic_ecg(seconds=5.0).signals_mv, 360.0, detector=found).tolist() == [50, 300]
    assert detector_option(found) == detector_by_name(found) == found


def test_a_detector_of_a_module_is_found_too(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(own.parent)
    assert detector_option("own:MINE").name == "own:MINE"
    with pytest.raises(OptionError, match="tuple is no detector"):
        detector_option("ecgfed.domain.signal.detectors.neurokit:DETECTORS")


@pytest.mark.parametrize("form", ["{}:MINE", "own:MINE", "ecgfed.domain.signal.detectors.ours:DETECTORS", "a:b:c", ":"])
def test_no_other_door_loads_code(form: str, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a name in a file nor one that reaches a function of the library makes a file or a module run."""
    monkeypatch.syspath_prepend(own.parent)
    name, ecg = form.format(own), synthetic_ecg(seconds=5.0)
    doors = (
        lambda: detector_by_name(name),
        lambda: detect_r_peaks(ecg.signals_mv, 360.0, detector=name),
        lambda: detect_around_gaps(ecg.signals_mv, 360.0, detector=name),
    )
    for door in doors:
        with pytest.raises(OptionError, match="names code, not a registered detector"):
            door()
    with pytest.raises(CohortError, match=r"cohort.json: its detector .* pass it again with detector"):
        stored_detector(name, "cohort.json")
    assert not (own.parent / "was-run").exists()


@pytest.mark.parametrize("stored", [None, 3, ["xqrs"], "magic", "x" * 100_000])
def test_a_stored_detector_that_is_none_is_one_line(stored: object) -> None:
    with pytest.raises(CohortError, match=r"cohort\.json: its detector") as caught:
        stored_detector(stored, "cohort.json")
    assert len(caught.value.line) < 1000


def test_a_stored_registered_name_and_stored_mains_are_taken() -> None:
    assert stored_detector("xqrs", "cohort.json").name == "xqrs"
    assert (stored_mains(None, ""), stored_mains(50, ""), stored_mains(60.0, "")) == (None, 50.0, 60.0)
    with pytest.raises(CohortError, match=r"cohort\.json: its mains_hz is '50'; expected 50 or 60"):
        stored_mains("50", "cohort.json")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere.py:X", "invalid-value"),
        ("{}:MISSING", "invalid-value"),
        ("{}:THING", "invalid-value"),
        ("{}:NO_FUNCTION", "invalid-value"),
        ("no_such_module:X", "invalid-value"),
        ("magic", "unknown-choice"),
    ],
)
def test_what_is_no_detector_is_refused(name: str, code: str, own: Path) -> None:
    with refuses(OptionError, code, "detector"):
        detector_option(name.format(own))


@pytest.mark.parametrize("text", ["import nothing_of_this_name", "1 / 0", "raise SystemExit(3)", "def"])
def test_a_file_that_fails_is_one_line_and_may_be_repaired(text: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(OptionError, match=rf"detector: {file} fails with \w+"):
        detector_option(f"{file}:MINE")
    file.write_text(OWN)
    assert detector_option(f"{file}:MINE").name == "own.py:MINE"


def test_two_files_of_one_name_are_two_detectors(tmp_path: Path) -> None:
    found = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "own.py"
        file.write_text(OWN.replace("[50, 300]", f"[{ord(folder)}]"))
        found.append(detector_option(f"{file}:MINE"))
    signals = synthetic_ecg(seconds=5.0).signals_mv
    assert [detect_r_peaks(signals, 360.0, detector=one).tolist() for one in found] == [[97], [98]]


def test_a_detector_travels_to_a_worker_process_by_where_it_is_found(own: Path) -> None:
    for detector in (detector_option(f"{own}:MINE"), detector_by_name("neurokit")):
        again = pickle.loads(pickle.dumps(detector))
        assert again == detector
        assert again.find is detector.find


def test_one_that_is_not_installed_names_its_extra_or_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sleepecg", "ts2vg", "neurokit2", "wfdb"):
        monkeypatch.setattr(extras, "find_spec", lambda name, gone=module: None if name == gone else True)
        monkeypatch.setattr(registry, "find_spec", extras.find_spec)
        name, extra = {"ts2vg": ("emrich2023", "emrich2023"), "neurokit2": ("neurokit", "detectors")}.get(
            module, ("xqrs", "records") if module == "wfdb" else (module, module)
        )
        told = rf"{module}: is not installed, but detector {name} needs it; pip install 'ecgfed\[{extra}\]'"
        with pytest.raises(MissingExtraError, match=told):
            detector_by_name(name)
        with pytest.raises(CohortError, match=r"cohort\.json: its detector .* is not here"):
            stored_detector(name, "cohort.json")
    monkeypatch.undo()
    with pytest.raises(OptionError, match="mine needs no_such_package, not installed here; pip install no_such_pack"):
        detector_by_name(Detector("mine", np.asarray, "", modules=("json", "no_such_package")))


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, own: Path) -> Iterator[list[EntryPoint]]:
    """Entry points as installed packages would offer them."""
    offered: list[EntryPoint] = []
    monkeypatch.syspath_prepend(own.parent)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [one for one in offered if one.group == group])
    registry._offered.cache_clear()
    yield offered
    registry._offered.cache_clear()


def test_a_package_offers_a_detector_which_is_loaded_when_it_is_named(packages: list[EntryPoint], own: Path) -> None:
    packages.append(EntryPoint("theirs", "own:MINE", "ecgfed.detectors"))
    assert detector_by_name("xqrs").source == "wfdb"
    assert not (own.parent / "was-run").exists()
    assert stored_detector("theirs", "cohort.json").name == "theirs"  # a person installed it: its name is registered
    assert (own.parent / "was-run").exists()
    assert detectors()["theirs"].source == "me"
    with pytest.raises(OptionError, match="xqrs, theirs"):
        detector_by_name("magic")


def test_a_package_cannot_take_the_place_of_ours(packages: list[EntryPoint], own: Path) -> None:
    packages.append(EntryPoint("ecgfed", "own:MINE", "ecgfed.detectors"))
    assert detector_by_name("ecgfed").source == "ecgfed"
    assert detectors()["ecgfed"].source == "ecgfed"
    assert not (own.parent / "was-run").exists()


def test_a_package_that_fails_or_is_not_alone_is_one_line(packages: list[EntryPoint]) -> None:
    packages.append(EntryPoint("broken", "own:MISSING", "ecgfed.detectors"))
    with pytest.raises(OptionError, match="entry point own:MISSING: fails with AttributeError"):
        detector_by_name("broken")
    packages.append(EntryPoint("broken", "other:MINE", "ecgfed.detectors"))
    with pytest.raises(OptionError, match="'broken' is defined by own:MISSING and other:MINE"):
        detector_by_name("broken")
