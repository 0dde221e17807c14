"""CIFAR-10 on the command line: prepared, trained on, scored, exported; what is for beats refuses it in one line."""

import json
from pathlib import Path

import cifar_source as cs
import numpy as np
import onnxruntime
import pytest
from support import Command, assert_refused, snapshot

from ecgfed.base.errors import RecordError
from ecgfed.device import open_bundle
from ecgfed.domain.cohort import cifar_files
from ecgfed.domain.cohort.cohort import open_cohort


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar_files, "ROWS", cs.ROWS)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cs.small_cohort(tmp_path_factory.mktemp("images") / "cohort", clients=3)


def test_prepare_says_what_it_made_and_warns_of_what_it_cannot_compare(ecgfed: Command, tmp_path: Path) -> None:
    source = cs.write_binary(tmp_path / "source")
    said = ecgfed("prepare", "cifar10", "--source", source, "--out", tmp_path / "c", "--clients", 4)
    assert said.code == 0, said
    assert "4 clients of" in said.out
    assert "60 to test in common" in said.out
    assert any("cannot be compared with the official files" in line for line in said.error_lines)
    again = ecgfed("prepare", "cifar10", "--source", source, "--out", tmp_path / "d", "--clients", 4, "--json")
    summary = json.loads(again.out)
    assert summary["clients"] == 4
    assert summary["partition"]["rho"] == 0.7
    assert summary["source"]["official"] is None
    assert len(summary["source"]["md5"]) == 6
    a, b = snapshot(tmp_path / "c"), snapshot(tmp_path / "d")
    assert a == b
    assert json.loads(a["cohort.json"])["source"] == summary["source"]
    quiet = ecgfed("prepare", "cifar10", "--source", source, "--out", tmp_path / "e", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_prepare_dirichlet_with_imbalance_from_python_batches(ecgfed: Command, tmp_path: Path) -> None:
    source = cs.write_python(tmp_path / "cifar-10-batches-py").parent
    said = ecgfed(
        "prepare",
        "cifar10",
        "--source",
        source,
        "--out",
        tmp_path / "c",
        "--partition",
        "dirichlet",
        "--clients",
        3,
        "--alpha",
        1,
        "--imbalance",
        10,
    )
    assert said.code == 0, said
    counts = json.loads((tmp_path / "c" / "cohort.json").read_text())["class_counts"]
    stock = np.bincount(cs.published()[1][:300], minlength=10)
    expected = np.floor(stock * 10.0 ** (-np.arange(10) / 9))
    assert list(counts.values()) == expected.tolist()


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("--out", "c"), ("--source: is missing", "--download")),
        (("--out", "c", "--source", "nowhere"), ("--source: nowhere does not exist",)),
        (("--out", "c", "--source", "empty"), ("empty", "holds no CIFAR-10")),
        (("--out", "c", "--source", "short"), ("short/data_batch_1.bin", "bytes long", "fetch it again")),
        (("--out", "c", "--source", "good", "--clients", "900"), ("--clients", "without any of 300 examples")),
        (("--out", "c", "--source", "good", "--partition", "even"), ("--partition", "longtail, dirichlet")),
        (("--out", "good", "--source", "good"), ("--out", "not empty")),
        (("--out", "c", "--source", "good", "--alpha", "0.1"), ("--alpha", "longtail", "--partition dirichlet")),
        (("--out", "c", "--source", "good", "--partition", "dirichlet", "--tau", "0.4"), ("--tau", "longtail")),
        (("--out", "c", "--download", "--source", "good/test_batch.bin"), ("--source", "is a file")),
        (("--out", "c", "--download", "--source", "d", "--url", "http://127.0.0.1:9/"), ("cannot be fetched",)),
    ],
)
def test_prepare_refuses_in_one_line_and_writes_nothing(
    ecgfed: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    fragments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    cs.write_binary(tmp_path / "good")
    cs.write_binary(tmp_path / "short")
    (tmp_path / "empty").mkdir()
    file = tmp_path / "short" / "data_batch_1.bin"
    file.write_bytes(file.read_bytes()[:-100])
    before = snapshot(tmp_path)
    assert_refused(ecgfed("prepare", "cifar10", *arguments), *fragments)
    assert snapshot(tmp_path) == before


def test_from_a_cohort_to_scores_and_a_bundle(ecgfed: Command, cohort: Path, tmp_path: Path) -> None:
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    said = ecgfed(
        "train", cohort, "--out", run, "--method", "fedper", "--net", "convnet3", "--width", 0.125, "--rounds", 2
    )
    assert said.code == 0, said
    meta = json.loads((run / "run.json").read_text())
    assert (meta["net"]["architecture"], meta["net"]["norm"], meta["net"]["rr"]) == ("convnet3", "none", False)
    more = ecgfed("train", cohort, "--out", run, "--resume", "--rounds", 3)
    assert more.code == 0, more
    scores = json.loads(ecgfed("evaluate", run, "--json").out)
    assert scores["beats"] == 60
    assert {row["client"] for row in scores["per_patient"]} == {"client-1", "client-2", "client-3"}
    assert (run / "evaluation-test" / "learning_curves.png").stat().st_size > 1000
    assert ecgfed("evaluate", run, "--split", "valid", "--quiet").code == 0
    assert "convnet3" in ecgfed("runs", "show", run).out
    assert ecgfed("runs", "list", tmp_path).code == 0
    said = ecgfed("export", run, "--out", bundle)
    assert said.code == 0, said
    _check_bundle(bundle, cohort)
    before = snapshot(tmp_path)
    refused = ecgfed("predict", bundle, tmp_path / "100", "--out", tmp_path / "predictions")
    assert_refused(refused, str(bundle), "was trained on images", "ECG")
    assert snapshot(tmp_path) == before


def _check_bundle(bundle: Path, cohort: Path) -> None:
    """The bundle's graphs take pixels as they are stored, and the device's classifier takes nothing else."""
    opened = open_bundle(bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert (opened.modality, manifest["inputs"]) == ("image", {"image": [3, 32, 32]})
    assert not {"fs_hz", "leads", "filter"} & set(manifest)
    images = np.array(open_cohort(cohort).examples[:7])
    classifier = opened.classifier("client-2")
    found = classifier.image_logits(images)
    value: dict[str, np.ndarray] = {"image": images}
    for name in manifest["patients"]["client-2"]["chain"]:
        session = onnxruntime.InferenceSession(str(bundle / name))
        value = {session.get_outputs()[0].name: session.run(None, value)[0]}
    np.testing.assert_array_equal(found, value["logits"])
    with pytest.raises(RecordError, match="expected image for this bundle"):
        classifier.logits(np.zeros((2, 1, 256), np.float32))
    for wrong in (images.astype(np.float32), images[:, :1], images[0]):
        with pytest.raises(RecordError, match="expected uint8"):
            classifier.image_logits(wrong)


def test_methods_without_a_global_model_export_an_ensemble_of_images(
    ecgfed: Command, cohort: Path, tmp_path: Path
) -> None:
    arguments = ("--method", "local", "--net", "convnet2", "--width", 0.125, "--rounds", 1, "--quiet")
    assert ecgfed("train", cohort, "--out", tmp_path / "run", *arguments).code == 0
    said = ecgfed("export", tmp_path / "run", "--out", tmp_path / "bundle", "--json")
    assert said.code == 0, said
    assert json.loads(said.out)["parity"]["max_logit_difference"] < 1e-4


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("--net", "default"), ("--net: 'default' is for ECG beats", "resnet30", "the cohort holds images")),
        (("--rr",), ("--rr", "a net for images", "leave it out")),
        (("--net", "vgg"), ("--net: 'vgg'", "convnet3")),
    ],
)
def test_train_refuses_a_net_that_is_for_something_else(
    ecgfed: Command, cohort: Path, tmp_path: Path, arguments: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    assert_refused(ecgfed("train", cohort, "--out", tmp_path / "run", *arguments), *fragments)
    assert not (tmp_path / "run").exists()


def test_a_net_for_images_is_refused_for_beats(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    refused = ecgfed("train", cohort_path, "--out", tmp_path / "run", "--net", "resnet30", "--no-rr")
    assert_refused(refused, "--net: 'resnet30' is for images", "default, reference")
    refused = ecgfed(
        "train", cohort_path, "--out", tmp_path / "run", "--net", "convnet3"
    )  # rr is on by default for ECG
    assert_refused(refused, "--net: 'convnet3' is for images", "default, reference")


def test_the_default_net_and_a_configuration_file(ecgfed: Command, cohort: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('width = 0.25\nrounds = 1\nlocal-steps = 1\nnorm = "batch"\nengine = "batched"\n')
    said = ecgfed("train", cohort, "--out", tmp_path / "run", "--config", tmp_path / "c.toml")
    assert said.code == 0, said
    net = json.loads((tmp_path / "run" / "run.json").read_text())["net"]
    assert net == {"classes": 10, "architecture": "resnet30", "norm": "batch", "rr": False, "width": 0.25}
    (tmp_path / "c.toml").write_text("net = 3\n")
    refused = ecgfed("train", cohort, "--out", tmp_path / "other", "--config", tmp_path / "c.toml")
    assert_refused(refused, "net = 3", "expected text")
