"""The examples in the docstrings of the front door, the verbs and the device runtime, run where they can run."""

import ast
import doctest
import importlib
import pkgutil
import warnings
from pathlib import Path

import pytest
from support import trace_once

import ecgfed
import ecgfed.device
import ecgfed.tasks

MODULES = [
    "ecgfed",
    *(
        module.name
        for package in (ecgfed.tasks, ecgfed.device)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ),
]
#: Verbs whose example would need a database from elsewhere, readers' labels, a browser, or a signing key.
NEED_DATA = {
    *("prepare_database", "prepare_mitbih", "prepare_cifar10", "read_images", "label_agreement", "serve"),
    *("export_delta", "show_delta", "apply_delta"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples run: ``cohort`` (and ``cohort-records``), ``run`` and ``bundle`` are there already."""
    place = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as here:
        here.chdir(place)  # relative paths, as an example's reader has them
        trace_once(here)
        cohort = ecgfed.prepare_demo("cohort", patients=3, minutes=1, workers=1)
        run = ecgfed.train(cohort, "run", method="fedavg", rounds=2, local_steps=1, workers=1)
        ecgfed.export(run, "bundle")
    return place


def examples(name: str) -> list[doctest.DocTest]:
    """The docstrings of a module that hold examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [found for found in finder.find(importlib.import_module(name)) if found.examples]


@pytest.mark.parametrize("name", [name for name in MODULES if examples(name)])
def test_every_example_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    trace_once(monkeypatch)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="(?!ecgfed)")  # between other packages
        for one in examples(name):
            runner.run(one, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries == sum(len(one.examples) for one in examples(name))


def test_every_verb_has_an_example() -> None:
    verbs = {name for name in ecgfed.__all__ if getattr(ecgfed, name).__module__.startswith("ecgfed.tasks.")}
    verbs = {name for name in verbs if not isinstance(getattr(ecgfed, name), type)}
    assert verbs > NEED_DATA | {"train", "predict"}
    shown = {name for name in verbs if doctest.DocTestParser().get_examples(getattr(ecgfed, name).__doc__)}
    assert shown == verbs - NEED_DATA


def test_an_example_uses_the_front_door_alone() -> None:
    """What a reader copies begins with ``import ecgfed`` and needs nothing from inside."""
    seen = 0
    for name in MODULES:
        for one in examples(name):
            seen += 1
            tree = ast.parse("".join(example.source for example in one.examples))
            modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
            modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert {part for part in modules if part.split(".")[0] == "ecgfed"} == {"ecgfed"}, one.name
    assert seen
