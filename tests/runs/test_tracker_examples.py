"""The examples for Weights & Biases, MLflow and Optuna, with modules in their place that record what they are passed.

The packages themselves are used where they are installed (``pip install wandb mlflow optuna``).
"""

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHORT: dict[str, Any] = {"rounds": 3, "local_steps": 1, "width": 0.34, "method": "fedavg", "eval_every": 1}


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def test_wandb(monkeypatch: pytest.MonkeyPatch, cohort_path: Path, tmp_path: Path) -> None:
    logged: list[tuple[int, dict[str, float]]] = []
    begun: list[dict[str, Any]] = []

    @contextmanager
    def init(**options: Any) -> Iterator[Any]:
        begun.append(options)
        yield SimpleNamespace(log=lambda values, step: logged.append((step, values)))

    stand_in(monkeypatch, "wandb", init=init)
    run = importlib.import_module("log_wandb").train(cohort_path, tmp_path / "run", **SHORT)
    assert begun[0]["mode"] == "offline"
    history = run.history()
    assert [step for step, _ in logged] == [1, 2, 3]
    assert [values["valid_T_g"] for _, values in logged] == [line["valid_T_g"] for line in history]
    assert all(isinstance(value, int | float) for _, values in logged for value in values.values())


def test_mlflow(monkeypatch: pytest.MonkeyPatch, cohort_path: Path, tmp_path: Path) -> None:
    logged: list[tuple[int, dict[str, float]]] = []
    stores: list[str] = []

    @contextmanager
    def start_run(**options: Any) -> Iterator[None]:
        yield

    stand_in(
        monkeypatch,
        "mlflow",
        start_run=start_run,
        set_tracking_uri=stores.append,
        set_experiment=lambda name: None,
        log_params=lambda values: None,
        log_metrics=lambda values, step: logged.append((step, values)),
    )
    run = importlib.import_module("log_mlflow").train(cohort_path, tmp_path / "run", **SHORT)
    assert stores == ["sqlite:///mlflow.db"]
    assert [values["loss_mean"] for _, values in logged] == [line["loss_mean"] for line in run.history()]


def test_optuna(monkeypatch: pytest.MonkeyPatch, cohort_path: Path, tmp_path: Path) -> None:
    """The second of two trials is pruned after its second round."""

    class TrialPruned(Exception):  # noqa: N818 (Optuna's name)
        pass

    class Trial:
        def __init__(self, number: int) -> None:
            self.number, self.values = number, dict[int, float]()

        def suggest_float(self, name: str, low: float, high: float, log: bool) -> float:
            return (0.01, 0.02)[self.number]

        def report(self, value: float, step: int) -> None:
            self.values[step] = value

        def should_prune(self) -> bool:
            return self.number == 1 and len(self.values) == 2

    class Study:
        def optimize(self, objective: Any, n_trials: int) -> None:
            self.trials, self.results = [Trial(number) for number in range(n_trials)], list[float | None]()
            for trial in self.trials:
                try:
                    self.results.append(objective(trial))
                except TrialPruned:
                    self.results.append(None)

    stand_in(
        monkeypatch,
        "optuna",
        Trial=Trial,
        TrialPruned=TrialPruned,
        create_study=lambda **options: Study(),
        samplers=SimpleNamespace(TPESampler=lambda seed: None),
        pruners=SimpleNamespace(MedianPruner=lambda n_startup_trials: None),
    )
    import ecgfed

    study = importlib.import_module("prune_optuna").search(cohort_path, tmp_path, 2, **SHORT)
    first, second = (ecgfed.open_run(tmp_path / f"trial-{number}") for number in (0, 1))
    assert study.results == [first.history()[-1]["valid_T_g"], None]
    assert study.trials[0].values == {line["round"]: line["valid_T_g"] for line in first.history()}
    assert (first.store.rounds(), second.store.rounds()) == (3, 2)
    assert (first.method.settings.lr, second.method.settings.lr) == (0.01, 0.02)


@pytest.mark.parametrize("name", ["wandb", "mlflow", "optuna"])
def test_without_its_package_an_example_says_so(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    (script,) = (ROOT / "examples").glob(f"*_{name}.py")
    command = [sys.executable, script, tmp_path / "cohort"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.strip() == f"skipped: No module named '{name}'; pip install {name}"
