"""The peers of QRS detection that have an environment of their own: asked for it, started in it, and scored."""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from loaded_scripts import BENCHMARKS, load_script

from ecgfed.base.errors import OptionError
from ecgfed.domain.record.wfdb_files import read_annotation

SCRIPT = BENCHMARKS / "qrs" / "peers.py"
RESULTS = json.loads((BENCHMARKS / "qrs" / "peers.json").read_text())


@pytest.fixture
def peers() -> ModuleType:
    return load_script(SCRIPT)


def a_python(folder: Path, says: str) -> None:
    """Put an executable in the place of an environment's Python."""
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script of sh")
@pytest.mark.parametrize(
    ("says", "found"),
    [
        ('echo \'{"torch-ecg": null, "physiokit": "0.10.1"}\'', "has no torch-ecg and physiokit 0.10.1"),
        ('echo \'{"torch-ecg": "0.0.30", "physiokit": "0.10.1"}\'', "has torch-ecg 0.0.30 and physiokit 0.10.1"),
        ("exit 1", "does not run"),
    ],
)
def test_an_environment_without_the_peers_is_refused(peers: ModuleType, tmp_path: Path, says: str, found: str) -> None:
    a_python(tmp_path, says)
    with pytest.raises(OptionError, match=found):
        peers.environment(tmp_path)


def test_scores_by_hand(peers: ModuleType, mitdb: Path) -> None:
    """All reference beats but every tenth, and none at all in the other record."""
    beats = {name: read_annotation(mitdb / name).beats().sample for name in ("100", "103")}
    counted = int(np.sum(beats["100"] >= 300 * 360))
    kept = np.delete(beats["100"], np.flatnonzero(beats["100"] >= 300 * 360)[::10])
    one = peers.row("x", mitdb, {"100": (kept, 2.0)})
    lost = -(-counted // 10)
    assert one["beats"] == counted
    assert one["se"] == pytest.approx(100 * (counted - lost) / counted, abs=1e-3)
    assert one["ppv"] == 100
    assert one["offset_ms"] == 0
    nothing = peers.row("x", mitdb, {"103": (np.empty(0, np.int64), 2.0)})
    assert (nothing["f1"], nothing["offset_ms"], nothing["found_nothing"]) == (0, None, ["103"])
    assert peers.cells(nothing) == ["x", "0.00", "0.00", "0.00", "103 0.0", "2.00"]


def test_the_results_are_of_the_peers_the_script_asks_for(peers: ModuleType) -> None:
    assert {name: RESULTS["peers"][name] for name in peers.PEERS} == peers.PEERS
    names = [one["detector"] for one in RESULTS["results"]]
    assert set(names) <= {"ecgfed", "ecgfed-1", *peers.DETECTORS}
    assert {"torch_ecg-xqrs", "physiokit"} < set(names)


def test_ours_has_the_score_of_the_table_beside_the_twelve() -> None:
    """The same detector, records and scorer; a change of one has to be measured in both."""
    table = json.loads((BENCHMARKS / "qrs" / "results.json").read_text())["results"]
    beside = {one["detector"]: one["DS2"]["f1"] for one in table if one["detector"].startswith("ecgfed")}
    here = {one["detector"]: one["f1"] for one in RESULTS["results"] if one["detector"].startswith("ecgfed")}
    assert here == beside
