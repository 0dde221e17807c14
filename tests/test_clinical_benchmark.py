"""The clinical benchmark: its page is what its results give, its scores are EC57's, its person has the buttons."""

import json
from pathlib import Path

import numpy as np
import pytest
from loaded_scripts import load_script

from ecgfed.domain.labels.choose import FEATURES, shipped_rule
from ecgfed.domain.labels.page import LABELS
from ecgfed.domain.labels.user_labels import SYMBOLS

FOLDER = Path(__file__).parent.parent / "benchmarks" / "clinical"


def test_the_rule_in_the_package_is_the_one_that_was_learned() -> None:
    said = json.loads((FOLDER / "learned.json").read_text())["rule"]
    np.testing.assert_array_equal(shipped_rule().weight, [said["weights"][name] for name in FEATURES])
    assert shipped_rule().bias == said["bias"]


def counts(**cells: int) -> np.ndarray:
    """EC57 counts of named cells: reference class in capitals, test class in small letters."""
    found = np.zeros((7, 7), np.int64)
    for cell, number in cells.items():
        found["NSVFQOX".index(cell[0]), "nsvfqox".index(cell[1])] = number
    return found


def test_scores_by_hand() -> None:
    scoring = load_script(FOLDER / "scoring.py")
    one = counts(Nn=90, Nv=2, Sn=3, Ss=7, Vv=18, Vn=1, Vo=1, Fv=5, Qs=4, Ov=1)
    assert scoring.found_missed_false(one) == {"veb": (18, 2, 3), "sveb": (7, 3, 0)}
    two = counts(Nn=100, Vv=2)
    found = scoring.scored({"1": one, "2": two})
    assert (found["veb"]["se"], found["veb"]["ppv"]) == (90.91, 86.96)
    assert found["veb"]["f1"] == pytest.approx(100 * 40 / 45, abs=0.005)
    low, high = found["veb"]["interval"]
    assert low == pytest.approx(100 * 36 / 41, abs=0.005)  # the first record alone, drawn twice, and the second alone
    assert high == 100.0
    assert scoring.scored({"1": one, "2": two}, ["2"])["sveb"] == {
        "se": None,
        "ppv": None,
        "f1": 0.0,
        "interval": [0.0, 0.0],
        "beats": 0,
    }


def test_the_person_has_a_button_for_whatever_the_reference_says() -> None:
    person = load_script(FOLDER / "person.py")
    buttons = {symbol for symbol, _, _ in LABELS}
    assert set(person.PRESSED.values()) <= buttons
    assert {person.PRESSED.get(symbol, symbol) for symbol in SYMBOLS} <= buttons
    assert person.NO_BEAT in buttons


def test_a_record_is_worse_where_fewer_beats_are_right_after_labels() -> None:
    packaged = load_script(FOLDER / "packaged.py")
    before = {"1": counts(Nn=90, Nv=2, Ss=7, Vn=1, On=5), "2": counts(Nn=50, Vv=4, Vo=1)}
    after = {"1": counts(Nn=88, Nv=4, Ss=7, Vv=1, On=5), "2": counts(Nn=50, Vv=4, Vo=1)}
    assert packaged.right_beats(before["1"]) == (97, 100)  # no beat of the reference: not counted
    assert packaged.right_beats(before["2"]) == (54, 55)
    found = packaged.summary(after, before)
    assert found["worse"] == {"1": 1}
    assert found["right"] == pytest.approx(100 * 150 / 155, abs=0.005)
    assert found["records_right"] == {"1": 96.0, "2": pytest.approx(100 * 54 / 55, abs=0.005)}
    assert packaged.summary(before, before)["worse"] == {}
