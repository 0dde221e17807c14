"""A method whose patients keep an extractor and share a head: parts, their files, and what they compute together."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from support import SavedRun, manifest_of, snapshot, softmax, traced_once  # noqa: F401

from ecgfed.base.errors import BundleError
from ecgfed.core.federation.state import State
from ecgfed.core.methods.base import Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.run import Run, open_run
from ecgfed.device import open_bundle
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.graphs import GraphTemplate, ensemble_graph, finish


class OwnExtractor(FedAvg):
    """FedAvg whose patients answer with an extractor of their own before the shared head."""

    def global_model(self, server: Tree, client_state: Iterable[Tree], protocol: str) -> Pipeline:
        model = server["model"]
        return Pipeline(
            (Stage("extractor", extractor_of(model), shared=True), Stage("head", head_of(model), shared=True))
        )

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        head = Stage("head", head_of(server["model"]), shared=True)
        return Pipeline((Stage("extractor", client_state["extractor"], shared=False), head))


class OwnHead(OwnExtractor):
    """As above, and every patient has a head too."""

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        head = Stage("head", client_state["head"], shared=False)
        return Pipeline((Stage("extractor", client_state["extractor"], shared=False), head))


class TwoSharedModels(OwnExtractor):
    """A mistake: parts that differ from patient to patient, declared as shared."""

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", {**client_state["extractor"], **client_state["head"]}, shared=True),))


def _prepared(run_path: Path, kind: type[FedAvg]) -> tuple[Run, State]:
    """The FedAvg run answered by another method: patient i's own parts are the trained ones, made i+1 % larger."""
    run = open_run(run_path)
    state = run.state()

    def larger(part: Params, client: int) -> Params:
        return {name: value * (1.0 + 0.01 * (client + 1)) for name, value in part.items()}

    model = state.server["model"]
    state.client_states = {
        i: {"extractor": larger(extractor_of(model), i), "head": larger(head_of(model), i)} for i in range(4)
    }
    return dataclasses.replace(run, method=kind(run.net, run.method.settings)), state


def _whole(state: State, client: int, *, own_head: bool) -> Params:
    head: Params = state.client_states[client]["head"] if own_head else {}
    return {**state.server["model"], **state.client_states[client]["extractor"], **head}


pytestmark = pytest.mark.usefixtures("traced_once")


@pytest.mark.parametrize(
    ("kind", "own_head", "files"),
    [
        (OwnExtractor, False, {"head.onnx", *(f"patients/p{i}.onnx" for i in range(1, 5))}),
        (OwnHead, True, {f"patients/p{i}.{part}.onnx" for i in range(1, 5) for part in ("extractor", "head")}),
    ],
)
def test_a_chain_of_extractor_and_head(
    fedavg_run: Path, cohort_path: Path, tmp_path: Path, kind: type[FedAvg], own_head: bool, files: set[str]
) -> None:
    run, state = _prepared(fedavg_run, kind)
    export_bundle(run, run.cohort(), state, tmp_path / "bundle")
    manifest = manifest_of(tmp_path / "bundle")
    beside = ("golden.json", "CARD.md", "card.json")
    assert set(manifest["files"]) == {"global.onnx", "far.onnx", "weights/global.safetensors", *files, *beside}
    second = ["patients/p2.extractor.onnx", "patients/p2.head.onnx"] if own_head else ["patients/p2.onnx", "head.onnx"]
    assert manifest["patients"]["p2"]["chain"] == second
    saved = SavedRun(fedavg_run, cohort_path)
    window, rr = saved.inputs(np.arange(60))
    bundle = open_bundle(tmp_path / "bundle")
    found = {name: bundle.classifier(name).logits(window, rr) for name in (None, *bundle.patients)}
    np.testing.assert_allclose(found[None], saved.logits("server", window, rr), rtol=0, atol=1e-4)
    for client in range(4):
        expected = saved.logits_of(_whole(state, client, own_head=own_head), window, rr)
        np.testing.assert_allclose(found[f"p{client + 1}"], expected, rtol=0, atol=1e-4)
        assert np.abs(found[f"p{client + 1}"] - found[None]).max() > 1e-3


def test_two_models_of_one_file_name_are_refused(fedavg_run: Path, tmp_path: Path) -> None:
    run, state = _prepared(fedavg_run, TwoSharedModels)
    with pytest.raises(BundleError, match=r"global\.onnx"):
        export_bundle(run, run.cohort(), state, tmp_path / "bundle")
    assert snapshot(tmp_path) == {}


def test_an_ensemble_of_certain_members_has_finite_logits() -> None:
    """Two members, each certain to the last bit: their mean probabilities are 1/2, 1/2 and 0."""
    net = ResNet1d(NetSpec(3, width=0.35))
    start = net.initial(0)
    template = GraphTemplate(net, "model", start)
    members = []
    for winner in (0, 1):
        bias = torch.full((3,), -400.0)
        bias[winner] = 400.0
        members.append(template.fill({**start, "head.out.bias": bias}))
    model = onnx.load_from_string(finish(ensemble_graph(members), {"tool_version": "0"}))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"window": np.zeros((2, 1, 256), np.float32)})
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(softmax(logits), [[0.5, 0.5, 0.0]] * 2, rtol=0, atol=1e-6)
