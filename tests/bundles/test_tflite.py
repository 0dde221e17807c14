"""Graphs in TensorFlow Lite: onnx2tf on every role's, and the int8 files of ``export --tflite``.

The first tests need nothing; those marked ``tflite`` need the environment of ``make tflite``.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from support import Said, assert_refused
from test_plain_graphs import feeds_for, model_of

from ecgfed.base.errors import BundleError, OptionError
from ecgfed.device import open_bundle
from ecgfed.exports.bundles.simplify import with_batch
from ecgfed.exports.bundles.tflite import Job, tflite_of, tflite_python
from ecgfed.exports.bundles.tflite_steps import LayerSteps, steps_of
from ecgfed.exports.device.activations import activations

PEER = Path(__file__).with_name("tflite_peer.py")
#: What onnx2tf is given, net and role: every role of the default net, and the nets whose graphs are made otherwise.
CONVERTED = (
    *(("default", role) for role in ("model", "extractor", "head", "decoupled", "linear", "describer", "kernel")),
    *(("default", role) for role in ("gated", "far")),
    ("version 1", "model"),
    ("batch", "model"),
)
#: Those that take long.
LARGE = (("images", "model"), ("default", "ensemble"))
#: ``export --batch 1``: the same file, sizes in the graph.
FIXED = ("default", "model")


@pytest.fixture(scope="session")
def python() -> Path:
    """The python that has TensorFlow."""
    if os.environ.get("ECGFED_TFLITE") != "1":
        pytest.skip("ECGFED_TFLITE is not 1: needs TensorFlow in an environment of its own (make tflite)")
    return tflite_python()


def _peer(python: Path, *arguments: object) -> str:
    """Run the other program; its tools (onnxsim) are beside its python."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(PEER), *map(str, arguments)]
    said = subprocess.run(
        command,
        env={**alone, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    return said.stdout


def _steps_by_torch(made: LayerSteps, values: dict[str, torch.Tensor]) -> torch.Tensor:
    """The steps as they are described, (B, C, 1, T) and channels first: an implementation beside TensorFlow's."""
    weights = {name: torch.from_numpy(value.copy()) for name, value in made.weights.items()}
    last = torch.empty(0)
    for step in made.steps:
        first, *others = (values[name] for name in step["inputs"])
        weight = weights.get(step.get("weight", ""), torch.empty(0))
        match step["op"]:
            case "conv":
                last = F.conv2d(first, weight, stride=step["strides"], padding=(0, step["pads"][3]))
                assert step["pads"][1] == step["pads"][3]
            case "group":
                last = F.group_norm(first, step["groups"], eps=step["epsilon"])
            case "dense":
                last = first @ weight.T + weights[step["bias"]]
            case "scale" | "shift":
                by = weight.reshape(1, -1, 1, 1) if first.ndim == 4 else weight.reshape(1, -1)
                last = first * by if step["op"] == "scale" else first + by
            case "mean":
                last = first.mean((2, 3))
            case "add":
                last = first + others[0]
            case "relu":
                last = F.relu(first)
            case other:
                pytest.fail(f"unknown step {other}")
        values[step["output"]] = last
    return last


@pytest.mark.parametrize(
    ("spec", "roles"),
    [("default", ["model"]), ("default", ["extractor", "head"]), ("version 1", ["model"]), ("batch", ["model"])],
    ids=str,
)
def test_the_steps_behind_the_scaling_are_the_graph(spec: str, roles: list[str]) -> None:
    models = [model_of(spec, role) for role in roles]
    made = steps_of(models, "here")
    feeds = feeds_for(models[0], 6)
    assert made.inputs.get("window") == [1, 1, 256, 1]
    assert "ReduceMean" in {node.op_type for node in models[0].graph.node}
    inside = with_batch(models[0], None)
    del inside.graph.output[:]
    inside.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in made.fronts.values())
    fronts = activations(inside.SerializeToString(), list(made.fronts.values()), feeds)
    values = {source: torch.from_numpy(fronts[name]) for source, name in made.fronts.items()}
    # what stays outside is the window's normalisation and the RR features' scaling, by their formulas
    centred = feeds["window"] - feeds["window"].mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-4)
    np.testing.assert_allclose(values["window"][:, :, 0].numpy(), expected, rtol=0, atol=1e-5)
    if "rr" in feeds:
        assert np.abs(values["rr"].numpy()).max() > 0
    given = feeds
    for model in models:
        (output,) = (entry.name for entry in model.graph.output)
        given = activations(model.SerializeToString(), [output], given)
    (logits,) = given.values()
    scale = max(1.0, float(np.abs(logits).max()) / 100)
    np.testing.assert_allclose(_steps_by_torch(made, values).numpy(), logits, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("role", ["kernel", "gated", "ensemble", "far", "describer"])
def test_what_is_no_net_is_refused_in_one_line(role: str) -> None:
    with pytest.raises(BundleError, match="extractor and head") as caught:
        steps_of([model_of("default", role)], "patients/x.onnx")
    assert caught.value.line.startswith("patients/x.onnx: ")
    assert "tflite" in caught.value.line
    assert "\n" not in caught.value.line


def test_without_tensorflow_one_line_says_what_to_do(
    fedavg_run: Path, tmp_path: Path, ecgfed: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("tensorflow") is not None:
        pytest.skip("TensorFlow is here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ECGFED_TFLITE_PYTHON", raising=False)
    said = ecgfed("export", fedavg_run, "--out", tmp_path / "b", "--tflite")
    assert_refused(said, "--tflite", "no TensorFlow", "make tflite", "ECGFED_TFLITE_PYTHON")
    monkeypatch.setenv("ECGFED_TFLITE_PYTHON", "no-such-python")
    assert_refused(ecgfed("export", fedavg_run, "--out", tmp_path / "b", "--tflite"), "no-such-python", "make tflite")
    assert not (tmp_path / "b").exists()


def test_a_python_without_tensorflow_is_named(tmp_path: Path) -> None:
    """This one; nothing is left behind."""
    if importlib.util.find_spec("tensorflow") is not None:
        pytest.skip("TensorFlow is here")
    model = model_of("default", "model")
    job = Job([model], "x.onnx", feeds_for(model, 2), feeds_for(model, 2))
    with pytest.raises(BundleError, match=r"could not convert: .*tensorflow.*make tflite") as caught:
        tflite_of([job], Path(sys.executable))
    assert "\n" not in caught.value.line
    with pytest.raises(OptionError, match="no program"):
        _python_of("/no/such/python")


def test_a_net_of_rr_features_version_3_is_left_out_and_the_bundle_says_why(
    context_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ecgfed.tasks.export import export

    monkeypatch.setenv("ECGFED_TFLITE_PYTHON", sys.executable)
    entry = export(context_run, tmp_path / "b", tflite=True).manifest["global"]["tflite"]
    assert entry["file"] is None
    assert "RR features of version 3" in entry["reason"]


def _python_of(name: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECGFED_TFLITE_PYTHON", name)
        return tflite_python()


@pytest.mark.tflite
@pytest.mark.parametrize("graphs", [CONVERTED, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"])
def test_onnx2tf_takes_them_as_they_are(python: Path, graphs: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    """In one process, for TensorFlow takes longer to start than to convert."""
    asked = [(f"{spec}, {role}", model_of(spec, role), feeds_for(model_of(spec, role), 8)) for spec, role in graphs]
    if FIXED in graphs:
        asked.append(("fixed", with_batch(model_of(*FIXED), 1), feeds_for(model_of(*FIXED), 8)))
    for name, model, feeds in asked:
        (tmp_path / name).mkdir()
        onnx.save(model, tmp_path / name / "graph.onnx")
        np.savez(tmp_path / name / "feeds.npz", **feeds)
    _peer(python, "onnx2tf", *(tmp_path / name for name, _, _ in asked))
    for name, model, feeds in asked:
        dynamic = model_of(*FIXED) if name == "fixed" else model
        (output,) = (entry.name for entry in dynamic.graph.output)
        (expected,) = activations(dynamic.SerializeToString(), [output], feeds).values()
        scale = max(1.0, float(np.abs(expected).max()) / 100)
        found = np.load(tmp_path / name / "found.npy")
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * scale, err_msg=name)


@pytest.fixture(scope="module")
def lite(python: Path, fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with TensorFlow Lite files."""
    from ecgfed.tasks.export import export

    out = tmp_path_factory.mktemp("lite") / "bundle"
    export(fedavg_run, out, tflite=True)
    return out


@pytest.mark.tflite
def test_the_files_are_int8_per_channel_and_run_on_a_microcontrollers_interpreter(python: Path, lite: Path) -> None:
    bundle = open_bundle(lite)
    entries: dict[str, dict[str, Any]] = {"global": bundle.manifest["global"]["tflite"]}
    entries |= {name: entry["tflite"] for name, entry in bundle.manifest["patients"].items()}
    assert set(entries) == {"global", "p1", "p2", "p3", "p4"}
    for whose, entry in entries.items():
        assert entry["accepted"] is (entry["file"] is not None), whose
        if not entry["accepted"]:
            assert entry["reason"]
            continue
        path = lite / entry["file"]
        assert bundle.manifest["files"][entry["file"]]["bytes"] == entry["bytes"] == path.stat().st_size
        assert entry["bytes"] < 80_000
        assert entry["arena_bytes"] < 30_000
        assert entry["macro_f1"] >= entry["macro_f1_float"] - 0.01
        assert entry["agreement"] >= 0.99
        assert entry["float_logit_difference"] <= 1e-4
        assert entry["micro_logit_difference"] == 0, "the same int8 numbers in both interpreters"
        assert entry["certainty"]["temperature"] > 0
        assert set(entry["quantised"]) == {"window", "rr", "logits"}
        looked = json.loads(_peer(python, "look", path))
        assert looked["ends"] == ["int8"] * 3
        assert set(looked["kernels"]) == {"int8"}
        assert looked["scales"] == looked["channels"]
        assert not {"TRANSPOSE", "EXPAND_DIMS", "DELEGATE"} & set(looked["ops"])
    assert any(entry["accepted"] for entry in entries.values())


@pytest.mark.tflite
def test_the_same_beats_give_the_same_file(python: Path) -> None:
    model = model_of("version 1", "model")
    feeds = feeds_for(model, 20)
    one, other = tflite_of([Job([model], "x.onnx", feeds, feeds)] * 2, python)
    assert one.data == other.data
    assert np.abs(one.logits["int8"] - one.logits["float"]).max() < 0.25 * np.ptp(one.logits["float"])
