"""``sweep``: every combination as ``train`` would train it, on validation data only, resumable."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Command, assert_refused
from torch import nn

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.executors import process_pool
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import TEST

SHORT: dict[str, Any] = {"rounds": 2, "width": 0.34, "eval_every": 0, "batch_size": 8}
GRID: dict[str, list[Any]] = {"lr": [0.01, 0.1], "local_steps": [1, 3]}


@pytest.fixture(scope="module")
def swept(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> ecgfed.Sweep:
    out = tmp_path_factory.mktemp("sweep") / "sweep"
    return ecgfed.sweep(cohort_path, GRID, out, method="fedavg", settings={"momentum": 0.5}, **SHORT)


def test_each_combination_is_what_train_and_evaluate_say(
    swept: ecgfed.Sweep, cohort_path: Path, tmp_path: Path
) -> None:
    expected = {}
    for lr in GRID["lr"]:
        for steps in GRID["local_steps"]:
            settings = {"momentum": 0.5, "lr": lr}
            options = {**SHORT, "method": "fedavg", "local_steps": steps, "settings": settings}
            run = ecgfed.train(cohort_path, tmp_path / f"{lr}-{steps}", **options)
            expected[lr, steps] = ecgfed.evaluate(run, split="valid", local_models=False)
    assert {(row.values["lr"], row.values["local_steps"]) for row in swept.rows} == expected.keys()
    for row in swept.rows:
        scores = expected[row.values["lr"], row.values["local_steps"]]
        assert row.scores == {name: scores.each(name) for name in ("T_g", "T_p", "T_r", "T_l")}
    t_g = [row.mean("T_g") for row in swept.rows]
    assert t_g == sorted(t_g, reverse=True)
    best = max(expected, key=lambda key: expected[key].T_g)
    assert expected[swept.best["lr"], swept.best["local_steps"]].T_g == expected[best].T_g  # type: ignore[index]


def test_the_test_split_is_never_read(
    cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swept: ecgfed.Sweep
) -> None:
    asked: list[int] = []
    pool, rows = Cohort.pool, Cohort.rows

    def watched_pool(self: Cohort, split: int) -> Any:
        asked.append(split)
        return pool(self, split)

    def watched_rows(self: Cohort, client: Any, split: int) -> Any:
        asked.append(split)
        return rows(self, client, split)

    monkeypatch.setattr(Cohort, "pool", watched_pool)
    monkeypatch.setattr(Cohort, "rows", watched_rows)
    ecgfed.sweep(cohort_path, {"lr": [0.01]}, tmp_path / "sweep", method="fedavg", **SHORT)
    assert asked
    assert TEST not in asked
    assert not list(swept.path.rglob("evaluation-test"))


def test_it_goes_on_where_it_stopped(cohort_path: Path, tmp_path: Path, swept: ecgfed.Sweep) -> None:
    """Stopped in the second combination after its first round, and ends as the one that was not."""
    rounds: list[int] = []
    options = {"method": "fedavg", "settings": {"momentum": 0.5}, **SHORT}
    part = ecgfed.sweep(
        cohort_path,
        GRID,
        tmp_path / "sweep",
        callbacks=[lambda record: rounds.append(record["round"])],
        should_stop=lambda: len(rounds) >= 2,
        **options,
    )
    assert len(part.rows) == 1
    assert part.combinations == 4
    with pytest.raises(OptionError, match="holds a sweep"):
        ecgfed.sweep(cohort_path, GRID, tmp_path / "sweep", **options)
    with pytest.raises(RunError, match="was begun with options"):
        ecgfed.sweep(cohort_path, GRID, tmp_path / "sweep", resume=True, **{**options, "rounds": 3})
    again: list[int] = []
    whole = ecgfed.sweep(
        cohort_path,
        GRID,
        tmp_path / "sweep",
        resume=True,
        callbacks=[lambda record: again.append(record["round"])],
        **options,
    )
    assert [row.scores for row in whole.rows] == [row.scores for row in swept.rows]
    assert len(rounds) + len(again) in (8, 9)  # a round that was not saved may be repeated
    third = ecgfed.sweep(cohort_path, GRID, tmp_path / "sweep", resume=True, **options)
    assert third.to_dict() == whole.to_dict()


def test_several_seeds_and_a_class(cohort_path: Path, tmp_path: Path) -> None:
    grid = {"method": [FedAvg, "local"]}
    result = ecgfed.sweep(cohort_path, grid, tmp_path / "sweep", seeds=[0, 1], score="T_p", local_steps=1, **SHORT)
    assert {row.values["method"] for row in result.rows} == {"fedavg", "local"}
    for row in result.rows:
        scores = ecgfed.evaluate(result.path / row.folder, split="valid", local_models=False)
        assert row.scores["T_p"] == scores.each("T_p")
        assert row.mean("T_p") == pytest.approx(scores.T_p)
    frame = result.to_pandas()
    assert frame["T_p"].is_monotonic_decreasing
    assert json.loads((result.path / "sweep.json").read_text())["seeds"] == [0, 1]


NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Flatten(), nn.Linear(256, 4)), nn.Linear(4, classes)

    def forward(self, x):
        return self.head(self.body(x))
"""


class Flat(nn.Module):
    """A linear model of the window."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(256, classes)

    def forward(self, x: Any) -> Any:
        return self.head(x.flatten(1))


def test_nets_of_ones_own(cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(NET)
    of_file: Any = f"{tmp_path / 'own.py'}:Net"
    short: dict[str, Any] = {"method": "fedavg", "rounds": 1, "local_steps": 1, "batch_size": 8}
    by_file = ecgfed.sweep(cohort_path, {"lr": [0.01, 0.1]}, tmp_path / "a", net=of_file, **short)
    by_class = ecgfed.sweep(cohort_path, {"lr": [0.1]}, tmp_path / "b", net=Flat, **short)
    assert len(by_file.rows) == 2
    assert all(row.scores for row in (*by_file.rows, *by_class.rows))
    nets = ecgfed.sweep(cohort_path, {"net": [Flat, of_file, "default"]}, tmp_path / "c", settings={"lr": 0.1}, **short)
    scores = {row.values["net"]: row.scores for row in nets.rows}
    assert set(scores) == {"Flat", of_file, "default"}
    assert scores["Flat"] == by_class.rows[0].scores
    assert scores[of_file] in [row.scores for row in by_file.rows]
    with process_pool(1) as pool:
        elsewhere = ecgfed.sweep(
            cohort_path, {"lr": [0.01, 0.1]}, tmp_path / "d", net=of_file, executor=pool, workers=1, **short
        )
    assert elsewhere.to_dict()["rows"] == by_file.to_dict()["rows"]


@pytest.mark.filterwarnings("ignore::ecgfed.EcgfedWarning")
def test_a_combination_that_diverges_has_no_scores(cohort_path: Path, tmp_path: Path) -> None:
    options = {**SHORT, "rounds": 6, "local_steps": 8, "norm": "none"}
    grid = {"lr": [100.0, 0.01]}
    result = ecgfed.sweep(cohort_path, grid, tmp_path / "sweep", method="fedavg", **options)
    good, bad = result.rows
    assert (good.values, good.problem) == ({"lr": 0.01}, "")
    assert not bad.scores
    assert "not finite" in bad.problem or "nan" in bad.problem or "inf" in bad.problem
    assert result.best == {"lr": 0.01}
    assert np.isnan(result.to_pandas()["T_g"].iloc[1])


@pytest.mark.parametrize(
    ("grid", "more", "words"),
    [
        ({}, {}, "name -> values"),
        ({"lr": 0.1}, {}, "a list of values"),
        ({"lr": []}, {}, "a list of values"),
        ({"lr": [0.1, 0.1]}, {}, "distinct values"),
        ({"learning_rate": [0.1]}, {}, "did you mean lr"),
        ({"seed": [0, 1]}, {}, "no setting or option"),
        ({"lr": [0.1, -1]}, {}, "0 to 100"),
        ({"local_steps": [1, 2.5]}, {}, "a whole number"),
        ({"lr": [0.1]}, {"score": "T_x"}, "one of T_g"),
        ({"lr": [0.1]}, {"seed": 3}, "pass seeds"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_trained(
    cohort_path: Path, tmp_path: Path, grid: Any, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        ecgfed.sweep(cohort_path, grid, tmp_path / "sweep", method="fedavg", **{**SHORT, **more})
    assert not (tmp_path / "sweep").exists()


def test_on_the_command_line(ecgfed: Command, cohort_path: Path, tmp_path: Path, swept: Any) -> None:
    command = ["sweep", str(cohort_path), "--out", str(tmp_path / "sweep"), "--method", "fedavg", "--rounds", "2"]
    command += ["--width", "0.34", "--eval-every", "0", "--batch-size", "8", "--set", "momentum=0.5"]
    done = ecgfed(*command, "--grid", "lr=0.01,0.1", "--grid", "local-steps=1,3", "--json")
    rows = json.loads(done.out)["rows"]
    assert [(row["values"], row["scores"]) for row in rows] == [(row.values, row.scores) for row in swept.rows]
    text = ecgfed(*command, "--grid", "lr=0.01,0.1", "--grid", "local-steps=1,3", "--resume").out
    assert f"{swept.rows[0].mean('T_g'):.3f}" in text
    assert_refused(ecgfed(*command, "--grid", "lr"), "NAME=VALUE")
    assert_refused(ecgfed(*command, "--grid", "lr=1"), "holds a sweep")


def test_an_executor_trains_the_same_combinations(swept: ecgfed.Sweep, cohort_path: Path, tmp_path: Path) -> None:
    completions: list[int] = []

    class Counted(ecgfed.ProgressReporter):
        def update(self, what: str, completed: int, total: int | None, item: str = "", **_: Any) -> None:
            if what == "combinations":
                completions.append(completed)

    options = {"method": "fedavg", "settings": {"momentum": 0.5}, **SHORT}
    with process_pool(2) as pool:
        sweep = ecgfed.sweep(cohort_path, GRID, tmp_path / "sweep", executor=pool, progress=Counted(), **options)
    assert completions == [1, 2, 3, 4]
    assert sweep.rows == swept.rows
    assert (tmp_path / "sweep" / "sweep.json").read_bytes() == (swept.path / "sweep.json").read_bytes()
    memory = ecgfed.cohort_from_arrays(np.zeros((12, 1, 8), np.float32), np.arange(12) % 2, np.arange(12) % 3)
    with pytest.raises(OptionError) as refused:
        ecgfed.sweep(memory, {"lr": [0.1]}, tmp_path / "other", executor=pool)
    assert refused.value.parameter == "executor"
    assert not (tmp_path / "other").exists()


def first_two(info: Any) -> Any:
    return info.clients[:2]


def halved(number: int, rounds: int) -> float:
    return 0.5


def test_functions_are_varied_by_their_labels(cohort_path: Path, tmp_path: Path) -> None:
    grid: dict[str, Any] = {"sampler": {"two": first_two, "all": None}, "lr_schedule": {"half": halved, "none": None}}
    options: dict[str, Any] = {**SHORT, "method": "fedavg"}
    swept = ecgfed.sweep(cohort_path, grid, tmp_path / "sweep", sampler=first_two, **options)
    for row in swept.rows:
        own = {name: functions[row.values[name]] for name, functions in grid.items()}
        folder = tmp_path / "-".join(map(str, row.values.values()))
        run = ecgfed.train(cohort_path, folder, local_steps=None, **own, **options)
        scores = ecgfed.evaluate(run, split="valid", local_models=False)
        assert row.scores["T_g"] == scores.each("T_g")
        assert {len(line["clients"]) for line in run.history()} == {2 if row.values["sampler"] == "two" else 4}
    again = ecgfed.sweep(cohort_path, grid, tmp_path / "sweep", sampler=first_two, resume=True, **options)
    assert again.rows == swept.rows
    for wrong in ([first_two], {}, {"two": 2}, {2: first_two}):
        with pytest.raises(OptionError):
            ecgfed.sweep(cohort_path, {"sampler": wrong}, tmp_path / "other", **options)  # type: ignore[dict-item]
    assert not (tmp_path / "other").exists()


def test_a_combination_that_no_method_trains_is_refused_before_the_first(cohort_path: Path, tmp_path: Path) -> None:
    """AFL takes one local step: alone each value is fine, and FedAvg would be trained for nothing first."""
    with pytest.raises(OptionError):
        ecgfed.sweep(cohort_path, {"method": ["fedavg", "afl"], "local_steps": [1, 3]}, tmp_path / "sweep", **SHORT)
    assert not (tmp_path / "sweep").exists()
