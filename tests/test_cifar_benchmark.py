"""The papers' protocols on CIFAR-10: their commands are taken as they are written, and their images counted by hand."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from cifar_source import ROWS, write_binary
from conftest import Said

from ecgfed.core.runs.run import open_run

ROOT = Path(__file__).parent.parent


@pytest.fixture
def protocols(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from cifar import protocols

    return protocols


def test_images_of_a_protocol_by_hand(protocols: ModuleType) -> None:
    # 45,000 training images are left by a tenth for validation; five local epochs; of Fed-RoD's 20 clients 8 take part
    assert protocols.PROTOCOLS["GRP-FED"].reads == 100 * 5 * 45_000
    assert protocols.PROTOCOLS["Fed-RoD"].reads == 100 * 5 * 45_000 * 8 / 20
    assert protocols.PROTOCOLS["FedABC"].reads == 200 * 5 * 45_000 * 10 / 20


@pytest.mark.parametrize("name", ["GRP-FED", "Fed-RoD", "FedABC"])
def test_the_commands_are_taken_as_written(
    protocols: ModuleType, name: str, ecgfed: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecgfed.domain.cohort.cifar_files.ROWS", ROWS)
    monkeypatch.chdir(tmp_path)
    write_binary(tmp_path / "cifar10")
    prepare, train = protocols.PROTOCOLS[name].commands()
    few = " --clients 5" if name == "GRP-FED" else " --clients 10"  # 300 images are too few for the papers' clients
    for line in (prepare + few, re.sub(r"--rounds \d+|--local-epochs \d+", "", train) + " --rounds 1 --local-steps 1"):
        done = ecgfed(*shlex.split(line)[1:])
        assert done.code == 0, done
    run = open_run(tmp_path / "run")
    assert run.method.name == protocols.PROTOCOLS[name].methods[0]
    assert run.net.spec.architecture == protocols.PROTOCOLS[name].train["net"]


def test_every_method_of_a_protocol_is_there(protocols: ModuleType) -> None:
    from ecgfed.core.methods.registry import methods

    for protocol in protocols.PROTOCOLS.values():
        assert set(protocol.methods) <= set(methods())
