"""Golden vectors: what is wrong with a runtime, or with a bundle, is named by the first stage that differs."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import change_manifest, copied, exported

import ecgfed.exports.device.golden as module
from ecgfed.base.errors import BundleError
from ecgfed.device import check_golden, open_bundle
from ecgfed.exports.bundles.golden import RECORDINGS

OLD = Path(__file__).parent.parent / "data" / "version-0.1"
Golden = dict[str, Any]


@pytest.fixture
def bundle(fedavg_run: Path, tmp_path: Path) -> Path:
    return copied(exported(fedavg_run), tmp_path / "bundle")


def golden(bundle: Path) -> Golden:
    said: Golden = json.loads((bundle / "golden.json").read_text())
    return said


def put(bundle: Path, said: object) -> None:
    """Put golden vectors into a bundle whose manifest is right about them."""
    data = json.dumps(said).encode()
    (bundle / "golden.json").write_bytes(data)
    files = json.loads((bundle / "manifest.json").read_text())["files"]
    files["golden.json"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    change_manifest(bundle, files=files)


def test_it_is_small_nobodys_and_holds_the_beats_that_were_made(bundle: Path) -> None:
    said = golden(bundle)
    shared = {name: value for name, value in said.items() if name != "patients"}
    assert len(json.dumps(shared, separators=(",", ":"))) < 200_000
    assert all(len(json.dumps(one, separators=(",", ":"))) < 2_000 for one in said["patients"].values())
    for one, (_, fs_hz, seconds, beats, gap_s) in zip(said["recordings"], RECORDINGS, strict=True):
        assert len(one["adu"]) == len(one["filtered_nv"]) == round(fs_hz * seconds)
        found = np.array(one["r_samples"]) / fs_hz
        apart = np.abs(found[:, None] - np.array([at for at, _ in beats]))
        assert len(found) == len(beats)
        assert (apart.min(axis=0) < 0.03).all(), "each beat is found where it was put"
        assert (gap_s is None) == (not one["lost"])
    assert set(said["patients"]) == {"p1", "p2", "p3", "p4"}


def test_every_stage_agrees(bundle: Path, local_run: Path) -> None:
    for folder in (bundle, exported(local_run)):
        found = check_golden(open_bundle(folder))
        assert found.agrees, str(found)
        assert found.first is None
        assert "agree" in str(found)
        names = " ".join(stage.name for stage in found.stages)
        for part in ("filtered", "360 Hz", "lost", "R peaks", "windows", "logits of the global", "labels of p4"):
            assert part in names
    assert "RR" not in names, "nets without RR features have none to compare"


CHANGES: dict[str, tuple[Callable[[Golden], object], str]] = {
    "raw": (lambda g: g["recordings"][0]["adu"].__setitem__(100, 1500), "filtered signal of 360 Hz"),
    "filtered": (lambda g: g["recordings"][0]["filtered_nv"].__setitem__(7, 10), "filtered signal of 360 Hz"),
    "resampled": (lambda g: g["recordings"][1]["resampled_nv"].__setitem__(9, 0), "signal at 360 Hz of 250 Hz"),
    "lost": (lambda g: g["recordings"][1]["lost"][0].__setitem__(0, 1089), "lost stretches of 250 Hz"),
    "peak": (lambda g: g["recordings"][0]["r_samples"].__setitem__(2, 682), "R peaks of 360 Hz"),
    "window": (lambda g: g["recordings"][0]["window_nv"][3].__setitem__(100, 0), "windows of 360 Hz"),
    "padded": (lambda g: g["recordings"][0]["padded"].__setitem__(5, 1), "padded windows of 360 Hz"),
    "rr": (lambda g: g["recordings"][0]["rr"][4].__setitem__(0, 4.5), "RR features of 360 Hz"),
    "minutes": (lambda g: g["context"]["rr"][30].__setitem__(3, 0.0), "RR features over minutes"),
    "far": (lambda g: g["far"]["distance"].__setitem__(0, 1.0), "distance"),
    "logit": (lambda g: g["global"]["float"]["logits"][0].__setitem__(0, 9.0), "logits of the global model"),
    "label": (lambda g: g["patients"]["p2"]["float"]["label"].__setitem__(0, 11), "labels of p2"),
    "probability": (lambda g: g["patients"]["p3"]["float"]["probability"].__setitem__(1, 0.0), "probability of p3"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_first_stage_that_differs_is_named(bundle: Path, name: str) -> None:
    change, stage = CHANGES[name]
    said = golden(bundle)
    change(said)
    put(bundle, said)
    if name == "far" and "far" not in golden(bundle):
        pytest.skip("the synthetic cohort is too small for typical beats")
    found = check_golden(open_bundle(bundle))
    assert found.first is not None
    assert found.first.name.startswith(stage)
    assert found.first.difference > found.first.tolerance
    assert found.first.name in str(found)


def test_a_runtime_that_filters_otherwise_is_found_out(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage at fault is named, and no other: the next ones begin from what stands in the file."""
    right = module.band_pass
    monkeypatch.setattr(module, "band_pass", lambda signal, fs: np.roll(right(signal, fs), 1))
    found = check_golden(open_bundle(bundle))
    wrong = [stage.name for stage in found.stages if not stage.agrees]
    assert wrong == ["filtered signal of 360 Hz", "filtered signal of 250 Hz with a gap"]


def test_a_detector_that_finds_fewer_beats_is_found_out(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = module.detect_around_gaps
    monkeypatch.setattr(module, "detect_around_gaps", lambda *given: right(*given)[:-1])
    found = check_golden(open_bundle(bundle))
    assert [stage.difference for stage in found.stages if not stage.agrees] == [np.inf, np.inf]
    assert found.first is not None
    assert found.first.name == "R peaks of 360 Hz"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda g: g.pop("recordings"),
        lambda g: g["recordings"][0].update(fs_hz=0),
        lambda g: g["recordings"][0].update(fs_hz="fast"),
        lambda g: g["recordings"][0].update(fs_hz=1e15),
        lambda g: g["recordings"][0].update(r_samples=[5] * 100_001),
        lambda g: g["context"].update(shapes_nv=[[0] * 300_000], parts_per_mille=[[0]] * 100_000),
        lambda g: g["context"].update(parts_per_mille=[[0, 0, 0]] * 100_001),
        lambda g: g["recordings"][0].update(gain_adu_per_mv=0),
        lambda g: g["recordings"][0].update(adu=[]),
        lambda g: g["recordings"][0].update(adu="x"),
        lambda g: g["recordings"][0].update(window_nv=[[1]]),
        lambda g: g["recordings"][0].update(r_samples=[10**12]),
        lambda g: g["patients"].pop("p1"),
        lambda g: g["answered"].update({"global": [10**9]}),
        lambda g: g["global"].update({"float": 3}),
    ],
)
def test_golden_vectors_of_another_form_are_one_line(bundle: Path, spoil: Callable[[Golden], object]) -> None:
    said = golden(bundle)
    spoil(said)
    put(bundle, said)
    try:
        line = str(check_golden(open_bundle(bundle)))
    except BundleError as problem:
        line = problem.line
    assert "golden" in line
    assert "\n" not in line
    assert "stages agree" not in line


def test_bundles_of_version_1_hold_none() -> None:
    with pytest.raises(BundleError, match="holds no golden vectors; expected a bundle of version 2"):
        check_golden(open_bundle(OLD / "bundle"))


def test_a_manifest_that_names_another_file_as_golden_is_refused(bundle: Path) -> None:
    change_manifest(bundle, golden="global.onnx")
    with pytest.raises(BundleError, match=r"manifest\.json: lacks a file of the bundle that is its golden"):
        open_bundle(bundle)
