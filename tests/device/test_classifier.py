"""Classifying beats with a bundle: against plain onnxruntime on its files, and at another sampling frequency."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray
from support import SavedRun, exported, softmax

from ecgfed.base.errors import BundleError, RecordError
from ecgfed.device import Classifier, open_bundle
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.rr import RR_DEFAULT, RR_NAMES
from ecgfed.exports.device.calibration import Calibration

SYMBOLS = "NNNNV" * 12
#: RR features of a cohort where nothing else is asked for.
FEATURES = len(RR_NAMES[RR_DEFAULT])
N, V = 0, 3  # their class numbers in mitbih12


@pytest.fixture
def with_rr(fedavg_run: Path) -> Classifier:
    return open_bundle(exported(fedavg_run)).classifier()


@pytest.fixture
def personal(local_run: Path) -> Classifier:
    return open_bundle(exported(local_run)).classifier("p1")


def _windows(beats: int) -> NDArray[np.float32]:
    return np.random.default_rng(beats).normal(0, 0.5, (beats, 1, 256)).astype(np.float32)


def _rr(beats: int) -> NDArray[np.float32]:
    return np.random.default_rng(beats).uniform(-1, 1, (beats, FEATURES)).astype(np.float32)


@pytest.mark.parametrize("beats", [1, 255, 256, 257, 600])
def test_logits_are_those_of_plain_onnxruntime(with_rr: Classifier, fedavg_run: Path, beats: int) -> None:
    """Past 256 beats a recording goes through in pieces; no beat may get lost between them."""
    graph = str(exported(fedavg_run) / "global.onnx")
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    feeds = {"window": _windows(beats), "rr": _rr(beats)}
    np.testing.assert_allclose(
        with_rr.logits(feeds["window"], feeds["rr"]), session.run(None, feeds)[0], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("temperature", [0.001, 1000.0])
def test_probabilities_are_finite_or_refused(
    with_rr: Classifier, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Logits that float32 holds, and that it no longer holds over a temperature that a manifest may say."""
    logits = np.zeros((2, len(with_rr.classes)), np.float32)
    logits[:, V] = 3e37
    monkeypatch.setattr(with_rr, "logits", lambda *given: logits)
    monkeypatch.setattr(with_rr, "calibration", Calibration(temperature, threshold=0.5))
    windows = Windows(_windows(2), _rr(2), np.zeros(2, np.uint8))
    if temperature < 1:
        with pytest.raises(BundleError, match="too large for the temperature"):
            with_rr.classify(windows)
    else:
        assert with_rr.classify(windows).probability[:, V].tolist() == [1.0, 1.0]


def test_a_probability_that_is_no_number_is_uncertain() -> None:
    assert Calibration(threshold=0.0).low_confidence(np.array([np.nan, 0.0, 0.4])).tolist() == [True, False, False]


def test_beats_that_are_shared_out_among_threads_come_back_in_order(
    with_rr: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, rr = _windows(1100), _rr(1100)
    alone = with_rr.logits(window, rr)
    monkeypatch.setattr("ecgfed.exports.device.classifier._SHARED", 300)
    np.testing.assert_array_equal(with_rr.logits(window, rr), alone)


@pytest.mark.parametrize("at_once", [1, 7, 64, 256])
def test_how_many_beats_are_run_at_once_changes_no_bit(
    with_rr: Classifier, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    rng = np.random.default_rng(1)
    window = rng.normal(0, 0.3, (300, 1, 256)).astype(np.float32)
    rr = rng.normal(0, 1, (300, len(RR_NAMES[with_rr.rr]))).astype(np.float32)
    expected = with_rr.logits(window, rr)
    monkeypatch.setattr("ecgfed.exports.device.classifier.AT_ONCE", at_once)
    np.testing.assert_array_equal(with_rr.logits(window, rr), expected)


def test_no_beats_give_no_logits(with_rr: Classifier, personal: Classifier) -> None:
    assert with_rr.logits(_windows(0), _rr(0)).shape == (0, 12)
    found = personal.predict(np.zeros(2000), 360.0, np.empty(0, np.int64))
    assert (len(found.label), found.probability.shape, len(found.flags)) == (0, (0, 12), 0)


def test_double_precision_and_other_strides_are_taken(with_rr: Classifier) -> None:
    window, rr = _windows(20), _rr(20)
    expected = with_rr.logits(window, rr)
    np.testing.assert_array_equal(with_rr.logits(window.astype(np.float64), rr.astype(np.float64)), expected)
    every_other = with_rr.logits(window[::2].copy(), rr[::2].copy())
    np.testing.assert_array_equal(with_rr.logits(window[::2], rr[::2]), every_other)


def _with(window: NDArray[Any], value: float) -> NDArray[Any]:
    changed = window.copy()
    changed[1, 0, 17] = value
    return changed


@pytest.mark.parametrize(
    ("window", "rr", "message"),
    [
        (_windows(3)[:, 0], _rr(3), r"window: shape \(3, 256\); expected \(beats, 1, 256\)"),
        (_windows(3)[:, :, :255], _rr(3), r"window: shape \(3, 1, 255\)"),
        (np.zeros((3, 2, 256), np.float32), _rr(3), r"window: shape \(3, 2, 256\)"),
        (np.zeros(256, np.float32), _rr(1), r"window: shape \(256,\)"),
        (np.zeros((3, 1, 256), np.int16), _rr(3), "window: values of type int16; expected millivolt"),
        (np.zeros((3, 1, 256), np.complex64), _rr(3), "window: values of type complex64"),
        (np.zeros((3, 1, 256), bool), _rr(3), "window: values of type bool"),
        (np.full((3, 1, 256), "0.1"), _rr(3), "window: values of type"),
        (np.full((3, 1, 256), None), _rr(3), "window: values of type object"),
        (_with(_windows(3), np.nan), _rr(3), "window: values that are not finite"),
        (_with(_windows(3), -np.inf), _rr(3), "window: values that are not finite"),
        (_with(_windows(3).astype(np.float64), 1e300), _rr(3), "window: values that are not finite"),
        (_windows(3), None, r"rr: is missing; expected shape \(3, 16\)"),
        (_windows(3), _rr(2), r"rr: shape \(2, 16\); expected \(3, 16\)"),
        (_windows(3), _rr(3)[:, :3], r"rr: shape \(3, 3\)"),
        (_windows(3), np.ones((3, FEATURES), np.int64), "rr: values of type int64"),
        (_windows(3), _rr(3) * np.float32(np.nan), "rr: values that are not finite"),
    ],
)
def test_wrong_inputs_are_refused(with_rr: Classifier, window: Any, rr: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        with_rr.logits(window, rr)


@pytest.mark.parametrize(
    ("signal", "r_samples", "message"),
    [
        (np.zeros((2000, 2)), [100], r"signal: shape \(2000, 2\)"),
        (np.zeros(0), [], r"signal: shape \(0,\)"),
        (np.zeros(2000), [500, 400], "R peaks: are not in order"),
        (np.zeros(2000), [-1, 400], "R peaks: are not in order"),
        (np.zeros(2000), [400, 2000], "R peaks: .*0 to 1999"),
        (np.zeros(2000), [[400]], "R peaks"),
    ],
)
def test_a_signal_or_peaks_that_cannot_be_are_refused(
    personal: Classifier, signal: NDArray[np.float64], r_samples: list[Any], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        personal.predict(signal, 360.0, np.array(r_samples, dtype=np.int64))


def test_predict_on_the_record_gives_what_training_saw(
    with_rr: Classifier, fedavg_run: Path, cohort_path: Path
) -> None:
    """The cohort's own beats of p1, and the same beats cut by the device: the same probabilities, for each beat."""
    saved = SavedRun(fedavg_run, cohort_path)
    rows = np.flatnonzero(saved.array["client"] == 0)
    signal, r_samples = synthetic_signal("NNNNV" * 12, seed=0)
    np.testing.assert_array_equal(r_samples, saved.array["sample"][rows])
    recorded = np.round(signal * 200) / 200  # what format 212 at 200 steps a millivolt keeps
    expected = softmax(saved.logits("server", *saved.inputs(rows)) / with_rr.calibration.temperature)
    np.testing.assert_allclose(with_rr.predict(recorded, 360.0, r_samples).probability, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("fs_hz", [250.0, 500.0, 128.0])
def test_another_sampling_frequency(personal: Classifier, fs_hz: float) -> None:
    """The same heart sampled otherwise: the classes that were drawn, and nearly the probabilities at 360 Hz."""
    truth = [V if symbol == "V" else N for symbol in SYMBOLS]
    at_360 = personal.predict(*_sampled(360.0))
    found = personal.predict(*_sampled(fs_hz))
    np.testing.assert_array_equal(at_360.label, truth)
    np.testing.assert_array_equal(found.label, truth)
    np.testing.assert_allclose(found.probability, at_360.probability, rtol=0, atol=0.08)


def _sampled(fs_hz: float) -> tuple[NDArray[np.float64], float, NDArray[np.int64]]:
    signal, r_samples = synthetic_signal(SYMBOLS, fs_hz=fs_hz, seed=5, noise_mv=0.0)
    return signal, fs_hz, r_samples


def test_beats_at_the_ends_and_over_gaps_are_flagged(personal: Classifier) -> None:
    signal, _, r_samples = _sampled(360.0)
    inner = personal.predict(signal, 360.0, r_samples)
    assert not inner.flags.any()
    at_ends = np.concatenate([[10], r_samples, [len(signal) - 10]])
    assert personal.predict(signal, 360.0, at_ends).flags.tolist() == [1, *[0] * len(r_samples), 1]
    signal[r_samples[7] + 20] = np.nan
    flags = personal.predict(signal, 360.0, r_samples).flags
    assert np.flatnonzero(flags).tolist() == [7]
    assert flags[7] == 2


def test_a_fresh_interpreter_classifies_without_torch_and_wfdb(fedavg_run: Path) -> None:
    code = (
        "import sys, numpy as np\n"
        "from ecgfed.device import open_bundle\n"
        "opened = set(sys.modules)\n"
        "classifier = open_bundle(sys.argv[1]).classifier('p1')\n"
        "signal = np.random.default_rng(0).normal(size=4000)\n"
        "assert len(classifier.predict(signal, 360.0, np.arange(400, 3600, 300)).label) == 11\n"
        "top = lambda names: ' '.join(sorted({name.split('.')[0] for name in names}))\n"
        "print(top(opened)); print(top(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(exported(fedavg_run))]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    on_import, after = (set(line.split()) for line in said.stdout.splitlines())
    never = {"torch", "wfdb", "onnx", "onnxscript", "neurokit2", "pandas", "matplotlib", "sklearn", "typer", "rich"}
    assert {"ecgfed", "numpy"} <= on_import
    assert not on_import & (never | {"scipy", "onnxruntime"})
    assert "onnxruntime" in after
    assert not after & (never | {"scipy"})
