"""Graphs that others can take: what they are made of, and what ONNX Runtime's own quantiser makes of them."""

import logging
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from support import Said, assert_refused, exported

from ecgfed.core.methods.registry import methods
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.personal.registry import personal_models
from ecgfed.device import open_bundle
from ecgfed.exports.bundles.graph_writer import LARGE_ENSEMBLE_BYTES, large_ensemble
from ecgfed.exports.bundles.graphs import GraphTemplate, ensemble_graph, finish
from ecgfed.exports.bundles.simplify import BEATS, ops_of, with_batch
from ecgfed.exports.device.graph import BATCH, Session, check_graph

#: Roles that a part of some answer has, and their parameters beside the net's own: every method's and every personal
#: answer's are among them (test_every_role_is_tested).
ROLES = (
    "model",
    "extractor",
    "head",
    "decoupled",
    "linear",
    "describer",
    "kernel",
    "gated",
    "neighbours",
    "valved",
    "far",
)
#: What a converter has to know for the default net: nothing that lays out, nothing that works a size out.
DEFAULT_OPS = {
    **{"Add": 9, "Conv": 7, "Gemm": 3, "InstanceNormalization": 5, "Mul": 8, "Reciprocal": 1},
    **{"ReduceMean": 3, "Relu": 6, "Reshape": 11, "Sqrt": 1, "Sub": 1},
}
SPECS = {
    "default": NetSpec(12, rr=True, rr_version=2),
    "images": NetSpec(10, architecture="resnet30", norm="batch", width=0.5),
    "batch": NetSpec(5, architecture="reference", norm="batch", width=0.5),
    "version 1": NetSpec(5, rr=True, width=0.5),
    "no norm": NetSpec(5, norm="none", width=0.5),
}


def params_of(net: Net, role: str) -> Params:
    """Parameters of a role: the net's moved off their start, and numbers of the shapes that the role asks for."""
    random = torch.Generator().manual_seed(7)

    def drawn(*shape: int) -> torch.Tensor:
        return 0.3 * torch.randn(shape, generator=random)

    held = {name: value + 0.1 * torch.rand(value.shape, generator=random) for name, value in net.initial(1).items()}
    extractor = {name: value for name, value in held.items() if name.startswith("extractor.")}
    head = {name: value for name, value in held.items() if name.startswith("head.")}
    classes, features, described = net.spec.classes, net.features, net.described
    own = {
        "own.shift": drawn(described),
        "own.scale": drawn(described).abs() * 0.1,
        "own.kept": drawn(20, described),
        "own.weight": drawn(classes, 20),
        "own.bias": drawn(classes),
    }
    gate = {f"gate.{name}": drawn(1).abs() + 0.5 for name in ("backing", "reach", "slope", "trust", "threshold")}
    return {
        "model": held,
        "extractor": extractor,
        "describer": extractor,
        "head": head,
        "decoupled": {**held, "personal.weight": drawn(classes, features), "personal.bias": drawn(classes)},
        "valved": {**held, "valve.scale": drawn(features) + 1, "valve.shift": drawn(features)},
        "linear": {"own.weight": drawn(classes, features), "own.bias": drawn(classes)},
        "kernel": own,
        "gated": {**own, **head, **gate, "gate.reserve": drawn(classes)},
        "neighbours": {
            "own.kept": drawn(20, features),
            "own.weight": torch.eye(classes)[torch.arange(20) % classes].T.contiguous(),
            "own.share": torch.tensor([0.4]),
            **head,
        },
        "far": {"far.typical": drawn(128, 64), "far.square": drawn(128).abs()},
    }[role]


@cache
def model_of(spec: str, role: str) -> onnx.ModelProto:
    """The graph of a role as export writes it; of an ensemble of three."""
    net = make_net(SPECS[spec])
    if role == "ensemble":
        params = params_of(net, "model")
        template = GraphTemplate(net, "model", params)
        members = [template.fill({name: value * (1 + i / 10) for name, value in params.items()}) for i in range(3)]
        made = ensemble_graph(members)
    else:
        params = params_of(net, role)
        made = GraphTemplate(net, role, params).fill(params)
    return onnx.load_model_from_string(finish(with_batch(made, None), {"tool_version": "0"}))


def feeds_for(model: onnx.ModelProto, beats: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Numbers for a graph's inputs."""
    random = np.random.default_rng(seed)
    made: dict[str, NDArray[Any]] = {}
    for entry in model.graph.input:
        shape = [beats, *(dim.dim_value for dim in entry.type.tensor_type.shape.dim[1:])]
        image = entry.type.tensor_type.elem_type == onnx.TensorProto.UINT8
        made[entry.name] = random.integers(0, 256, shape, np.uint8) if image else random.normal(size=shape).astype("f4")
    return made


def _run(model: onnx.ModelProto, feeds: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, feeds)
    return np.asarray(found)


EVERY = [*(("default", role) for role in (*ROLES, "ensemble")), ("images", "model"), ("batch", "model")]


def test_every_role_is_tested() -> None:
    """What methods and personal answers name in their sources is on the list above."""
    sources = [Path(str(__import__(kind.__module__, fromlist=["x"]).__file__)) for kind in methods().values()]
    sources += [
        Path(str(__import__(type(own).__module__, fromlist=["x"]).__file__)) for own in personal_models().values()
    ]
    named = {
        role for path in sources for role in make_net(SPECS["default"]).roles if f'Stage("{role}"' in path.read_text()
    }
    assert named <= set(ROLES)
    assert named >= {"model", "extractor", "head", "decoupled", "linear", "kernel", "gated"}


@pytest.mark.parametrize(("spec", "role"), EVERY)
def test_a_graph_is_of_an_age_that_old_runtimes_read_and_lays_nothing_out(spec: str, role: str) -> None:
    model = model_of(spec, role)
    assert model.ir_version == 8
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 18)]
    assert not set(ops_of(model)) & {"Transpose", "Squeeze", "Shape", "Expand", "Identity", "Constant", "Pad"}
    stored = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            assert set(node.input[1:]) <= stored, node.name
        if node.op_type == "Reshape":
            assert node.input[1] in stored, node.name
    onnx.shape_inference.infer_shapes(model, strict_mode=True)


def test_the_default_nets_operations() -> None:
    model = model_of("default", "model")
    assert ops_of(model) == DEFAULT_OPS
    first = model.graph.node[0]
    assert first.op_type == "Reshape"
    assert list(first.input)[:1] == ["window"]
    sizes = {one.name: one for one in model.graph.initializer}[first.input[1]]
    assert numpy_helper.to_array(sizes).tolist() == [0, 1, 1, 256]


def test_weights_keep_their_names_and_numbers() -> None:
    net = make_net(SPECS["default"])
    params = params_of(net, "model")
    stored = {one.name: numpy_helper.to_array(one) for one in model_of("default", "model").graph.initializer}
    assert set(params) <= set(stored)
    for name, value in params.items():
        np.testing.assert_array_equal(stored[name].reshape(value.shape), value.numpy())
    assert stored["extractor.block0.conv0.weight"].shape == (40, 24, 1, 5)


@pytest.mark.parametrize("spec", SPECS)
def test_the_plain_layout_means_the_same_numbers(spec: str) -> None:
    """Torch runs the net in its fast layout, the graph in the plain one."""
    net, model = make_net(SPECS[spec]), model_of(spec, "model")
    feeds = feeds_for(model, 9)
    rr = torch.from_numpy(feeds["rr"]) if "rr" in feeds else None
    with torch.inference_mode():
        inputs = Inputs(torch.from_numpy(feeds[net.input_name]), rr)
        expected = net.logits(params_of(net, "model"), inputs).numpy()
    scale = max(1.0, float(np.abs(expected).max()) / 100)
    np.testing.assert_allclose(_run(model, feeds), expected, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("batch", [1, 7, BATCH])
def test_a_fixed_batch_answers_as_an_open_one(batch: int) -> None:
    """Whatever the number of beats; what fills the last batch up does not come out."""
    model = model_of("default", "model")
    fixed = with_batch(model, batch)
    assert fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value == batch
    assert with_batch(fixed, None).graph.input[0].type.tensor_type.shape.dim[0].dim_param == BEATS
    graph = check_graph(Path("fixed.onnx"), fixed.SerializeToString())
    assert graph.batch == batch
    session = Session(graph)
    for beats in (1, 7, 9):
        feeds = feeds_for(model, beats)
        found = session.run(feeds)
        assert found.shape == (beats, 12)
        np.testing.assert_allclose(found, _run(model, feeds), rtol=0, atol=1e-5)


def test_export_with_a_fixed_batch(fedavg_run: Path, tmp_path: Path, ecgfed: Callable[..., Said]) -> None:
    """Every graph of the bundle says it, and predictions are those of the open bundle."""
    assert ecgfed("export", fedavg_run, "--out", tmp_path / "fixed", "--batch", 3, "--quiet").code == 0
    bundle, other = open_bundle(tmp_path / "fixed"), open_bundle(exported(fedavg_run))
    for path in bundle.path.rglob("*.onnx"):
        graph = onnx.load(path).graph
        firsts = {entry.type.tensor_type.shape.dim[0].dim_value for entry in (*graph.input, *graph.output)}
        assert firsts == {3}, path
    window = np.random.default_rng(0).normal(size=(40, 1, 256)).astype(np.float32)
    rr = np.random.default_rng(1).normal(size=(40, bundle.manifest["inputs"]["rr"][0])).astype(np.float32)
    found, expected = (one.classifier(None).logits(window, rr) for one in (bundle, other))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", [0, -1, 257])
def test_a_batch_that_no_device_takes_is_refused(fedavg_run: Path, tmp_path: Path, ecgfed: Any, batch: int) -> None:
    assert_refused(ecgfed("export", fedavg_run, "--out", tmp_path / "b", "--batch", batch), "--batch", "1 to 256")
    assert not (tmp_path / "b").exists()


def test_a_large_ensemble_says_its_size() -> None:
    one = {"role": "ensemble", "bytes": 9_870_000, "members": 45}
    said = large_ensemble({"patients/a.onnx": {"role": "model", "bytes": 10**9}, "global.onnx": one})
    assert said is not None
    for part in ("45 models", "9.9 MB", "protocol average", "grp-fed"):
        assert part in said
    assert "\n" not in said
    assert large_ensemble({"global.onnx": {**one, "bytes": LARGE_ENSEMBLE_BYTES - 1}}) is None
    assert large_ensemble({"global.onnx": {**one, "role": "model"}}) is None


class _Beats:
    """A calibration reader: four batches."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.left: Iterator[dict[str, NDArray[Any]]] = iter([feeds_for(model, 8, seed) for seed in range(4)])

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self.left, None)


@pytest.mark.parametrize(("spec", "role"), EVERY)
def test_onnx_runtimes_quantiser_takes_it(spec: str, role: str, tmp_path: Path) -> None:
    """Static QDQ, per channel: every Conv and Gemm works on int8, and what comes out is near the float answer."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    logging.getLogger().setLevel(logging.ERROR)
    model = model_of(spec, role)
    onnx.save(model, tmp_path / "float.onnx")
    quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "int8.onnx",
        _Beats(model),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=["Conv", "Gemm"],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        activation_type=QuantType.QInt8,
    )
    made = onnx.load(tmp_path / "int8.onnx")
    maker = {name: node.op_type for node in made.graph.node for name in node.output}
    layers = [node for node in made.graph.node if node.op_type in ("Conv", "Gemm")]
    assert layers
    for node in layers:
        assert [maker[name] for name in node.input[:2]] == ["DequantizeLinear"] * 2, node.name
    found, expected = (_run(one, feeds_for(model, 8)) for one in (made, model))
    assert np.abs(found - expected).max() <= 0.25 * np.ptp(expected)
