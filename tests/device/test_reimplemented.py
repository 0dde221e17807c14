"""A runtime written from manifest, golden vectors and docs/bundle-format.md alone does what ecgfed does.

Not reimplemented: the R peaks, which are taken from the golden vectors or given.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray
from reimplemented import Runtime
from reimplemented_3 import averaged
from support import change_manifest, copied, exported

import ecgfed
from ecgfed.device import open_bundle
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.context_stream import context_features
from ecgfed.domain.beats.windows import resample, rr_features
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.filters import band_pass, fill_gaps
from ecgfed.domain.signal.quality import NO_SIGNAL
from ecgfed.exports.bundles.describe import preprocessing_of
from ecgfed.exports.device.shipped import MODEL

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runtime(fedavg_run: Path) -> Runtime:
    """Of a bundle whose graphs take RR features of version 2."""
    return Runtime(exported(fedavg_run))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """Of a manifest that says RR features of version 1."""
    folder = copied(MODEL, tmp_path_factory.mktemp("first") / "bundle")
    change_manifest(folder, preprocessing=json.loads(json.dumps(preprocessing_of(1))))
    return Runtime(folder)


@pytest.fixture(scope="module")
def third(context_run: Path) -> Runtime:
    """Of a bundle whose graphs take RR features of version 3."""
    return Runtime(exported(context_run))


@pytest.fixture(scope="module")
def shipped() -> Runtime:
    """Of the model in the package, RR features of version 3 too."""
    return Runtime(MODEL)


def cut(around: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the windows of strips (beats, 576), and what lies beside them."""
    means = around.reshape(len(around), 144, 4).mean(axis=2)
    return around[:, 188:444], np.concatenate([means[:, :47], means[:, 111:]], axis=1)


def test_it_imports_nothing_of_ecgfed() -> None:
    for name in ("reimplemented.py", "reimplemented_3.py"):
        text = (Path(__file__).parent / name).read_text()
        assert "import ecgfed" not in text
        assert "from ecgfed" not in text


@pytest.mark.parametrize("which", ["shipped", "fedavg_run", "local_run", "context_run"])
def test_it_gives_the_golden_vectors(which: str, request: pytest.FixtureRequest) -> None:
    """Every stage from what stands in the file of the stage before, and then all of them one after the other."""
    folder = MODEL if which == "shipped" else exported(request.getfixturevalue(which))
    runtime, said = Runtime(folder), json.loads((folder / "golden.json").read_text())
    windows: list[NDArray[np.float32]] = []
    features: list[NDArray[np.float32]] = []
    for one in said["recordings"]:
        fs = one["fs_hz"]
        adu = np.array([np.nan if v is None else v for v in one["adu"]], np.float64)
        recorded = (adu - one["baseline_adu"]) / one["gain_adu_per_mv"]
        filtered = runtime.filtered(runtime.bridged(recorded), fs)
        np.testing.assert_allclose(filtered * 1e6, one["filtered_nv"], rtol=0, atol=1)
        at_360 = runtime.resampled(filtered, fs)
        np.testing.assert_allclose(at_360 * 1e6, one.get("resampled_nv", one["filtered_nv"]), rtol=0, atol=2)
        lost = runtime.lost(recorded, fs)
        assert lost == one["lost"]
        window_mv, padded = runtime.windows(at_360, fs, one["r_samples"])
        np.testing.assert_allclose(window_mv * 1e6, one["window_nv"], rtol=0, atol=2)
        assert padded == [bool(v) for v in one["padded"]]
        windows.append((np.array(one["window_nv"]) / 1e6).astype(np.float32))
        if runtime.about["rr"]:
            said_mv = np.array(one.get("resampled_nv", one["filtered_nv"])) / 1e6
            found = runtime.rr(fs, one["r_samples"], windows[-1], padded, lost, said_mv)
            np.testing.assert_allclose(found, one["rr"], rtol=0, atol=2e-5)
            features.append(np.array(one["rr"], np.float32))
    inputs: dict[str, NDArray[Any]] = {"window": np.concatenate(windows)[:, None]}
    if features:
        inputs["rr"] = np.concatenate(features)
    for patient in (None, *said["patients"]):
        told = (said["global"] if patient is None else said["patients"][patient])["float"]
        some = said["answered"]["global" if patient is None else "patients"]
        answer = runtime.answer(patient, {name: value[some] for name, value in inputs.items()})
        np.testing.assert_allclose(answer["logits"], told["logits"], rtol=1e-6, atol=1e-4)
        np.testing.assert_allclose(answer["probability"], told["probability"], rtol=0, atol=1e-4)
        assert answer["label"].tolist() == told["label"]
        assert answer["unsure"].astype(int).tolist() == told["unsure"]
    if "far" in said:
        far = runtime.manifest["certainty"]["far"]
        distance = runtime.run([far["graph"]], {"window": inputs["window"]})[:, 0]
        np.testing.assert_allclose(distance, said["far"]["distance"], rtol=0, atol=1e-4)
        assert (distance > far["threshold"]).astype(int).tolist() == said["far"]["far"]


@pytest.mark.parametrize("which", ["runtime", "third", "shipped"])
def test_it_gives_the_golden_minutes(which: str, request: pytest.FixtureRequest) -> None:
    runtime: Runtime = request.getfixturevalue(which)
    said = json.loads((runtime.folder / "golden.json").read_text())["context"]
    before = np.array([np.nan if v is None else v / 1000 for v in said["before_ms"]])
    around = (np.array(said["parts_per_mille"]) @ np.array(said["shapes_nv"]) / 1000 / 1e6).astype(np.float32)
    window, beside = (around, None) if which == "runtime" else cut(around)
    found = runtime.rr_in_context(before, window, np.array(said["usable"], bool), beside)
    np.testing.assert_allclose(found[said["answered"]], said["rr"], rtol=0, atol=2e-5)


@pytest.mark.parametrize("fs", [100.0, 125.0, 128.0, 250.0, 257.0, 333.3, 360.0, 500.0, 1000.0])
def test_filter_and_resampling_at_other_frequencies(runtime: Runtime, fs: float) -> None:
    draw = np.random.default_rng(int(fs))
    signal = draw.normal(0, 0.5, int(6 * fs)).cumsum() * 0.05
    signal[50:70] = np.nan
    bridged = runtime.bridged(signal)
    np.testing.assert_array_equal(bridged, fill_gaps(signal)[0])
    filtered = runtime.filtered(bridged, fs)
    np.testing.assert_allclose(filtered, band_pass(bridged, fs), rtol=0, atol=1e-12)
    np.testing.assert_allclose(runtime.resampled(filtered, fs), resample(filtered, fs), rtol=0, atol=1e-10)


def _spoilt(seed: int, fs: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A signal with a gap, a flat line, a stretch at the rail and spikes, wherever they fall."""
    draw = np.random.default_rng(seed)
    signal, peaks = synthetic_signal("NNVNNANNLVNNNNNNNVNN", fs_hz=fs, seed=seed)
    for _ in range(int(draw.integers(1, 4))):
        start = int(draw.integers(0, len(signal) - int(3 * fs)))
        kind = int(draw.integers(0, 4))
        length = int(fs * draw.uniform(0.02, 2.5))
        if kind == 0:
            signal[start : start + length] = np.nan
        elif kind == 1:
            signal[start : start + length] = signal[start] + 0.004 * draw.random()
        elif kind == 2:
            signal[start : start + length] = 5.12
        else:
            signal[start : start + 3] += 9.0 * draw.choice([-1, 1])
    return signal, peaks


@pytest.mark.parametrize("fs", [250.0, 360.0])
@pytest.mark.parametrize("seed", range(8))
def test_lost_stretches_windows_and_features_of_spoilt_recordings(
    runtime: Runtime, first: Runtime, third: Runtime, seed: int, fs: float
) -> None:
    signal, peaks = _spoilt(seed, fs)
    lost = runtime.lost(signal, fs)
    quality = lead_quality(signal, fs)
    assert lost == [list(span) for span in quality.spans(NO_SIGNAL)]
    at_360 = runtime.resampled(runtime.filtered(runtime.bridged(signal), fs), fs)
    window_mv, padded = runtime.windows(at_360, fs, peaks.tolist())
    for version, here in ((1, first), (2, runtime), (3, third)):
        expected = windows_around(signal, fs, peaks, quality, rr_version=version)
        np.testing.assert_allclose(window_mv, expected.window_mv[:, 0], rtol=0, atol=1e-6)
        assert padded == (expected.flags & 1).astype(bool).tolist()
        found = here.rr(fs, peaks.tolist(), expected.window_mv[:, 0], padded, lost, at_360)
        np.testing.assert_allclose(found, expected.rr_s, rtol=0, atol=2e-5)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 9, 40, 700])
def test_features_over_minutes_of_wild_beats(runtime: Runtime, third: Runtime, count: int) -> None:
    draw = np.random.default_rng(count)
    shape = draw.normal(0, 0.3, (3, 576)).cumsum(axis=1) * 0.1
    kind = draw.choice(3, count, p=[0.7, 0.2, 0.1])
    around = (shape[kind] * draw.uniform(0.3, 1.5, (count, 1)) + draw.normal(0, 0.02, (count, 576))).astype(np.float32)
    window, beside = cut(around)
    if count > 5:
        window[2] = 0.25  # still: no shape
    before = 0.8 * np.exp(draw.normal(0, 0.2, count))
    before[draw.random(count) < 0.05] = np.nan
    before[:1] = np.nan
    usable = draw.random(count) > 0.1
    usable[200:300] = False  # too few around for a median
    for here, more in ((runtime, None), (third, beside)):
        version = 2 if more is None else 3
        expected = context_features(np.append(before, np.nan), window[:, None], usable, version, more)
        if count:
            np.testing.assert_allclose(here.rr_in_context(before, window, usable, more), expected, rtol=0, atol=2e-5)


def drawn() -> tuple[int, list[float]]:
    """The 30 numbers of the page's section on alike beats."""
    text = (ROOT / "docs" / "bundle-format.md").read_text().partition("## Alike beats")[2].partition("\n## ")[0]
    first, *others = re.search(r"```text\n(.*?)```", text, re.DOTALL)[1].split()  # type: ignore[index]
    return int(first), [float(one) for one in others]


@pytest.mark.mitdb
@pytest.mark.parametrize("name", ["208", "232"])
def test_a_real_record_has_the_same_labels(shipped: Runtime, mitdb: Path, name: str) -> None:
    """All from the samples on; R peaks and the beats without signal are given."""
    recording = open_recording(mitdb / name, ("MLII",))
    python = ecgfed.predict(shipped.folder, recording, force=True)
    signal, fs = np.asarray(python.recording.signal_mv), python.recording.fs_hz
    at_360, peaks = shipped.filtered(shipped.bridged(signal), fs), python.sample.tolist()
    window_mv, padded = shipped.windows(at_360, fs, peaks)
    rr = shipped.rr(fs, peaks, window_mv, padded, shipped.lost(signal, fs), at_360)
    windows, opened = python.cut.windows, open_bundle(shipped.folder)
    np.testing.assert_allclose(rr, windows.rr_s, rtol=0, atol=2e-5)
    answer = shipped.answer(None, {"window": window_mv[:, None], "rr": rr})
    model = opened.classifier().classify(windows)
    assert answer["label"].tolist() == model.label.tolist()
    names = shipped.manifest["rr_features"]["names"]
    probability = model.probability
    found = averaged(names, probability, rr, windows.no_signal, drawn())
    expected = opened.classifier().classify_blocks([windows], grouped=True)
    assert found.argmax(axis=1).tolist() == expected.label.tolist()
    np.testing.assert_allclose(found, expected.probability, rtol=0, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 60])
def test_features_of_version_1(first: Runtime, count: int) -> None:
    t = np.cumsum(np.random.default_rng(count).uniform(0.3, 1.5, count))
    np.testing.assert_allclose(first.rr_1(t.tolist()), rr_features(t), rtol=0, atol=1e-6)
