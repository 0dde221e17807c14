"""A bundle's global weights as torch has them, and a bundle with one patient more; strangers' files are refused."""

import hashlib
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from support import change_manifest, copied, exported, manifest_of, snapshot, traced_once  # noqa: F401

import ecgfed as package
from ecgfed.base.errors import BundleError, OptionError
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.net import RR_COUNT, Inputs
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.kernel import Kernel
from ecgfed.core.runs.run import open_run
from ecgfed.device import open_bundle
from ecgfed.exports.bundles.export import PatientModel, export_bundle
from ecgfed.exports.bundles.extend import extended_bundle
from ecgfed.exports.bundles.weights import check_weights, global_model
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.keys import new_key

OLD = Path(__file__).parent.parent / "data" / "version-0.1" / "bundle"


@pytest.fixture(scope="module")
def global_only(fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the global graph alone."""
    run, out = open_run(fedavg_run), tmp_path_factory.mktemp("only") / "bundle"
    export_bundle(run, run.cohort(), run.state(), out, global_only=True)
    return out


def some_inputs(bundle: package.Bundle, count: int = 20) -> Inputs:
    rng, rr = np.random.default_rng(1), None
    if bundle.rr_version:
        rr = torch.from_numpy(rng.normal(0.7, 0.2, (count, RR_COUNT[bundle.rr_version])).astype(np.float32))
    return Inputs(torch.from_numpy(rng.normal(0, 0.5, (count, 1, 256)).astype(np.float32)), rr)


def rehash(bundle: Path, name: str) -> Path:
    """Make the manifest true again of a file that was changed, as a stranger would."""
    data = (bundle / name).read_bytes()
    files = manifest_of(bundle)["files"]
    files[name] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    change_manifest(bundle, files=files)
    return bundle


def test_weights_are_the_runs_own(fedavg_run: Path, global_only: Path) -> None:
    """From the file of weights, and from the graph alone: what the checkpoint holds, to the last bit."""
    server = open_run(fedavg_run).state().server["model"]
    for folder in (exported(fedavg_run), global_only):
        bundle = open_bundle(folder)
        found = global_model(bundle)
        assert set(found.params) == set(server)
        assert all(torch.equal(found.params[name], server[name]) for name in server)
        assert check_weights(bundle, found, some_inputs(bundle)) < 1e-4
    assert not (global_only / "weights").exists()


@pytest.mark.parametrize("folder", [OLD, None], ids=["version 0.1", "shipped"])
def test_bundles_of_every_age_are_gone_on_from(folder: Path | None) -> None:
    bundle = open_bundle(folder or shipped_model())
    found = global_model(bundle)
    by_onnx = {one.name: numpy_helper.to_array(one) for one in onnx.load(bundle.path / "global.onnx").graph.initializer}
    for name, value in found.params.items():
        np.testing.assert_array_equal(value.numpy(), by_onnx[name].reshape(value.shape))
    assert check_weights(bundle, found, some_inputs(bundle)) < 1e-4


def test_an_ensemble_has_no_weights_to_begin_from(local_run: Path) -> None:
    with pytest.raises(BundleError, match=r"ensemble.*one global model.*leave it out for the model in the package"):
        global_model(open_bundle(exported(local_run)))


def change_weight(path: Path, change: Any) -> None:
    weights = load_file(path)
    change(weights)
    save_file(weights, path)


BIAS = "head.out.bias"
#: The net of the model in the package.
CONTEXT = {"classes": 5, "architecture": "context", "rr": True, "rr_version": 3}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w.pop(BIAS), "lacks head.out.bias"),
        (lambda w: w.update({BIAS: w[BIAS][:-1].clone()}), "holds head.out.bias as float32"),
        (lambda w: w.update({BIAS: w[BIAS].double()}), "float64"),
        (lambda w: w.update({BIAS: w[BIAS] * torch.nan}), "not finite"),
        (lambda w: w.update({BIAS: w[BIAS] + torch.inf}), "not finite"),
        (lambda w: w.update({"head.more": torch.zeros(3)}), "'head.more', which its net does not have"),
        (lambda w: w.update({"a": torch.zeros(1), "a/b": torch.zeros(1)}), "which its net has not|a name twice"),
    ],
)
def test_weights_of_a_stranger_are_refused(fedavg_run: Path, tmp_path: Path, change: Any, said: str) -> None:
    folder = copied(exported(fedavg_run), tmp_path / "b")
    change_weight(folder / "weights" / "global.safetensors", change)
    with pytest.raises(BundleError, match=said) as refused:
        global_model(open_bundle(rehash(folder, "weights/global.safetensors")))
    assert "\n" not in refused.value.line


def test_a_file_that_is_no_weights_is_refused(fedavg_run: Path, tmp_path: Path) -> None:
    folder = copied(exported(fedavg_run), tmp_path / "b")
    file = folder / "weights" / "global.safetensors"
    for data in (b"", b"\xff" * 400, (1 << 60).to_bytes(8, "little") + b"{}", b"\x80\x04."):
        file.write_bytes(data)
        with pytest.raises(BundleError, match="no safetensors file"):
            global_model(open_bundle(rehash(folder, "weights/global.safetensors")))


def test_other_weights_than_the_graphs_are_noticed(fedavg_run: Path, tmp_path: Path) -> None:
    folder = copied(exported(fedavg_run), tmp_path / "b")
    change_weight(folder / "weights" / "global.safetensors", lambda w: w.update({BIAS: w[BIAS] + 1e-3}))
    bundle = open_bundle(rehash(folder, "weights/global.safetensors"))
    with pytest.raises(BundleError, match="weights answer otherwise than its graphs"):
        check_weights(bundle, global_model(bundle), some_inputs(bundle))


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (None, "says no net"),
        ([], "says no net"),
        ({"classes": 5, "code": "x"}, "says no net"),
        ({"classes": "5"}, "says no net"),
        ({**CONTEXT, "width": 1e300}, "says no net"),
        ({"classes": 10**9}, "says no net"),
        ({**CONTEXT, "classes": 4}, "says a net for ecg with 4 classes"),
        ({"classes": 5, "rr": True}, "RR features 1"),
        ({"classes": 5, "rr": True, "rr_version": 2}, "RR features 2"),
        ({"classes": 5, "architecture": "resnet30"}, "says a net for image"),
        ({**CONTEXT, "width": 2.0}, "as its net has it"),
        ({**CONTEXT, "norm": "batch"}, "lacks extractor"),
    ],
)
def test_a_net_that_is_not_the_graphs_is_refused(tmp_path: Path, net: Any, said: str) -> None:
    folder = Path(shutil.copytree(shipped_model(), tmp_path / "b"))
    manifest = manifest_of(folder)
    change_manifest(folder, net={} if net is None else net)
    assert manifest["net"]["classes"] == 5
    with pytest.raises(BundleError, match=said) as refused:
        global_model(open_bundle(folder))
    assert "\n" not in refused.value.line


def patient_model(bundle: package.Bundle, name: str = "eve", shift: float = 0.5) -> tuple[PatientModel, Any]:
    start = global_model(bundle)
    params = {**start.params, BIAS: start.params[BIAS] + shift * torch.arange(len(bundle.classes))}
    chain = Pipeline((Stage("model", params, shared=False),))
    return PatientModel(name, name, chain, some_inputs(bundle), None, bundle.classes[:2]), start


def extend(bundle: package.Bundle, out: Path, model: PatientModel, net: Any, **more: Any) -> package.Bundle:
    with extended_bundle(bundle, out, model, net, metadata={"personal": "by hand"}, **more):
        pass
    return open_bundle(out)


@pytest.mark.parametrize("which", ["fedavg", "old", "shipped"])
def test_one_patient_more_and_all_else_as_it_was(fedavg_run: Path, tmp_path: Path, which: str) -> None:
    folder = {"fedavg": exported(fedavg_run), "old": OLD, "shipped": shipped_model()}[which]
    bundle = open_bundle(folder)
    model, start = patient_model(bundle)
    made = extend(bundle, tmp_path / "new", model, start.net)
    assert made.patients == (*bundle.patients, "eve")
    before, after = bundle.manifest["files"], made.manifest["files"]
    anew = bundle.manifest.get("golden")  # every patient's model answers the golden vectors
    kept = {name: about for name, about in before.items() if name != anew}
    assert {name: about for name, about in after.items() if name in kept} == kept
    assert set(after) - set(before) == {"patients/eve.onnx"}
    for name in kept:
        assert (made.path / name).read_bytes() == (folder / name).read_bytes()
    same = set(bundle.manifest) - {"files", "patients", "digest"}
    new, old = (deepcopy({name: one.manifest[name] for name in same}) for one in (made, bundle))
    for manifest in (new, old):  # the detector in words, as it is where the patient was added
        manifest.get("preprocessing", {}).get("detector", {}).pop("rule", None)
    assert new == old
    own, everyone = (
        {one.key: one.value for one in onnx.load(made.path / name).metadata_props}
        for name in ("patients/eve.onnx", "global.onnx")
    )
    assert own.pop("client") == own.pop("patient") == "eve"
    assert own == everyone
    inputs = some_inputs(bundle)
    rr = None if inputs.rr is None else inputs.rr.numpy()
    with torch.inference_mode():
        by_torch = start.net.logits(model.chain.stages[0].params, inputs).numpy()
    np.testing.assert_allclose(made.classifier("eve").logits(inputs.examples.numpy(), rr), by_torch, atol=1e-4)
    entry = made.manifest["patients"]["eve"]
    assert (entry["personal"], entry["classes"]) == ("by hand", list(bundle.classes[:2]))
    assert entry["parity"]["max_logit_difference"] <= 1e-4
    if "certainty" in bundle.manifest:
        everyone_said = bundle.manifest["global"]["certainty"]
        assert {k: entry["certainty"][k] for k in ("temperature", "threshold", "beats")} == {
            **{k: everyone_said[k] for k in ("temperature", "threshold")},
            "beats": 0,
        }
    else:
        assert "certainty" not in entry


def test_a_model_of_several_parts_is_the_patients_own_whole(tmp_path: Path) -> None:
    """Shared parts, too, are written under the patient's name: the bundle's own may be of another run."""
    bundle = open_bundle(shipped_model())
    start, inputs = global_model(bundle), some_inputs(bundle, 40)
    own = PatientBeats(Batch(inputs, torch.arange(40) % 2), None, torch.full((5,), 0.2))
    chain = Kernel().fit(start.net, start.params, own)
    made = extend(bundle, tmp_path / "new", PatientModel("eve", "eve", chain, inputs, None), start.net)
    assert made.manifest["patients"]["eve"]["chain"] == ["patients/eve.describer.onnx", "patients/eve.kernel.onnx"]
    assert inputs.rr is not None
    found = made.classifier("eve").logits(inputs.examples.numpy(), inputs.rr.numpy())
    assert (found.argmax(1) == np.arange(40) % 2).mean() > 0.9


def test_a_name_that_is_taken_is_refused_or_replaced(fedavg_run: Path, tmp_path: Path) -> None:
    bundle = open_bundle(exported(fedavg_run))
    model, start = patient_model(bundle, "p2")
    with pytest.raises(OptionError, match=r"has a patient p2.*name another, or overwrite=True"):
        extend(bundle, tmp_path / "new", model, start.net)
    assert not (tmp_path / "new").exists()
    made = extend(bundle, tmp_path / "new", model, start.net, overwrite=True)
    assert made.patients == bundle.patients
    assert made.manifest["patients"]["p2"]["personal"] == "by hand"
    own = copied(made.path, tmp_path / "own")  # a bundle may take its own place
    again, start = patient_model(open_bundle(own), "p2", shift=-1.0)
    before = (own / "patients" / "p2.onnx").read_bytes()
    assert extend(open_bundle(own), own, again, start.net, overwrite=True).patients == made.patients
    assert (own / "patients" / "p2.onnx").read_bytes() != before


def interrupted(bundle: package.Bundle, out: Path, model: PatientModel, net: Any) -> None:
    with extended_bundle(bundle, out, model, net, metadata={}) as made:
        assert made.patients == ("eve",)
        raise ZeroDivisionError


def test_nothing_is_left_where_the_work_fails(tmp_path: Path) -> None:
    bundle = open_bundle(shipped_model())
    model, start = patient_model(bundle)
    before = snapshot(shipped_model())
    with pytest.raises(OptionError, match="is the model in the package"):
        extend(bundle, shipped_model(), model, start.net, overwrite=True)
    with pytest.raises(ZeroDivisionError):
        interrupted(bundle, tmp_path / "new", model, start.net)
    assert list(tmp_path.iterdir()) == []
    wild = {**start.params, BIAS: start.params[BIAS] * torch.nan}
    broken = PatientModel("eve", "eve", Pipeline((Stage("model", wild, shared=False),)), some_inputs(bundle), None)
    with pytest.raises(BundleError, match="not finite"):
        extend(bundle, tmp_path / "new", broken, start.net)
    assert list(tmp_path.iterdir()) == []
    assert snapshot(shipped_model()) == before


def test_it_is_signed_anew_or_not_at_all(tmp_path: Path) -> None:
    pair = new_key(tmp_path / "mine")
    folder = Path(shutil.copytree(shipped_model(), tmp_path / "b"))
    for name, data in Signer(pair.private).files((folder / "manifest.json").read_bytes()).items():
        (folder / name).write_bytes(data)
    bundle = open_bundle(folder, trusted=pair.public)
    model, start = patient_model(bundle)
    assert extend(bundle, tmp_path / "plain", model, start.net).signature is None
    extend(bundle, tmp_path / "signed", model, start.net, signer=Signer(pair.private))
    assert open_bundle(tmp_path / "signed", trusted=pair.public).signature is not None
