"""The results page is what the results files give."""

from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def results_page() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_page.py")


def test_spreads_and_intervals_by_hand(results_page: ModuleType) -> None:
    common = load_script(ROOT / "benchmarks" / "common.py")
    assert common.of_spread({"mean": 0.93449, "sd": 0.0041}) == "0.934 ± 0.004"
    assert common.of_spread({"mean": 0.93449, "sd": None}) == "0.934"
    assert results_page._interval({"mean": 0.01, "low": -0.002, "high": 0.03}) == "+0.010 (-0.002 to +0.030)"
    assert results_page.table(("a", "b"), [(1, 2)]) == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]


@pytest.fixture(scope="module")
def results_flagship() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_flagship.py")


def test_the_flagships_row_by_hand(results_flagship: ModuleType) -> None:
    runs = [
        {
            "test": dict.fromkeys(results_flagship.SCORES, score),
            "test_truth": dict.fromkeys(results_flagship.SCORES, score - 0.4),
            "test_worst_tenth": score / 2,
            "curve": curve,
        }
        for score, curve in ((0.9, [[1.0, 0.5], [2.0, 0.87], [3.0, 0.85]]), (0.8, [[1.0, 0.86], [2.0, 0.9]]))
    ]
    lines = results_flagship.flagship({"methods": {"FedGate": runs, "Local": [{**runs[0], "curve": [[1.0, 0.1]]}]}})
    four = "0.850 (0.800 to 0.900) | " * 4
    assert f"| FedGate | {four}0.425 (0.400 to 0.450) | 1.5 |" in lines
    assert any(line.startswith("| Local |") and line.endswith("| never |") for line in lines)
    in_truth = lines[lines.index(results_flagship.TRUE_CLASSES) :]
    assert "| FedGate" + " | 0.450 (0.400 to 0.500)" * 4 + " |" in in_truth
    missing = "GRP-FED; FedAvg; FedGate, windows alone; FedGate, 60 passes; GRP-FED, 60 passes"
    assert lines[-1] == f"Not measured yet: {missing}."


def test_a_goal_that_some_seeds_never_reach(results_flagship: ModuleType) -> None:
    assert results_flagship.passes_until([8.0, 9.0]) == "8.5"
    assert results_flagship.passes_until([8.0, float("inf"), 9.0]) == "8.5 (2 of 3)"
    assert results_flagship.passes_until([float("inf")] * 2) == "never"


def test_a_difference_that_all_patients_share_has_no_spread(results_flagship: ModuleType) -> None:
    def runs(lead: float) -> list[dict[str, object]]:
        return [{"patients": {f"p{i}": i / 20 + seed / 100 + lead for i in range(10)}} for seed in range(3)]

    methods = {"FedGate": runs(0.1), "GRP-FED": runs(0.0), "Local": runs(0.25)}
    lines = results_flagship.differences(methods)
    assert [line for line in lines if "0.1" in line] == [
        "| GRP-FED | +0.100 (+0.100 to +0.100) | +0.100 (+0.100 to +0.100) |",
        "| Local | -0.150 (-0.150 to -0.150) | -0.150 (-0.150 to -0.150) |",
    ]
    assert results_flagship.differences({"FedGate": runs(0.1)}) == []
    uneven = [{"patients": {"a": 0.0, "b": 1.0}}]
    rows = results_flagship.differences({"FedGate": uneven, "Local": [{"patients": {"a": 1.0, "b": 0.0}}]})
    assert "| Local | +0.000 (-1.000 to +1.000) | +0.000 (-1.000 to +1.000) |" in rows


@pytest.fixture(scope="module")
def results_table1() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_table1.py")


def test_a_row_of_one_seed_has_no_deviation(results_table1: ModuleType) -> None:
    run = load_script(ROOT / "benchmarks" / "table1" / "run.py")
    scores = dict.fromkeys(results_table1.SCORES, 0.5)
    one = [{"scores": scores, "scores_truth": {"T_l": 0.75, **scores}, "personal_f1": {"worst_decile": 0.25}}]
    assert run.spread(one)["scores"]["T_g"] == {"mean": 0.5, "sd": None}
    main, truth = results_table1.of_stage([{"name": "FedGate", "paper": None, **run.spread(one)}])
    assert main[2] == "| FedGate | 1 | 0.500 | 0.500 | 0.500 | 0.500 | 0.250 |"
    assert truth[-1] == "| FedGate | 0.500 | 0.500 | 0.500 | 0.500 |"
