"""What a manifest says of preprocessing: the code's own numbers, checked by hand; a bundle that says otherwise."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import change_manifest, copied, exported, manifest_of

from ecgfed.base.errors import BundleError
from ecgfed.device import open_bundle
from ecgfed.exports.device.preprocessing import difference, preprocessing_metadata
from ecgfed.exports.device.shipped import MODEL

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return copied(MODEL, tmp_path / "bundle")


def _said(bundle: Path) -> dict[str, Any]:
    said: dict[str, Any] = manifest_of(bundle)["preprocessing"]
    return said


def test_the_taps_are_those_of_scipy() -> None:
    from scipy.signal import firwin

    said = preprocessing_metadata(2)["filter"]
    half = said["taps"]["first_half_and_middle"]
    taps = np.array([*half, *half[-2::-1]])
    assert len(taps) == said["taps"]["count"] == 1441
    np.testing.assert_allclose(taps, firwin(1441, [0.5, 40.0], pass_zero=False, fs=360.0), rtol=0, atol=1e-15)
    assert said["taps"]["delay_samples"] == 720 == said["delay_s"] * 360


def test_features_are_those_that_come_out_in_their_order() -> None:
    from ecgfed.domain.beats.rr import RR_NAMES

    for version, names in RR_NAMES.items():
        told = preprocessing_metadata(version)["rr"]
        ends = np.cumsum([one.get("count", 1) for one in told["features"]])  # an entry stands for so many
        assert [one["name"] for one in told["features"]] == [names[i] for i in (0, *ends[:-1])]
        assert ends[-1] == len(names)
        assert all(one["unit"] and one["is"] for one in told["features"])
    assert preprocessing_metadata(0)["rr"] is None


def test_the_detectors_weights_are_found_by_their_digest() -> None:
    weights = preprocessing_metadata(1)["detector"]["weights"]
    assert weights["file"] == "ecgfed/signal/qrs_weights.npz"  # the name in manifests since 0.1
    data = (ROOT / "ecgfed" / "domain" / "signal" / "qrs_weights.npz").read_bytes()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (weights["sha256"], weights["bytes"])


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("filter", "band_hz"), [0.5, 35.0]),
        (("filter", "taps", "first_half_and_middle", 3), 0.25),
        (("filter", "taps", "first_half_and_middle"), [0.0]),
        (("window", "r_index"), 99),
        (("window", "padding_mv"), True),
        (("resampling", "kaiser_beta"), 8.6),
        (("gaps", "no_signal", "flat_mv"), 0.02),
        (("rr", "parameters", "sinus_quantile"), 0.5),
        (("rr", "clip"), None),
        (("rr", "features", 2, "name"), "previous_over_next"),
        (("rr", "version"), 1),
        (("order",), []),
        (("version",), 2),
        (("unheard_of",), 1),
    ],
)
def test_a_bundle_that_asks_for_another_preprocessing_is_refused(bundle: Path, path: tuple[Any, ...], to: Any) -> None:
    said = inner = _said(bundle)
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    change_manifest(bundle, preprocessing=said)
    with pytest.raises(BundleError, match=r"manifest\.json: preprocessing\.\w+") as caught:
        open_bundle(bundle)
    assert "\n" not in caught.value.line
    assert "all this ecgfed runs" in caught.value.line


@pytest.mark.parametrize("name", [*preprocessing_metadata(2), "standardisation"])
def test_nothing_of_it_may_be_missing(bundle: Path, name: str) -> None:
    said = _said(bundle)
    del said[name]
    change_manifest(bundle, preprocessing=said)
    with pytest.raises(BundleError, match=r"manifest\.json: "):
        open_bundle(bundle)


def test_another_machines_rounding_is_let_through(bundle: Path) -> None:
    """A cosine may differ in its last bit; a newer detector opens the bundles of an older one."""
    said = _said(bundle)
    taps = said["filter"]["taps"]["first_half_and_middle"]
    said["filter"]["taps"]["first_half_and_middle"] = [float(np.nextafter(tap, 1)) for tap in taps]
    said["detector"]["weights"]["sha256"] = "0" * 64
    change_manifest(bundle, preprocessing=said)
    assert open_bundle(bundle).classifier()


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({"a": 1}, {"a": 1.0}, None),
        ({"a": 1}, {"a": True}, "x.a"),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, "x.a"),
        ({"a": {"b": "c"}}, {"a": {"b": "d"}}, "x.a.b"),
        ({"a": 1}, {"a": 1, "b": None}, "x.b"),
        ({"a": 1, "b": None}, {"a": 1}, "x.b"),
        ({"a": None}, {"a": 0}, "x.a"),
        ({"a": 1}, [1], "x"),
        ([[0.1]], [[0.1 + 1e-12]], None),
        ([[0.1]], [[0.1 + 1e-6]], "x[0][0]"),
    ],
)
def test_where_two_values_differ(one: Any, other: Any, where: str | None) -> None:
    found = difference(one, other, "x")
    assert (None if found is None else found[0]) == where


def test_a_graph_that_is_described_otherwise_is_refused(fedavg_run: Path, tmp_path: Path) -> None:
    bundle = copied(exported(fedavg_run), tmp_path / "bundle")
    files = manifest_of(bundle)["files"]
    about = files["global.onnx"]
    graphs = [{**about["graph"], **change} for change in ({"opset": 17}, {"ir_version": 3}, {"inputs": []})]
    for said in (*graphs, None):
        change_manifest(bundle, files={**files, "global.onnx": {**about, "graph": said}})
        with pytest.raises(BundleError, match=r"global\.onnx: says graph") as caught:
            open_bundle(bundle).classifier()
        assert "\n" not in caught.value.line


def test_what_a_graph_is_made_of_is_what_onnx_says(fedavg_run: Path) -> None:
    import onnx

    bundle = exported(fedavg_run)
    files = manifest_of(bundle)["files"]
    for name in (name for name in files if name.endswith(".onnx")):
        model, said = onnx.load(bundle / name), files[name]["graph"]
        assert (said["ir_version"], said["opset"]) == (model.ir_version, model.opset_import[0].version)
        ops = [node.op_type for node in model.graph.node]
        assert files[name]["ops"] == {op: ops.count(op) for op in set(ops)}
        for told, there in zip(
            [*said["inputs"], *said["outputs"]], [*model.graph.input, *model.graph.output], strict=True
        ):
            dims = there.type.tensor_type.shape.dim
            assert told["name"] == there.name
            assert told["shape"] == [d.dim_value if d.HasField("dim_value") else None for d in dims]
