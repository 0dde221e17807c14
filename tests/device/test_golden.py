"""Golden vectors: what is wrong with a runtime, or with a bundle, is named by the first stage that differs."""

import json
from pathlib import Path

import numpy as np
import pytest
from golden_vectors import CHANGES, SPOILT, golden, put
from support import copied, exported

import ecgfed.exports.device.golden as module
from ecgfed.base.errors import BundleError
from ecgfed.device import check_golden, open_bundle
from ecgfed.exports.bundles.golden import RECORDINGS

OLD = Path(__file__).parent.parent / "data" / "version-0.1"


@pytest.fixture
def bundle(fedavg_run: Path, tmp_path: Path) -> Path:
    return copied(exported(fedavg_run), tmp_path / "bundle")


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


@pytest.mark.parametrize("name", SPOILT)
def test_golden_vectors_of_another_form_are_one_line(bundle: Path, name: str) -> None:
    said = golden(bundle)
    SPOILT[name](said)
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
