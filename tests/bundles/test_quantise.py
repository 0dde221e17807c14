"""int8 graphs against whole numbers counted by hand, with ONNX Runtime's optimisations and without."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ecgfed.base.errors import BundleError
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import CONTEXT_SCALE
from ecgfed.exports.bundles.graphs import GraphTemplate
from ecgfed.exports.bundles.int8_variants import calibration_rows
from ecgfed.exports.bundles.quantise import (
    Int8Layer,
    QuantRange,
    int8_layers,
    quantise,
    quantised_weight,
    read_by_layers,
)
from ecgfed.exports.bundles.ranges import RULES
from ecgfed.exports.device.graph import Session, check_graph

CLASSES = 5
#: Operations that count in whole numbers, and may saturate on processors without the right instructions.
WHOLE = {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm", "MatMulIntegerToFloat"}


def _floats(spec: NetSpec) -> tuple[onnx.ModelProto, dict[str, torch.Tensor], Inputs]:
    """A net with weights that were drawn, its graph, and 40 beats of noise and a bump."""
    net = make_net(spec)
    params = net.initial(3)
    for name in params:
        if "norm" in name and not name.endswith("running_var"):  # as they never are after training
            params[name] = params[name] + 0.3 * torch.randn(params[name].shape, generator=torch.manual_seed(4))
    random = np.random.default_rng(5)
    bump = np.exp(-0.5 * ((np.arange(256) - 100) / 6) ** 2)
    window = random.normal(0, 0.05, (40, 1, 256)) + bump * random.normal(1, 0.4, (40, 1, 1))
    rr = random.normal(0, 0.5, (40, 16)) if spec.rr else None
    tensors = [None if one is None else torch.from_numpy(one.astype(np.float32)) for one in (window, rr)]
    assert tensors[0] is not None
    return GraphTemplate(net, "model", params).fill(params), params, Inputs(tensors[0], tensors[1])


def _run(model: onnx.ModelProto, inputs: Inputs, level: onnxruntime.GraphOptimizationLevel) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"window": inputs.examples.numpy()} | ({} if inputs.rr is None else {"rr": inputs.rr.numpy()})
    return np.asarray(session.run(["logits"], feeds)[0])


def _ranges(model: onnx.ModelProto, inputs: Inputs) -> dict[str, QuantRange]:
    """The range of each value over the very beats, by ONNX Runtime itself."""
    names = read_by_layers(model)
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"window": inputs.examples.numpy()} | ({} if inputs.rr is None else {"rr": inputs.rr.numpy()})
    return {name: RULES["whole"](value) for name, value in zip(names, session.run(names, feeds), strict=True)}


def _as_int8(layer: Int8Layer, x: NDArray[np.float64]) -> NDArray[np.int64]:
    steps = np.rint(x.astype(np.float32) / layer.input_scale).astype(np.int64) + layer.input_zero_point
    return np.clip(steps, -128, 127)


def _scaled(layer: Int8Layer, total: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    scale = layer.weight_scale.astype(np.float64).reshape(shape) * float(layer.input_scale)
    bias = 0.0 if layer.bias is None else layer.bias.astype(np.float64).reshape(shape)
    return np.asarray(total * scale + bias)


def _conv(layer: Int8Layer, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """A convolution over time (beats, channels, samples), multiplied and added in whole numbers."""
    before, after = layer.padding
    q = np.pad(_as_int8(layer, x), ((0, 0), (0, 0), (before, after)), constant_values=layer.input_zero_point)
    q = q - layer.input_zero_point
    taps, steps = layer.weight.shape[2], (q.shape[2] - layer.weight.shape[2]) // layer.stride + 1
    total = np.zeros((len(x), len(layer.weight), steps), np.int64)
    for k in range(taps):
        some = q[:, :, k : k + layer.stride * (steps - 1) + 1 : layer.stride]
        total += np.einsum("oc,bct->bot", layer.weight[:, :, k].astype(np.int64), some)
    return _scaled(layer, total, (1, -1, 1))


def _linear(layer: Int8Layer, x: NDArray[np.float64]) -> NDArray[np.float64]:
    q = _as_int8(layer, x) - layer.input_zero_point
    return _scaled(layer, q @ layer.weight.astype(np.int64).T, (1, -1))


def _group_norm(params: dict[str, torch.Tensor], name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
    grouped = x.reshape(len(x), 8, -1)
    centred = grouped - grouped.mean(2, keepdims=True)
    whitened = (centred / np.sqrt((centred**2).mean(2, keepdims=True) + 1e-5)).reshape(x.shape)
    return np.asarray(whitened * params[f"{name}.weight"].numpy()[:, None] + params[f"{name}.bias"].numpy()[:, None])


def _by_hand(layers: list[Int8Layer], params: dict[str, torch.Tensor], inputs: Inputs) -> NDArray[np.float64]:
    """Logits of the default net, from the layers' records and the float parameters of its norms alone."""
    named = {layer.name: layer for layer in layers}

    def relu(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(x, 0)

    window = inputs.examples.numpy().astype(np.float64)
    centred = window - window.mean(2, keepdims=True)
    x = centred / np.sqrt((centred**2).mean(2, keepdims=True) + 1e-4)
    x = relu(_group_norm(params, "extractor.stem_norm", _conv(named["extractor.stem"], x)))
    for number in range(2):
        block = f"extractor.block{number}"
        y = relu(_group_norm(params, f"{block}.norm0", _conv(named[f"{block}.conv0"], x)))
        y = _group_norm(params, f"{block}.norm1", _conv(named[f"{block}.conv1"], y))
        x = relu(y + _conv(named[f"{block}.skip"], x))
    features = x.mean(2)
    if inputs.rr is not None:
        features = features + _linear(named["extractor.rr"], inputs.rr.numpy() * np.array(CONTEXT_SCALE, np.float32))
    return _linear(named["head.out"], relu(_linear(named["head.hidden"], features)))


@pytest.mark.parametrize("rr", [True, False])
@pytest.mark.parametrize("width", [0.5, 1.0])
def test_the_records_alone_give_the_graphs_answer(rr: bool, width: float) -> None:
    model, params, inputs = _floats(NetSpec(CLASSES, rr=rr, rr_version=2 if rr else 1, width=width))
    made = quantise(model, _ranges(model, inputs))
    expected = _by_hand(int8_layers(made), params, inputs)
    found = _run(made, inputs, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    apart = np.abs(found - expected).max(axis=1)
    # a value that lies between two steps may go to either, as float32 rounds: then later layers see it, a little
    assert np.median(apart) < 1e-4 * np.abs(expected).max()
    step = max(float(layer.input_scale) for layer in int8_layers(made))
    assert apart.max() < step
    floats = _run(model, inputs, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    assert np.abs(found - floats).max() > 1e-3  # it is another model than the float one, and near it
    assert np.corrcoef(found.ravel(), floats.ravel())[0, 1] > 0.995


def test_onnx_runtime_counts_nothing_in_whole_numbers(tmp_path: Path) -> None:
    """So nothing saturates, whatever the processor: its optimised graph keeps float convolutions and products."""
    model, _, inputs = _floats(NetSpec(CLASSES, rr=True, rr_version=2))
    made = quantise(model, _ranges(model, inputs))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    operations = {node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= operations
    assert not operations & WHOLE
    plain, fast = (
        _run(made, inputs, getattr(onnxruntime.GraphOptimizationLevel, name))
        for name in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")
    )
    np.testing.assert_allclose(fast, plain, atol=2e-3 * np.abs(plain).max())


def _one_layer(op: str, weight: NDArray[np.float32], shape: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    taken = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["beats", *shape])
    given = helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)
    node = helper.make_node(op, ["features", "own.weight"], ["logits"], **attributes)
    graph = helper.make_graph([node], "one", [taken], [given], [numpy_helper.from_array(weight, "own.weight")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("Gemm", (64,), {"transB": 1}),
        ("MatMul", (64,), {}),
        ("Conv", (64, 1, 9), {"pads": [0, 2, 0, 2], "strides": [1, 2]}),
    ],
)
def test_the_largest_sums_are_exact(op: str, shape: tuple[int, ...], attributes: dict[str, object]) -> None:
    """All weights and values at the ends of int8: what saturates 16 bits, summed in pairs, comes out whole."""
    kernel = (64, 64, 1, 5) if op == "Conv" else (64, 64)
    signs = np.where(np.random.default_rng(1).random(kernel) < 0.5, -1.0, 1.0).astype(np.float32)
    signs[0], signs[1] = 1.0, -1.0
    if op == "MatMul":
        signs[:, 0], signs[:, 1] = 1.0, -1.0
    model = _one_layer(op, signs * np.float32(0.5), shape, **attributes)
    made = quantise(model, {"features": QuantRange(-1.0, 1.0)})
    (layer,) = int8_layers(made)
    assert set(np.unique(layer.weight)) == {-127, 127}
    x = np.where(np.random.default_rng(2).random((6, *shape)) < 0.5, -1.0, 1.0).astype(np.float32)
    x[0], x[1] = 1.0, -1.0
    expected = _conv(layer, x[:, :, 0]) if op == "Conv" else _linear(layer, x)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(None, {"features": x})[0].reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_sums_that_float32_could_not_hold_are_refused() -> None:
    weight = np.ones((1, 1 << 10), np.float32)
    with pytest.raises(BundleError, match=r"own\.weight: sums up to 33,162,240 in int8; expected less than 16,777,216"):
        quantise(_one_layer("Gemm", weight, (1 << 10,), transB=1), {"features": QuantRange(-1, 1)})


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_by_hand(axis: int) -> None:
    weight = np.array([[0.5, -1.0], [0.0, 0.0], [2.54, 0.01]], np.float32)
    found, scale = quantised_weight(weight if axis == 0 else weight.T.copy(), axis)
    assert scale.tolist() == pytest.approx([1 / 127, 1.0, 0.02])
    assert (found if axis == 0 else found.T).tolist() == [[64, -127], [0, 0], [127, 0]]  # 63.5 goes to the even number


def test_ranges() -> None:
    values = np.linspace(0.5, 2.0, 100_001, dtype=np.float32)
    whole, percentile = RULES["whole"](values), RULES["percentile"](values)
    assert (whole.low, whole.high, whole.zero_point) == (0.0, 2.0, -128)  # zero belongs to it: padding is zeros
    assert percentile.high == pytest.approx(2.0 - 1.5e-4, abs=1e-6)
    assert float(whole.scale) == pytest.approx(2 / 255)
    assert QuantRange(-1.0, 1.0).zero_point in (-1, 0)
    assert QuantRange(-3.0, 0.0).zero_point == 127
    flat = RULES["whole"](np.zeros(3, np.float32))
    assert flat.scale > 0
    assert flat.zero_point == -128
    spike = np.append(np.random.default_rng(0).normal(0, 1, 50_000), 60.0).astype(np.float32)
    errors = {}
    for name, rule in RULES.items():
        between = rule(spike)
        steps = np.clip(np.rint(spike / between.scale) + between.zero_point, -128, 127)
        errors[name] = float(np.square((steps - between.zero_point) * between.scale - spike).mean())
    assert errors["least-squares"] <= errors["whole"]
    assert RULES["least-squares"](spike).high < 60.0


def test_a_rare_class_is_calibrated_on_too() -> None:
    label = np.zeros(5000, np.int64)
    label[[7, 3000, 4999]] = 2
    rows = np.arange(5000)
    chosen = calibration_rows(label, rows, 100)
    assert {7, 3000, 4999} <= set(chosen.tolist())
    assert 95 <= len(chosen) <= 110
    assert (np.diff(chosen) > 0).all()
    assert calibration_rows(label, rows[:50], 100).tolist() == list(range(50))


def test_layers_of_one_input_share_its_steps() -> None:
    model, _, inputs = _floats(NetSpec(CLASSES, rr=True, rr_version=2))
    made = quantise(model, _ranges(model, inputs))
    named = {layer.name: layer for layer in int8_layers(made)}
    assert set(named) == {
        *(f"extractor.block{block}.{conv}" for block in range(2) for conv in ("conv0", "conv1", "skip")),
        *("extractor.stem", "extractor.rr", "head.hidden", "head.out"),
    }
    for block in ("extractor.block0", "extractor.block1"):
        first, skip = named[f"{block}.conv0"], named[f"{block}.skip"]
        assert (first.input, first.input_scale, first.input_zero_point) == (
            skip.input,
            skip.input_scale,
            skip.input_zero_point,
        )
        assert first.input_zero_point == -128  # behind a ReLU
    assert (named["extractor.stem"].stride, named["extractor.stem"].padding) == (4, (3, 3))
    assert (named["head.out"].stride, named["head.out"].padding) == (1, (0, 0))
    quantisers = [node for node in made.graph.node if node.op_type == "QuantizeLinear"]
    assert len(quantisers) == len({layer.input for layer in named.values()})


def _no_layer() -> onnx.ModelProto:
    return _one_layer("Gemm", np.ones((2, 2), np.float32), (2,), transA=1)


def _float_graph() -> onnx.ModelProto:
    return _one_layer("Gemm", np.ones((2, 2), np.float32), (2,), transB=1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: quantise(_no_layer(), {}), "has no layer with weights"),
        (lambda: int8_layers(_float_graph()), "has no layer in int8"),
    ],
)
def test_graphs_without_layers_are_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(BundleError, match=said):
        call()


@pytest.mark.parametrize(
    "spec",
    [
        NetSpec(CLASSES, architecture="reference", norm="batch"),
        NetSpec(CLASSES, norm="none"),
        NetSpec(CLASSES, rr=True, rr_version=1),
    ],
)
def test_the_other_nets(spec: NetSpec) -> None:
    net = make_net(spec)
    params = net.initial(0)
    model = GraphTemplate(net, "model", params).fill(params)
    random = np.random.default_rng(0)
    window = torch.from_numpy(random.normal(0, 0.4, (8, 1, 256)).astype(np.float32))
    rr = torch.from_numpy(random.uniform(0.4, 1.2, (8, 4)).astype(np.float32)) if spec.rr else None
    inputs = Inputs(window, rr)
    made = quantise(model, _ranges(model, inputs))
    made.producer_name = "a test"
    onnx.checker.check_model(made, full_check=True)
    found = _run(made, inputs, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    with torch.inference_mode():
        expected = net.logits(params, inputs).numpy()
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98
    names = {layer.name + ".weight" for layer in int8_layers(made)}
    assert names == {name for name, value in params.items() if name.endswith(".weight") and value.ndim > 1}


def test_our_session_runs_it_as_plain_onnx_runtime_does() -> None:
    model, _, inputs = _floats(NetSpec(CLASSES))
    made = quantise(model, _ranges(model, inputs))
    session = Session(check_graph(Path("made.onnx"), made.SerializeToString()))
    found = session.run({"window": inputs.examples.numpy()})
    plain = _run(made, inputs, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    np.testing.assert_allclose(found, plain, atol=2e-3 * np.abs(plain).max())
