"""``method=`` as a class: of a file, of a notebook without one, or a registered one, wherever a method is passed."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.config import TrainConfig
from ecgfed.core.methods.base import Method, Returned, Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.network.config import FederationConfig

SHORT: dict[str, Any] = {"rounds": 2, "local_steps": 1, "width": 0.34, "eval_every": 0}


class HalfStep(FedAvg):
    """Half of the step that FedAvg takes."""

    name = "half-step"

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        new = super().aggregate(server, returned)
        model = {name: (value + server["model"][name]) / 2 for name, value in new["model"].items()}
        return {**new, "model": model}


@pytest.fixture(params=["file", "notebook"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Method]:
    if request.param == "file":
        return HalfStep
    monkeypatch.setitem(sys.modules, "cell", ModuleType("cell"))  # as a notebook's __main__: without a file
    return type("HalfStep", (HalfStep,), {"__module__": "cell", "__qualname__": "HalfStep"})


@pytest.mark.filterwarnings("ignore:.*does not say the SHA-256")
def test_a_class_trains_resumes_scores_and_exports(kind: type[Method], cohort_path: Path, tmp_path: Path) -> None:
    whole = ecgfed.train(cohort_path, tmp_path / "whole", method=kind, **SHORT)
    ecgfed.train(cohort_path, tmp_path / "run", method=kind, should_stop=lambda: True, **SHORT)
    run = ecgfed.train(cohort_path, tmp_path / "run", method=kind, resume=True)
    assert type(run.method) is kind
    for name, value in whole.state().server["model"].items():
        assert (value == run.state().server["model"][name]).all()
    with pytest.raises(RunError, match="not run because a file names it"):
        ecgfed.open_run(tmp_path / "run")
    scores = ecgfed.evaluate(tmp_path / "run", split="valid", method=kind)
    assert scores.T_g == ecgfed.evaluate(whole, split="valid").T_g
    ecgfed.export(tmp_path / "run", tmp_path / "bundle", method=kind)
    seeds = ecgfed.train_seeds(cohort_path, [0], tmp_path / "seeds", method=kind, **SHORT)
    assert seeds[0].method.name == "half-step"


def test_the_class_is_what_runs(cohort_path: Path, tmp_path: Path) -> None:
    options = {**SHORT, "rounds": 1}
    first = ecgfed.train(cohort_path, tmp_path / "a", method=FedAvg, **options)
    half = ecgfed.train(cohort_path, tmp_path / "b", config=TrainConfig(method=HalfStep, **options))
    assert json.loads((tmp_path / "a" / "run.json").read_text())["method"] == "fedavg"
    initial = first.net.initial(0)
    for name, value in first.state().server["model"].items():
        expected = (value + initial[name]) / 2
        assert half.state().server["model"][name].numpy() == pytest.approx(expected.numpy(), abs=1e-6)


@pytest.mark.parametrize(("wrong", "words"), [(int, "is no method"), (5, "text or a class")])
def test_what_is_no_method_is_refused(cohort_path: Path, tmp_path: Path, wrong: object, words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        ecgfed.train(cohort_path, tmp_path / "run", method=wrong, **SHORT)
    assert caught.value.parameter == "method"


def test_a_federation_takes_a_registered_class_only() -> None:
    assert FederationConfig(method=FedAvg).method == "fedavg"
    with pytest.raises(OptionError, match="only code that is installed there"):
        FederationConfig(method=HalfStep)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ({"lr": 0.1}, r"settings=\{'lr': \.\.\.\}"),
        ({"learning_rate": 0.1}, r"settings=\{'lr': \.\.\.\}"),
        ({"q_0": 1}, r"settings=\{'q0': \.\.\.\}"),
        ({"num_rounds": 3}, "rounds"),
        ({"epochs": 3}, "local_epochs"),
    ],
)
def test_an_unknown_argument_is_refused_with_a_suggestion(
    cohort_path: Path, tmp_path: Path, wrong: dict[str, float], meant: str
) -> None:
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '\w+'; did you mean {meant}\?$"):
        ecgfed.train(cohort_path, tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


def test_a_setting_by_its_name_elsewhere(cohort_path: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"did you mean lr\?$"):
        ecgfed.train(cohort_path, tmp_path / "run", settings={"learning_rate": 0.1})
