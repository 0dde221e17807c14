"""Options are declared once: a field of a config class is on the command line, in Python, and in what is recorded."""

import ast
import dataclasses
import inspect
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from ecgfed_cli.expand import takes_options
from ecgfed_cli.federate import try_command
from ecgfed_cli.main import app
from typer.testing import CliRunner

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.base.options import Range, flat_options, merged, names_of, option, options_of
from ecgfed.core.config import DataOptions, ExportOptions, NetOptions, PrivacyConfig, TrainConfig, WorkOptions
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.domain.cohort.cohort import LEAVE_OUT
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.exports.device.graph import BATCH
from ecgfed.network.config import FederationConfig
from ecgfed.network.run_spec import RunSpec
from ecgfed.tasks.prepare import PrepareConfig

#: The most parameters that a function has; options beyond belong into a dataclass.
MOST_PARAMETERS = 12
#: Functions that still have more; this set may only shrink.
REMAINING = {"ecgfed/tasks/prepare_images.py:prepare_cifar10"}
ROOT = Path(ecgfed.__file__).parents[1]


@dataclass(frozen=True)
class _Copied(TrainConfig):
    """Training, with one option more."""

    shots: int = option(3, "How many shots.", Range(1, 9))


@flat_options(_Copied)
def _copied_train(cohort: str, **options: object) -> _Copied:
    """Train.

    Args:
        cohort: the cohort.
        options: as the fields.
    """
    return merged(_Copied, None, options, "train")


def test_one_more_field_is_an_option_everywhere() -> None:
    seen: list[_Copied] = []

    @takes_options("options", _Copied)
    def command(cohort: str, *, options: _Copied) -> None:
        seen.append(options)

    trial = typer.Typer()
    trial.command()(command)
    runner = CliRunner()
    assert "How many shots." in runner.invoke(trial, ["--help"]).output
    assert runner.invoke(trial, ["a", "--shots", "5", "--rounds", "2"]).exit_code == 0
    assert (seen[0].shots, seen[0].rounds, seen[0].given) == (5, 2, {"shots", "rounds"})
    refused = runner.invoke(trial, ["a", "--shots", "10"]).exception
    assert isinstance(refused, OptionError)
    assert (refused.line, refused.parameter, refused.code) == ("shots: 10; expected 1 to 9", "shots", "invalid-value")
    assert _copied_train("a", shots=5, seed=None).given == {"shots"}
    assert inspect.signature(_copied_train).parameters["shots"].default == 3
    assert "    shots: how many shots." in (_copied_train.__doc__ or "")
    with pytest.raises(TypeError, match="unexpected keyword argument 'shot'"):
        _copied_train("a", shot=5)


def _labels(*command: str) -> set[str]:
    group = typer.main.get_command(app)
    for name in command:
        group = group.commands[name]  # type: ignore[attr-defined]
    return {label for parameter in group.params for label in parameter.opts}


@pytest.mark.parametrize(
    ("command", "kind"), [(("train",), TrainConfig), (("federate", "server"), FederationConfig)], ids=str
)
def test_every_field_is_on_the_command_line(command: tuple[str, ...], kind: type) -> None:
    assert {f"--{one.flag}" for one in options_of(kind) if one.name != "settings"} <= _labels(*command)
    assert all(one.meaning for one in options_of(kind))


def test_a_trial_of_a_federation_is_short() -> None:
    parameters = inspect.signature(try_command).parameters
    assert {name: parameters[name].default for name in ("sites", "rounds")} == {"sites": 3, "rounds": 5}


def test_every_field_is_recorded(cohort_path: Path, tmp_path: Path) -> None:
    later: Any = {"most_per_class": 5, "augment": True}  # omitted at their defaults, as in 0.2
    run = ecgfed.train(cohort_path, tmp_path / "run", method="fedavg", rounds=1, local_steps=1, width=0.3, **later)
    document = json.loads((run.path / "run.json").read_text())
    planned = {name for kind in (WorkOptions, DataOptions, PrivacyConfig) for name in names_of(kind)}
    assert document["plan"].keys() == planned == set(names_of(TrainPlan))
    in_net = {"architecture" if name == "net" else name for name in names_of(NetOptions)}
    assert in_net - document["net"].keys() <= {"window_share"}  # omitted at its default, as in 0.1
    elsewhere = set(names_of(TrainConfig)) - planned - set(names_of(NetOptions)) - {"passes"}  # rounds record passes
    assert elsewhere <= document.keys()
    assert planned | set(names_of(NetOptions)) <= set(names_of(FederationConfig))
    spec = RunSpec("0" * 64, "fedavg", {}, document["net"], document["plan"], ("N",), 0, 1)
    assert json.loads(spec.as_text())["plan"].keys() == planned


def test_options_that_were_passed_are_known_and_numbers_become_plain() -> None:
    config = TrainConfig(method="fedavg", seed=np.int64(3), norm=None)  # type: ignore[arg-type]
    assert config.given_values() == {"method": "fedavg", "seed": 3}
    json.dumps(asdict(config))
    assert dataclasses.replace(config, rounds=2).rounds == 2


def test_choices_are_those_of_the_cohort() -> None:
    limits = {one.name: one.limits for one in options_of(TrainConfig)}
    assert str(limits["leave_out"]) == ", ".join(LEAVE_OUT)
    limits = {one.name: one.limits for one in options_of(ExportOptions)}
    assert limits["batch"] == Range(1, BATCH)


@pytest.mark.parametrize(
    ("limits", "value", "expected"),
    [
        (Range(1, 9), 0, "1 to 9"),
        (Range(1, 1e9), 0, "1 or more"),
        (Range(1, 1e9), 2e9, "at most 1,000,000,000"),
        (Range(1, 1 << 40), 1 << 50, "at most 1,099,511,627,776"),
        (Range(0, 1, above=True), 0, "above 0 and at most 1"),
        (Range(0, 1e6, below=True), 1e6, "below 1,000,000"),
        (Range(0, 1e6, below=True), float("nan"), "0 or more and below 1,000,000"),
    ],
)
def test_ranges_say_what_is_expected(limits: Range, value: float, expected: str) -> None:
    assert value not in limits
    assert limits.expected(value) == expected


def _functions() -> list[tuple[str, int]]:
    counts = []
    for path in sorted((ROOT / "ecgfed").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                names = [part.arg for part in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                count = len([name for name in names if name not in ("self", "cls")])
                counts.append((f"{path.relative_to(ROOT)}:{node.name}", count))
    return counts


def test_no_function_has_too_many_parameters() -> None:
    assert {name for name, count in _functions() if count > MOST_PARAMETERS} == REMAINING


def test_options_need_a_dataclass() -> None:
    with pytest.raises(TypeError, match="expected PrivacyConfig"):
        merged(PrivacyConfig, WorkOptions(), {}, "train")  # type: ignore[type-var]


def test_none_is_no_value_of_a_field_that_has_a_default() -> None:
    """None leaves an optional field as the dataclass has it; elsewhere it would silently be another value."""
    how = PrepareConfig(leads="V1")
    assert PrepareConfig.merged(how, {"leads": None}, "prepare_folder").leads == "V1"
    for name in ("split", "annotator"):
        with pytest.raises(OptionError) as caught:
            PrepareConfig.merged(how, {name: None}, "prepare_folder")
        assert caught.value.parameter == name


def test_truth_values_of_numpy_are_truth_values() -> None:
    assert ReadOptions(repair=np.True_).repair is True  # type: ignore[arg-type]
    for wrong in (1, "yes", np.float64(1)):
        with pytest.raises(OptionError):
            ReadOptions(repair=wrong)  # type: ignore[arg-type]
