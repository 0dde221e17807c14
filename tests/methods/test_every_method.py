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


def assert_recorded(name: str) -> None:
    """A small run of a method gives what is recorded of it."""
    told = f"python {SCRIPT.relative_to(SCRIPT.parents[2])} {name}"
    expected = recorded().get(name)
    assert expected is not None, f"nothing is recorded of {name} yet; record it with: {told}"
    found = numbers_of(methods()[name])
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        meant = f"{name}: {key} has changed; where that is meant, record it anew with: {told}"
        assert found[key] == pytest.approx(value, rel=TOLERANCE), meant


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_small_run_gives_the_recorded_numbers(name: str) -> None:
    assert_recorded(name)


def test_nothing_else_is_recorded() -> None:
    assert sorted(recorded()) == sorted(methods())


def test_what_is_not_recorded_or_has_changed_says_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without, file = {name: value for name, value in recorded().items() if name != "local"}, tmp_path / "recorded.json"
    file.write_text(json.dumps(without))
    monkeypatch.setattr(recorded_numbers, "FILE", file)
    with pytest.raises(AssertionError, match=r"record it with: python tests/methods/recorded_numbers\.py local"):
        assert_recorded("local")
    changed = {**without["fedavg"], "global": without["fedavg"]["global"] * (1 + 1e-5)}
    file.write_text(json.dumps({**without, "fedavg": changed}))
    with pytest.raises(AssertionError, match=r"fedavg: global has changed; .*recorded_numbers\.py fedavg"):
        assert_recorded("fedavg")


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
