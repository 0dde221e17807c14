"""``ecgfed runs compare``, on runs written by hand, so that every number is known beforehand."""

import json
from pathlib import Path

import pytest
from support import Command, assert_refused, change_json, copied
from written_run import write_run, write_scores

#: Patient -> F1 of (own model, everybody's). Twenty patients, so that the worst tenth is two.
FIRST = {f"p{n:02d}": (n / 20, 0.5) for n in range(20)}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A and B: B gains 0.5 for p00, loses 0.25 for p19, and leaves the others where they are."""
    first = write_run(tmp_path / "a")
    classes: dict[str, tuple[int, int, float | None]] = {"N": (80, 90, 0.9), "V": (20, 10, 0.25), "A": (0, 0, None)}
    write_scores(first, {"T_g": 0.5, "T_p": 0.6, "T_r": 0.4, "T_l": 0.48}, FIRST, classes=classes)
    second = write_run(
        tmp_path / "b", method="grp-fed", settings={"lr": 0.02, "q0": 1.0}, plan={"local_steps": 4, "seed": 1}
    )
    after = {**FIRST, "p00": (0.5, 0.5), "p19": (0.95 - 0.25, 0.5)}
    classes = {"N": (80, 85, 0.95), "V": (20, 15, 0.75), "A": (0, 0, None)}
    write_scores(second, {"T_g": 0.7, "T_p": 0.65, "T_r": 0.45, "T_l": 0.53}, after, classes=classes)
    return first, second


def test_what_is_compared(ecgfed: Command, two: tuple[Path, Path]) -> None:
    found = json.loads(ecgfed("runs", "compare", *two, "--json").out)
    assert (found["split"], found["one_cohort"]) == ("test", True)
    a, b = found["runs"]
    assert (a["run"], a["method"], a["rounds_done"], a["rounds"], a["passes"]) == (str(two[0]), "fedavg", 4, 4, 1.0)
    assert a["scores"] == {"T_g": 0.5, "T_p": 0.6, "T_r": 0.4, "T_l": 0.48}
    assert a["worst_tenth"]["personal"] == pytest.approx((0.0 + 0.05) / 2)
    assert b["worst_tenth"]["personal"] == pytest.approx((0.05 + 0.1) / 2)  # p00 is no longer among them
    assert (a["notes"], a["spread"], a["seeds"]) == ([], {}, 1)
    assert found["differing"] == {
        "settings": {"lr": [0.005, 0.02]},
        "plan": {"local_steps": [2, 4], "seed": [0, 1]},
        "net": {},
    }
    assert found["own"] == [{}, {"q0": 1.0}]
    assert [(row["name"], row["beats"], row["f1"]) for row in found["classes"]] == [
        ("N", 80, [0.9, 0.95]),
        ("V", 20, [0.25, 0.75]),
    ]
    own, everybody = found["patients"]
    assert (own["run"], own["answer"], own["better"], own["same"], own["worse"]) == (1, "personal", 1, 18, 1)
    assert own["mean"] == pytest.approx((0.5 - 0.25) / 20)
    assert own["largest_gain"] == ["p00", pytest.approx(0.5)]
    assert own["largest_loss"] == ["p19", pytest.approx(-0.25)]
    assert (everybody["better"], everybody["same"], everybody["worse"]) == (0, 20, 0)
    assert everybody["largest_gain"] is everybody["largest_loss"] is None


def test_what_is_printed(ecgfed: Command, two: tuple[Path, Path]) -> None:
    said = ecgfed("runs", "compare", *two)
    assert (said.code, said.err) == (0, "")
    rows = [line.split() for line in said.out.splitlines()]
    for row in (
        ["method", "fedavg", "grp-fed"],
        ["lr", "0.005", "0.02"],
        ["T_g", "0.500", "0.700"],
        ["V", "20", "0.250", "0.750", "+0.500"],
        ["B,", "own", "model", "1", "18", "1", "+0.013", "+0.500", "p00", "-0.250", "p19"],
    ):
        assert row in rows, said.out
    assert "Settings of B that not all have: q0=1.0" in said.out
    assert not any(row[:1] == ["A"] and len(row) == 5 for row in rows)  # no beat of class A anywhere: no row
    assert ecgfed("runs", "compare", *two, "--quiet").out == ""


def test_a_run_that_was_not_evaluated_names_the_command(ecgfed: Command, two: tuple[Path, Path]) -> None:
    said = ecgfed("runs", "compare", *two, "--split", "valid")
    assert said.code == 0
    for letter, run in zip("AB", two, strict=True):
        assert f"{letter} is not evaluated on valid: ecgfed evaluate {run} --split valid" in said.out.splitlines()
    found = json.loads(ecgfed("runs", "compare", *two, "--split", "valid", "--json").out)
    assert found["runs"][0]["scores"] is None
    assert found["patients"] == []
    said = ecgfed("runs", "compare", *two, "--leave-out", "poor-quality")
    assert f"ecgfed evaluate {two[0]} --split test --leave-out poor-quality" in said.out


def test_old_scores_and_unfinished_runs_are_said(ecgfed: Command, tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", done=3)
    write_scores(first, {"T_g": 0.5}, {"p1": (0.5, 0.5)}, at_round=2)
    out = ecgfed("runs", "compare", first, second).out
    assert "A was evaluated after round 2, and has 4: ecgfed evaluate" in out
    assert "B is not finished: 3 of 4 rounds" in out
    a, _ = json.loads(ecgfed("runs", "compare", first, second, "--json").out)["runs"]
    assert a["scores"] == {"T_g": 0.5, "T_p": None, "T_r": None, "T_l": None}


def test_answers_of_different_protocols_are_told_apart(ecgfed: Command, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name) for name in "ab"]
    for run, protocol in zip(runs, ("ensemble", "average"), strict=True):
        write_scores(run, {"T_g": 0.5}, {"p1": (0.5, 0.5)}, protocol=protocol)
    rows = [line.split() for line in ecgfed("runs", "compare", *runs).out.splitlines()]
    assert ["global", "answer", "ensemble", "average"] in rows


def test_a_folder_of_seeds_is_one_run(ecgfed: Command, tmp_path: Path) -> None:
    """Seeds 0 and 1 with T_g 0.4 and 0.6: 0.5, standard deviation sqrt(0.02)."""
    one = write_run(tmp_path / "one")
    write_scores(one, {"T_g": 0.4}, {"p1": (0.4, 0.4), "p2": (0.4, 0.4)}, classes={"N": (9, 9, 0.8)})
    for seed, score in ((0, 0.4), (1, 0.6)):
        run = write_run(tmp_path / "several" / f"seed-{seed}", plan={"seed": seed})
        patients = {"p1": (score, score), "p2": (0.4, 1.0 - score)}
        write_scores(run, {"T_g": score}, patients, classes={"N": (9, 9, score)})
    found = json.loads(ecgfed("runs", "compare", one, tmp_path / "several", "--json").out)
    several = found["runs"][1]
    assert several["seeds"] == 2
    assert several["scores"]["T_g"] == pytest.approx(0.5)
    assert several["spread"]["T_g"] == pytest.approx(0.02**0.5)
    assert found["differing"]["plan"] == {"seed": [0, [0, 1]]}
    assert found["classes"][0]["f1"] == [0.8, pytest.approx(0.5)]
    assert (found["patients"][0]["better"], found["patients"][0]["same"]) == (1, 1)
    out = ecgfed("runs", "compare", one, tmp_path / "several").out
    assert "0.500 ± 0.141" in out
    assert "0, 1" in out


def test_runs_of_different_cohorts(ecgfed: Command, tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", fingerprint="e" * 64)
    write_scores(first, {"T_g": 0.5}, {"p1": (0.5, 0.5)}, classes={"N": (10, 10, 0.5)})
    write_scores(second, {"T_g": 0.6}, {"p9": (0.6, 0.6)}, classes={"N": (11, 11, 0.6)})
    assert_refused(ecgfed("runs", "compare", first, second), str(second), "another cohort", "--any-cohort")
    said = ecgfed("runs", "compare", first, second, "--any-cohort", "--json")
    assert said.code == 0
    assert "DIFFERENT COHORTS" in said.err
    found = json.loads(said.out)
    assert found["one_cohort"] is False
    assert found["patients"] == []  # nobody is in both
    assert found["classes"][0]["beats"] is None


def test_runs_that_held_out_others_are_not_compared(ecgfed: Command, tmp_path: Path) -> None:
    """The beats may be the same and the patients who are scored not; an older run does not say whom it held out."""
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    for run in (first, second):
        write_scores(run, {"T_g": 0.5}, {"p1": (0.5, 0.5)}, classes={"N": (10, 10, 0.5)})
    change_json(first / "run.json", held_out_clients=["p2"])
    assert ecgfed("runs", "compare", first, second).code == 0
    change_json(second / "run.json", held_out_clients=[])
    assert_refused(ecgfed("runs", "compare", first, second), str(second), "held-out clients differ", "--any-cohort")
    older = write_run(tmp_path / "older")
    write_scores(older, {"T_g": 0.5}, {"p1": (0.5, 0.5)}, classes={"N": (10, 10, 0.5)})
    assert_refused(ecgfed("runs", "compare", older, first, second), str(second), "held-out clients differ")
    change_json(second / "run.json", held_out_clients=["p2"])
    assert ecgfed("runs", "compare", older, first, second).code == 0


def test_what_cannot_be_compared(ecgfed: Command, two: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = two
    assert_refused(ecgfed("runs", "compare", first), "one run", "two runs or more")
    assert_refused(ecgfed("runs", "compare", first, second.parent / "a"), "named twice")
    assert_refused(ecgfed("runs", "compare", first, tmp_path / "nowhere"), "nowhere", "is not a folder")
    assert_refused(ecgfed("runs", "compare", first, tmp_path), "holds no run.json")
    assert_refused(ecgfed("runs", "compare", *two, "--split", "train"), "--split", "'train'", "valid, test")
    assert_refused(ecgfed("runs", "compare", *two, "--leave-out", "noise"), "--leave-out", "'noise'")


def test_real_runs(ecgfed: Command, fedavg_run: Path, local_run: Path, tmp_path: Path) -> None:
    """Runs as 'ecgfed train' writes them, against their own scores.json."""
    runs = [copied(run, tmp_path / run.name) for run in (fedavg_run, local_run)]
    for run in runs:
        assert ecgfed("evaluate", run, "--quiet").code == 0
    found = json.loads(ecgfed("runs", "compare", *runs, "--json").out)
    tables = [json.loads((run / "evaluation-test" / "scores.json").read_text()) for run in runs]
    for compared, table in zip(found["runs"], tables, strict=True):
        assert compared["scores"]["T_p"] == table["scores"]["T_p"]
        assert compared["worst_tenth"]["personal"] == pytest.approx(table["fairness"]["personal_f1"]["worst_decile"])
    before, after = ({row["client"]: row["personal_f1"] for row in table["per_patient"]} for table in tables)
    assert found["patients"][0]["better"] == sum(after[name] > before[name] for name in before)
    assert ecgfed("runs", "compare", *runs).code == 0
