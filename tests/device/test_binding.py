"""A bundle is bound together: whatever one edits of its manifest or swaps of its graphs is refused in one line."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from support import Command, assert_refused, change_manifest, copied, exported, manifest_of

from ecgfed.base.errors import BundleError
from ecgfed.device import open_bundle
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.exports.device.graph_metadata import class_table

OLD = Path(__file__).parent.parent / "data" / "version-0.1"
Manifest = dict[str, Any]
Edit = Callable[[Manifest], object]


@pytest.fixture
def bundle(local_run: Path, tmp_path: Path) -> Path:
    return copied(exported(local_run), tmp_path / "bundle")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A bundle of version 0.1: no digest, no run; shared head, an extractor a patient."""
    return copied(OLD / "bundle", tmp_path / "old")


def _edited(bundle: Path, edit: Edit) -> None:
    manifest = manifest_of(bundle)
    edit(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def _reversed_classes(manifest: Manifest) -> None:
    manifest["classes"].reverse()
    manifest["label_map"]["classes"].reverse()


def _swapped(first: str, second: str) -> Edit:
    def swap(manifest: Manifest) -> None:
        one, other = manifest["patients"][first], manifest["patients"][second]
        one["chain"], other["chain"] = other["chain"], one["chain"]

    return swap


def _renamed(manifest: Manifest) -> None:
    patients = manifest["patients"]
    patients["somebody"] = patients.pop("demo01")
    patients["somebody"]["patient"] = "somebody"


def _set(*path: str, to: Any) -> Edit:
    def change(manifest: Manifest) -> None:
        inner = manifest
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = to

    return change


#: What a person may edit by hand, and what names it: of the old bundle, whose manifest has no digest.
EDITS: dict[str, tuple[Edit, str]] = {
    "class order": (_reversed_classes, r"onnx: says classes \["),
    "class order of the list alone": (lambda m: m["classes"].reverse(), r"manifest\.json: classes in another order"),
    "a class renamed": (_set("label_map", "classes", to=["A", "L", "R", "V"]), r"manifest\.json"),
    "symbols": (lambda m: m["label_map"]["symbols"].update(N="V", V="N"), r"onnx: says symbols"),
    "two patients swapped": (_swapped("demo01", "demo02"), r"onnx: says (patient|client) \w+ of itself"),
    "a patient renamed": (_renamed, r"onnx: says (patient|client) \w+ of itself, its manifest somebody"),
    "a patient as everybody": (
        lambda m: m["global"].update(chain=m["patients"]["demo01"]["chain"]),
        r"onnx: says (patient|client) \w+ of itself, its manifest the global model",
    ),
    "fs": (_set("fs_hz", to=250), r"manifest\.json: fs_hz 250; expected 360\.0"),
    "fs is a truth value": (_set("fs_hz", to=True), r"manifest\.json: fs_hz True"),
    "filter none": (_set("filter", to="none"), r"manifest\.json: filter 'none'; expected 'FIR band-pass"),
    "window": (_set("window_samples", to=128), r"manifest\.json: window_samples 128; expected 256"),
    "R peak's place": (_set("r_index", to=99), r"manifest\.json: r_index 99; expected 100"),
    "units": (_set("units", to="uV"), r"manifest\.json: units 'uV'; expected 'mV'"),
    "normalisation": (_set("normalisation", to="none"), r"manifest\.json: normalisation 'none'"),
    "rr version": (_set("rr_features", to={"version": 2}), r"manifest\.json: rr_features"),
    "lead": (_set("lead", to="V1"), r"onnx: says lead"),
    "method": (_set("method", to="fedavg"), r"onnx: says method"),
    "intended use": (_set("intended_use", to="Diagnosis."), r"onnx: says intended_use"),
    "cohort": (_set("cohort", "fingerprint", to="0" * 64), r"onnx: says cohort_fingerprint"),
    "role": (_set("files", "head.onnx", "role", to="model"), r"manifest\.json: a chain of \['extractor', 'model'\]"),
    "chain turned": (
        lambda m: m["patients"]["demo01"]["chain"].reverse(),
        r"manifest\.json: a chain of \['head', 'extractor'\]",
    ),
    "no rr": (lambda m: m["inputs"].pop("rr"), r"takes rr and window, not window"),
    "window of another shape": (_set("inputs", "window", to=[1, 255]), r"manifest\.json: inputs"),
    "image": (_set("modality", to="image"), r"manifest\.json"),
    "modality": (_set("modality", to="sound"), r"manifest\.json: modality 'sound'"),
    "size": (_set("files", "head.onnx", "bytes", to=3), r"head\.onnx: has 4,869 bytes; expected 3"),
    "digest": (_set("digest", to="0" * 64), r"manifest\.json: was changed"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_manifest_of_an_old_bundle_is_refused(old: Path, name: str) -> None:
    edit, match = EDITS[name]
    assert open_bundle(old).classifier("demo01")
    _edited(old, edit)
    with pytest.raises(BundleError, match=match) as caught:
        open_bundle(old).classifier()
    assert "\n" not in caught.value.line


@pytest.mark.parametrize(
    "name", sorted(set(EDITS) - {"no rr", "rr version", "role", "chain turned", "size", "digest", "lead"})
)
def test_an_edited_manifest_whose_digest_was_made_anew_is_refused_too(bundle: Path, name: str) -> None:
    """Somebody who knows how a digest is made; graphs and runtime know better."""
    edit, match = EDITS[name]
    manifest = json.loads(json.dumps(manifest_of(bundle)).replace('"p1"', '"demo01"').replace('"p2"', '"demo02"'))
    edit(manifest)
    manifest = json.loads(json.dumps(manifest).replace('"demo01"', '"p1"').replace('"demo02"', '"p2"'))
    with contextlib.suppress(KeyError):  # a class renamed in one place alone has no symbols
        manifest["class_table"] = class_table(LabelMap.from_json(manifest["label_map"]))
    change_manifest(bundle, **manifest)
    with pytest.raises(BundleError, match=match.replace("demo01", "p1").replace("demo02", "p2")):
        open_bundle(bundle)


@pytest.mark.parametrize("field", ["scores", "parity", "settings", "rounds", "tool_version", "net"])
def test_an_edit_of_any_field_is_seen_by_the_digest(bundle: Path, field: str) -> None:
    _edited(bundle, _set(field, to={"anything": 1}))
    with pytest.raises(BundleError, match=r"manifest\.json: was changed \(its digest"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    ("fields", "match"),
    [(("digest",), "has no digest"), (("digest", "run"), "has no digest"), (("run",), "was changed")],
)
def test_what_binds_cannot_be_taken_off(bundle: Path, fields: tuple[str, ...], match: str) -> None:
    _edited(bundle, lambda manifest: [manifest.pop(name) for name in fields])
    with pytest.raises(BundleError, match=match):
        open_bundle(bundle)


def test_blanks_and_the_order_of_keys_do_not_matter(bundle: Path) -> None:
    manifest = manifest_of(bundle)
    (bundle / "manifest.json").write_text(json.dumps(dict(reversed(manifest.items())), indent=7))
    assert open_bundle(bundle).patients == ("p1", "p2", "p3", "p4")


def _put(bundle: Path, name: str, data: bytes) -> None:
    """Put a file into a bundle whose manifest is right about it in every way."""
    (bundle / name).write_bytes(data)
    files = manifest_of(bundle)["files"]
    files[name] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    change_manifest(bundle, files=files)


def _said(data: bytes, **changes: str | None) -> bytes:
    """Change a graph's metadata; None takes an entry out."""
    model = onnx.load_from_string(data)
    kept = {entry.key: entry.value for entry in model.metadata_props} | changes
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {name: value for name, value in kept.items() if value is not None})
    made: bytes = model.SerializeToString()
    return made


def test_a_patients_graph_under_anothers_name_is_refused(bundle: Path) -> None:
    _put(bundle, "patients/p1.onnx", (bundle / "patients/p2.onnx").read_bytes())
    with pytest.raises(BundleError, match=r"p1\.onnx: says client p2 of itself, its manifest p1"):
        open_bundle(bundle)


def test_two_records_of_one_patient_are_not_mixed_up(bundle: Path) -> None:
    """Patient 201 of MIT-BIH is two clients, 201 and 202: the patient's name alone tells nothing."""
    for name in ("p1", "p2"):
        file = f"patients/{name}.onnx"
        _put(bundle, file, _said((bundle / file).read_bytes(), patient="both"))
    patients = manifest_of(bundle)["patients"]
    patients["p1"]["patient"] = patients["p2"]["patient"] = "both"
    change_manifest(bundle, patients=patients)
    assert open_bundle(bundle)
    patients["p1"]["chain"], patients["p2"]["chain"] = patients["p2"]["chain"], patients["p1"]["chain"]
    change_manifest(bundle, patients=patients)
    with pytest.raises(BundleError, match="says client"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"run": json.dumps("0" * 64)}, "says run"),
        ({"run": None}, "does not say which run it is of"),
        ({"role": "head"}, "says role head of itself, its manifest model"),
        ({"fs_hz": "250.0"}, r"says fs_hz 250\.0"),
        ({"fs_hz": "NaN"}, "says fs_hz NaN"),
        ({"fs_hz": "{"}, "no JSON"),
        ({"classes": "[" * 100_000}, "no JSON"),
        ({"samples_before_r": "99"}, "says samples_before_r 99"),
        ({"samples_after_r": "1"}, "says samples_after_r 1"),
        ({"rr_features": "{}"}, "says rr_features"),
    ],
)
def test_a_graph_that_says_otherwise_is_refused(bundle: Path, changes: dict[str, str | None], match: str) -> None:
    _put(bundle, "patients/p3.onnx", _said((bundle / "patients/p3.onnx").read_bytes(), **changes))
    with pytest.raises(BundleError, match=rf"p3\.onnx: .*{match}"):
        open_bundle(bundle)


def test_a_file_changed_after_the_bundle_was_opened_is_not_run(bundle: Path) -> None:
    opened = open_bundle(bundle)
    shutil.copy(bundle / "patients" / "p2.onnx", bundle / "patients" / "p1.onnx")
    with pytest.raises(BundleError, match=r"p1\.onnx: was changed"):
        opened.classifier("p1")


@pytest.mark.parametrize("name", ["manifest.json", "global.onnx", "patients", "patients/p1.onnx"])
def test_a_link_out_of_the_bundle_is_refused(bundle: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    shutil.move(bundle / name, outside)
    (bundle / name).symlink_to(outside)
    with pytest.raises(BundleError, match="is a link out of its folder"):
        open_bundle(bundle)


def test_a_bundle_behind_a_link_opens(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(bundle)
    assert open_bundle(tmp_path / "here").classifier("p1")


@pytest.mark.parametrize("name", ["manifest.json", "patients/p1.onnx"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    os.mkfifo(bundle / name)
    with pytest.raises(BundleError, match=name):
        open_bundle(bundle)


@pytest.mark.parametrize("name", ["../../x/y", "a/b", "", ".", "a\x1b[2Jb", "x" * 300])
def test_a_patient_whose_id_is_no_name_is_refused(bundle: Path, name: str) -> None:
    patients = manifest_of(bundle)["patients"]
    patients[name] = patients.pop("p1")
    change_manifest(bundle, patients=patients)
    with pytest.raises(BundleError, match=r"manifest\.json: patient .*a valid file name"):
        open_bundle(bundle)


@pytest.mark.parametrize("name", ["class order", "two patients swapped", "fs", "filter none", "intended use"])
def test_predict_refuses_it_in_one_line_and_writes_nothing(
    ecgfed: Command, old: Path, tmp_path: Path, name: str
) -> None:
    _edited(old, EDITS[name][0])
    said = ecgfed("predict", old, OLD / "recording" / "demo01", "--patient", "demo01", "--out", tmp_path / "out")
    assert_refused(said, ".onnx" if "onnx" in EDITS[name][1] else "manifest.json")
    assert not (tmp_path / "out").exists()
