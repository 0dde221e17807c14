"""Bundles, classification and streams of the JavaScript runtime in Node, beside Python's own."""

import json
import shutil
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_record
from node_runtime import Refused, in_node, own
from spoiled_signals import spoiled
from support import exported

import ecgfed
from ecgfed.device import StreamClassifier, open_bundle
from ecgfed.domain.record.reader import open_recording
from ecgfed.exports.device.canonical import digest_of

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
RUNNER = ("onnxruntime-node",)
STAGES = ("early", "final", "withdrawn")


def told_of(path: Path) -> dict[str, Any]:
    """Return a recording as JavaScript takes it."""
    recording = open_recording(path, (), every_lead=True)
    return {
        "name": recording.name,
        "fsHz": recording.fs_hz,
        "leads": list(recording.leads),
        "signalsMv": np.asarray(recording.signals_mv),
    }


def same_beats(found: list[dict[str, Any]], python: Any) -> None:
    """Compare beats of JavaScript with a prediction of Python."""
    assert [one["sample"] for one in found] == python.sample.tolist()
    # JavaScript does not know which windows show no signal: Python leaves these without a class
    own = python.classified.tolist()
    assert [one["class"] for one in found] == [python.classes[number] for number in python.label]
    symbols = [one["symbol"] for one in python.beats()]
    assert [one["symbol"] for one, mine in zip(found, own, strict=True) if mine] == list(compress(symbols, own))
    assert [one["flags"] for one in found] == python.flags.tolist()
    assert [one["poorQuality"] for one in found] == list(python.poor)
    assert [one["far"] for one in found] == python.out_of_distribution.tolist()
    uncertain = [one["uncertain"] or not mine for one, mine in zip(found, own, strict=True)]
    assert uncertain == python.low_confidence.tolist()
    probability = np.stack([one["probabilities"] for one in found])
    assert np.abs(probability - python.probability).max() < 1e-4


@pytest.fixture(scope="module", params=["fedavg_run", "context_run"])
def personal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles with a model for each of the four synthetic patients, with RR features of versions 2 and 3."""
    out = tmp_path_factory.mktemp("personal") / "bundle"
    ecgfed.export(request.getfixturevalue(request.param), out)
    return out


def test_the_model_in_the_package_answers_as_python(tmp_path: Path) -> None:
    records = [write_record(tmp_path, "a", "NNNNV" * 14, seed=1), write_record(tmp_path, "b", "NNA" * 20, fs_hz=250.0)]
    jobs = [own("classified", {"bundle": str(MODEL)}, told_of(one), {}) for one in records]
    for record, found in zip(records, in_node(*jobs, packages=RUNNER), strict=True):
        same_beats(found, ecgfed.predict(record))


def test_every_patients_model_answers_as_python(personal: Path, records: Path) -> None:
    bundle = open_bundle(personal)
    patients = [None, *bundle.patients]
    record = records / "p1"
    jobs = [own("classified", {"bundle": str(personal), "patient": one}, told_of(record), {}) for one in patients]
    (about, *found) = in_node(own("opened", {"bundle": str(personal)}), *jobs, packages=RUNNER)
    assert about["patients"] == list(bundle.patients)
    assert (about["classes"], about["leads"]) == (list(bundle.classes), list(bundle.leads))
    assert about["rrVersion"] == bundle.rr_version
    for patient, one in zip(patients, found, strict=True):
        python = ecgfed.predict(personal, record, patient=patient, force=True)
        same_beats(one, python)
        assert ("averaged_over_alike_beats" in python.metadata) == (about["rrVersion"] == 3 and patient is None)
    assert about["averagedOverAlikeBeats"] == (about["rrVersion"] == 3)


@pytest.mark.parametrize("rr_version", [1, 2, 3])
def test_a_stream_gives_the_beats_of_the_whole_to_the_last_bit(rr_version: int) -> None:
    """However it is cut: with gaps, a flat line, a rail, a spike, noise and a jump of the baseline."""
    sizes: list[list[int]] = [[90], [1, 13, 1000, 5000], [10**9]]
    jobs = []
    for fs_hz in (250.0, 360.0):
        signals = spoiled(fs_hz, seed=9)
        signals[:, : round(2 * fs_hz)] = np.nan
        told = {"fsHz": fs_hz, "leads": ["MLII", "V1"], "signalsMv": signals}
        how = {"lead": 0, "railsMv": [-6.0]}
        jobs += [own("streamed", {"bundle": str(MODEL)}, told, how, one, rr_version) for one in sizes]
    for found in in_node(*jobs, packages=RUNNER):
        assert len(found["beats"]) == len(found["whole"]) > 50
        for beat, whole in zip(found["beats"], found["whole"], strict=True):
            assert beat["stage"] == "final"
            for name in ("sample", "flags", "poorQuality"):
                assert beat[name] == whole[name]
            assert np.array_equal(beat["windowMv"], whole["windowMv"])
            assert np.array_equal(beat["rr"], whole["rr"])


def test_a_stream_says_early_what_it_says_again_in_the_end(tmp_path: Path) -> None:
    record = write_record(tmp_path, "early", "NNNNV" * 30, seed=2)
    told, how = told_of(record), {"lead": 0, "early": "decided"}
    (found,) = in_node(own("streamed", {"bundle": str(MODEL)}, told, how, [90]), packages=RUNNER)
    final = [one for one in found["beats"] if one["stage"] == "final"]
    early = {one["sample"]: one for one in found["beats"] if one["stage"] == "early"}
    assert [one["class"] for one in final] == [one["class"] for one in found["whole"]]
    assert len(early) >= len(final) - 10  # of the last seconds nothing is early
    assert set(early) <= {one["sample"] for one in final}
    same = np.mean([early[one["sample"]]["class"] == one["class"] for one in final if one["sample"] in early])
    assert same > 0.9


@pytest.mark.parametrize("rr_version", [2, 3])
def test_early_beats_are_those_of_pythons_stream(rr_version: int, fedavg_run: Path, tmp_path: Path) -> None:
    """At the same time, and as if the next R peak were all that follows."""
    bundle = MODEL if rr_version == 3 else exported(fedavg_run)
    record = write_record(tmp_path, "early", "NNNNVNANN" * 20, fs_hz=250.0, seed=3)
    told, size = told_of(record), 125
    (found,) = in_node(
        own("streamed", {"bundle": str(bundle)}, told, {"lead": 0, "early": "decided"}, [size]), packages=RUNNER
    )
    stream = StreamClassifier(open_bundle(bundle).classifier(), told["fsHz"], leads=2, early="decided")
    signals = told["signalsMv"]
    python = [one for at in range(0, signals.shape[1], size) for one in stream.push(signals[:, at : at + size])]
    python += stream.finish()
    assert [(one["sample"], one["stage"], one["label"]) for one in sorted(found["beats"], key=by_beat)] == [
        (one.sample, str(one.stage), one.label) for one in sorted(python, key=lambda one: (one.sample, str(one.stage)))
    ]
    assert sum(one["stage"] == "early" for one in found["beats"]) > 150
    by = {(one["sample"], one["stage"]): one["probabilities"] for one in found["beats"]}
    assert max(np.abs(by[one.sample, str(one.stage)] - one.probabilities).max() for one in python) < 1e-4


def by_beat(beat: dict[str, Any]) -> tuple[int, str]:
    return beat["sample"], beat["stage"]


def test_what_was_told_early_is_told_again_or_withdrawn_among_spikes() -> None:
    signals = spoiled(360.0, seed=5)
    told = {"fsHz": 360.0, "leads": ["MLII", "V1"], "signalsMv": signals}
    how = {"lead": 0, "railsMv": [-6.0], "early": "decided"}
    (found,) = in_node(own("streamed", {"bundle": str(MODEL)}, told, how, [500]), packages=RUNNER)
    of = {stage: {one["sample"] for one in found["beats"] if one["stage"] == stage} for stage in STAGES}
    assert of["final"] == {one["sample"] for one in found["whole"]}
    assert of["early"] <= of["final"] | of["withdrawn"]
    assert of["withdrawn"] <= of["early"] - of["final"]


def test_a_zip_file_and_files_by_name_are_a_bundle_too(tmp_path: Path) -> None:
    packed = shutil.make_archive(str(tmp_path / "bundle"), "zip", MODEL)
    by_name = {path.name: np.frombuffer(path.read_bytes(), np.uint8) for path in MODEL.iterdir()}
    in_folder = {f"some/folder/{name}": data for name, data in by_name.items()}
    jobs = [own("opened", {"bundle": packed}), own("opened", {"files": by_name}), own("opened", {"files": in_folder})]
    for found in in_node(*jobs, packages=RUNNER):
        assert found["classes"] == ["N", "S", "V", "F", "Q"]


def spoiled_bundles(folder: Path) -> dict[str, Path]:
    """Return bundles that must not open, and what is said of each; fields of the manifest: test_manifest_js.py."""
    made = {}

    def copy(name: str, said: str) -> Path:
        made[said] = folder / name
        return Path(shutil.copytree(MODEL, folder / name))

    data = bytearray((MODEL / "global.onnx").read_bytes())
    data[5000] ^= 1
    (copy("flipped", "was changed (its SHA-256") / "global.onnx").write_bytes(data)
    (copy("missing", "does not exist") / "far.onnx").unlink()
    (copy("text", "cannot be read as JSON") / "manifest.json").write_text("{")
    manifest = json.loads((MODEL / "manifest.json").read_text())
    outside = {**manifest["files"], "../outside.onnx": manifest["files"]["far.onnx"]}
    manifest |= {"files": outside}
    manifest["digest"] = digest_of(manifest, "digest")
    (copy("outside", "files that are not the bundle's") / "manifest.json").write_text(json.dumps(manifest))
    return made


def test_bundles_that_were_changed_are_refused_in_one_line(tmp_path: Path) -> None:
    made = spoiled_bundles(tmp_path)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(Path(shutil.make_archive(str(tmp_path / "whole"), "zip", MODEL)).read_bytes()[:-30])
    made |= {"is no zip file": cut, "is no folder": tmp_path / "nowhere"}
    found = in_node(*(own("opened", {"bundle": str(path)}) for path in made.values()), packages=RUNNER)
    for said, one in zip(made, found, strict=True):
        assert isinstance(one, Refused), said
        assert said in one.line
        assert "\n" not in one.line


def test_what_cannot_be_classified_is_refused_in_one_line() -> None:
    signal = spoiled(360.0, seed=2)
    flat = np.zeros(3600)
    leads = " or ".join(open_bundle(MODEL).leads)
    asked: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "sampling frequency 50 Hz": ({"fsHz": 50, "leads": ["MLII"], "signalsMv": signal[:1]}, {}),
        f"has no lead {leads}; it has V1": ({"fsHz": 360, "leads": ["V1"], "signalsMv": signal[:1]}, {}),
        "is flat": ({"fsHz": 360, "leads": ["MLII", "V1"], "signalsMv": np.stack([flat, flat])}, {}),
        "has no usable 3 s at a stretch (flat 10.0 s of 10.0 s)": (
            {"fsHz": 360, "leads": ["MLII"], "signalsMv": flat[None]},
            {},
        ),
        "lasts 1.0 s": ({"fsHz": 360, "leads": ["MLII"], "signalsMv": signal[:1, :360]}, {}),
        "has no lead number 2": ({"fsHz": 360, "leads": ["MLII"], "signalsMv": signal[:1]}, {"lead": 2}),
        "no patient 'x'": ({"fsHz": 360, "leads": ["MLII"], "signalsMv": signal[:1]}, {"patient": "x"}),
    }
    jobs = []
    for recording, how in asked.values():
        which = {"bundle": str(MODEL), "patient": how.pop("patient", None)}
        jobs.append(own("classified", which, recording, how))
    for said, one in zip(asked, in_node(*jobs, packages=RUNNER), strict=True):
        assert isinstance(one, Refused), said
        assert said in one.line
