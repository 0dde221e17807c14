"""int8 graphs from strangers: shapes as onnx infers them, and what no export writes is refused before it runs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ecgfed.base.errors import BundleError
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import NetSpec
from ecgfed.device import Classifier
from ecgfed.exports.bundles.graphs import GraphTemplate
from ecgfed.exports.bundles.quantise import QuantRange, quantise, read_by_layers
from ecgfed.exports.device.graph_shapes import check_operations
from ecgfed.exports.device.onnx_file import read_model, read_parts

CLASSES = tuple("NLRV")
F, I8 = TensorProto.FLOAT, TensorProto.INT8
Tensors = dict[str, NDArray[Any]]


def _model(tensors: Tensors, **changes: Any) -> onnx.ModelProto:
    """A classifier in int8: the window quantised, its numbers multiplied with int8 weights."""
    weight_axis, input_axis = changes.pop("weight_axis", 0), changes.pop("input_axis", None)
    more = {} if input_axis is None else {"axis": input_axis}
    nodes = [
        helper.make_node("Squeeze", ["window", "one"], ["flat"]),
        helper.make_node("QuantizeLinear", ["flat", "scale", "zero"][: changes.pop("inputs", 3)], ["steps"], **more),
        helper.make_node("DequantizeLinear", [changes.pop("read", "steps"), "scale", "zero"], ["again"], **more),
        helper.make_node("DequantizeLinear", ["weight", "weight_scale"], ["weights"], axis=weight_axis),
        helper.make_node("Gemm", ["again", "weights"], ["logits"], transB=1),
    ]
    values = {
        "one": np.array([1]),
        "scale": np.float32(0.05),
        "zero": np.int8(3),
        "weight": np.arange(-128, 128, dtype=np.int8).repeat(4).reshape(256, 4).T,
        "weight_scale": np.full(4, 0.01, np.float32),
        **tensors,
    }
    made = [numpy_helper.from_array(np.ascontiguousarray(v).reshape(np.shape(v)), n) for n, v in values.items()]
    window = helper.make_tensor_value_info("window", F, ("beats", 1, 256))
    logits = helper.make_tensor_value_info("logits", F, ("beats", 4))
    graph = helper.make_graph(nodes, "g", [window], [logits], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _classifier(folder: Path, model: onnx.ModelProto) -> Classifier:
    path = folder / "graph.onnx"
    path.write_bytes(model.SerializeToString())
    return Classifier([path], CLASSES, rr=False)


def test_the_simplest_one_runs_as_counted_by_hand(tmp_path: Path) -> None:
    """So that what is refused below is refused for what was changed."""
    window = np.random.default_rng(0).normal(0, 2, (5, 1, 256)).astype(np.float32)
    found = _classifier(tmp_path, _model({})).logits(window)
    steps = np.clip(np.rint(window[:, 0] / np.float32(0.05)) + 3, -128, 127) - 3
    expected = steps @ np.arange(-128, 128).repeat(4).reshape(256, 4) * 0.05 * 0.01
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("tensors", "changes", "match"),
    [
        ({"weight_scale": np.full(3, 0.01, np.float32)}, {}, "DequantizeLinear of shape"),
        ({}, {"weight_axis": 1}, "DequantizeLinear of shape"),
        ({}, {"weight_axis": 5}, "along axes"),
        ({"weight": np.zeros((4, 256), np.float32)}, {}, "DequantizeLinear whose input 1 is float32"),
        ({"weight": np.zeros((4, 256), np.uint8)}, {}, "DequantizeLinear whose input 1 is uint8"),
        ({"zero": np.uint8(3)}, {}, "zero points|QuantizeLinear whose input 3 is uint8"),
        ({"zero": np.zeros(256, np.int8)}, {}, "zero points of shape"),
        ({"scale": np.float32(np.nan)}, {}, "not finite"),
        ({"scale": np.full(256, 0.1, np.float32)}, {}, "zero points of shape|of shape"),
        ({}, {"inputs": 2}, "in a form that no graph of ours has"),
        ({}, {"read": "flat"}, "DequantizeLinear whose input 1 is float32"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, tensors: Tensors, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(BundleError, match=rf"graph\.onnx: .*({match})") as caught:
        _classifier(tmp_path, _model(tensors, **changes))
    assert "\n" not in caught.value.line


def test_a_scale_of_nothing_gives_one_line_and_no_labels(tmp_path: Path) -> None:
    window = np.ones((2, 1, 256), np.float32)
    classifier = _classifier(tmp_path, _model({"weight_scale": np.full(4, 3e38, np.float32)}))
    with pytest.raises(BundleError, match="not finite"):
        classifier.logits(window)


@pytest.mark.parametrize("rr", [True, False])
def test_shapes_are_onnxs_own(rr: bool) -> None:
    net = make_net(NetSpec(4, rr=rr, rr_version=2 if rr else 1, width=0.5))
    params = net.initial(0)
    model = GraphTemplate(net, "model", params).fill(params)
    made = quantise(model, dict.fromkeys(read_by_layers(model), QuantRange(-3.0, 3.0)))
    ours = check_operations(read_parts(read_model(made.SerializeToString()).graph), 32)
    for entry in (*made.graph.input, *made.graph.output):
        entry.type.tensor_type.shape.dim[0].dim_value = 32
    theirs = onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True).graph
    compared = 0
    for entry in theirs.value_info:
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in entry.type.tensor_type.shape.dim]
        if None not in dims:
            assert ours[entry.name].shape == tuple(dims), entry.name
            compared += 1
    assert compared > 40
