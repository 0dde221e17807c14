"""All versions of the RR features, from the recording to what a bundle says, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import train_run

from ecgfed import predict, prepare_folder
from ecgfed.base.errors import BundleError, CohortError, OptionError, RunError
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import RR_COUNT, Inputs, NetSpec
from ecgfed.core.nets.resnet1d import CONTEXT_SCALE, ResNet1d
from ecgfed.core.runs.run import create_run, open_run
from ecgfed.device import open_bundle
from ecgfed.domain.beats.context import FEATURES
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.beats.rr import RR_DEFAULT, RR_NAMES
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.pack import pack_cohort, unpack_cohort
from ecgfed.domain.record.reader import read_recording
from ecgfed.exports.bundles.export import export_bundle

VERSIONS = sorted(RR_NAMES)


@pytest.fixture(scope="module", params=VERSIONS)
def made(request: pytest.FixtureRequest, records: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """A cohort, a run and a bundle of each version, in one folder."""
    version, folder = request.param, tmp_path_factory.mktemp("rr")
    prepare_folder(records, folder / "cohort", rr_version=version, workers=1)
    run = open_run(train_run(folder / "cohort", folder / "run", rounds=1))
    export_bundle(run, run.cohort(), run.state(), folder / "bundle")
    return version, folder


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_what_a_net_of_version_2_makes_of_its_inputs(share: float) -> None:
    """Features of the window count as much as asked; the others are scaled, each by its own; version 1 is as it was."""
    spec = NetSpec(classes=3, rr=True, rr_version=2, window_share=share)
    assert NetSpec.from_json(spec.as_json()) == spec
    assert ("window_share" in spec.as_json()) == (share != 1)
    net, windows_only = ResNet1d(spec), ResNet1d(NetSpec(classes=3))
    params = net.initial(0)
    rng = np.random.default_rng(0)
    window = torch.from_numpy(rng.standard_normal((4, 1, 256)).astype(np.float32))
    rr = rng.standard_normal((4, RR_COUNT[2])).astype(np.float32)
    found = net.extract(params, Inputs(window, torch.from_numpy(rr)))
    weight, bias = (params[f"extractor.rr.{name}"].numpy() for name in ("weight", "bias"))
    by_hand = share * windows_only.extract(params, Inputs(window)).numpy() + (rr * CONTEXT_SCALE) @ weight.T + bias
    np.testing.assert_allclose(found.numpy(), by_hand, rtol=1e-4, atol=1e-5)
    assert len(CONTEXT_SCALE) == len(FEATURES) == RR_COUNT[2]


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, True, float("nan")])
def test_a_share_of_the_window_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match=r"^window_share: "):
        NetSpec(classes=3, rr=True, rr_version=2, window_share=share)
    with pytest.raises(OptionError, match=r"^window_share: .*RR features of version 2"):
        NetSpec(classes=3, rr=True, window_share=0.5)


def test_nets_know_as_many_features_as_there_are() -> None:
    assert {version: len(names) for version, names in RR_NAMES.items()} == RR_COUNT
    assert RR_DEFAULT in RR_NAMES


def test_cohort_run_and_bundle_say_their_version(made: tuple[int, Path]) -> None:
    version, folder = made
    cohort, run = open_cohort(folder / "cohort"), json.loads((folder / "run" / "run.json").read_text())
    assert (cohort.rr_version, cohort.rr.shape) == (version, (len(cohort.label), len(RR_NAMES[version])))
    assert cohort.meta["rr_features"] == list(RR_NAMES[version])
    assert run["net"].get("rr_version", 1) == version
    bundle = open_bundle(folder / "bundle")
    assert bundle.rr_version == bundle.classifier().rr == version
    assert bundle.manifest["rr_features"] == {"version": version, "names": list(RR_NAMES[version])}
    assert bundle.manifest["inputs"]["rr"] == [len(RR_NAMES[version])]


def test_what_predicts_is_cut_as_what_was_trained(made: tuple[int, Path], records: Path) -> None:
    version, folder = made
    cohort = open_cohort(folder / "cohort")
    read = read_recording(records / "p1", ("MLII",))
    beats = cut_beats(read, BeatOptions(("MLII",), "annotated", rr_version=version))
    np.testing.assert_array_equal(beats.windows.rr_s, cohort.rr[cohort.client == 0])
    found = predict(folder / "bundle", records / "p1", peaks="annotated")
    classifier = open_bundle(folder / "bundle").classifier()
    direct = classifier.predict(read.signal_mv, read.fs_hz, beats.r_samples)
    if version == 3:  # of a whole recording, averaged over alike beats
        np.testing.assert_allclose(classifier.classify(beats.windows).probability, direct.probability, atol=1e-6)
        direct = classifier.classify_blocks([beats.windows], grouped=True)
    np.testing.assert_allclose(found.probability, direct.probability, atol=1e-6)


def test_a_packed_cohort_keeps_its_version(made: tuple[int, Path], tmp_path: Path) -> None:
    version, folder = made
    pack_cohort(folder / "cohort", tmp_path / "c.npz")
    unpack_cohort(tmp_path / "c.npz", tmp_path / "cohort")
    back = open_cohort(tmp_path / "cohort")
    assert back.rr_version == version
    np.testing.assert_array_equal(back.rr, open_cohort(folder / "cohort").rr)


def test_a_net_of_another_version_is_refused(made: tuple[int, Path], tmp_path: Path) -> None:
    version, folder = made
    cohort, kind = open_cohort(folder / "cohort"), method_by_name("fedavg")
    other = next(one for one in VERSIONS if one != version)
    method = kind(ResNet1d(NetSpec(12, rr=True, rr_version=other)), make_settings(kind.settings_type, {}))
    with pytest.raises(RunError, match=f"has RR features of version {version}; expected version {other}"):
        create_run(tmp_path / "run", cohort, method, TrainPlan(1), {})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("version", [0, 5, True, "2"])
def test_unknown_versions_are_refused(version: object, records: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="rr_version: "):
        prepare_folder(records, tmp_path / "c", rr_version=version)  # type: ignore[arg-type]
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("said", [5, "1", True, None])
def test_a_cohort_of_an_unknown_version_is_refused(said: object, cohort_path: Path, tmp_path: Path) -> None:
    shutil.copytree(cohort_path, tmp_path / "c")
    document = tmp_path / "c" / "cohort.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "rr_version": said}))
    with pytest.raises(CohortError, match=r"cohort\.json: lacks a known rr_version"):
        open_cohort(tmp_path / "c")


def test_a_manifest_of_the_other_version_is_refused(made: tuple[int, Path], tmp_path: Path) -> None:
    version, folder = made
    other = next(one for one in VERSIONS if one != version)
    shutil.copytree(folder / "bundle", tmp_path / "b")
    path = tmp_path / "b" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["digest"]  # as somebody would who makes bundles of their own
    path.write_text(json.dumps({**manifest, "rr_features": {"version": other, "names": list(RR_NAMES[other])}}))
    with pytest.raises(BundleError, match=r"manifest\.json: inputs"):
        open_bundle(tmp_path / "b")
