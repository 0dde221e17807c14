"""Scoring and exporting read one client after the other: memory does not grow with the clients."""

import functools
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import train_run
from support import traced_once  # noqa: F401

import ecgfed.core.evaluation.predict as predict
import ecgfed.core.evaluation.scenarios as scenarios
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.state import State
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Tree
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.client_states import ClientStates
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.exports.bundles.export import export_bundle


class Counted(ClientStates):
    """Counts the clients' states that are alive when the next one is read."""

    def __init__(self, of: ClientStates) -> None:
        super().__init__(of.folder, of.files(), cache_bytes=0)
        self.alive: list[Any] = []
        self.most, self.reads = 0, 0

    def __getitem__(self, client: int) -> Tree:
        gc.collect()
        tree = super().__getitem__(client)
        self.alive = [leaf for leaf in self.alive if leaf() is not None]
        self.alive.append(weakref.ref(next(iter(flatten(tree).values()))))
        self.most, self.reads = max(self.most, len(self.alive)), self.reads + 1
        return tree


@pytest.fixture(scope="module")
def personal_run(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(cohort_path, tmp_path_factory.mktemp("run") / "grp", method="grp-fed-printed", rounds=1, rr=False)


def counted(run_path: Path) -> tuple[State, Counted]:
    state = open_run(run_path).state()
    assert isinstance(state.client_states, ClientStates)
    state.client_states = kept = Counted(state.client_states)
    return state, kept


def test_evaluation(personal_run: Path, cohort_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, cohort = open_run(personal_run), open_cohort(cohort_path)
    whole = scenarios.evaluate(run, cohort, run.state(), 2)
    monkeypatch.setattr(scenarios, "Predictor", functools.partial(Predictor, memory_bytes=1))
    state, kept = counted(personal_run)
    assert scenarios.evaluate(run, cohort, state, 2) == whole
    assert kept.reads == 4
    assert kept.most <= 2


@pytest.mark.usefixtures("traced_once")
def test_export(personal_run: Path, cohort_path: Path, tmp_path: Path) -> None:
    state, kept = counted(personal_run)
    manifest = export_bundle(open_run(personal_run), open_cohort(cohort_path), state, tmp_path / "bundle")
    assert len(manifest["patients"]) == kept.reads == 4
    assert kept.most <= 2


def test_a_predictor_forgets_what_it_has_no_room_for(cohort_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = ResNet1d(NetSpec(12, width=0.35))
    rows = np.arange(10)
    predictor = Predictor(net, training_data(open_cohort(cohort_path), rr=False), rows, 1)
    chains = [Pipeline((Stage("model", net.initial(seed), shared=False),)) for seed in range(3)]
    one = 10 * 12 * 4 + sum(v.numel() * v.element_size() for v in chains[0].stages[0].params.values())
    predictor.memory_bytes = 2 * one
    computed: list[int] = []
    original = predict.chain_logits

    def noted(net: Net, chain: Pipeline, inputs: Inputs | torch.Tensor) -> torch.Tensor:
        computed.append(next(i for i, one in enumerate(chains) if one.stages[0] is chain.stages[0]))
        return original(net, chain, inputs)

    monkeypatch.setattr(predict, "chain_logits", noted)
    for i in (0, 1, 0, 2, 0, 1):
        predictor.labels(chains[i])
    assert computed == [0, 1, 2, 1]


def test_a_part_that_patients_share_is_computed_once_if_there_is_room(
    cohort_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = ResNet1d(NetSpec(12, width=0.35))
    rows, data = np.arange(10), training_data(open_cohort(cohort_path), rr=False)
    models = [net.initial(seed) for seed in range(3)]
    shared = Stage("extractor", extractor_of(models[0]), shared=True)
    chains = [Pipeline((shared, Stage("head", head_of(model), shared=False))) for model in models]
    computed: list[tuple[str, ...]] = []
    original = predict.chain_logits

    def noted(net: Net, chain: Pipeline, inputs: Inputs | torch.Tensor) -> torch.Tensor:
        computed.append(tuple(stage.role for stage in chain.stages))
        return original(net, chain, inputs)

    monkeypatch.setattr(predict, "chain_logits", noted)
    roomy, small = Predictor(net, data, rows, 1), Predictor(net, data, rows, 1, memory_bytes=1)
    once = [roomy.probabilities(chain) for chain in chains]
    assert computed == [("extractor",), ("head",), ("head",), ("head",)]
    for chain, probabilities in zip(chains, once, strict=True):
        np.testing.assert_array_equal(small.probabilities(chain), probabilities)
    assert computed[4:] == [("extractor", "head")] * 3
