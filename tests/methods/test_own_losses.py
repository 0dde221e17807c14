"""A loss of one's own as the setting ``risk``: what it trains, and that no file gets to run it."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import Command, assert_refused
from torch import Tensor

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.plugins import load_code
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods import own_losses
from ecgfed.core.runs.run import Run
from ecgfed.network.config import FederationConfig

SHORT: dict[str, Any] = {
    "rounds": 3,
    "local_steps": 2,
    "batch_size": 8,
    "width": 0.34,
    "method": "fedavg",
    "eval_every": 0,
}
FOCAL = f"{Path(__file__).parents[2] / 'examples' / 'focal_loss.py'}:focal"
SOURCE = """
from pathlib import Path
import torch.nn.functional as F
Path(__file__).with_name("ran").touch()
def mine(logits, label, counts):
    return F.cross_entropy(logits + counts.to(logits.dtype).log(), label, reduction="none")
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """As in a process that has loaded no loss."""
    before = dict(own_losses._loaded)
    own_losses._loaded.clear()
    yield
    own_losses._loaded.clear()
    own_losses._loaded.update(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path / "mine.py"


def balanced(logits: Tensor, label: Tensor, counts: Tensor) -> Tensor:
    return F.cross_entropy(logits + counts.to(logits.dtype).log(), label, reduction="none")


def same(first: Run, second: Run) -> bool:
    ours, theirs = (flatten(run.state().server) for run in (first, second))
    return all(torch.equal(value, theirs[name]) for name, value in ours.items())


@pytest.mark.parametrize("engine", ["threads", "batched"])
@pytest.mark.parametrize("method", ["fedavg", "grp-fed", "scaffold"])
def test_our_balanced_softmax_as_ones_own_gives_our_bits(
    engine: str, method: str, cohort_path: Path, tmp_path: Path
) -> None:
    options = {**SHORT, "engine": engine, "method": method}
    ours = ecgfed.train(cohort_path, tmp_path / "ours", settings={"risk": "bsm"}, **options)
    own = ecgfed.train(cohort_path, tmp_path / "own", settings={"risk": balanced}, **options)
    assert same(ours, own)


def test_focal_loss_by_its_equation() -> None:
    torch.manual_seed(0)
    logits, label = torch.randn(7, 4), torch.tensor([0, 1, 2, 3, 0, 1, 2])
    loss: Any = load_code(FOCAL, "settings").value
    p = logits.softmax(1)[torch.arange(7), label]
    torch.testing.assert_close(loss(logits, label, torch.ones(4)), -((1 - p) ** 2) * p.log())


def test_resumed_equals_uninterrupted_and_the_file_is_pinned(file: Path, cohort_path: Path, tmp_path: Path) -> None:
    settings = {"risk": f"{file}:mine"}
    whole = ecgfed.train(cohort_path, tmp_path / "whole", settings=settings, **SHORT)
    assert whole.method.settings.risk == "mine.py:mine"
    ecgfed.train(cohort_path, tmp_path / "part", settings=settings, should_stop=lambda: True, **SHORT)
    own_losses._loaded.clear()
    with pytest.raises(RunError, match=r"was begun with the loss mine\.py:mine, somebody's own code"):
        ecgfed.train(cohort_path, tmp_path / "part", resume=True)
    changed = tmp_path / "other" / "mine.py"
    changed.parent.mkdir()
    changed.write_text(SOURCE + "\n# changed\n")
    with pytest.raises(OptionError, match="the file used before"):
        ecgfed.train(cohort_path, tmp_path / "part", resume=True, settings={"risk": f"{changed}:mine"})
    assert not (changed.parent / "ran").exists()
    assert same(whole, ecgfed.train(cohort_path, tmp_path / "part", resume=True, settings=settings))


def test_no_run_and_no_config_gets_to_run_it(file: Path, cohort_path: Path, tmp_path: Path) -> None:
    """A run opens, is scored and exported without its loss; local models are left out, and say so."""
    ecgfed.train(cohort_path, tmp_path / "run", settings={"risk": f"{file}:mine"}, **SHORT)
    (tmp_path / "ran").unlink()
    own_losses._loaded.clear()
    scores = ecgfed.evaluate(tmp_path / "run", split="valid")
    assert scores.results[0]["local_models"] is None
    ecgfed.export(tmp_path / "run", tmp_path / "bundle")
    (tmp_path / "train.toml").write_text(f'method = "fedavg"\nrounds = 1\n[set]\nrisk = "{file}:mine"\n')
    with pytest.raises(OptionError, match="somebody's own code, which is not run from a file"):
        ecgfed.train(cohort_path, tmp_path / "other", config=tmp_path / "train.toml")
    assert not (tmp_path / "ran").exists()


def test_on_the_command_line(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    command = ["train", str(cohort_path), "--out", str(tmp_path / "run"), "--method", "fedavg", "--rounds", "1"]
    command += ["--local-steps", "1", "--width", "0.34", "--eval-every", "0"]
    assert_refused(ecgfed(*command, "--set", "risk=none.py:focal"), "no file")
    assert_refused(ecgfed(*command, "--set", "risk=focal"), "one of ce, ir")
    assert ecgfed(*command, "--set", f"risk={FOCAL}", "--quiet").code == 0
    meta = json.loads((tmp_path / "run" / "run.json").read_text())
    assert meta["settings"]["risk"] == "focal_loss.py:focal"
    assert len(meta["loss_sha256"]) == 64
    shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda logits, label, counts: logits, r"returned \(\d+, 12\); expected losses of shape"),
        (lambda logits, label, counts: 0.5, "returned 0.5; expected losses of shape"),
    ],
)
@pytest.mark.parametrize("engine", ["threads", "batched"])
def test_another_shape_is_refused(wrong: Any, words: str, engine: str, cohort_path: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=words):
        ecgfed.train(cohort_path, tmp_path / "run", settings={"risk": wrong}, **{**SHORT, "engine": engine})
    assert not (tmp_path / "run").exists()


def test_a_federation_refuses_code() -> None:
    with pytest.raises(OptionError, match="only code that is installed there"):
        FederationConfig(method="fedavg", settings={"risk": "mine.py:mine"})


def test_an_installed_package_offers_one(monkeypatch: pytest.MonkeyPatch, cohort_path: Path, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(FOCAL.rpartition(":")[0]).parent))
    entry = importlib.metadata.EntryPoint("focal", "focal_loss:focal", own_losses.ENTRY_POINTS)
    monkeypatch.setattr(
        "ecgfed.base.plugins.entry_points", lambda group: [entry] if group == own_losses.ENTRY_POINTS else []
    )
    run = ecgfed.train(cohort_path, tmp_path / "run", settings={"risk": "focal"}, should_stop=lambda: True, **SHORT)
    assert run.method.settings.risk == "focal_loss:focal"
    own_losses._loaded.clear()
    ecgfed.train(cohort_path, tmp_path / "run", resume=True)  # installed, so that nothing has to be passed
    whole = ecgfed.train(cohort_path, tmp_path / "whole", settings={"risk": FOCAL}, **SHORT)
    assert same(whole, ecgfed.open_run(tmp_path / "run"))


def test_a_sweep_compares_losses(cohort_path: Path, tmp_path: Path) -> None:
    result = ecgfed.sweep(cohort_path, {"risk": ["ce", FOCAL]}, tmp_path / "sweep", **SHORT)
    assert len(result.finished_rows) == 2


def test_local_models_are_not_trained_by_another_loss_of_the_same_name(cohort_path: Path, tmp_path: Path) -> None:
    """Both functions are called ``scaled.<locals>.loss``, as those of a cell of a notebook that was run again."""

    def scaled(by: float) -> Any:
        def loss(logits: Tensor, label: Tensor, counts: Tensor) -> Tensor:
            return by * F.cross_entropy(logits, label, reduction="none")

        return loss

    first = ecgfed.train(cohort_path, tmp_path / "first", settings={"risk": scaled(1.0)}, **SHORT)
    alone = ecgfed.evaluate(first, split="valid").results[0]["local_models"]
    second = ecgfed.train(cohort_path, tmp_path / "second", settings={"risk": scaled(9.0)}, **SHORT)
    assert ecgfed.evaluate(second, split="valid").results[0]["local_models"]
    assert ecgfed.evaluate(first, split="valid").results[0]["local_models"] is None
    ecgfed.train(cohort_path, tmp_path / "third", settings={"risk": scaled(1.0)}, **SHORT)
    assert ecgfed.evaluate(first, split="valid").results[0]["local_models"] == alone


DIGEST = """
from ecgfed.core.methods.own_losses import loss_sha256, with_loss
def scaled(by):
    def loss(logits, label, counts):
        chosen = [by * value for value in logits if value in {"a", "b"}]
        return (lambda: chosen)()
    return loss
names = [with_loss({"risk": scaled(by)})["risk"] for by in (2, 3)]
print(loss_sha256(names[1]), loss_sha256(with_loss({"risk": scaled(2)})["risk"]))
"""


def test_a_function_has_one_digest_in_every_process() -> None:
    """Its inner functions and sets are not known by their addresses or order; enclosed values count."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    tripled, doubled = printed.pop().split()
    assert tripled != doubled


def test_a_function_that_calls_itself_has_no_digest() -> None:
    def loss(logits: Tensor, label: Tensor, counts: Tensor) -> Tensor:
        return loss(logits[1:], label, counts) if len(logits) > len(label) else F.cross_entropy(logits, label)

    assert own_losses._digest_of_code(loss) == ""
