"""The methods of issue 38 by the commands: trained, resumed, evaluated and exported, in both engines."""

from pathlib import Path

import pytest
import torch
from support import Command, traced_once  # noqa: F401

import ecgfed as package
from ecgfed.core.federation.trees import flatten

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_finetuning")]
NAMES = (
    "apfl",
    "centralised",
    "fedala",
    "fedbabu",
    "fednova",
    "fedpac",
    "fedproto",
    "gpfl",
    "knn-per",
    "moon",
    "pfedhn",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_by_the_commands(name: str, cohort_path: Path, tmp_path: Path, ecgfed: Command) -> None:
    begin = ("train", cohort_path, "--method", name, "--local-steps", "2", "--width", "0.35", "--rounds")
    for engine in ("threads", "batched"):
        assert ecgfed(*begin, "3", "--engine", engine, "--out", tmp_path / engine).code == 0
    # one round, then two more
    assert ecgfed(*begin, "1", "--engine", "threads", "--out", tmp_path / "resumed").code == 0
    done = ecgfed("train", cohort_path, "--resume", "--out", tmp_path / "resumed", "--rounds", "3")
    assert done.code == 0, done.err
    whole, batched, resumed = (
        flatten(package.open_run(tmp_path / of).state().server) for of in ("threads", "batched", "resumed")
    )
    assert whole.keys() == batched.keys() == resumed.keys()
    for path, leaf in whole.items():
        torch.testing.assert_close(batched[path], leaf, atol=1e-3, rtol=1e-2)
        assert torch.equal(resumed[path], leaf), path
    run = package.open_run(tmp_path / "threads")
    scores = package.evaluate(run, workers=1)
    bundle = package.export(run, tmp_path / "bundle")  # compares every graph with torch
    assert len(bundle.manifest["patients"]) == 4
    assert bundle.manifest["scores"]["T_p"] == pytest.approx(scores.T_p)
    said = ecgfed("methods", name)
    assert said.code == 0
    assert type(run.method).communication.title in said.out
