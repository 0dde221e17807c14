"""Bundles with int8 forms: which are written, how they were judged, and what runs them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from sklearn.metrics import f1_score
from support import Command, SavedRun, assert_refused, change_manifest, copied, manifest_of, traced_once  # noqa: F401
from test_chains import OwnExtractor, OwnHead, _prepared

import ecgfed as package
from ecgfed.base.errors import BundleError
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.net import Inputs
from ecgfed.core.runs.run import open_run
from ecgfed.device import Bundle, open_bundle
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.exports.bundles.calibration import ValidationLogits
from ecgfed.exports.bundles.export import PatientModel, export_bundle
from ecgfed.exports.bundles.extend import extended_bundle
from ecgfed.exports.bundles.int8_variants import Int8Rule, Int8Variants, judgement
from ecgfed.exports.bundles.quantise import int8_layers
from ecgfed.tasks.batch_state import call_of

ANY = Int8Rule(loss=1.0, agreement=0.0)
FIGURES = ("macro_f1_float", "macro_f1", "macro_f1_truth_float", "macro_f1_truth", "agreement", "max_logit_difference")

pytestmark = pytest.mark.usefixtures("traced_once")


def _export(run: Path, out: Path, rule: Int8Rule = ANY, kind: type[FedAvg] | None = None, **options: Any) -> Bundle:
    opened, state = (open_run(run), None) if kind is None else _prepared(run, kind)
    export_bundle(opened, opened.cohort(), state or opened.state(), out, int8=rule, **options)
    return open_bundle(out)


def _logits(bundle: Bundle, chain: list[str], feeds: dict[str, Any]) -> Any:
    """What plain ONNX Runtime makes of a chain of a bundle's files, without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name in chain:
        session = onnxruntime.InferenceSession(str(bundle.path / name), options, providers=["CPUExecutionProvider"])
        (entry,) = session.get_outputs()
        feeds = {entry.name: session.run([entry.name], {one.name: feeds[one.name] for one in session.get_inputs()})[0]}
    return next(iter(feeds.values()))


def _valid(cohort: Path, run: Path, client: int | None) -> tuple[SavedRun, Any, dict[str, Any]]:
    saved = SavedRun(run, cohort)
    mine = saved.array["split"] == 1
    rows = np.flatnonzero(mine if client is None else mine & (saved.array["client"] == client))
    window, rr = saved.inputs(rows)
    return saved, saved.array["label"][rows], {"window": window} | ({} if rr is None else {"rr": rr})


@pytest.mark.parametrize(("kind", "own_head"), [(OwnExtractor, False), (OwnHead, True)])
def test_each_patients_chain_in_int8(
    fedavg_run: Path, cohort_path: Path, tmp_path: Path, kind: type[FedAvg], own_head: bool
) -> None:
    bundle = _export(fedavg_run, tmp_path / "bundle", kind=kind)
    manifest = bundle.manifest
    assert (manifest["int8"]["accepted"], manifest["int8"]["refused"]) == (4, 0)
    for number, name in enumerate(bundle.patients):
        entry = manifest["patients"][name]
        form = entry["int8"]
        assert form["chain"] == [f"int8/extractor/{name}.onnx", f"int8/head/{name}.onnx"]
        assert form["bytes"] == sum((bundle.path / file).stat().st_size for file in form["chain"])
        assert form["bytes"] < 0.4 * sum((bundle.path / file).stat().st_size for file in entry["chain"])
        assert form["accepted"] is True
        assert set(form["certainty"]) == set(entry["certainty"])
        _, label, feeds = _valid(cohort_path, fedavg_run, number)
        floats, found = (_logits(bundle, chain, dict(feeds)) for chain in (entry["chain"], form["chain"]))
        assert form["beats"] == len(label)
        assert form["agreement"] == pytest.approx((floats.argmax(1) == found.argmax(1)).mean())
        for key, logits in (("macro_f1_float", floats), ("macro_f1", found)):
            expected = f1_score(label, logits.argmax(1), average="macro", zero_division=0)
            assert form[key] == pytest.approx(expected)
        assert form["max_logit_difference"] == pytest.approx(np.abs(floats - found).max(), abs=0.02)
        runs = bundle.classifier(name, int8=True).logits(feeds["window"], feeds["rr"])
        assert np.median(np.abs(runs - found)) < 1e-3
        assert np.abs(runs - floats).max() > 1e-3  # it is the int8 form that ran
        for file in form["chain"]:
            said = {one.key: one.value for one in onnx.load(bundle.path / file).metadata_props}
            assert (said["precision"], said["client"], said["patient"]) == ("int8", name, name)
    _, label, feeds = _valid(cohort_path, fedavg_run, None)
    form = manifest["global"]["int8"]
    assert form["chain"] == ["int8/global.onnx"]
    found = _logits(bundle, form["chain"], dict(feeds))
    assert form["macro_f1"] == pytest.approx(f1_score(label, found.argmax(1), average="macro", zero_division=0))
    assert bundle.classifier(None, int8=True).logits(feeds["window"], feeds["rr"]).shape == found.shape


def test_extractor_and_head_of_the_default_net_have_60_kb_at_most(fedavg_run: Path, tmp_path: Path) -> None:
    """With the classes of this cohort; twelve classes have 8 x 65 bytes of weights and scales more."""
    bundle = _export(fedavg_run, tmp_path / "bundle", kind=OwnExtractor)
    assert bundle.manifest["net"]["architecture"] == "default"
    more = (12 - len(bundle.classes)) * (64 + 4 + 4)
    for entry in bundle.manifest["patients"].values():
        assert entry["int8"]["bytes"] + more <= 60_000


def test_the_same_bytes_again(fedavg_run: Path, tmp_path: Path) -> None:
    first, second = (_export(fedavg_run, tmp_path / name, kind=OwnExtractor) for name in "ab")
    assert first.manifest == second.manifest
    assert any(name.startswith("int8/") for name in first.manifest["files"])


def test_patients_of_one_model_share_its_int8_form(fedavg_run: Path, tmp_path: Path) -> None:
    bundle = _export(fedavg_run, tmp_path / "bundle")
    assert {tuple(entry["int8"]["chain"]) for entry in bundle.manifest["patients"].values()} == {("int8/global.onnx",)}
    assert [name for name in bundle.manifest["files"] if name.startswith("int8/")] == ["int8/global.onnx"]
    agreement = {entry["int8"]["beats"] for entry in bundle.manifest["patients"].values()}
    assert (
        sum(entry["int8"]["beats"] for entry in bundle.manifest["patients"].values())
        == (bundle.manifest["global"]["int8"]["beats"])
    ), agreement


def test_what_is_refused_is_not_written(fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms that answer otherwise than their float models on every beat."""
    honest = Int8Variants._logits

    def otherwise(*given: Any) -> ValidationLogits:
        found = honest(*given)
        return ValidationLogits(-found.logits, found.label)

    monkeypatch.setattr(Int8Variants, "_logits", otherwise)
    bundle = _export(fedavg_run, tmp_path / "bundle", Int8Rule(loss=1.0), kind=OwnExtractor)
    assert not [name for name in bundle.manifest["files"] if name.startswith("int8/")]
    assert not (bundle.path / "int8").exists()
    assert bundle.manifest["int8"]["refused"] == 4
    form = bundle.manifest["patients"]["p2"]["int8"]
    assert form["chain"] is None
    assert "certainty" not in form
    assert form["reason"] == "gives 0.0% of the same labels, at least 99.0% is asked for"
    with pytest.raises(BundleError, match=r"refused the int8 form of patient 'p2': gives .* leave int8 out"):
        bundle.classifier("p2", int8=True)
    assert bundle.classifier("p2").classes == bundle.classes


def _answers(logits: list[list[float]], label: list[int]) -> ValidationLogits:
    return ValidationLogits(np.array(logits, np.float32), np.array(label))


def test_judgement_by_hand() -> None:
    """Ten beats, one of them the only V; in int8 it becomes N, and N keeps 18/19 of its F1."""
    n, v = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    floats = _answers([n] * 9 + [v], [0] * 9 + [1])
    found = _answers([n] * 10, [0] * 9 + [1])
    said = judgement([floats], [found], Int8Rule())
    assert said["accepted"] is False
    assert said["macro_f1_float"] == 1.0
    assert said["macro_f1"] == pytest.approx(18 / 19 / 2)
    assert said["agreement"] == 0.9
    assert said["max_logit_difference"] == 1.0
    assert said["reason"] == "loses 0.526 of macro-F1, at most 0.01 is allowed"
    assert judgement([floats], [found], Int8Rule(loss=0.6, agreement=0.9))["accepted"] is True
    # as good, but not the same: an error of the float model that the int8 form does not make
    other = _answers([n] * 8 + [v, v], [0] * 9 + [1])
    better = judgement([other], [floats], Int8Rule())
    assert better["accepted"] is False
    assert better["reason"] == "gives 90.0% of the same labels, at least 99.0% is asked for"
    nobody = judgement([_answers([], [])], [_answers([], [])], Int8Rule())
    assert (nobody["accepted"], nobody["beats"], nobody["reason"]) == (
        False,
        0,
        "has no validation beat to be judged by",
    )
    assert all(nobody[name] is None for name in FIGURES)


@pytest.mark.usefixtures("quick_finetuning")
@pytest.mark.parametrize("personal", ["kernel", "gated", "knn", "head", "probe"])
def test_personal_answers(fedavg_run: Path, tmp_path: Path, personal: str) -> None:
    """The extractor becomes int8; a kernel machine, a gate and nearest neighbours stay float."""
    bundle = _export(fedavg_run, tmp_path / "bundle", personal=personal)
    for name, entry in bundle.manifest["patients"].items():
        chain, roles = entry["int8"]["chain"], [bundle.manifest["files"][file]["role"] for file in entry["chain"]]
        assert [bundle.manifest["files"][file]["role"] for file in chain] == roles
        for file, role, floats in zip(chain, roles, entry["chain"], strict=True):
            if role in ("kernel", "gated", "neighbours"):
                assert file == floats
            else:
                assert file.startswith("int8/")
                assert int8_layers(onnx.load(bundle.path / file))
        assert len(bundle.classifier(name, int8=True).sessions) == len(chain)


def test_an_ensemble(local_run: Path, tmp_path: Path) -> None:
    bundle = _export(local_run, tmp_path / "bundle")
    (file,) = bundle.manifest["global"]["int8"]["chain"]
    layers = int8_layers(onnx.load(bundle.path / file))
    assert {layer.name.partition("/")[0] for layer in layers} == {f"member{number}" for number in range(4)}
    assert bundle.manifest["files"][file]["bytes"] < 0.4 * bundle.manifest["files"]["global.onnx"]["bytes"]


@pytest.fixture(scope="module")
def made(fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of one model for all, with its int8 form: never changed."""
    return _export(fedavg_run, tmp_path_factory.mktemp("int8") / "bundle").path


def _without(manifest: dict[str, Any]) -> None:
    del manifest["int8"]


def _changed(**values: object) -> Any:
    def change(manifest: dict[str, Any]) -> None:
        manifest["global"]["int8"].update(values)

    return change


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_without, "how its int8 forms were judged"),
        (_changed(accepted=False), "of no others"),
        (_changed(chain=None, accepted=False), "reason"),
        (_changed(chain=["int8/global.onnx", "../there.onnx"]), "not the bundle's"),
        (_changed(chain=["far.onnx"]), "a chain of"),
        (_changed(macro_f1=1.5), "macro_f1 of int8 from 0 to 1"),
        (_changed(agreement="much"), "agreement of int8 from 0 to 1"),
        (_changed(certainty={"temperature": 0, "threshold": 0.5}), "bounds"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(made: Path, tmp_path: Path, edit: Any, said: str) -> None:
    bundle = copied(made, tmp_path / "bundle")
    manifest = manifest_of(bundle)
    edit(manifest)
    change_manifest(
        bundle, **{"int8": None, **{name: manifest[name] for name in ("global", "int8") if name in manifest}}
    )
    with pytest.raises(BundleError, match=said) as caught:
        open_bundle(bundle)
    assert "\n" not in caught.value.line


def test_a_changed_int8_graph_is_refused(made: Path, tmp_path: Path) -> None:
    bundle = copied(made, tmp_path / "bundle")
    model = onnx.load(bundle / "int8" / "global.onnx")
    (weight,) = [one for one in model.graph.initializer if one.name == "extractor.stem.weight"]
    weight.raw_data = bytes(len(weight.raw_data))
    onnx.save(model, bundle / "int8" / "global.onnx")
    with pytest.raises(BundleError, match=r"global\.onnx: was changed"):
        open_bundle(bundle)


def test_the_commands(ecgfed: Command, fedavg_run: Path, made: Path, records: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    said = ecgfed("export", fedavg_run, "--out", out, "--int8", "--int8-loss", 1)
    assert said.code == 0, said.err
    manifest = manifest_of(out)
    assert manifest["int8"]["loss"] == 1.0
    accepted = [manifest["global"], *manifest["patients"].values()]
    count = sum(entry["int8"]["accepted"] for entry in accepted)
    assert f"int8: {count} of 5 models" in said.out + said.err
    refused = [line for line in said.err.splitlines() if "no int8 form of" in line]
    assert len(refused) == 5 - count
    found = ecgfed("predict", made, records / "p1", "--int8", "--patient", "p1", "--out", tmp_path / "i8", "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["precision"] == "int8"
    told = ecgfed("predict", made, records / "p1", "--int8", "--patient", "p1", "--out", tmp_path / "told")
    assert "model of patient p1 in int8:" in told.out
    floats = ecgfed("predict", made, records / "p1", "--patient", "p1", "--out", tmp_path / "float", "--json")
    assert "precision" not in json.loads(floats.out)
    answers = [json.loads((tmp_path / where / "p1.json").read_text())["beats"] for where in ("i8", "float")]
    assert [beat["sample"] for beat in answers[0]] == [beat["sample"] for beat in answers[1]]
    assert answers[0] != answers[1]
    assert_refused(ecgfed("predict", records / "p1", "--int8", "--out", tmp_path / "no"), "no int8 form", "--int8")
    assert not (tmp_path / "no").exists()
    assert_refused(ecgfed("export", fedavg_run, "--out", tmp_path / "x", "--int8-loss", 0.1), "--int8-loss", "--int8")
    assert_refused(
        ecgfed("export", fedavg_run, "--out", tmp_path / "x", "--int8", "--int8-loss", 2), "--int8-loss", "0 to 1"
    )
    assert not (tmp_path / "x").exists()


def test_the_batch_and_its_resume(made: Path, records: Path, tmp_path: Path) -> None:
    names = [records / "p1", records / "p2"]
    package.predict_batch(names, tmp_path / "out", bundle=made, int8=True)
    assert json.loads((tmp_path / "out" / "p2.json").read_text())["precision"] == "int8"
    options = {"patient": None, "force": False, "strip": False, "strip_at_s": None}
    calls = [call_of(open_bundle(made), BeatOptions(()), int8=int8, **options) for int8 in (True, False)]  # type: ignore[arg-type]
    assert calls[0] != calls[1]  # so that one does not go on where the other stopped


def test_one_patient_more_leaves_the_others_int8_forms(fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    """``personalize`` copies them; the new patient has none, and one who is replaced leaves none behind."""
    first = _export(fedavg_run, tmp_path / "bundle", kind=OwnExtractor)
    bundle = open_bundle(first.path)
    net = open_run(fedavg_run).net
    model = net.initial(5)
    beats = Inputs(torch.zeros(4, 1, 256), torch.zeros(4, net.spec.rr_count))
    own = PatientModel("p2", "p2", Pipeline((Stage("model", model, shared=False),)), beats, None)
    with extended_bundle(bundle, tmp_path / "more", own, net, metadata={}, overwrite=True) as opened:
        files = set(opened.manifest["files"])
        assert {"int8/extractor/p1.onnx", "int8/head/p3.onnx", "int8/global.onnx"} <= files
        assert not {"int8/extractor/p2.onnx", "int8/head/p2.onnx"} & files
        with pytest.raises(BundleError, match="has no int8 form of patient 'p2'"):
            opened.classifier("p2", int8=True)
        assert opened.classifier("p1", int8=True).classes == bundle.classes
