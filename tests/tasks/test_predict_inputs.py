"""Which argument of ``predict`` is the bundle, and the model in the package for who names none."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import Command, assert_refused, change_manifest, copied, exported, manifest_of, traced_once  # noqa: F401

import ecgfed as front
from ecgfed.base.errors import BundleError, OptionError
from ecgfed.core.runs.run import open_run
from ecgfed.device import open_bundle, shipped
from ecgfed.exports.bundles.export import export_bundle


@pytest.fixture(scope="session")
def global_only(fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the global model alone, as the package holds one."""
    run, out = open_run(fedavg_run), tmp_path_factory.mktemp("shipped") / "model"
    export_bundle(run, run.cohort(), run.state(), out, global_only=True)
    return out


@pytest.fixture
def model(global_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of the package's model, one that a test may change."""
    folder = copied(global_only, tmp_path / "installed" / "model")
    monkeypatch.setattr(shipped, "MODEL", folder)
    monkeypatch.setattr("ecgfed.tasks.predict_inputs.MODEL", folder)
    return folder


def test_a_bundle_of_the_global_model_alone_is_small_and_answers_as_the_whole_one(
    global_only: Path, fedavg_run: Path, records: Path
) -> None:
    whole = exported(fedavg_run)
    held = {path.name for path in global_only.rglob("*")}
    assert {"manifest.json", "global.onnx"} <= held
    assert held.isdisjoint({"patients", "weights"})
    manifest = manifest_of(global_only)
    assert (manifest["patients"], manifest["weights"], manifest["parity"]["chains"]) == ({}, None, 1)
    assert (global_only / "global.onnx").read_bytes() == (whole / "global.onnx").read_bytes()
    alone, of_all = (front.predict(bundle, records / "p2").probability for bundle in (global_only, whole))
    np.testing.assert_array_equal(alone, of_all)
    with pytest.raises(BundleError, match="has no patient 'p1'; expected none: it holds the global model alone"):
        open_bundle(global_only).classifier("p1")


@pytest.mark.usefixtures("traced_once")
def test_export_global_only(ecgfed: Command, fedavg_run: Path, global_only: Path, tmp_path: Path) -> None:
    assert ecgfed("export", fedavg_run, "--out", tmp_path / "b", "--global-only", "--quiet").code == 0
    assert (tmp_path / "b" / "global.onnx").read_bytes() == (global_only / "global.onnx").read_bytes()
    both = ecgfed("export", fedavg_run, "--out", tmp_path / "c", "--global-only", "--personal", "head")
    assert_refused(both, "--personal: head beside --global-only")
    assert not (tmp_path / "c").exists()


def test_predict_without_a_bundle_takes_the_model_in_the_package(
    ecgfed: Command, model: Path, records: Path, tmp_path: Path
) -> None:
    said = ecgfed("predict", records / "p1", "--out", tmp_path / "a")
    assert (said.code, said.err) == (0, "")
    assert f"{model / 'CARD.md'}." in said.out.replace("\n", "")
    assert ecgfed("predict", model, records / "p1", "--out", tmp_path / "b", "--quiet").code == 0
    assert ecgfed("predict", "--bundle", model, records / "p1", "--out", tmp_path / "c", "--quiet").code == 0
    files = [{file.name: file.read_bytes() for file in (tmp_path / out).iterdir()} for out in "abc"]
    assert files[0] == files[1] == files[2]
    assert json.loads(files[0]["p1.json"])["bundle"] == "ecgfed/model"
    named = copied(model, tmp_path / "mine")
    other = ecgfed("predict", named, records / "p1", "--out", tmp_path / "d")
    assert "CARD.md" not in other.out
    assert json.loads((tmp_path / "d" / "p1.json").read_text())["bundle"] == "mine"


def test_the_model_in_the_package_is_checked_like_any_other(
    ecgfed: Command, model: Path, records: Path, tmp_path: Path
) -> None:
    rest = (records / "p1", "--out", tmp_path / "out")
    assert_refused(ecgfed("predict", *rest, "--patient", "p1"), "has no patient 'p1'", "global model alone")
    graph = model / "global.onnx"
    data = graph.read_bytes()
    graph.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert_refused(ecgfed("predict", *rest), str(graph), "was changed")
    graph.write_bytes(data)
    manifest = manifest_of(model)
    (model / "manifest.json").write_text(json.dumps({**manifest, "intended_use": "Diagnosis."}))
    assert_refused(ecgfed("predict", *rest), "manifest.json", "its digest is not the one it holds")
    (model / "manifest.json").unlink()
    assert_refused(ecgfed("predict", *rest), "this ecgfed came without a model", "--bundle")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("model")
def test_which_argument_is_the_bundle(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    bundle, out = exported(fedavg_run), ("--out", tmp_path / "out")
    assert_refused(ecgfed("predict", bundle, *out), "RECORD: is missing", f"{bundle} is a bundle")
    twice = ecgfed("predict", bundle, records / "p1", "--bundle", bundle, *out)
    assert_refused(twice, f"--bundle: {bundle} is a bundle, and --bundle names {bundle}")
    neither = ecgfed("predict", tmp_path / "typo", records / "p1", *out)
    assert_refused(neither, f"--bundle: {tmp_path / 'typo'} is neither", "a bundle made by 'ecgfed export'")
    (tmp_path / "empty").mkdir()  # a bundle whose manifest was lost, say
    assert_refused(ecgfed("predict", tmp_path / "empty", records / "p1", *out), f"{tmp_path / 'empty'} is neither")
    assert_refused(ecgfed("predict", tmp_path / "typo", *out), f"{tmp_path / 'typo'}.hea")
    assert_refused(ecgfed("predict", records / "p1", "--bundle", tmp_path / "typo", *out), "typo: is not a folder")
    mixed = copied(bundle, tmp_path / "mixed")
    for suffix in (".hea", ".dat"):
        (mixed / f"p1{suffix}").write_bytes((records / f"p1{suffix}").read_bytes())
    ambiguous = ecgfed("predict", mixed, records / "p2", *out)
    assert_refused(ambiguous, f"--bundle: {mixed} holds a bundle and recordings (p1.hea)", f"--bundle {mixed}")
    assert not (tmp_path / "out").exists()
    assert ecgfed("predict", mixed / "p1", "--bundle", mixed, *out, "--quiet").code == 0


def test_a_damaged_bundle_is_still_meant_as_one(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path
) -> None:
    bundle = copied(exported(fedavg_run), tmp_path / "bundle")
    (bundle / "manifest.json").write_text("{")
    assert_refused(ecgfed("predict", bundle, records / "p1", "--out", tmp_path / "o"), "cannot be read as JSON")
    change = copied(exported(fedavg_run), tmp_path / "images")
    change_manifest(change, modality="image")
    assert_refused(ecgfed("predict", change, records / "p1", "--out", tmp_path / "o"), str(change))


def test_a_zip_that_cannot_be_read_is_not_replaced_by_the_model_in_the_package(
    ecgfed: Command, records: Path, tmp_path: Path
) -> None:
    (tmp_path / "bundle.zip").symlink_to("/dev/full")
    assert_refused(ecgfed(f"predict {tmp_path / 'bundle.zip'} {records / 'p0'} --out {tmp_path / 'out'}"))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("model")
def test_predict_in_python_takes_one_or_two_by_place_and_both_by_name(fedavg_run: Path, records: Path) -> None:
    bundle, record = exported(fedavg_run), records / "p3"
    opened, read = front.open_bundle(bundle), front.open_recording(record, ("MLII", "V1"), every_lead=True)
    own = front.predict(record).probability
    for found in (
        front.predict(bundle, record),
        front.predict(str(bundle), str(record)),
        front.predict(opened, read),
        front.predict(record, bundle=bundle),
        front.predict(bundle=opened, recording=read),
        front.predict(bundle, recording=record),
    ):
        np.testing.assert_array_equal(found.probability, own)
    for wrong, words in (
        ((bundle,), "recording: is missing"),
        ((), "recording: is missing"),
        ((opened,), "recording: of type Bundle; expected a path"),
        ((read, read), "bundle: of type Recording; expected a path, or a bundle"),
        ((bundle, record, record), "3 positional arguments"),
    ):
        with pytest.raises(OptionError, match=words):
            front.predict(*wrong)
