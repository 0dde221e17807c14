"""Temperatures, thresholds and typical beats of a bundle, against scipy and formulas by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from conftest import synthetic_signal
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import norm
from support import SavedRun, change_manifest, copied, exported, manifest_of

import ecgfed
from ecgfed.base.errors import BundleError
from ecgfed.core.evaluation.calibration import (
    SPREADS,
    calibration_error,
    confidence_and_correctness,
    fit_temperature,
    fit_temperatures,
    threshold_for,
)
from ecgfed.core.runs.run import open_run
from ecgfed.device import check_golden, open_bundle
from ecgfed.exports.bundles.calibration import CalibrationFitter, ValidationLogits
from ecgfed.exports.bundles.int8_reading import prototype_shapes
from ecgfed.exports.bundles.prototypes import PROTOTYPES, fit_prototypes
from ecgfed.exports.bundles.renew import renewed_bundle


def drawn(beats: int, temperature: float, seed: int = 0) -> tuple[Any, Any]:
    """Logits that are worth what they say once they are divided by a temperature, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (beats, 4))
    probability = np.exp(log_softmax(logits, axis=1))
    label = (probability.cumsum(1) < rng.random((beats, 1))).sum(1)
    return (logits * temperature).astype(np.float32), label


@pytest.mark.parametrize("truth", [0.4, 1.0, 3.0])
def test_the_temperature_is_found_again(truth: float) -> None:
    logits, label = drawn(20_000, truth)
    found = fit_temperature(logits, label)
    assert found == pytest.approx(truth, rel=0.05)

    def loss(at: Any) -> float:
        return -float(log_softmax(logits.astype(np.float64) / at[0], axis=1)[np.arange(len(label)), label].sum())

    assert found == pytest.approx(minimize(loss, [1.0], method="Nelder-Mead").x[0], rel=1e-3)


def test_a_temperature_keeps_near_to_another_one_by_a_normal_of_its_logarithm() -> None:
    logits, label = drawn(30, 1.0)

    def loss(at: Any) -> float:
        told = log_softmax(logits.astype(np.float64) / np.exp(at[0]), axis=1)[np.arange(30), label].sum()
        return -float(told + norm.logpdf(at[0], np.log(2.0), SPREADS[1]))

    expected = float(np.exp(minimize(loss, [0.5], method="Nelder-Mead", options={"xatol": 1e-8}).x[0]))
    assert fit_temperature(logits, label, 2.0) == pytest.approx(expected, rel=1e-3)
    assert fit_temperature(logits[:0], label[:0], 2.0) == 2.0
    perfect = fit_temperature(np.eye(4, dtype=np.float32), np.arange(4), 1.0)
    assert 0.5 < perfect < 1.0, "four beats without an error are no proof"


@pytest.mark.parametrize("apart", [False, True])
def test_patients_stray_from_one_another_as_far_as_their_beats_say(apart: bool) -> None:
    truths = [float(np.exp(1.2 * step / 9)) if apart else 1.5 for step in range(-9, 10)]
    told = [drawn(200, truth, seed) for seed, truth in enumerate(truths)]
    found, spread = fit_temperatures(told)
    assert spread == (max(SPREADS) if apart else min(SPREADS))
    off = np.abs(np.log(np.array(found) / truths))
    alone = np.abs(np.log(np.array([fit_temperature(*one) for one in told]) / truths))
    assert off.mean() < (1.1 if apart else 0.6) * alone.mean()


def test_the_calibration_error_by_hand() -> None:
    probability = np.array([0.95, 0.96, 0.99, 0.55, 0.59, 1.0])
    right = np.array([True, False, True, True, True, True])
    # bins of a fifteenth: 0.95, 0.96, 0.99 and 1.0 in (14/15, 1]; 0.55 and 0.59 in (8/15, 9/15]
    expected = 4 / 6 * abs(3 / 4 - (0.95 + 0.96 + 0.99 + 1.0) / 4) + 2 / 6 * abs(1 - (0.55 + 0.59) / 2)
    assert calibration_error(probability, right) == pytest.approx(expected)
    assert np.isnan(calibration_error(probability[:0], right[:0]))


def test_the_threshold_is_the_lowest_that_keeps_the_accuracy() -> None:
    probability = np.array([0.9, 0.8, 0.7, 0.6, 0.6, 0.5])
    right = np.array([True, True, False, True, True, True])
    assert threshold_for(probability, right, 0.99) == 0.8
    assert threshold_for(probability, right, 0.8) == 0.5
    assert threshold_for(probability, ~right, 0.99) == 1.0
    # of equal ones all are kept or none: at 0.6, three of four
    assert threshold_for(np.array([0.9, 0.6, 0.6, 0.6]), np.array([True, True, True, False]), 0.9) == 0.9
    rng = np.random.default_rng(3)
    for aim in (0.5, 0.9, 0.99):
        many, hits = rng.random(400).round(2), rng.random(400) < 0.9
        found = threshold_for(many, hits, aim)
        fitting = [one for one in np.unique(many) if hits[many >= one].mean() >= aim]
        assert found == (min(fitting) if fitting else 1.0)


def test_the_global_threshold_is_as_high_as_nine_of_tens_own() -> None:
    calibration = CalibrationFitter(0.95)
    for seed in range(20):
        calibration.global_logits.append(ValidationLogits(*drawn(200, 1.0, seed)))
    told = calibration.fit_global()
    own = sorted(
        threshold_for(*confidence_and_correctness(one.logits, one.label, told["temperature"]), 0.95)
        for one in calibration.global_logits
    )
    assert sum(one <= told["threshold"] for one in own) >= 18
    assert told["threshold"] in own[17:19]
    never = ValidationLogits(np.eye(4, dtype=np.float32)[np.zeros(60, int)] * 9, np.ones(60, np.int64))
    calibration.global_logits += [never] * 2  # whose answers are never right: their thresholds are 1, of 22
    with_two = calibration.fit_global()
    own = [
        threshold_for(*confidence_and_correctness(one.logits, one.label, with_two["temperature"]), 0.95)
        for one in calibration.global_logits
    ]
    assert own[20:] == [1.0, 1.0]
    assert with_two["threshold"] == np.quantile(own, 0.9, method="higher") == sorted(own)[19]
    calibration.global_logits += [never] * 4  # a quarter of the patients: nine of ten are served by none
    with_six = calibration.fit_global()
    own = [
        threshold_for(*confidence_and_correctness(one.logits, one.label, with_six["temperature"]), 0.95)
        for one in calibration.global_logits
    ]
    assert with_six["threshold"] == max(one for one in own if one < 1.0)
    assert with_six["kept_accuracy"] < 0.95, "and what is stated of the certain beats is this"
    few = calibration.global_logits[:3]
    together = CalibrationFitter(0.95, few).fit_global()
    logits, label = (np.concatenate([getattr(one, name) for one in few]) for name in ("logits", "label"))
    assert together["threshold"] == threshold_for(
        *confidence_and_correctness(logits, label, together["temperature"]), 0.95
    )


def test_a_patients_threshold_is_its_own_but_no_higher_than_most() -> None:
    calibration = CalibrationFitter(
        0.95, [], {f"p{seed}": ValidationLogits(*drawn(200, 1.0, seed)) for seed in range(20)}
    )
    told = calibration.fit_patients({"temperature": 1.0, "threshold": 0.5})
    own = {
        name: threshold_for(*confidence_and_correctness(one.logits, one.label, told[name]["temperature"]), 0.95)
        for name, one in calibration.personal_logits.items()
    }
    most = sorted(own.values())[15]  # of 20, numbered from 0: the first at or above three quarters of the way
    assert {name: one["threshold"] for name, one in told.items()} == {name: min(one, most) for name, one in own.items()}
    short = CalibrationFitter(0.95, [], {"p": ValidationLogits(*drawn(20, 1.0))}).fit_patients(
        {"temperature": 1.0, "threshold": 0.5}
    )
    assert short["p"]["threshold"] == 0.5, "twenty beats say little: the global one's"


def test_what_a_manifest_says_is_what_its_validation_beats_give(local_run: Path, cohort_path: Path) -> None:
    manifest = json.loads((exported(local_run) / "manifest.json").read_text())
    saved = SavedRun(local_run, cohort_path)
    assert (manifest["certainty"]["accuracy"], manifest["certainty"]["ece_bins"]) == (0.99, 15)
    for number, patient in enumerate(saved.clients):
        rows = np.flatnonzero((saved.array["client"] == number) & (saved.array["split"] == 1))
        said = manifest["patients"][patient]["certainty"]
        assert said["beats"] == len(rows)
        logits = saved.logits(f"client/{number}", *saved.inputs(rows))
        for name, temperature in (("ece_before", 1.0), ("ece_after", said["temperature"])):
            probability, right = confidence_and_correctness(logits, saved.array["label"][rows], temperature)
            assert said[name] == pytest.approx(calibration_error(probability, right), abs=1e-5)
        kept = probability >= said["threshold"]
        assert said["kept"] == pytest.approx(kept.mean())
    errors = [manifest["patients"][name]["certainty"]["ece_after"] for name in saved.clients]
    assert manifest["certainty"]["ece_after"] == {"mean": np.mean(errors), "worst": max(errors)}


def test_a_device_divides_by_the_temperature_and_marks_what_lies_below(local_run: Path, tmp_path: Path) -> None:
    bundle = copied(exported(local_run), tmp_path / "bundle")
    manifest = manifest_of(bundle)
    entry = manifest["patients"]["p1"]
    patients = {
        **manifest["patients"],
        "p1": {**entry, "certainty": {**entry["certainty"], "temperature": 2.5, "threshold": 0.7}},
    }
    change_manifest(bundle, patients=patients)
    signal, r_samples = synthetic_signal("NNNNV" * 8, seed=5)
    found = open_bundle(bundle).classifier("p1").predict(signal, 360.0, r_samples)
    session = onnxruntime.InferenceSession(str(bundle / "patients" / "p1.onnx"), providers=["CPUExecutionProvider"])
    from ecgfed.domain.beats.blocks import windows_around

    window = windows_around(signal, 360.0, r_samples).window_mv
    expected = np.exp(log_softmax(session.run(None, {"window": window})[0] / 2.5, axis=1))
    np.testing.assert_allclose(found.probability, expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(found.low_confidence, (found.confidence < 0.7) | found.out_of_distribution)
    assert (found.label == expected.argmax(1)).all()


@pytest.mark.parametrize("noise", ["white", "sine"])
def test_noise_and_a_sine_look_like_no_beat(fedavg_run: Path, noise: str) -> None:
    """Cut at any place; the beats of somebody new, shaped as those of the training, are not far."""
    classifier = open_bundle(exported(fedavg_run)).classifier()
    at = np.arange(400, 36_000, 290)
    rng, time_s = np.random.default_rng(8), np.arange(36_500) / 360.0
    signal = 0.3 * rng.standard_normal(len(time_s)) if noise == "white" else np.sin(2 * np.pi * 1.3 * time_s)
    found = classifier.predict(signal, 360.0, at)
    assert found.out_of_distribution.mean() > 0.95
    assert found.low_confidence[found.out_of_distribution].all()
    beats = classifier.predict(*_around(synthetic_signal("N" * 60, seed=55)))
    assert beats.out_of_distribution.mean() < 0.1


def _around(made: tuple[Any, Any]) -> tuple[Any, float, Any]:
    return made[0], 360.0, made[1]


@pytest.mark.parametrize("which", ["fedavg_run", "context_run"])
def test_the_distance_is_that_to_the_nearest_typical_beat(which: str, request: pytest.FixtureRequest) -> None:
    """The graph against numpy: standardised windows in steps of four samples; for version 3 in int8."""
    folder: Path = request.getfixturevalue(which)
    run = open_run(folder)
    cohort = run.cohort()
    fitted = fit_prototypes(run.net, cohort, run.plan.seed, int8=which == "context_run")
    assert fitted is not None
    stored = prototype_shapes(open_bundle(exported(folder)))
    assert stored is not None
    np.testing.assert_allclose(stored[0], fitted[0], rtol=0, atol=1e-6)
    centres, threshold = fitted[0].numpy().astype(np.float64), fitted[1]
    assert 1 < len(centres) <= PROTOTYPES
    manifest = manifest_of(exported(folder))["certainty"]["far"]
    assert (manifest["threshold"], manifest["typical"]) == (threshold, len(centres))
    window = np.asarray(cohort.beats[::3]).astype(np.float64)
    standard = (window - window.mean(2, keepdims=True)) / window.std(2, keepdims=True)
    shape = standard.reshape(len(window), 64, 4).mean(2)
    expected = ((shape[:, None] - centres[None]) ** 2).mean(2).min(1)
    session = onnxruntime.InferenceSession(str(exported(folder) / "far.onnx"), providers=["CPUExecutionProvider"])
    (distance,) = session.run(None, {"window": window.astype(np.float32)})
    np.testing.assert_allclose(distance[:, 0], expected, rtol=2e-3, atol=2e-3)
    valid = np.isin(np.arange(len(cohort.label)), cohort.pool(1))
    (of_valid,) = session.run(None, {"window": np.asarray(cohort.beats[valid])})
    assert (of_valid[:, 0] <= threshold).mean() >= 0.9


def test_prototypes_in_int8_are_near_those_in_float_and_a_bundle_stays_small(context_run: Path, tmp_path: Path) -> None:
    run = open_run(context_run)
    fitted = [fit_prototypes(run.net, run.cohort(), run.plan.seed, int8=int8) for int8 in (False, True)]
    (plain, bound), (rounded, near_bound) = (one for one in fitted if one is not None)
    largest = plain.abs().amax(dim=1, keepdim=True)
    assert ((rounded - plain).abs() <= largest / 254 + 1e-6).all()
    assert (rounded - plain).abs().max() > 0
    assert near_bound == pytest.approx(bound, rel=0.05)
    bundle = ecgfed.export(context_run, tmp_path / "global", global_only=True)
    assert sum(path.stat().st_size for path in bundle.path.rglob("*")) < 400_000
    renewed = renewed_bundle(bundle, tmp_path / "renewed", trace=True)
    assert renewed.read("far.onnx") == bundle.read("far.onnx")
    assert check_golden(renewed).agrees


def test_a_bundle_without_certainty_is_as_it_was(local_run: Path, tmp_path: Path) -> None:
    bundle = copied(exported(local_run), tmp_path / "bundle")
    manifest = manifest_of(bundle)
    change_manifest(bundle, certainty=None)
    classifier = open_bundle(bundle).classifier("p1")
    signal, r_samples = synthetic_signal("NNNNV" * 8, seed=5)
    found = classifier.predict(signal, 360.0, r_samples)
    assert not found.low_confidence.any()
    assert not found.out_of_distribution.any()
    assert classifier.calibration.temperature == 1.0
    assert manifest["patients"]["p1"]["certainty"]["temperature"] != 1.0


def test_a_stranger_in_the_place_of_the_graph_is_refused(local_run: Path, tmp_path: Path) -> None:
    """Another graph that says it is the one that measures: it has to take a window and give one distance."""
    import hashlib

    bundle = copied(exported(local_run), tmp_path / "bundle")
    data = (bundle / "patients" / "p1.onnx").read_bytes().replace(b"model", b"far..")
    manifest = manifest_of(bundle)
    (bundle / "far.onnx").write_bytes(data)
    manifest["files"]["far.onnx"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    change_manifest(bundle, files=manifest["files"])
    with pytest.raises(BundleError, match=r"far\.onnx"):
        open_bundle(bundle).classifier()
