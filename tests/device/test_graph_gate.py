"""Graphs from strangers: what export writes passes, and nothing that could harm gets as far as ONNX Runtime."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from support import copied, exported

from ecgfed.base.errors import BundleError
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.device import Classifier
from ecgfed.exports.bundles.graphs import GraphTemplate, ensemble_graph, finish
from ecgfed.exports.device.graph import BATCH, check_graph
from ecgfed.exports.device.graph_shapes import check_operations
from ecgfed.exports.device.onnx_file import read_model, read_parts
from ecgfed.exports.device.operations import OPERATIONS
from ecgfed.exports.device.protobuf import WireError

OLD = Path(__file__).parent.parent / "data" / "version-0.1" / "bundle"
CLASSES = tuple("NLRV")
F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741
#: Every architecture, with and without what changes its operations; tracing takes seconds each.
NETS = [
    ("default", "group", True),
    *(
        pytest.param(*net, marks=pytest.mark.slow)
        for net in (
            ("default", "batch", False),
            ("default", "none", True),
            ("reference", "batch", True),
            ("resnet30", "group", False),
            ("resnet30", "batch", False),
            ("convnet3", "group", False),
            ("convnet2", "none", False),
        )
    ),
]


def _graphs_of(architecture: str, norm: str, rr: bool) -> dict[str, bytes]:
    net = make_net(NetSpec(5, architecture=architecture, norm=norm, rr=rr, width=0.5))
    params = net.initial(1)
    made = {}
    for role, part in (("model", params), ("extractor", extractor_of(params)), ("head", head_of(params))):
        made[role] = GraphTemplate(net, role, part).fill(part)
    made["ensemble"] = ensemble_graph([made["model"]] * 3)
    return {role: finish(model, {"tool_version": "0"}) for role, model in made.items()}


@pytest.mark.parametrize(("architecture", "norm", "rr"), NETS, ids=lambda value: str(value))
def test_every_net_passes_and_its_shapes_are_onnxs_own(architecture: str, norm: str, rr: bool) -> None:
    """The shapes we follow are those of onnx's shape inference, for every value of every role's graph."""
    for role, data in _graphs_of(architecture, norm, rr).items():
        graph = check_graph(Path(role), data)
        assert graph.output.name == ("features" if role == "extractor" else "logits")
        parts = read_parts(read_model(data).graph)
        ours = check_operations(parts, BATCH)
        theirs = _inferred(data)
        assert set(theirs) >= {node.outputs[0] for node in parts.nodes}
        for name, shape in theirs.items():
            if shape is not None:
                assert ours[name].shape == shape, (role, name)
        assert {node.op for node in parts.nodes} <= set(OPERATIONS)


def _inferred(data: bytes) -> dict[str, tuple[int, ...] | None]:
    """Shapes by onnx's shape inference at a whole batch; None where it does not know all of one."""
    model = onnx.load_from_string(data)
    del model.graph.value_info[:]
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.shape.dim[0].dim_value = BATCH
    made = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    found: dict[str, tuple[int, ...] | None] = {}
    for entry in (*made.value_info, *made.output):
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in entry.type.tensor_type.shape.dim]
        found[entry.name] = None if None in dims else tuple(dim or 0 for dim in dims)
    return found


@pytest.mark.parametrize("file", sorted(path.relative_to(OLD) for path in OLD.rglob("*.onnx")), ids=str)
def test_the_graphs_of_version_0_1_pass(file: Path) -> None:
    check_graph(OLD / file, (OLD / file).read_bytes())


def test_the_reader_reads_what_onnx_reads() -> None:
    data = (OLD / "global.onnx").read_bytes()
    model, parts = onnx.load_from_string(data), read_parts(read_model(data).graph)
    assert read_model(data).metadata == {entry.key: entry.value for entry in model.metadata_props}
    for ours, theirs in zip(parts.nodes, model.graph.node, strict=True):
        assert (ours.op, list(ours.inputs), list(ours.outputs)) == (theirs.op_type, theirs.input, theirs.output)
        expected = {one.name: helper.get_attribute_value(one) for one in theirs.attribute}
        assert {n: list(v) if isinstance(v, tuple) else v for n, v in ours.attributes.items()} == expected
    for tensor, proto in zip(parts.tensors, model.graph.initializer, strict=True):
        assert tensor.name == proto.name
        np.testing.assert_array_equal(tensor.values, numpy_helper.to_array(proto))


def _model(
    nodes: Sequence[Any],
    tensors: dict[str, NDArray[Any]] | None = None,
    *,
    inputs: dict[str, tuple[Any, ...]] | None = None,
    outputs: dict[str, tuple[Any, ...]] | None = None,
    **more: Any,
) -> onnx.ModelProto:
    """A model of some nodes: from ``window`` to ``logits`` of four classes where nothing else is said."""
    described = [
        [helper.make_tensor_value_info(name, F, shape) for name, shape in named.items()]
        for named in (inputs or {"window": ("beats", 1, 256)}, outputs or {"logits": ("beats", 4)})
    ]
    made = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in (tensors or {}).items()]
    graph = helper.make_graph(nodes, "g", *described, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", more.pop("opset", 18))], ir_version=10)


def _flat(size: int = 4) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """The nodes and weights of the simplest classifier there is."""
    weight = np.random.default_rng(0).normal(size=(256, size)).astype(np.float32)
    nodes = [
        helper.make_node("Squeeze", ["window", "one"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight"], ["logits"]),
    ]
    return nodes, {"one": np.array([1]), "weight": weight}


def _written(folder: Path, model: onnx.ModelProto | bytes) -> Path:
    path = folder / "graph.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def _refused(folder: Path, model: onnx.ModelProto | bytes, match: str) -> None:
    with pytest.raises(BundleError, match=rf"graph\.onnx: .*{match}") as caught:
        Classifier([_written(folder, model)], CLASSES, rr=False)
    assert "\n" not in caught.value.line


def test_the_simplest_classifier_runs(tmp_path: Path) -> None:
    """So that what is refused below is refused for what was changed."""
    nodes, tensors = _flat()
    window = np.random.default_rng(1).normal(size=(300, 1, 256)).astype(np.float32)
    found = Classifier([_written(tmp_path, _model(nodes, tensors))], CLASSES, rr=False).logits(window)
    np.testing.assert_allclose(found, window[:, 0] @ tensors["weight"], rtol=1e-4, atol=1e-4)


def _fed(node: Any, tensors: dict[str, NDArray[Any]] | None = None) -> onnx.ModelProto:
    """The simplest classifier, and one node more that makes ``bad``, unused."""
    nodes, weights = _flat()
    return _model([*nodes, node], {**weights, **(tensors or {})})


def _loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"])],
        "body",
        [helper.make_tensor_value_info("i", I, ()), helper.make_tensor_value_info("go", TensorProto.BOOL, ())],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, ())],
    )
    return _fed(helper.make_node("Loop", ["", "one"], [], body=body))


def _external() -> onnx.ModelProto:
    nodes, tensors = _flat()
    model = _model(nodes, tensors)
    proto = model.graph.initializer[1]
    proto.ClearField("raw_data")
    proto.data_location = TensorProto.EXTERNAL
    proto.external_data.add(key="location", value="../../../etc/passwd")
    return model


def _claimed() -> onnx.ModelProto:
    nodes, tensors = _flat()
    model = _model(nodes, tensors)
    del model.graph.initializer[1].dims[:]
    model.graph.initializer[1].dims.extend([256, 100_000_000])
    return model


def _function() -> onnx.ModelProto:
    model = _fed(helper.make_node("Own", ["window"], ["bad"], domain="own"))
    model.functions.append(
        helper.make_function(
            "own", "Own", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 18)]
        )
    )
    return model


def _big(*shape: int) -> NDArray[np.int64]:
    return np.array(shape, np.int64)


HUGE: dict[str, tuple[onnx.ModelProto, str]] = {
    "a loop": (_loop(), "a graph inside a node"),
    "a branch": (_fed(helper.make_node("If", ["window"], ["bad"])), "operation 'If'"),
    "a tensor outside the file": (_external(), "numbers that lie outside the file"),
    "a tensor of 100 GB claimed": (_claimed(), "tensor 'weight' of 4096 bytes"),
    "a function": (_function(), "functions"),
    "constants of a shape": (
        _fed(helper.make_node("ConstantOfShape", ["n"], ["bad"]), {"n": _big(1 << 36)}),
        "operation 'ConstantOfShape'",
    ),
    "expand": (_fed(helper.make_node("Expand", ["window", "n"], ["bad"]), {"n": _big(1 << 20)}), "operation 'Expand'"),
    "pad": (_fed(helper.make_node("Pad", ["window", "n"], ["bad"]), {"n": _big(0, 0, 0)}), "operation 'Pad'"),
    "a file's tensor": (_fed(helper.make_node("ReadFile", ["window"], ["bad"], domain="")), "operation 'ReadFile'"),
    "somebody's domain": (_fed(helper.make_node("Relu", ["window"], ["bad"], domain="evil")), "not ONNX's own"),
    "an outer product of constants": (
        _fed(
            helper.make_node("Mul", ["a", "b"], ["bad"]),
            {"a": np.ones((200_000, 1), np.float32), "b": np.ones((1, 200_000), np.float32)},
        ),
        "would take 160,",
    ),
    "a matrix product of constants": (
        _fed(
            helper.make_node("MatMul", ["a", "b"], ["bad"]),
            {"a": np.ones((200_000, 1), np.float32), "b": np.ones((1, 200_000), np.float32)},
        ),
        "would take 160,",
    ),
    "wide padding": (
        _fed(
            helper.make_node("Conv", ["window", "k"], ["bad"], pads=[1 << 30, 1 << 30]),
            {"k": np.ones((1, 1, 3), np.float32)},
        ),
        "Conv of a kernel",
    ),
    "a shape from the data": (
        _fed(helper.make_node("Reshape", ["window", "sizes"], ["bad"]), {"sizes": _big(0, -1).reshape(1, 2)}),
        "depends on the data",
    ),
    "weights that are no numbers": (
        _fed(helper.make_node("Relu", ["a"], ["bad"]), {"a": np.array([1, np.nan], np.float32)}),
        "weights that are not finite",
    ),
    "weights that are infinite": (
        _fed(helper.make_node("Relu", ["a"], ["bad"]), {"a": np.array([1, -np.inf], np.float32)}),
        "weights that are not finite",
    ),
    "double precision": (_fed(helper.make_node("Relu", ["a"], ["bad"]), {"a": np.ones(2)}), r"an element type \(11\)"),
    "text": (
        _fed(helper.make_node("Relu", ["a"], ["bad"]), {"a": np.array(["x"], object)}),
        "an unknown field|an element type",
    ),
    "an unknown attribute": (_fed(helper.make_node("Relu", ["window"], ["bad"], own=1)), "Relu in a form"),
    "a value that nothing makes": (_fed(helper.make_node("Relu", ["later"], ["bad"])), "'later', which nothing"),
    "a value made twice": (_fed(helper.make_node("Relu", ["window"], ["flat"])), "makes 'flat' twice"),
    "another opset": (_model(*_flat(), opset=17), "version 17"),
    "a batch of one in, an open one out": (
        _model(*_flat(), inputs={"window": (1, 1, 256)}),
        r"gives .logits. of shape \(beats",
    ),
    "a batch of none": (_model(*_flat(), inputs={"window": (0, 1, 256)}), "no batch of 1 to 256"),
    "a batch of 257": (
        _model(*_flat(), inputs={"window": (257, 1, 256)}, outputs={"logits": (257, 4)}),
        "no batch of 1 to 256",
    ),
    "batches that differ": (
        _model(*_flat(), inputs={"window": (2, 1, 256), "more": ("beats", 1)}),
        "no batch of 1 to 256",
    ),
    "an open length": (_model(*_flat(), inputs={"window": ("beats", 1, "long")}), "no batch of beats"),
    "other inputs": (_model(*_flat(), inputs={"window": ("beats", 1, 256), "more": ("beats", 1)}), "takes window and"),
    "another window": (_model(*_flat(), inputs={"window": ("beats", 1, 128)}), "Gemm of shapes"),
    "two outputs": (_model(*_flat(), outputs={"logits": ("beats", 4), "flat": ("beats", 256)}), "gives 2 values"),
    "an output it does not make": (_model(*_flat(), outputs={"logits": ("beats", 5)}), r"says 'logits' is"),
    "another output": (_model(*_flat(), outputs={"flat": ("beats", 256)}), "gives flat"),
    "another number of classes": (
        _model(*_flat(5), outputs={"logits": ("beats", 5)}),
        r"gives logits \(beats, 5\), not logits of 4 classes",
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_could_harm_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    model, match = HUGE[name]
    _refused(tmp_path, model, match)


def test_much_work_is_refused(tmp_path: Path) -> None:
    """Matrices of 4 MB, each product of which is 1e9 multiplications: a thousand of them."""
    nodes, tensors = _flat()
    products = [helper.make_node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(20_000)]
    _refused(tmp_path, _model([*nodes, *products], {**tensors, "m0": np.eye(1024, dtype=np.float32)}), "would take")


def test_a_file_that_is_onnx_runtimes_own_format_as_well_is_read_as_onnx(tmp_path: Path) -> None:
    """Its bytes 4 to 8 are that format's mark, inside a string of a sound ONNX file."""
    nodes, tensors = _flat()
    plain = _model(nodes, tensors)
    plain.ClearField("producer_name")
    data = b"\x12\x06xxORTM" + plain.SerializeToString()
    assert data[4:8] == b"ORTM"
    window = np.random.default_rng(1).normal(size=(3, 1, 256)).astype(np.float32)
    found = Classifier([_written(tmp_path, data)], CLASSES, rr=False).logits(window)
    np.testing.assert_allclose(found, window[:, 0] @ tensors["weight"], rtol=1e-4, atol=1e-4)


def test_two_graphs_in_one_file_are_refused(tmp_path: Path) -> None:
    """Protobuf would join them; nobody shall read one graph and run another."""
    data = _model(*_flat()).SerializeToString()
    _refused(tmp_path, data + data, "two of")


def test_weights_that_overflow_are_refused_when_they_do(tmp_path: Path) -> None:
    nodes, tensors = _flat()
    tensors["weight"] = np.full((256, 4), 1e38, np.float32)
    classifier = Classifier([_written(tmp_path, _model(nodes, tensors))], CLASSES, rr=False)
    with pytest.raises(BundleError, match=r"graph\.onnx: gives logits that are not finite"):
        classifier.logits(np.ones((2, 1, 256), np.float32))


def test_nan_weights_of_a_bundle_are_refused(local_run: Path, tmp_path: Path) -> None:
    bundle = copied(exported(local_run), tmp_path / "bundle")
    model = onnx.load(bundle / "global.onnx")
    for proto in model.graph.initializer:
        if proto.name.endswith("head.out.bias"):
            proto.raw_data = np.full(12, np.nan, "<f4").tobytes()
    with pytest.raises(BundleError, match=r"global\.onnx: .*weights that are not finite"):
        Classifier([_written(tmp_path, model).rename(bundle / "global.onnx")], CLASSES, rr=False)


def _chain(folder: Path, features: int) -> list[Path]:
    nodes, tensors = _flat(8)
    nodes[1] = helper.make_node("Gemm", ["flat", "weight"], ["features"])
    head = [helper.make_node("Gemm", ["features", "weight"], ["logits"])]
    weight = np.ones((features, 4), np.float32)
    models = {
        "extractor": _model(nodes, tensors, outputs={"features": ("beats", 8)}),
        "head": _model(head, {"weight": weight}, inputs={"features": ("beats", features)}),
    }
    for name, model in models.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    return [folder / f"{name}.onnx" for name in models]


def test_the_parts_of_a_chain_have_to_fit(tmp_path: Path) -> None:
    assert Classifier(_chain(tmp_path, 8), CLASSES, rr=False)
    with pytest.raises(BundleError, match=r"head\.onnx: .*does not take what extractor\.onnx gives, \(beats, 8\)"):
        Classifier(_chain(tmp_path, 7), CLASSES, rr=False)
    with pytest.raises(BundleError, match=r"extractor\.onnx: .*takes window, not window and rr"):
        Classifier(_chain(tmp_path, 8), CLASSES, rr=True)


def _reads(data: bytes) -> bool:
    try:
        check_operations(read_parts(read_model(data).graph), BATCH)
    except WireError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_never_more(data: st.DataObject) -> None:
    """Any flipped, cut or inserted bytes: the reader says so with its own error, or reads a graph that is bounded."""
    whole = (OLD / "head.onnx").read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "zeros"]))
    some = data.draw(st.binary(min_size=1, max_size=12))
    changed = {
        "flip": whole[:at] + bytes([whole[at] ^ some[0]]) + whole[at + 1 :],
        "cut": whole[:at],
        "insert": whole[:at] + some + whole[at:],
        "zeros": whole[:at] + bytes(len(some)) + whole[at + len(some) :],
    }[kind]
    assert _reads(changed) in (True, False)


@given(st.binary(max_size=200))
def test_any_bytes_at_all(data: bytes) -> None:
    assert not _reads(data)


def test_a_hostile_graph_takes_no_memory_and_no_time(tmp_path: Path) -> None:
    """In a process that may take 1.5 GB: every one of the above is refused within it."""
    for number, (model, _) in enumerate(HUGE.values()):
        (tmp_path / f"{number}.onnx").write_bytes(model.SerializeToString())
    code = (
        "import pathlib, sys\nfrom ecgfed.device import Classifier\nfrom ecgfed.base.errors import BundleError\n"
        "for path in pathlib.Path(sys.argv[1]).glob('*.onnx'):\n"
        "    try:\n        Classifier([path], tuple('NLRV'), rr=False)\n"
        "    except BundleError:\n        continue\n    raise SystemExit(f'{path} passed')\n"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1_500_000_000, 1_500_000_000))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 0, done.stderr
