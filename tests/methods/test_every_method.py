"""What holds for every registered method: recorded numbers. The promises all of them keep: tests/testing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import recorded_numbers
from recorded_numbers import TOLERANCE, numbers_of, recorded

from ecgfed.core.methods.registry import methods

SCRIPT = Path(recorded_numbers.__file__)


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_small_run_gives_the_recorded_numbers(name: str) -> None:
    told = f"python {SCRIPT.relative_to(SCRIPT.parents[2])} {name}"
    expected, found = recorded()[name], numbers_of(methods()[name])
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        meant = f"{name}: {key} has changed; where that is meant, record it anew with: {told}"
        assert found[key] == pytest.approx(value, rel=TOLERANCE), meant


def test_nothing_else_is_recorded() -> None:
    assert sorted(recorded()) == sorted(methods())


def test_the_command_records(tmp_path: Path) -> None:
    """A copy of the script records beside itself what the file in place says."""
    copy = tmp_path / SCRIPT.name
    copy.write_text(SCRIPT.read_text())
    before = {"gone": {}, "scaffold": recorded()["scaffold"]}
    (tmp_path / "recorded.json").write_text(json.dumps(before))
    done = subprocess.run([sys.executable, copy, "fedavg"], capture_output=True, text=True, check=True)
    assert "recorded fedavg" in done.stdout
    after = json.loads((tmp_path / "recorded.json").read_text())
    assert after.keys() == {"fedavg", "scaffold"}
    assert after["scaffold"] == before["scaffold"]
    assert after["fedavg"]["losses"] == pytest.approx(recorded()["fedavg"]["losses"], rel=TOLERANCE)
    wrong = subprocess.run([sys.executable, copy, "magic"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no method magic; one of afl" in wrong.stderr
