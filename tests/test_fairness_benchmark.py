"""The intervals of benchmarks/fairness, on scores whose differences are known."""

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from loaded_scripts import load_script

FILE = Path(__file__).parent.parent / "benchmarks" / "fairness" / "run.py"


@pytest.fixture(scope="module")
def fairness() -> ModuleType:
    return load_script(FILE)


def runs(scores: list[list[float]], t_g: list[float]) -> list[dict[str, Any]]:
    names = [f"p{number}" for number in range(len(scores[0]))]
    return [
        {"T_g": g, "loss_max": 1 - g, "patients": dict(zip(names, row, strict=True))}
        for g, row in zip(t_g, scores, strict=True)
    ]


def test_a_difference_that_is_always_there_has_no_width(fairness: ModuleType) -> None:
    """Every patient 0.1 better under every seed, T_g the same: whatever is drawn, the difference is 0.1, and 0."""
    base = [[0.1 * number for number in range(1, 8)], [0.05 * number for number in range(1, 8)]]
    better = [[score + 0.1 for score in row] for row in base]
    final = {fairness.UNIFORM: runs(base, [0.8, 0.9]), "rule": runs(better, [0.8, 0.9])}
    found = fairness.less_uniform(final)["rule"]
    assert found["worst_decile"] == pytest.approx({"mean": 0.1, "low": 0.1, "high": 0.1})
    for key in ("T_g", "loss_max", "std"):
        assert found[key] == pytest.approx({"mean": 0.0, "low": 0.0, "high": 0.0})


def test_of_few_seeds_the_interval_is_students(fairness: ModuleType) -> None:
    """T_g 0 and 0.2 better, the largest loss smaller by as much: 0.1 and t(.975, 1) = 12.706 standard errors of 0.1."""
    same = [[0.5] * 4, [0.5] * 4]
    final = {fairness.UNIFORM: runs(same, [0.7, 0.7]), "rule": runs(same, [0.7, 0.9])}
    found = fairness.less_uniform(final)["rule"]
    assert found["T_g"] == pytest.approx({"mean": 0.1, "low": 0.1 - 1.2706, "high": 0.1 + 1.2706}, abs=1e-4)
    assert found["loss_max"] == pytest.approx({"mean": -0.1, "low": -0.1 - 1.2706, "high": -0.1 + 1.2706}, abs=1e-4)


def test_patients_who_differ_twice_as_much(fairness: ModuleType) -> None:
    """Scores doubled: their standard deviation is larger by itself, whoever is drawn."""
    base = [[0.1, 0.3, 0.4, 0.2], [0.3, 0.1, 0.2, 0.4]]
    final = {
        fairness.UNIFORM: runs(base, [0.8, 0.8]),
        "rule": runs([[2 * score for score in row] for row in base], [0.8, 0.8]),
    }
    found = fairness.less_uniform(final)["rule"]["std"]
    assert found["mean"] == pytest.approx(0.0125**0.5)  # of .1, .2, .3, .4
    assert 0 <= found["low"] < found["mean"] < found["high"] <= 0.15 + 1e-9


def test_the_worst_tenth_is_one_patient_at_least(fairness: ModuleType) -> None:
    """Of 11 patients two are the worst tenth (1.1, rounded up), of 4 one: as evaluation has it."""
    import numpy as np

    eleven = np.array([[0.9, 0.1, 0.3] + [0.8] * 8])
    assert fairness.worst_tenth(eleven) == pytest.approx([0.2])
    assert fairness.worst_tenth(np.array([[0.4, 0.2, 0.9, 0.9]])) == pytest.approx([0.2])


def test_the_last_losses_are_of_the_last_passes(fairness: ModuleType, tmp_path: Path) -> None:
    lines = [
        {"round": n, "passes": n / 2, "loss_max": 10.0 - n, "loss_mean": 5.0 - n, "losses": {"loss": [0.0, 2.0 * n]}}
        for n in range(1, 6)
    ]
    (tmp_path / fairness.HISTORY).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = SimpleNamespace(path=tmp_path)
    assert fairness.last_losses(run, over=1.0) == {"loss_max": 5.5, "loss_mean": 0.5, "loss_std": 4.5}, "rounds 4 and 5"
    assert fairness.last_losses(run, over=0.0) == {"loss_max": 5.0, "loss_mean": 0.0, "loss_std": 5.0}
