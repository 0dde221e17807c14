"""Bundles of version 1 written anew, and a patient more in bundles of each version and form: the same answers."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from support import exported, snapshot, traced_once  # noqa: F401 (a fixture)

from ecgfed.base.errors import BundleError
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.net import Inputs
from ecgfed.device import check_golden, open_bundle
from ecgfed.exports.bundles.export import PatientModel
from ecgfed.exports.bundles.extend import extended_bundle
from ecgfed.exports.bundles.packing import replacing_bundle
from ecgfed.exports.bundles.renew import renewed_bundle
from ecgfed.exports.bundles.weights import global_model

DATA = Path(__file__).parent.parent / "data"
OLD, OLDER = DATA / "version-1" / "bundle", DATA / "version-0.1" / "bundle"


def numbers_of(path: Path) -> dict[str, bytes]:
    return {one.name: numpy_helper.to_array(one).tobytes() for one in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("name", ["new", "new.zip"])
def test_a_bundle_of_version_1_is_written_anew(tmp_path: Path, name: str) -> None:
    before = snapshot(OLD)
    new = renewed_bundle(open_bundle(OLD), tmp_path / name)
    assert snapshot(OLD) == before
    assert new.manifest["schema_version"] == 2
    found = check_golden(new)
    assert found.agrees, str(found)
    old = open_bundle(OLD)
    same = set(old.manifest) - {"schema_version", "files", "digest"}
    assert {field: new.manifest[field] for field in same} == {field: old.manifest[field] for field in same}
    window = np.random.default_rng(1).normal(0, 0.4, (20, 1, 256)).astype(np.float32)
    rr = np.random.default_rng(2).normal(0, 1, (20, 16)).astype(np.float32)
    np.testing.assert_array_equal(new.classifier().logits(window, rr), old.classifier().logits(window, rr))


def test_its_weights_are_the_same_and_its_graphs_say_the_version(tmp_path: Path) -> None:
    renewed_bundle(open_bundle(OLD), tmp_path / "new")
    for name in ("global.onnx", "far.onnx"):
        assert numbers_of(tmp_path / "new" / name) == numbers_of(OLD / name)
        said = {one.key: one.value for one in onnx.load(tmp_path / "new" / name).metadata_props}
        was = {one.key: one.value for one in onnx.load(OLD / name).metadata_props}
        assert said == {**was, "schema_version": "2"}


def test_graphs_that_are_traced_anew_answer_alike(tmp_path: Path) -> None:
    old, new = open_bundle(OLD), renewed_bundle(open_bundle(OLD), tmp_path / "new", trace=True)
    assert check_golden(new).agrees
    window = np.random.default_rng(1).normal(0, 0.4, (20, 1, 256)).astype(np.float32)
    rr = np.random.default_rng(2).normal(0, 1, (20, 16)).astype(np.float32)
    before, after = (one.classifier().logits(window, rr) for one in (old, new))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)
    one, other = old.ood_detector(), new.ood_detector()
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(other.distance(window, 32), one.distance(window, 32), rtol=1e-5)


def test_a_bundle_that_does_not_say_its_training_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="did not say what it was trained on"):
        renewed_bundle(open_bundle(OLDER), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("traced_once")
@pytest.mark.parametrize("which", ["folder to zip", "zip to folder", "version 1"])
def test_a_patient_more_in_every_form(fedavg_run: Path, tmp_path: Path, which: str) -> None:
    """The golden vectors have an answer more; the card is the bundle's own; a bundle of version 1 stays one."""
    source = OLD if which == "version 1" else exported(fedavg_run)
    if which == "zip to folder":
        with replacing_bundle(tmp_path / "source.zip") as folder:
            for name, data in snapshot(source).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        source = tmp_path / "source.zip"
    bundle = open_bundle(source)
    start = global_model(bundle)
    last = sorted(name for name in start.params if name.startswith("head.") and name.endswith(".bias"))[-1]
    params = {**start.params, last: start.params[last] + 1.0}
    draw = torch.Generator().manual_seed(0)
    inputs = Inputs(torch.randn(9, 1, 256, generator=draw), torch.randn(9, 16, generator=draw))
    model = PatientModel("eve", "eve", Pipeline((Stage("model", params, shared=False),)), inputs, None)
    out = tmp_path / ("made.zip" if which == "folder to zip" else "made")
    with extended_bundle(bundle, out, model, start.net, metadata={}):
        pass
    made = open_bundle(out)
    assert made.patients == (*bundle.patients, "eve")
    assert made.manifest["schema_version"] == bundle.manifest["schema_version"]
    if which == "version 1":
        assert "golden" not in made.manifest
        return
    found = check_golden(made)
    assert found.agrees, str(found)
    assert any(stage.name == "labels of eve" for stage in found.stages)
    before, after = (json.loads(one.read("golden.json")) for one in (bundle, made))
    assert set(after["patients"]) == {*before["patients"], "eve"}
    assert {name: after["patients"][name] for name in before["patients"]} == before["patients"]
    assert (after["recordings"], after["global"]) == (before["recordings"], before["global"])
    for field in ("card", "card_facts"):
        assert made.read(made.manifest[field]) == bundle.read(bundle.manifest[field])
