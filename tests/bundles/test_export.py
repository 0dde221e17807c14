"""What a bundle holds, against the cohort's and the run's own files, hashlib, onnx and plain onnxruntime."""

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from support import SavedRun, change_json, copied, exported, manifest_of, snapshot, softmax, traced_once  # noqa: F401

import ecgfed
import ecgfed.exports.bundles.export as export_module
import ecgfed.exports.bundles.parity as parity_module
from ecgfed.base.errors import BundleError, OptionError
from ecgfed.base.files import write_json
from ecgfed.core.evaluation.scenarios import evaluate
from ecgfed.core.runs.run import Run, open_run
from ecgfed.domain.beats.rr import RR_DEFAULT, RR_NAMES
from ecgfed.exports.bundles.export import export_bundle

PATIENTS = ["p1", "p2", "p3", "p4"]
#: The bundle contract of the design, and what a device needs to cut windows as they were cut for training.
FIELDS = {
    *("schema_version", "tool_version", "intended_use", "personal", "method", "settings", "rounds", "net", "cohort"),
    *("classes", "label_map", "fs_hz", "window_samples", "r_index", "leads", "units", "filter", "normalisation"),
    *("run", "digest", "inputs", "files", "global", "weights", "scores", "parity", "patients", "trained_on"),
    *("certainty", "class_table", "preprocessing", "golden", "card", "card_facts"),
}
#: Files of every bundle that are no graphs.
BESIDE = {"golden.json", "CARD.md", "card.json"}


def _session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _beats(saved: SavedRun, count: int) -> dict[str, NDArray[np.float32]]:
    """Real beats, each a little different from the next time it comes."""
    rows = np.arange(count) % len(saved.array["label"])
    window, rr = saved.inputs(rows)
    noise = np.random.default_rng(count).normal(0, 0.05, window.shape).astype(np.float32)
    return {"window": window + noise} | ({} if rr is None else {"rr": rr})


def _export(run: Run, out: Path, **options: Any) -> dict[str, Any]:
    return export_bundle(run, run.cohort(), run.state(), out, **options)


@pytest.mark.parametrize("kind", ["fedavg", "local"])
def test_manifest(kind: str, cohort_path: Path, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(f"{kind}_run")
    bundle, cohort = exported(run), json.loads((cohort_path / "cohort.json").read_text())
    manifest, meta = manifest_of(bundle), json.loads((run / "run.json").read_text())
    assert set(manifest) == FIELDS | ({"rr_features"} if kind == "fedavg" else set())
    assert manifest["schema_version"] == 2
    assert manifest["tool_version"] == version("ecgfed")
    assert "not for diagnosis" in manifest["intended_use"]
    assert (manifest["fs_hz"], manifest["window_samples"], manifest["r_index"]) == (360.0, 256, 100)
    for name in ("classes", "label_map", "leads", "filter"):
        assert manifest[name] == cohort[name], name
    assert manifest["cohort"]["fingerprint"] == cohort["fingerprint"]
    assert (manifest["method"], manifest["rounds"]) == (kind, 2)
    assert (manifest["net"], manifest["settings"]) == (meta["net"], meta["settings"])
    assert manifest["inputs"] == {"window": [1, 256]} | (
        {"rr": [len(manifest["rr_features"]["names"])]} if kind == "fedavg" else {}
    )
    assert list(manifest["patients"]) == PATIENTS
    assert [entry["patient"] for entry in manifest["patients"].values()] == PATIENTS
    assert 0 <= manifest["parity"]["max_logit_difference"] <= 1e-4 == manifest["parity"]["allowed"]
    assert manifest["parity"]["chains"] == 5


@pytest.mark.parametrize("kind", ["fedavg", "local"])
def test_every_file_and_its_sha256(kind: str, request: pytest.FixtureRequest) -> None:
    bundle = exported(request.getfixturevalue(f"{kind}_run"))
    files = manifest_of(bundle)["files"]
    on_disk = snapshot(bundle)
    assert set(on_disk) == {*files, "manifest.json"}
    for name, about in files.items():
        assert about["sha256"] == hashlib.sha256(on_disk[name]).hexdigest()
        assert about["bytes"] == len(on_disk[name])


def test_fedavg_ships_one_model(fedavg_run: Path, cohort_path: Path) -> None:
    manifest = manifest_of(exported(fedavg_run))
    assert set(manifest["files"]) == {"global.onnx", "far.onnx", "weights/global.safetensors"} | BESIDE
    assert (manifest["global"]["chain"], manifest["global"]["protocol"]) == (["global.onnx"], "one model")
    assert all(entry["chain"] == ["global.onnx"] for entry in manifest["patients"].values())
    weights = load_file(exported(fedavg_run) / manifest["weights"])
    trained = SavedRun(fedavg_run, cohort_path).params("server")
    assert set(weights) == set(trained)
    assert all(torch.equal(weights[name], trained[name]) for name in trained)


def test_offsets_are_added_to_the_logits_of_their_classes(fedavg_run: Path, cohort_path: Path, tmp_path: Path) -> None:
    offsets = {"V": 0.75, "N": -1.0}
    text = ",".join(f"{name}={value}" for name, value in offsets.items())
    bundle = ecgfed.export(fedavg_run, tmp_path / "b", cohort=cohort_path, global_only=True, class_offsets=text)
    feeds = _beats(SavedRun(fedavg_run, cohort_path), 5)
    plain, moved = (
        _session(folder / "global.onnx").run(None, feeds)[0] for folder in (exported(fedavg_run), bundle.path)
    )
    expected = [offsets.get(name, 0.0) for name in bundle.classes]
    np.testing.assert_allclose(moved - plain, np.broadcast_to(expected, plain.shape), atol=1e-5)
    assert bundle.manifest["global"]["class_offsets"] == offsets


@pytest.mark.parametrize("offsets", ["V", "V=much", "no such class=1", "V=nan", "V=11", "", "V=1,V=2"])
def test_offsets_that_are_none_are_refused(offsets: str, fedavg_run: Path, cohort_path: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        ecgfed.export(fedavg_run, tmp_path / "b", cohort=cohort_path, global_only=True, class_offsets=offsets)
    assert not (tmp_path / "b").exists()


def test_local_ships_a_model_for_each_patient(local_run: Path) -> None:
    manifest = manifest_of(exported(local_run))
    own = {f"patients/{name}.onnx" for name in PATIENTS}
    assert set(manifest["files"]) == {"global.onnx", "far.onnx"} | own | BESIDE
    assert (manifest["global"]["chain"], manifest["global"]["protocol"]) == (["global.onnx"], "ensemble")
    assert {name: entry["chain"] for name, entry in manifest["patients"].items()} == {
        name: [f"patients/{name}.onnx"] for name in PATIENTS
    }
    assert manifest["weights"] is None
    assert manifest["files"]["global.onnx"]["members"] == 4


@pytest.mark.parametrize("count", [1, 7, 300])
def test_global_graph_gives_torchs_logits_for_any_number_of_beats(
    fedavg_run: Path, cohort_path: Path, count: int
) -> None:
    saved = SavedRun(fedavg_run, cohort_path)
    feeds = _beats(saved, count)
    (logits,) = _session(exported(fedavg_run) / "global.onnx").run(None, feeds)
    expected = saved.logits("server", feeds["window"], feeds["rr"])
    assert logits.shape == (count, 12)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(logits.argmax(1), expected.argmax(1))


@pytest.mark.parametrize("client", range(4))
def test_a_patients_graph_gives_that_patients_logits(local_run: Path, cohort_path: Path, client: int) -> None:
    saved = SavedRun(local_run, cohort_path)
    feeds = _beats(saved, 50)
    (logits,) = _session(exported(local_run) / "patients" / f"{PATIENTS[client]}.onnx").run(None, feeds)
    np.testing.assert_allclose(logits, saved.logits(f"client/{client}", feeds["window"]), rtol=0, atol=1e-4)
    others = saved.logits(f"client/{(client + 1) % 4}", feeds["window"])
    assert np.abs(logits - others).max() > 0.01


@pytest.mark.parametrize("count", [1, 7, 300])
def test_ensemble_graph_is_the_mean_of_the_members_probabilities(
    local_run: Path, cohort_path: Path, count: int
) -> None:
    saved = SavedRun(local_run, cohort_path)
    feeds = _beats(saved, count)
    (logits,) = _session(exported(local_run) / "global.onnx").run(None, feeds)
    members = [softmax(saved.logits(f"client/{i}", feeds["window"])) for i in range(4)]
    np.testing.assert_allclose(softmax(logits), np.mean(members, axis=0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("file", ["fedavg:global.onnx", "local:global.onnx", "local:patients/p1.onnx"])
def test_graph_is_opset_18_with_a_free_batch_axis(file: str, request: pytest.FixtureRequest) -> None:
    kind, name = file.split(":")
    model = onnx.load(exported(request.getfixturevalue(f"{kind}_run")) / name)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    batch = shapes["window"][0]
    assert isinstance(batch, str)
    rr = {"rr": [batch, len(RR_NAMES[RR_DEFAULT])]} if kind == "fedavg" else {}
    assert shapes == {"window": [batch, 1, 256], "logits": [batch, 12], **rr}


def test_metadata_says_what_a_graph_is(fedavg_run: Path, local_run: Path, cohort_path: Path) -> None:
    cohort = json.loads((cohort_path / "cohort.json").read_text())
    for bundle, name, role in (
        (exported(fedavg_run), "global.onnx", "model"),
        (exported(local_run), "global.onnx", "ensemble"),
        (exported(local_run), "patients/p2.onnx", "model"),
    ):
        found = _session(bundle / name).get_modelmeta().custom_metadata_map
        plain = {key: found.pop(key) for key in ("tool_version", "intended_use", "role")}
        assert plain["role"] == role
        assert plain["tool_version"] == version("ecgfed")
        assert "not for diagnosis" in plain["intended_use"]
        for whose in ("patient", "client"):
            assert found.pop(whose, None) == ("p2" if "p2" in name else None)
        told = {key: json.loads(value) for key, value in found.items()}
        assert (told["classes"], told["leads"], told["filter"]) == (
            cohort["classes"],
            cohort["leads"],
            cohort["filter"],
        )
        assert told["symbols"] == cohort["label_map"]["symbols"]
        assert (told["fs_hz"], told["samples_before_r"], told["samples_after_r"]) == (360.0, 100, 156)
        assert told["cohort_fingerprint"] == cohort["fingerprint"]
        assert told["run"] == manifest_of(bundle)["run"]


def test_no_trace_of_this_machine(fedavg_run: Path, local_run: Path) -> None:
    ours = Path(export_module.__file__).parents[2]
    places = {sys.prefix, str(ours), str(fedavg_run.parent), str(Path.home())} - {"/"}
    for bundle in (exported(fedavg_run), exported(local_run)):
        for name, data in snapshot(bundle).items():
            for word in (*places, "site-packages", "Traceback", ".py"):
                assert word.encode() not in data, f"{name} holds {word}"


def test_export_is_deterministic(local_run: Path, tmp_path: Path) -> None:
    _export(open_run(local_run), tmp_path / "again")
    assert snapshot(tmp_path / "again") == snapshot(exported(local_run))


@pytest.mark.usefixtures("traced_once")
def test_the_average_of_weights_as_global_answer(local_run: Path, cohort_path: Path, tmp_path: Path) -> None:
    manifest = _export(open_run(local_run), tmp_path / "bundle", protocol="average")
    assert manifest["global"]["protocol"] == "average"
    saved = SavedRun(local_run, cohort_path)
    models = [saved.params(f"client/{i}") for i in range(4)]
    average = {name: torch.stack([model[name] for model in models]).mean(0) for name in models[0]}
    feeds = _beats(saved, 40)
    (logits,) = _session(tmp_path / "bundle" / "global.onnx").run(None, feeds)
    np.testing.assert_allclose(logits, saved.logits_of(average, feeds["window"]), rtol=0, atol=1e-4)
    assert set(load_file(tmp_path / "bundle" / manifest["weights"])) == set(average)


@pytest.mark.usefixtures("traced_once")
def test_a_graph_that_answers_otherwise_is_refused(
    fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = parity_module.chain_logits
    monkeypatch.setattr(parity_module, "chain_logits", lambda *given: right(*given) + 1e-3)
    with pytest.raises(BundleError, match=r"logits differ by 0\.001"):
        _export(open_run(fedavg_run), tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("traced_once")
def test_a_difference_below_the_tolerance_is_let_through_and_told(
    fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = parity_module.chain_logits
    monkeypatch.setattr(parity_module, "chain_logits", lambda *given: right(*given) + 5e-5)
    manifest = _export(open_run(fedavg_run), tmp_path / "bundle")
    assert 4e-5 < manifest["parity"]["max_logit_difference"] <= 1e-4


@pytest.mark.usefixtures("traced_once")
@pytest.mark.parametrize(("added", "fits"), [(0.0, True), (1e-5, False)])
def test_logits_beyond_100_are_compared_to_a_millionth_of_the_largest(
    fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: float, fits: bool
) -> None:
    run = open_run(fedavg_run)
    state = run.state()
    for name in ("head.out.weight", "head.out.bias"):
        state.server["model"][name] = state.server["model"][name] * 1e5  # float32 keeps 1e-4 of no such logit
    right = parity_module.chain_logits
    monkeypatch.setattr(
        parity_module,
        "chain_logits",
        lambda *given: (lambda out: out + added * out.abs().amax(1, keepdim=True))(right(*given)),
    )
    if fits:
        manifest = export_module.export_bundle(run, run.cohort(), state, tmp_path / "bundle")
        assert manifest["parity"]["max_logit_difference"] <= 1e-4
    else:
        with pytest.raises(BundleError, match="logits differ"):
            export_module.export_bundle(run, run.cohort(), state, tmp_path / "bundle")


@pytest.mark.usefixtures("traced_once")
def test_logits_that_are_no_number_are_refused(
    fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = parity_module.chain_logits
    monkeypatch.setattr(parity_module, "chain_logits", lambda *given: right(*given) * torch.nan)
    with pytest.raises(BundleError, match="model of global: gives logits that are not finite"):
        _export(open_run(fedavg_run), tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("traced_once")
def test_scores_of_an_evaluation_travel_with_the_bundle(local_run: Path, tmp_path: Path) -> None:
    """The patients' scores are theirs whatever the protocol; T_g is that of one global answer and of no other."""
    run = open_run(copied(local_run, tmp_path / "run"))
    result = evaluate(run, run.cohort(), run.state(), 2, protocol="average")
    folder = run.path / "evaluation-test"
    folder.mkdir()
    write_json(folder / "scores.json", {"round": 2, "protocol": "average", **result})
    manifest = _export(run, tmp_path / "ensemble", protocol="ensemble")
    told = {"split": "test", **result["scores"], "per_class": result["per_class"]}
    assert _export(run, tmp_path / "average", protocol="average")["scores"] == told
    del told["T_g"], told["per_class"]
    assert manifest["scores"] == told
    for row in result["per_patient"]:
        score = {"split": "test", "beats": row["beats"], "macro_f1": row["personal_f1"]}
        assert manifest["patients"][row["client"]]["scores"] == score
    change_json(folder / "scores.json", round=1)
    assert _export(run, tmp_path / "stale")["scores"] is None


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"round": 2}',
        "{",
        '{"round": 2, "per_patient": [1], "scores": {}}',
        '{"round": 2, "per_patient": [], "scores": {}, "protocol": "", "per_class": [{}]}',
        '{"round": 2, "per_patient": [], "scores": {}, "protocol": "", "per_class": 3}',
    ],
)
def test_broken_scores_are_refused(fedavg_run: Path, tmp_path: Path, text: str) -> None:
    run = open_run(copied(fedavg_run, tmp_path / "run"))
    (run.path / "evaluation-test").mkdir()
    (run.path / "evaluation-test" / "scores.json").write_text(text)
    with pytest.raises(BundleError, match=r"scores\.json"):
        _export(run, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.usefixtures("traced_once")
def test_a_taken_folder_is_left_as_it_is(fedavg_run: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "mine").write_text("keep")
    with pytest.raises(OptionError, match="not empty"):
        _export(open_run(fedavg_run), tmp_path / "bundle")
    assert snapshot(tmp_path) == {"bundle/mine": b"keep"}
    with pytest.raises(OptionError, match="contains mine, which ecgfed did not write"):
        _export(open_run(fedavg_run), tmp_path / "bundle", overwrite=True)
    assert snapshot(tmp_path) == {"bundle/mine": b"keep"}
    (tmp_path / "bundle" / "manifest.json").write_text("an older export's")
    _export(open_run(fedavg_run), tmp_path / "bundle", overwrite=True)
    assert snapshot(tmp_path / "bundle") == snapshot(exported(fedavg_run))
