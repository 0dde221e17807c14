"""What ``benchmarks/shipped`` counts, by hand, and that a card is made of its figures alone."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules beside the script."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "shipped"))
    for name in ("card", "unseen"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import card
    import unseen

    return SimpleNamespace(card=card, unseen=unseen)


def test_patients_are_dealt_back_and_forth_by_their_rare_beats(parts: SimpleNamespace) -> None:
    """S beats decide, then V beats, then the id; each patient is in one fold."""
    counts = {"a": (0, 9), "b": (5, 0), "c": (0, 1), "d": (7, 0), "e": (0, 1)}
    cohort = SimpleNamespace(
        classes=("N", "S", "V"),
        federation=[SimpleNamespace(id=name) for name in counts],
        # a third of the beats in each split, so that a split left out would be seen in the order
        class_counts=lambda client, split: np.array([0, *counts[client.id]]) * (split == len(client.id)),
    )
    assert parts.unseen.folds_of(cohort, 2) == [("c", "d", "e"), ("a", "b")]


def test_calibration_and_risk_by_hand(parts: SimpleNamespace) -> None:
    confidence = np.array([0.95, 0.95, 0.55, 0.55, 1.0])
    right = np.array([True, False, True, False, True])
    found = parts.unseen.calibration(confidence, right)
    # 14/15 = .933 to 1 holds .95, .95, 1 (two of three right), 8/15 = .533 to .6 both .55 (one right)
    expected = 3 / 5 * abs((0.95 + 0.95 + 1) / 3 - 2 / 3) + 2 / 5 * abs(0.55 - 1 / 2)
    assert found["ece"] == pytest.approx(expected, abs=1e-4)
    assert [(row["from"], row["beats"], row["right"]) for row in found["rows"]] == [
        (0.5333, 2, 0.5),
        (0.9333, 3, 0.6667),
    ]
    assert found["wrong_above_0.9"] == 0.5
    kept = {row["coverage"]: row for row in parts.unseen.risk(confidence, right)}
    assert kept[1.0] == {"coverage": 1.0, "p": 0.55, "wrong": 0.4}
    assert kept[0.5] == {"coverage": 0.5, "p": 0.95, "wrong": 0.0}  # round(2.5) is 2: the 1.0 and the first .95


def beats_of(folder: Path, name: str, symbols: str, called: str, before_s: list[float]) -> Path:
    classes = np.array(["N", "S", "V"])
    truth = np.array([{"N": 0, "L": 0, "A": 1, "V": 2}.get(one, -1) for one in symbols])
    rr = np.array(before_s)
    np.savez(
        folder / f"{name}.npz",
        symbol=np.array(list(symbols)),
        truth=truth,
        label=np.array(["NSV".index(one) for one in called]),
        confidence=np.linspace(0.5, 1, len(symbols)),
        before_s=rr,
        after_s=np.append(rr[1:], np.nan),
        classes=classes,
    )
    return folder / f"{name}.npz"


def test_kinds_of_beats_and_pauses_by_hand(parts: SimpleNamespace, tmp_path: Path) -> None:
    files = [
        beats_of(tmp_path, "1", "NNA?V", "NSANV".replace("A", "S"), [np.nan, 2.5, 0.6, 0.9, 0.8]),
        beats_of(tmp_path, "2", "LLA", "NNN", [np.nan, 0.8, 0.6]),
    ]
    found = parts.unseen.measured(files)
    assert found["beats"] == 7  # without the one of no class
    assert found["symbols"]["A"] == {"class": "S", "beats": 2, "records": 2, "found": 0.5, "called": {"N": 1, "S": 1}}
    assert found["symbols"]["L"]["found"] == 1.0
    pauses = found["pauses"]  # both beats of the interval of 2.5 s are N; the second is called S
    assert (pauses["normal_beats"], pauses["called_otherwise"], pauses["share_of_all_normal"]) == (2, 1, 0.25)
