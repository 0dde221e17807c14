"""The published schema of a manifest: every kind of bundle keeps to it, spoiled ones do not (by jsonschema)."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import cifar_source as cs
import numpy as np
import pytest
from support import Command, exported, manifest_of, traced_once  # noqa: F401 (a fixture)

import ecgfed as front
from ecgfed.device import check_golden, open_bundle
from ecgfed.domain.cohort import cifar_files
from ecgfed.exports.device.shipped import MODEL

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is of the extra 'dev'")
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(files("ecgfed.device").joinpath("manifest-2.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(validator: Any, manifest: Manifest) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message:.200}" for error in validator.iter_errors(manifest)]


def test_the_model_in_the_package_keeps_to_it(validator: Any) -> None:
    assert faults(validator, manifest_of(MODEL)) == []


@pytest.mark.usefixtures("traced_once")
def test_bundles_of_every_kind_keep_to_it(validator: Any, fedavg_run: Path, local_run: Path, tmp_path: Path) -> None:
    """Models whole and in parts, an ensemble, personal answers of other roles."""
    made = [exported(fedavg_run), exported(local_run)]
    made.append(front.export(fedavg_run, tmp_path / "gated", personal="gated").path)
    for bundle in made:
        assert faults(validator, manifest_of(bundle)) == [], bundle


def test_a_bundle_of_images_keeps_to_it(
    validator: Any, ecgfed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has golden images, and no word of leads."""
    monkeypatch.setattr(cifar_files, "ROWS", cs.ROWS)
    cohort = cs.small_cohort(tmp_path / "cohort", clients=2)
    small = ("--net", "convnet3", "--width", 0.125, "--rounds", 1, "--method", "fedper", "--quiet")
    assert ecgfed("train", cohort, "--out", tmp_path / "run", *small).code == 0
    said = ecgfed("export", tmp_path / "run", "--out", tmp_path / "bundle", "--quiet")
    assert said.code == 0, said.err
    assert faults(validator, manifest_of(tmp_path / "bundle")) == []
    bundle = open_bundle(tmp_path / "bundle")
    found = check_golden(bundle)
    assert found.agrees, str(found)
    assert len(found.stages) == 3 * (1 + len(bundle.patients))
    golden = json.loads(bundle.read("golden.json"))
    assert np.array(golden["images"]).shape == (2, 3, 32, 32)
    logits = bundle.classifier().image_logits(np.array(golden["images"], np.uint8))
    np.testing.assert_allclose(golden["global"]["float"]["logits"], logits, atol=1e-5)
    assert "Any decision about a person" in bundle.read("CARD.md").decode()


def _drop(*path: Any) -> Callable[[Manifest], object]:
    def change(manifest: Manifest) -> None:
        inner = manifest
        for name in path[:-1]:
            inner = inner[name]
        del inner[path[-1]]

    return change


def _set(*path: Any, to: Any) -> Callable[[Manifest], object]:
    def change(manifest: Manifest) -> None:
        inner = manifest
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = to

    return change


SPOILED: dict[str, Callable[[Manifest], object]] = {
    **{f"no {name}": _drop(name) for name in ("digest", "run", "files", "preprocessing", "class_table", "leads")},
    "no golden vectors": _drop("golden"),
    "another version": _set("schema_version", to=1),
    "digest of another length": _set("digest", to="0" * 63),
    "a class without a code": _drop("class_table", 0, "code"),
    "an AAMI group that is none": _set("class_table", 0, "aami", to="X"),
    "a file outside": _set("files", "../x.onnx", to={"role": "model", "sha256": "0" * 64, "bytes": 1}),
    "a file of no size": _drop("files", "global.onnx", "bytes"),
    "a graph without an opset": _drop("files", "global.onnx", "graph", "opset"),
    "an empty chain": _set("global", "chain", to=[]),
    "a chain that is text": _set("global", "chain", to="global.onnx"),
    "a negative temperature": _set("global", "certainty", "temperature", to=-1),
    "taps that are text": _set("preprocessing", "filter", "taps", "first_half_and_middle", to=["0"]),
    "no taps": _drop("preprocessing", "filter", "taps"),
    "no order of RR": _drop("preprocessing", "rr", "features"),
    "RR of a version to come": _set("preprocessing", "rr", "version", to=4),
    "RR of too few": lambda m: m["preprocessing"]["rr"]["features"].pop(),
    "a detector without a digest": _drop("preprocessing", "detector", "weights", "sha256"),
    "no standardisation": _drop("preprocessing", "standardisation"),
    "something of its own in preprocessing": _set("preprocessing", "extra", to=1),
    "another window": _set("window_samples", to=512),
    "inputs of an image": _set("inputs", to={"image": [3, 32, 32]}),
    "accepted int8 without a chain": _set("global", "int8", to={"accepted": True, "macro_f1": 0.9}),
    "far without a threshold": _drop("certainty", "far", "threshold"),
    "counts that are no numbers": _set("trained_on", "class_counts", "N", to="many"),
    "patients in a list": _set("patients", to=[]),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_manifest_does_not(validator: Any, name: str) -> None:
    manifest = manifest_of(MODEL)
    SPOILED[name](manifest)
    assert faults(validator, manifest)


def test_int8_chains_keep_to_it(validator: Any) -> None:
    manifest = manifest_of(MODEL)
    judged = {"macro_f1_float": 0.9, "macro_f1": 0.89, "agreement": 0.998, "accepted": True}
    manifest["global"]["int8"] = {"chain": ["int8/global.onnx"], **judged, "bytes": 60_000}
    assert faults(validator, manifest) == []
    manifest["global"]["int8"] = {"macro_f1_float": 0.9, "macro_f1": 0.5, "accepted": False}
    assert faults(validator, manifest) == []


def test_who_opens_bundles_needs_no_jsonschema() -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['jsonschema'] = None\n"
        "from ecgfed.device import open_bundle; from ecgfed.exports.device.shipped import MODEL\n"
        "open_bundle(MODEL).classifier()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
