"""The public interface is the recorded one: nothing is removed by accident, nothing is added unseen."""

import json
import re
import sys
from typing import Any

import public_api
import pytest

import ecgfed
from ecgfed.base.deprecation import REGISTER


@pytest.fixture(scope="module")
def found() -> public_api.Interface:
    return public_api.interface()


@pytest.fixture(scope="module")
def recorded() -> public_api.Interface:
    known: public_api.Interface = json.loads(public_api.FILE.read_text("utf-8"))
    return known


def test_nothing_is_removed(found: public_api.Interface, recorded: public_api.Interface) -> None:
    assert public_api.removed(recorded, found) == [], "deprecate it first (docs/versions.md)"


def test_what_is_new_is_recorded(found: public_api.Interface) -> None:
    assert public_api.FILE.read_text("utf-8") == public_api.as_text(found), "run python tests/public_api.py"


def test_the_page_of_deprecations_is_up_to_date() -> None:
    assert public_api.PAGE.read_text("utf-8") == public_api.deprecations(), "run python tests/public_api.py"
    assert len(REGISTER) >= 30


def test_every_exported_name_is_recorded(recorded: public_api.Interface) -> None:
    assert {f"ecgfed.{name}" for name in ecgfed.__all__} <= recorded["python"].keys()
    assert {"ecgfed.device.StreamClassifier.push", "ecgfed.methods.Method.step"} <= recorded["python"].keys()
    assert {"ecgfed train", "ecgfed runs compare", "ecgfed federate site"} <= recorded["commands"].keys()
    assert "--rounds" in recorded["commands"]["ecgfed train"]


def test_a_signature_by_hand() -> None:
    def verb(a: int, b: int = 1, *rest: int, c: int, d: int = 2, **more: int) -> None: ...
    def other(a: int, *, b: int = 1) -> None: ...

    assert public_api.signature(verb) == "(a, b=, *rest, c, d=, **more)"
    assert public_api.signature(other) == "(a, *, b=)"
    assert public_api.signature(3) == "value"


@pytest.mark.parametrize(
    ("old", "new", "breaking"),
    [
        ("(a, b=)", "(a, b=)", False),
        ("(a, b=)", "(a, b=, *, c=)", False),
        ("(a, b=)", "(a, b=, c=)", False),
        ("(a, b)", "(a, b=)", False),
        ("(a, *, b)", "(a, b=)", False),
        ("(a, b=)", "(a, b)", True),
        ("(a, b=)", "(b=, a)", True),
        ("(a, b=)", "(a)", True),
        ("(a, b=)", "(a, *, b=)", True),
        ("(a)", "(a, *, c)", True),
        ("(a, **more)", "(a)", True),
        ("(a, *rest)", "(a)", True),
        ("(a)", "value", True),
        ("value", "(a)", True),
    ],
)
def test_what_breaks_a_call(old: str, new: str, breaking: bool) -> None:
    assert public_api.breaks(old, new) is breaking


def test_a_removal_is_named_and_not_written_without_a_word(
    found: public_api.Interface, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    more: public_api.Interface = {
        "python": {**found["python"], "ecgfed.gone": "(a)"},
        "commands": {**found["commands"], "ecgfed gone": [], "ecgfed train": ["--gone"]},
    }
    assert set(public_api.removed(more, found)) == {"ecgfed.gone", "ecgfed train --gone", "ecgfed gone"}
    monkeypatch.setattr(public_api, "ROOT", tmp_path)
    monkeypatch.setattr(public_api, "FILE", tmp_path / "api.json")
    monkeypatch.setattr(public_api, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(sys, "argv", ["public_api.py"])
    public_api.FILE.write_text(public_api.as_text(more))
    with pytest.raises(SystemExit, match=r"ecgfed\.gone"):
        public_api.main()
    assert json.loads(public_api.FILE.read_text()) == more
    monkeypatch.setattr(sys, "argv", ["public_api.py", "--remove"])
    public_api.main()
    assert json.loads(public_api.FILE.read_text()) == found
    assert re.match(r"\d+ names, \d+ commands", capsys.readouterr().out)
