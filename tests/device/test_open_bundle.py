"""Opening a bundle: every file as its manifest says, or one line about what is wrong."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import change_json, change_manifest, copied, exported, manifest_of

from ecgfed.base.errors import BundleError
from ecgfed.device import open_bundle


@pytest.fixture
def bundle(local_run: Path, tmp_path: Path) -> Path:
    """A copy of the Local bundle, to be spoilt."""
    return copied(exported(local_run), tmp_path / "bundle")


def test_what_a_bundle_says_of_itself(bundle: Path, cohort_path: Path) -> None:
    cohort = json.loads((cohort_path / "cohort.json").read_text())
    opened = open_bundle(bundle)
    assert list(opened.classes) == cohort["classes"]
    assert opened.labels.symbols == cohort["label_map"]["symbols"]
    assert opened.leads == ("MLII",)
    assert opened.patients == ("p1", "p2", "p3", "p4")


def test_a_bundle_can_be_moved(bundle: Path, tmp_path: Path) -> None:
    shutil.move(bundle, tmp_path / "elsewhere")
    assert open_bundle(str(tmp_path / "elsewhere")).classifier("p3").classes[0] == "N"


@pytest.mark.parametrize("name", ["global.onnx", "patients/p3.onnx"])
def test_a_changed_file_is_refused(bundle: Path, name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    with pytest.raises(BundleError, match=f"{name}: was changed .*SHA-256"):
        open_bundle(bundle)
    assert open_bundle(bundle, verify=False).path == bundle


@pytest.mark.parametrize("verify", [True, False])
def test_a_missing_file_is_refused(bundle: Path, verify: bool) -> None:
    (bundle / "patients" / "p2.onnx").unlink()
    with pytest.raises(BundleError, match=r"patients/p2\.onnx: does not exist"):
        open_bundle(bundle, verify=verify)


def test_a_changed_weights_file_is_refused(fedavg_run: Path, tmp_path: Path) -> None:
    bundle = copied(exported(fedavg_run), tmp_path / "bundle")
    with (bundle / "weights" / "global.safetensors").open("ab") as stream:
        stream.write(b"\0")
    with pytest.raises(BundleError, match=r"weights/global\.safetensors: was changed"):
        open_bundle(bundle)


@pytest.mark.parametrize("version", [0, 3, "1", None])
def test_another_schema_version_is_refused(bundle: Path, version: Any) -> None:
    change_json(bundle / "manifest.json", schema_version=version)
    with pytest.raises(BundleError, match=f"schema version {version}; expected 1 or 2; run 'ecgfed export' again"):
        open_bundle(bundle)


def test_an_unknown_patient_is_refused_with_those_there_are(bundle: Path) -> None:
    with pytest.raises(BundleError, match=r"no patient 'p9'; expected one of p1, p2, p3, p4"):
        open_bundle(bundle).classifier("p9")


@pytest.mark.parametrize("place", ["../outside.onnx", "patients/../../outside.onnx", "ABSOLUTE"])
def test_a_manifest_that_names_files_outside_is_refused(bundle: Path, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside.onnx"
    shutil.copy(bundle / "global.onnx", outside)
    place = str(outside) if place == "ABSOLUTE" else place
    manifest = manifest_of(bundle)
    manifest["files"][place] = manifest["files"]["global.onnx"]
    manifest["global"]["chain"] = [place]
    change_manifest(bundle, **manifest)
    with pytest.raises(BundleError, match="names files that are not the bundle's"):
        open_bundle(bundle)


@pytest.mark.parametrize("chain", [["unlisted.onnx"], [], "global.onnx", [None], None, 3])
def test_a_chain_of_files_that_are_not_listed_is_refused(bundle: Path, chain: Any) -> None:
    shutil.copy(bundle / "global.onnx", bundle / "unlisted.onnx")
    change_manifest(bundle, **{"global": {"chain": chain, "protocol": "ensemble"}})
    with pytest.raises(BundleError, match="not the bundle's"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    "field",
    [
        *("files", "global", "patients", "label_map", "leads", "inputs", "method", "intended_use", "schema_version"),
        *("fs_hz", "window_samples", "r_index", "filter", "units"),
    ],
)
def test_a_manifest_that_lacks_a_field_is_refused(bundle: Path, field: str) -> None:
    change_manifest(bundle, **{field: None})
    with pytest.raises(BundleError, match="manifest.json: " + ("schema version" if "version" in field else "lacks")):
        open_bundle(bundle)


#: Place in the manifest, and a value of another form.
FORMS: list[tuple[str, Any]] = [
    ("files", []),
    ("files", {"global.onnx": "abc"}),
    ("patients", ["p1"]),
    ("label_map", "mitbih12"),
    ("label_map", {"name": "x", "classes": ["a"], "symbols": "abc"}),
    ("label_map", {"name": "x", "classes": ["a", "b"], "symbols": {"N": "a"}}),
    ("golden", "global.onnx"),
    ("trained_on", "everybody"),
    ("trained_on.synthetic", "no"),
    *(("trained_on.class_counts", value) for value in ({"N": 3}, 7)),
    *(("trained_on.recordings", value) for value in ("all", [3])),
    *(("patients.p2.certainty.temperature", value) for value in (0.0, "1", True)),
    *(("patients.p2.certainty.threshold", value) for value in (1.5, None)),
    ("certainty.accuracy", 0),
    ("certainty.far.threshold", -1.0),
    *(("certainty.far.graph", value) for value in ("global.onnx", "../far.onnx")),
]


@pytest.mark.parametrize(("place", "value"), FORMS)
def test_a_manifest_of_another_form_is_refused(bundle: Path, place: str, value: Any) -> None:
    manifest = manifest_of(bundle)
    *way, last = place.split(".")
    inner = manifest
    for name in way:
        inner = inner[name]
    inner[last] = value
    change_manifest(bundle, **manifest)
    with pytest.raises(
        BundleError, match=r"manifest\.json: lacks" if way or last in ("golden", "trained_on") else r"manifest\.json"
    ):
        open_bundle(bundle)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", "[" * 100_000, '{"schema_version": ' + "9" * 5000 + "}", '{"schema_version": 1.0}'],
)
def test_a_manifest_that_is_no_json_object_is_refused(bundle: Path, text: str) -> None:
    (bundle / "manifest.json").write_text(text)
    with pytest.raises(BundleError, match=r"manifest\.json: "):
        open_bundle(bundle)


def test_no_bundle_at_all(tmp_path: Path, fedavg_run: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path, fedavg_run, fedavg_run / "run.json"):
        found = r"holds no manifest\.json" if place.is_dir() else "is not a folder"
        with pytest.raises(BundleError, match=f"{found}; expected a bundle"):
            open_bundle(place)


def test_a_file_that_is_no_graph_is_refused(bundle: Path) -> None:
    """Its SHA-256 is in order, so somebody wrote the manifest for it."""
    files, junk = manifest_of(bundle)["files"], b"no graph at all"
    (bundle / "patients" / "p1.onnx").write_bytes(junk)
    files["patients/p1.onnx"] |= {"sha256": hashlib.sha256(junk).hexdigest(), "bytes": len(junk)}
    change_manifest(bundle, files=files)
    with pytest.raises(BundleError, match=r"p1\.onnx: is no graph of ecgfed's"):
        open_bundle(bundle)
    opened = open_bundle(bundle, verify=False)
    assert opened.classifier("p2")
    with pytest.raises(BundleError, match=r"p1\.onnx: is no graph of ecgfed's"):
        opened.classifier("p1")
