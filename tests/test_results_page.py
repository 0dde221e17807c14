"""The results page is what the results files give."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def results_page() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_page.py")


def test_the_page_is_what_the_files_give(results_page: ModuleType) -> None:
    told = "run python benchmarks/results_page.py"
    assert (ROOT / "docs" / "results.md").read_text() == results_page.page(), told


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
    in_truth = lines[lines.index(results_flagship.IN_TRUTH) :]
    assert "| FedGate" + " | 0.450 (0.400 to 0.500)" * 4 + " |" in in_truth
    last = "GRP-FED; FedAvg; FedGate, windows alone; FedGate, 60 passes; GRP-FED, 60 passes"
    assert lines[-1] == f"Still to be measured beside it: {last}."
    assert "2 seeds" in lines[0]


def test_a_goal_that_some_seeds_never_reach(results_flagship: ModuleType) -> None:
    assert results_flagship.passes_until([8.0, 9.0]) == "8.5"
    assert results_flagship.passes_until([8.0, float("inf"), 9.0]) == "8.5 (2 of 3)"
    assert results_flagship.passes_until([float("inf")] * 2) == "never"


def test_simple_answers_stand_apart_from_methods(results_flagship: ModuleType) -> None:
    def runs(score: float) -> list[dict[str, object]]:
        scores = dict.fromkeys(results_flagship.SCORES, score)
        return [{"test": scores, "test_truth": scores, "test_worst_tenth": score / 2, "curve": [[1.0, 0.1]]}] * 2

    methods = {"FedGate": runs(0.8), "FedGate's global model, head": runs(0.6)}
    lines = results_flagship.flagship({"methods": methods})
    half = "0.600 (0.600 to 0.600)"
    assert f"| head | {half} | {half} | {half} | 0.300 (0.300 to 0.300) | {half} | {half} |" in lines
    assert sum(line.startswith("| gated (FedGate) | 0.800") for line in lines) == 1
    assert not any(line.startswith("| FedGate's") for line in lines)
    assert results_flagship.simple_answers({"FedGate": runs(0.8)}) == []


def test_a_lead_that_all_patients_share_has_no_spread(results_flagship: ModuleType) -> None:
    def runs(lead: float) -> list[dict[str, object]]:
        return [{"patients": {f"p{i}": i / 20 + seed / 100 + lead for i in range(10)}} for seed in range(3)]

    methods = {"FedGate": runs(0.1), "GRP-FED": runs(0.0), "Local": runs(0.25)}
    lines = results_flagship.leads(methods)
    assert lines[-2:] == [
        "| GRP-FED | +0.100 (+0.100 to +0.100) | +0.100 (+0.100 to +0.100) |",
        "| Local | -0.150 (-0.150 to -0.150) | -0.150 (-0.150 to -0.150) |",
    ]
    assert results_flagship.leads({"FedGate": runs(0.1)}) == []
    uneven = [{"patients": {"a": 0.0, "b": 1.0}}]
    told = results_flagship.leads({"FedGate": uneven, "Local": [{"patients": {"a": 1.0, "b": 0.0}}]})[-1]
    assert told == "| Local | +0.000 (-1.000 to +1.000) | +0.000 (-1.000 to +1.000) |"


@pytest.fixture(scope="module")
def results_table1() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_table1.py")


@pytest.fixture(scope="module")
def beside_paper() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_table1_paper.py")


def test_table_1_says_what_of_the_papers_order_came_out(
    beside_paper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_script(ROOT / "benchmarks" / "table1" / "run.py")
    apart = {"FedAvg": 0.1}

    def of_table1(found: dict[str, Any], stage: str, name: str, *, key: str = "T_l", in_truth: bool = False) -> Any:
        """Two seeds, as far apart as their method's are."""
        (one,) = [one for one in found[stage] if one["name"] == name]
        mean, half = one["scores_truth" if in_truth else "scores"][key]["mean"], apart.get(name, 0.01)
        return {0: mean - half, 1: mean + half}

    monkeypatch.setattr(beside_paper, "of_table1", of_table1)

    def row(name: str, t_l: float, in_truth: float, t_p: float = 0.4) -> dict[str, object]:
        scores = {key: {"mean": 0.4, "sd": 0.0} for key in beside_paper.SCORES} | {"T_p": {"mean": t_p, "sd": 0.0}}
        paper = run.ROWS[name].paper if name in run.ROWS else None
        return {
            "name": name,
            "paper": paper,
            "scores": {**scores, "T_l": {"mean": t_l, "sd": 0.0}},
            "scores_truth": {**scores, "T_l": {"mean": in_truth, "sd": 0.0}},
        }

    names = [*run.ROWS, "FedAvg, kernel", "FedAvg, gated"]
    rows = {name: row(name, 0.3, 0.3) for name in names}
    slow = {"name": "GRP-FED", "work": 1.28, "scores": {key: {"mean": 0.2, "sd": 0.0} for key in beside_paper.SCORES}}
    rows |= {"GRP-FED": row("GRP-FED", 0.7, 0.5), "AFL": row("AFL", 0.6, 0.8), "FedGate": row("FedGate", 0.9, 0.9)}
    rows["FedAvg"] = row("FedAvg", 0.61, 0.3)
    few = list(rows.values())
    said = "\n".join(beside_paper.against_paper({"passes": few, "work": [slow]}))
    assert said.startswith("The paper's values are in brackets, ours of 12 passes")
    assert "the best are GRP-FED 0.700, FedAvg 0.610, AFL 0.600" in said, "FedGate is none of the paper's"
    assert "passes take) the best T_l are FedAvg 0.610, AFL 0.600, Local 0.300.\n  GRP-FED, with 9.4 passes" in said
    # by hand: differences of -.32 and -.50, so -.41, and 12.706 times .09 to each side
    assert "has 0.200 ± 0.000, which the seeds cannot tell from FedAvg's (-0.410 (-1.554 to +0.734) of 2 seeds)" in said
    apart["FedAvg"] = 0.01
    with pytest.raises(AssertionError, match="change the sentence"):
        beside_paper.against_paper({"passes": few, "work": [slow]})
    apart["FedAvg"] = 0.1
    assert "of the same 2 global models the gate makes T_l 0.900 (0.900 in truth)" in said.replace("Of", "of")
    assert "in truth the best are\n  AFL 0.800, GRP-FED 0.500, Local 0.300" in said
    assert "T_p of Local 0.40 (0.93), LG-FedAvg 0.40 (0.96)" in said
    with pytest.raises(AssertionError, match="change the sentence"):
        beside_paper.against_paper({"passes": list({**rows, "AFL": row("AFL", 0.8, 0.8)}.values())})
    assert beside_paper.against_paper({"passes": [rows["Local"]]}) == []
    paper = {name: one.paper[3] for name, one in run.ROWS.items() if one.paper}
    assert "GRP-FED has the best global model" not in said, "said of 60 passes"
    many = [row(name, paper.get(name, 0.3), paper.get(name, 0.3), t_p=0.5 + (name == "Local") / 10) for name in rows]
    said = "\n".join(beside_paper.against_paper({"passes": few, "work": [slow], "sixty": many}))
    assert "ours of 60 passes" in said
    assert "(Spearman's correlation of ranks 1.00): the best are GRP-FED 0.553, q-FFL 0.534, AFL 0.503" in said
    assert "With 12 passes the best are GRP-FED 0.700, FedAvg 0.610" in said
    assert "worse still, Local 0.40, LG-FedAvg 0.40, pFedMe 0.40" in said
    assert "highest T_p is Local's, 0.600" in said
    assert "among the other five the correlation is 1.00" in said
    assert "GRP-FED's T_l less q-FFL's is +0.019 (+0.019 to +0.019)" in said
    assert "its T_g is 0.400, q-FFL's 0.400, FedAvg's\n  0.400 (less q-FFL's +0.000" in said
    assert "work of 60" not in said, "not said before it is measured"
    costly = [{**one, "work": run.ROWS[name].work} for name, one in zip(rows, many, strict=True) if name in run.ROWS]
    found = {"passes": few, "work": [slow], "sixty": costly, "sixty-work": [one for one in costly if one["work"] > 1]}
    said = "\n".join(beside_paper.against_paper(found))
    assert "At the work of 60 passes, of which GRP-FED gets 46.9, the best are GRP-FED 0.553, q-FFL 0.534" in said


def test_what_to_choose_is_said_by_the_runs() -> None:
    choice = load_script(ROOT / "benchmarks" / "results_choice.py")

    def runs(own: float, everybody: float, in_truth: float = 0.5) -> list[dict[str, object]]:
        scores = {"T_g": 0.5, "T_p": own, "T_r": everybody, "T_l": everybody / 2}
        return [{"test": scores, "test_truth": {"T_p": own + 0.05, "T_l": in_truth}, "test_worst_tenth": own - 0.2}] * 2

    methods = {
        "FedGate": runs(0.8, 0.7),
        "GRP-FED": runs(0.7, 0.75, 0.51),
        "FedAvg": runs(0.6, 0.6),
        "Local": runs(0.9, 0.1),
    }
    methods |= {choice.TUNED: runs(0.86, 0.7), choice.HEAD: runs(0.91, 0.1), choice.UNCHANGED: runs(0.6, 0.8, 0.6)}
    methods |= {choice.LONGER: runs(0.81, 0.9), choice.LONGER_TUNED: runs(0.78, 0.92)}
    methods |= {choice.LONGER_PROBE: runs(0.78, 0.9), choice.LONGER_GRP: runs(0.76, 0.9)}
    methods |= {choice.LONGER_UNCHANGED: runs(0.7, 0.95)}
    means = choice.seed_means(methods)
    longer, gate, grp, own = list(choice._who_takes_part(means))[1:]
    assert longer[2].startswith("T_p 0.81 (in truth 0.86), T_r 0.90, worst tenth 0.61; from")
    assert longer[2].endswith(
        "has 0.78 (0.83), 0.92 and 0.58, `probe` 0.78 (0.83), 0.90 and 0.58, "
        "`grp-fed` with as many passes 0.76 (0.81), 0.90 and 0.56. In T_l (both together) they are 0.45, 0.46, 0.45 "
        "and 0.45: who is best there cannot be told"
    )
    with pytest.raises(AssertionError, match="change the sentence"):
        list(choice._who_takes_part({**means, choice.LONGER_TUNED: means[choice.LONGER]}))
    assert gate[2].startswith(
        "T_p 0.80 and 0.86 (in truth 0.85 and 0.91), T_r 0.70 and 0.70, worst tenth 0.60 and 0.66"
    )
    assert grp[2] == (
        "`grp-fed` T_r 0.75, T_l 0.38 (in truth 0.51); `fed-gate` 0.70, 0.35 (0.50); "
        "its global model 0.80, 0.40 (0.60), but T_p 0.60"
    )
    assert own[2].endswith("worst tenth 0.71 and 0.70; but T_r 0.10 and 0.10")
    simple, usual, beside, *_ = (line for line in choice._what_does_not_hold(means, methods) if line.startswith("- "))
    assert "T_p 0.860 against 0.800, T_l 0.350 against 0.350" in simple
    assert "has T_p 0.600 and T_r 0.800: T_l 0.400, above FedGate's; in truth\n  0.600, above FedGate's 0.500" in simple
    assert "above fine-tuning's, 0.810 against 0.780, and its T_r below, 0.900 against\n  0.920. The rest" in simple
    assert "worst tenth 0.610 against 0.580, T_l 0.450 against 0.460; so is what `probe` has" in simple
    assert simple.endswith(
        "T_p is 0.860, 0.830 and 0.830, and T_l 0.500, 0.500 and 0.500, "
        "where the global\n  model as it is has 0.500: nobody is ahead."
    )
    assert "T_p 0.90 by a net of its\n  own, 0.91 by a linear head" in usual
    assert usual.endswith("it is 0.95,\n  0.96 and 0.85.")
    assert "  -0.025 (-0.025 to -0.025) of 2 seeds, in truth -0.010 (-0.010 to -0.010) of 2 seeds, where" in beside
    assert "with 60\n  +0.000 (+0.000 to +0.000) of 2 seeds" in beside
    with pytest.raises(AssertionError, match="change the sentence"):
        list(choice._what_does_not_hold(means, {**methods, "GRP-FED": runs(0.7, 0.6, 0.51)}))
    with pytest.raises(AssertionError, match="change the sentence"):
        list(choice._what_does_not_hold({**means, choice.HEAD: {**means[choice.HEAD], "T_p": 0.75}}, methods))


def test_what_came_out_on_images_is_said_by_the_runs() -> None:
    page = load_script(ROOT / "benchmarks" / "results_cifar.py")

    def runs(everybody: list[float], own: list[float], local: list[float] | None = None) -> list[dict[str, Any]]:
        return [
            {"accuracies": {"G_FL": a, "P_FL_expected": b}, "local_models": local and {"P_FL_expected": local[at]}}
            for at, (a, b) in enumerate(zip(everybody, own, strict=True))
        ]

    methods = {"FedAvg": runs([0.4, 0.42], [0.3, 0.3], [0.6, 0.62]), "FedAvg, BSM": runs([0.5, 0.52], [0.4, 0.4])}
    methods["Fed-RoD"] = runs([0.5, 0.52], [0.55, 0.57])
    said = "\n".join(page.what_came_out(methods))
    # by hand: differences of .30 and .32, and 12.706 times .01 to each side
    assert "P-FL 0.610 (0.851), its global model\n  0.300: +0.310 (+0.183 to +0.437) of 2 seeds" in said
    assert "0.410 with cross-entropy (0.686):\n  +0.100 (+0.100 to +0.100) of 2 seeds" in said
    assert page.what_came_out({"FedAvg": methods["FedAvg"]}) == []
    assert page.what_came_out({name: one[:1] for name, one in methods.items()}) == [], "one seed has no interval"
    assert page.with_spread([0.4, 0.42]) == "0.410 ± 0.014"
    for other in ({"FedAvg, BSM": runs([0.4, 0.42], [0.4, 0.4])}, {"Fed-RoD": runs([0.5, 0.5], [0.55, 0.57])}):
        with pytest.raises(AssertionError, match="change the sentence"):
            page.what_came_out({**methods, **other})


def test_what_60_passes_say_of_fairness_is_said_by_the_runs() -> None:
    choice = load_script(ROOT / "benchmarks" / "results_choice.py")
    assert choice._fairness_longer({}) == ""
    both = {"low": -0.1, "high": 0.1}
    rules = ("adaptive q, sigma", "adaptive q, sigma / mean", "data share")
    less = {name: {"worst_decile": both, "loss_max": {"low": -0.2, "high": -0.1}} for name in rules}
    less["data share"]["loss_max"] = both
    names = ("uniform (q = 0)", *rules)
    runs = {name: [{"worst_decile": 0.4 + at / 100, "loss_max": 0.1 - at / 100}] * 2 for at, name in enumerate(names)}
    said = choice._fairness_longer({"longer": runs, "longer_against_uniform": less})
    assert "for all (2 seeds) no rule" in said
    assert "worst tenth: 0.400,\n  the others 0.410 to 0.430." in said
    assert "equal weights 0.100; adaptive q, sigma 0.090; adaptive q, sigma / mean 0.080." in said
    less["data share"]["worst_decile"] = {"low": 0.01, "high": 0.1}
    with pytest.raises(AssertionError, match="change the sentence"):
        choice._fairness_longer({"longer": runs, "longer_against_uniform": less})


def test_table_1_says_the_papers_values_and_what_is_not_finished(results_table1: ModuleType) -> None:
    run = load_script(ROOT / "benchmarks" / "table1" / "run.py")
    scores = dict.fromkeys(results_table1.SCORES, 0.5)
    runs = [{"scores": scores, "scores_truth": scores, "personal_f1": {"worst_decile": 0.25}}] * 2
    row = run.ROWS["GRP-FED"]
    known = {"name": "GRP-FED", "trial": 0, "settings": {}, "paper": row.paper, "of": 3, **run.spread(runs)}
    found = {"passes": [known], "printed": [{"name": "FedAvg, printed", "of": 3, "seeds": 3, "stopped": ["a", "b"]}]}
    found["unfinished"] = list(run.unfinished(found))
    assert "equal work: AFL; q-FFL; pFedMe; GRP-FED" in found["unfinished"]
    assert found["unfinished"][0].startswith("equal passes: Local; ")
    assert found["unfinished"][0].endswith("; GRP-FED; FedGate"), "two seeds of three"
    assert found["unfinished"][-3] == "as printed: GRP-FED, printed, bounded losses"
    assert found["unfinished"][-2].startswith("60 passes: Local; ")
    assert found["unfinished"][-1] == "the work of 60 passes: AFL; q-FFL; pFedMe; GRP-FED"
    lines = results_table1.table1(found)
    half = "0.500 ± 0.000"
    cells = f"{half} (0.569) | {half} (0.864) | {half} (0.424) | {half} (0.553; 0.569) | 0.250 ± 0.000 |"
    assert any(line.startswith(f"| GRP-FED | 2 | {cells}") for line in lines), "2 x .864 x .424 / (.864 + .424) = .569"
    assert "| FedAvg, printed | 3 |  |  |  |  | 2 |" in lines


def test_a_row_of_one_seed_has_no_deviation(results_table1: ModuleType) -> None:
    run = load_script(ROOT / "benchmarks" / "table1" / "run.py")
    scores = dict.fromkeys(results_table1.SCORES, 0.5)
    one = [{"scores": scores, "scores_truth": {"T_l": 0.75, **scores}, "personal_f1": {"worst_decile": 0.25}}]
    assert run.spread(one)["scores"]["T_g"] == {"mean": 0.5, "sd": None}
    lines = results_table1.of_stage([{"name": "FedGate", "paper": None, **run.spread(one)}])
    assert lines[2] == "| FedGate | 1 | 0.500 | 0.500 | 0.500 | 0.500 | 0.250 |"
    assert lines[-1] == "| FedGate | 0.500 | 0.500 | 0.500 | 0.500 |"


def test_the_papers_figures_are_told_from_the_runs(beside_paper: ModuleType) -> None:
    def row(beta: float, t_p: float, t_r: float, t_l: float) -> dict[str, object]:
        scores = {"T_p": {"mean": t_p, "sd": 0.0}, "T_r": {"mean": t_r, "sd": 0.0}, "T_l": {"mean": t_l, "sd": 0.01}}
        return {"beta": beta, "scores": scores}

    rows = [row(beta, 0.6 + beta / 10, 0.7 - beta / 10, 0.5 - abs(beta - 0.3)) for beta in (0.1, 0.3, 0.5, 0.7, 0.9)]
    said = "\n".join(beside_paper._by_beta(rows))
    assert "from 0.1 to 0.9 T_p rises from 0.61 to 0.69 and T_r falls from 0.69 to 0.61" in said
    assert "best at 0.3, 0.500 ± 0.010; at 0.5, the paper's best, 0.300 ± 0.010" in said
    assert beside_paper._by_beta(rows[1:]) == []
    with pytest.raises(AssertionError, match="change the sentence"):
        beside_paper._by_beta(rows[::-1])
    losses = {"FedAvg": 0.5, "AFL": 0.6, "q-FFL": 0.55, "GRP-FED": 0.4}
    ends = {name: {"last_losses": {"mean": 0.1, "largest": loss}} for name, loss in losses.items()}
    few = [{"name": name, **end} for name, end in ends.items()]
    said = "\n".join(beside_paper._by_loss({"passes": few}))
    assert "seed of 12 passes" in said
    assert "FedAvg 0.5 (0.1), AFL 0.6 (0.1)" in said
    assert beside_paper._by_loss({"passes": [*few[:1], {"name": "AFL"}, *few[2:]]}) == []
    assert beside_paper._two_patients({"passes": few}, {}) == []


def test_two_patients_are_told_from_the_first_runs(beside_paper: ModuleType) -> None:
    rows = [{"name": name, "trial": 1} for name in {*beside_paper.CURVES, *beside_paper.CASES}]

    def run(own: float, everybody: float) -> dict[str, object]:
        patients = {beside_paper.NEAR: own, beside_paper.FAR: 1.0}
        return {"patients": patients, "drawn": {"by_patient": {"T_r": dict.fromkeys(patients, everybody)}}}

    kept = {"FedAvg": run(0.7, 0.96), "q-FFL": run(0.7, 0.96), "LG-FedAvg": run(0.6, 0.25), "pFedMe": run(0.5, 0.4)}
    runs = {f"sixty/{name}/1/0": one for name, one in {**kept, "GRP-FED": run(0.8, 0.95)}.items()}
    (said,) = beside_paper._two_patients({"passes": rows, "sixty": rows}, runs)
    assert "best T_p (0.80) and T_l\n  (0.87)" in said, "2 x .8 x .95 / 1.75"
    assert "T_l is poor, 0.40," in said, "2 x .25 / 1.25"
    assert "not ahead: 0.974,\n  FedAvg's 0.980" in said
    with pytest.raises(AssertionError, match="change the sentence"):
        beside_paper._two_patients({"passes": rows, "sixty": rows}, {**runs, "sixty/FedAvg/1/0": run(0.9, 0.96)})


def test_which_of_fed_rods_findings_hold_is_said_by_the_runs() -> None:
    page = load_script(ROOT / "benchmarks" / "results_fed_rod.py")

    def runs(generic: float, own: float, local: float | None = None) -> list[dict[str, object]]:
        scores = {"T_g": generic, "T_p": own, "T_r": generic, "T_l": 0.5}
        return [{"scores": scores, "local_models": None if local is None else {"T_p": local, "T_r": 0.6}}] * 2

    methods = {"FedAvg": runs(0.7, 0.6, 0.65), "FedAvg, BSM": runs(0.25, 0.15, 0.16), "Fed-RoD": runs(0.22, 0.68)}
    masked = {"FedAvg": runs(0.7, 0.7), "FedAvg, BSM": runs(0.25, 0.5)}
    found = {"methods": methods, "masked": masked}
    lines = page.fed_rod(found)
    assert "| FedAvg | 2 | 0.700 | 0.600 | 0.700 | 0.500 | 0.650 | 0.600 |" in lines
    said = "\n".join(lines)
    assert "FedAvg's have T_p 0.65, its global model 0.60" in said
    assert "T_g 0.25 with BSM, 0.70 with cross-entropy" in said
    assert "T_p is 0.50, not 0.15 (FedAvg's 0.70, not 0.60)" in said
    assert "T_p 0.68; FedAvg's global model 0.60" in said
    with pytest.raises(AssertionError, match="change the sentence"):
        page.fed_rod({**found, "methods": {**methods, "FedAvg, BSM": runs(0.8, 0.6, 0.6)}})


def test_a_class_mix_is_told_from_the_newcomers_results(monkeypatch: pytest.MonkeyPatch) -> None:
    page = load_script(ROOT / "benchmarks" / "results_fed_rod.py")

    def row(method: str, answer: str, score: float) -> dict[str, object]:
        return {"method": method, "answer": answer, "macro_f1": {"mean": score}, "macro_f1_truth": {"mean": score}}

    rows = [("fed-rod-hyper", "global", 0.1), ("fed-rod-hyper", "class mix", 0.4)]
    rows += [("fedavg", "global", 0.35), ("fedavg", "partway", 0.6)]
    found = {"lessons": {"five minutes": [row(*one) for one in rows]}}
    monkeypatch.setattr(page, "results_of", lambda folder: found)
    (said,) = page._new_clients()
    assert "from the mix has 0.40 (0.40 in truth),\n  its global model 0.10 (0.10 in truth)" in said
    monkeypatch.setattr(page, "results_of", lambda folder: None)
    assert page._new_clients() == []
