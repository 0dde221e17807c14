"""A run on a net of your own: nothing runs because its folder names it, and it resumes, is scored and exported."""

import gc
import hashlib
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from support import Command, assert_refused, change_json, copied, snapshot
from torch import nn

import ecgfed as front
from ecgfed.base.errors import BundleError, DivergedError, OptionError, RunError
from ecgfed.core.federation.trees import flatten
from ecgfed.network.config import FederationConfig

SOURCE = """
from pathlib import Path
import torch
from torch import nn
Path(__file__).with_name("ran").touch()
class Own(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 8, 7, stride=4), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv1d(8, 8, 5))
        self.drop, self.fc = nn.Dropout(0.1), nn.Linear(8, classes)
    def forward(self, window):
        window = window - window.mean(-1, keepdim=True)
        return self.fc(self.drop(torch.relu(self.body(window)).mean(-1)))
class WithRr(Own):
    def __init__(self, classes):
        super().__init__(classes)
        self.rr = nn.Linear(16, 8)
    def forward(self, window, rr):
        return self.fc(torch.relu(self.body(window)).mean(-1) + self.rr(rr))
"""
FAST = {"rounds": 2, "local_steps": 2, "batch_size": 8}


@pytest.fixture(scope="module")
def trained(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``own.py``, whose net was trained into ``run``."""
    folder = tmp_path_factory.mktemp("own-net")
    (folder / "own.py").write_text(SOURCE)
    front.train(cohort_path, folder / "run", method="fedper", net=f"{folder}/own.py:Own", rr=False, **FAST)
    (folder / "ran").unlink()
    return folder


@pytest.fixture
def own(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that no module of this process knows, its run naming the copy."""
    folder = copied(trained, tmp_path / "own")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    meta = json.loads((folder / "run" / "run.json").read_text())
    change_json(folder / "run" / "run.json", net={**meta["net"], "architecture": f"{folder}/own.py:Own"})
    change_json(folder / "run" / "checkpoint" / "progress.json", run="")
    return folder


def test_the_run_holds_the_digest_of_the_file_and_the_form_of_an_example(trained: Path) -> None:
    net = json.loads((trained / "run" / "run.json").read_text())["net"]
    assert net["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert (net["modality"], net["shape"], net["dtype"], net["norm"]) == ("ecg", [1, 256], "float32", "group")


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "{run}"),
        ("export", "{run}", "--out", "{out}"),
        ("personalize", "{run}", "--class-mix", "{mix}", "--patient", "new", "--out", "{out}"),
        ("train", "{cohort}", "--out", "{run}", "--resume", "--method", "fedper"),
    ],
)
def test_no_command_runs_what_a_run_names(
    ecgfed: Command, own: Path, cohort_path: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = snapshot(own)
    (tmp_path / "mix.json").write_text('{"N": 1}')
    places = {"run": own / "run", "out": tmp_path / "out", "mix": tmp_path / "mix.json", "cohort": cohort_path}
    assert_refused(ecgfed(*(part.format(**places) for part in command)), "run.json", "pass it with --net FILE.py:CLASS")
    assert snapshot(own) == before
    assert not (tmp_path / "out").exists()


def test_lists_pages_and_comparisons_run_nothing(ecgfed: Command, own: Path, tmp_path: Path) -> None:
    for command in (
        ("runs", "list", own),
        ("runs", "show", own / "run"),
        ("report", own / "run", "--out", tmp_path / "p.html"),
    ):
        assert ecgfed(*command).code == 0
    assert not (own / "ran").exists()


def test_the_named_file_scores_exports_and_goes_on(
    ecgfed: Command, own: Path, cohort_path: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    named = f"{shutil.move(own / 'own.py', elsewhere / 'moved.py')}:Own"
    assert ecgfed("evaluate", own / "run", "--split", "valid", "--net", named).code == 0
    resumed = ecgfed("train", cohort_path, "--out", own / "run", "--resume", "--rounds", 3, "--net", named)
    assert resumed.code == 0, resumed.err
    exported = ecgfed("export", own / "run", "--out", tmp_path / "bundle", "--net", named)
    assert exported.code == 0, exported.err
    bundle = front.open_bundle(tmp_path / "bundle")
    assert bundle.manifest["parity"]["max_logit_difference"] < 1e-4
    assert bundle.manifest["net"]["architecture"] == "own.py:Own"  # no folder of this machine leaves it


def test_another_file_than_the_one_trained_with_is_refused_before_it_runs(own: Path) -> None:
    (own / "own.py").write_text(SOURCE + "# changed\n")
    with refuses(OptionError, "code-not-loaded"):
        front.open_run(own / "run", net=f"{own}/own.py:Own")
    assert not (own / "ran").exists()


def test_another_class_and_a_net_of_the_package_are_refused(own: Path, cohort_path: Path, tmp_path: Path) -> None:
    for net in (f"{own}/own.py:WithRr", "default", nn.Linear):
        with refuses(RunError, "invalid-run", "net"):
            front.open_run(own / "run", net=net)
    front.train(cohort_path, tmp_path / "default", method="fedavg", width=0.1, rounds=1)
    with refuses(RunError, "invalid-run", "net"):
        front.open_run(tmp_path / "default", net=f"{own}/own.py:Own")
    assert not (own / "ran").exists()


def test_a_configuration_file_and_a_federation_load_no_net(own: Path, cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'net = "{own}/own.py:Own"\n')
    with refuses(OptionError, "code-not-loaded", "config"):
        front.train(cohort_path, tmp_path / "run", config=tmp_path / "c.toml")
    with refuses(OptionError, "invalid-value", "net"):
        FederationConfig(method="fedavg", net=f"{own}/own.py:Own")
    assert not (own / "ran").exists()


def test_rr_features_go_to_a_second_argument(trained: Path, cohort_path: Path, tmp_path: Path) -> None:
    named = f"{trained}/own.py:WithRr"
    run = front.train(cohort_path, tmp_path / "run", method="fedavg", net=named, **FAST)
    assert run.net.spec.rr
    assert front.export(run, tmp_path / "bundle").manifest["inputs"] == {"window": [1, 256], "rr": [16]}
    with refuses(OptionError, "code-not-loaded", "net"):  # its forward needs both
        front.train(cohort_path, tmp_path / "other", method="fedavg", net=named, rr=False, **FAST)


class Digits(nn.Module):
    """A net in this file, which is no program's main one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(12, 8), nn.Dropout(0.2), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.drop(torch.relu(self.a(x.flatten(1)))))


class Normed(nn.Sequential):
    """With running statistics."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.BatchNorm1d(12), nn.Linear(12, 3))


def arrays(clients: int = 9) -> front.Cohort:
    rng = np.random.default_rng(0)
    label = np.arange(180) % 3
    return front.cohort_from_arrays(
        rng.normal(size=(180, 3, 4)) + label[:, None, None], label, np.arange(180) % clients
    )


@pytest.mark.parametrize("engine", ["threads", "batched"])
def test_a_resumed_run_ends_as_one_that_was_not_stopped(tmp_path: Path, engine: str) -> None:
    cohort, same = arrays(), {"net": Digits, "method": "ditto", "engine": engine, "local_steps": 3}
    whole = front.train(cohort, tmp_path / "whole", rounds=4, workers=2, **same)
    calls = iter([False, True])
    front.train(cohort, tmp_path / "parts", rounds=4, should_stop=lambda: next(calls), **same)
    parts = front.train(arrays(), tmp_path / "parts", resume=True, net=Digits, workers=1)
    assert parts.store.rounds() == 4
    for tree, other in ((whole.state().server, parts.state().server),):
        assert all(torch.equal(value, flatten(other)[path]) for path, value in flatten(tree).items())
    scores = [front.evaluate(run) for run in (whole, parts)]
    assert scores[0].T_p == scores[1].T_p > 0.6


def test_a_cohort_in_memory_is_found_while_it_is_held(tmp_path: Path) -> None:
    cohort = arrays()
    run = front.train(cohort, tmp_path / "run", net=Digits, method="fedavg", rounds=2)
    expected = front.evaluate(run).T_g
    assert front.evaluate(tmp_path / "run", net=Digits).T_g == expected
    del cohort
    gc.collect()
    with refuses(RunError, "invalid-run", "cohort"):
        front.evaluate(tmp_path / "run", net=Digits)
    assert front.evaluate(tmp_path / "run", net=Digits, cohort=arrays()).T_g == expected
    written = front.cohort_from_arrays(np.zeros((4, 2)), [0, 1, 0, 1], [0, 0, 1, 1])
    with refuses(RunError, "invalid-run", "cohort"):
        front.evaluate(tmp_path / "run", net=Digits, cohort=written)


def test_of_cohorts_in_memory_with_the_same_arrays_the_runs_own_is_scored(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 3, 4)), np.arange(60) % 3  # noqa: N806
    named = [front.cohort_from_arrays(X, y, y // 2, classes=names) for names in map(list, ("abc", "def", "ghi"))]
    for number, cohort in enumerate(named):
        run = front.train(cohort, tmp_path / str(number), net=Digits, method="fedavg", rounds=1)
        assert front.evaluate(run).classes == cohort.classes
        assert front.evaluate(tmp_path / str(number), net=Digits).classes == cohort.classes


def test_a_function_without_a_file_is_passed_again_with_a_warning(tmp_path: Path) -> None:
    from functools import partial

    cohort, make = arrays(), partial(Digits)
    front.train(cohort, tmp_path / "run", net=make, method="fedavg", rounds=1)
    with pytest.warns(front.EcgfedWarning, match="SHA-256"):
        front.evaluate(tmp_path / "run", net=make)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        front.train(cohort, tmp_path / "classes", net=Digits, method="fedavg", rounds=1)
        front.evaluate(tmp_path / "classes", net=Digits)


def test_a_net_with_running_statistics_that_diverges_says_so(tmp_path: Path) -> None:
    """No step of it on one example is possible, by which the cause is sought."""
    steep = {"lr": 100.0, "momentum": 0.0, "server_optimizer": "sgd", "server_lr": 1000.0}
    with pytest.raises(DivergedError, match="learning rate"):
        front.train(arrays(), tmp_path / "run", net=Normed, method="fedavg", rounds=9, settings=steep)


def test_running_statistics_train_on_threads_and_are_no_stack(tmp_path: Path) -> None:
    cohort = arrays()
    run = front.train(cohort, tmp_path / "run", net=Normed, method="fedbn", rounds=2)  # small batches, many clients
    assert run.meta["engine"] == "threads"
    assert front.train(cohort, tmp_path / "stacked", net=Digits, method="fedavg", rounds=1).meta["engine"] == "batched"
    with refuses(OptionError, "conflict", "net"):
        front.train(cohort, tmp_path / "other", net=Normed, method="fedavg", engine="batched", rounds=1)
    with refuses(OptionError, "conflict", "net"):
        front.train(cohort, tmp_path / "run", net=Normed, resume=True, engine="batched", rounds=3)


def test_arrays_need_a_net_and_have_no_bundle(tmp_path: Path) -> None:
    cohort = arrays()
    with refuses(OptionError, "missing", "net"):
        front.train(cohort, tmp_path / "run", method="fedavg")
    for options, parameter in (({"norm": "group"}, "norm"), ({"width": 2.0}, "net"), ({"augment": True}, "augment")):
        with refuses(OptionError, "conflict", parameter):
            front.train(cohort, tmp_path / "run", net=Digits, **options)
    run = front.train(cohort, tmp_path / "run", net=Digits, method="fedavg", rounds=1)
    with refuses(BundleError, "invalid-bundle"):
        front.export(run, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


class Spread(nn.Module):
    """What it does with a window, a graph of a bundle may not."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(256, 12)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return self.fc((window / window.std(-1, keepdim=True).clamp_min(1e-3)).cumsum(-1).flatten(1))


class Asks(Spread):
    """It asks for a value, which no exporter can trace."""

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return super().forward(-window if float(window.sum()) > 0 else window)


@pytest.mark.parametrize("net", [Spread, Asks])
def test_a_net_that_no_bundle_can_hold_is_refused_in_one_line(cohort_path: Path, tmp_path: Path, net: type) -> None:
    run = front.train(cohort_path, tmp_path / "run", method="fedavg", net=net, engine="threads", **FAST)
    with pytest.raises(BundleError) as caught:
        front.export(run, tmp_path / "bundle")
    assert net.__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "bundle").exists()
