"""A global model's certainty on patients left out, against scikit-learn and ``predict``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import train_run, write_record
from sklearn.linear_model import LogisticRegression
from support import Command

import ecgfed as front
from ecgfed.base.errors import OptionError
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.folder import folder_sources
from ecgfed.domain.cohort.split import VALID
from ecgfed.exports.bundles.calibration import ValidationLogits, held_out_logits, left_out_calibration
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.renew import renewed_bundle
from ecgfed.tasks.prepare import PrepareConfig

HELD_OUT = tuple(f"new{number}" for number in range(5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = tmp_path_factory.mktemp("records")
    write_record(records, "known", "NNNNV" * 12)
    for seed, name in enumerate(HELD_OUT):
        write_record(records, name, "NNNV" * 14, seed=seed + 1)
    return records


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("left-out")
    options = PrepareConfig(rr_version=3, holdout=HELD_OUT).prepare_options()
    build_cohort(folder_sources(folder), work / "cohort", options, kind="folder", workers=1)
    return train_run(work / "cohort", work / "run")


@pytest.fixture(scope="module")
def bundle(run: Path) -> front.Bundle:
    opened, out = open_run(run), run.with_name("bundle")
    export_bundle(opened, opened.cohort(), opened.state(), out, certainty="held-out")
    return front.open_bundle(out)


def drawn(seed: int, beats: int = 400) -> ValidationLogits:
    """Two classes; the logits are twice as sure as they should be, and patients differ in how often they are wrong."""
    rng = np.random.default_rng(seed)
    half = rng.normal(0, 2 + seed / 4, beats) / 2
    label = (rng.random(beats) > 1 / (1 + np.exp(2 * half))).astype(np.int64)
    return ValidationLogits((2 * np.stack([-half, half], 1)).astype(np.float32), label)


def scale_of(patients: list[ValidationLogits]) -> float:
    """The temperature, from a logistic regression of the label on the difference of the logits."""
    difference = np.concatenate([one.logits[:, 1] - one.logits[:, 0] for one in patients]).astype(np.float64)
    model = LogisticRegression(C=1e9, fit_intercept=False).fit(
        difference[:, None], 1 - np.concatenate([one.label for one in patients])
    )
    return -1 / float(model.coef_[0, 0])


def sure(patient: ValidationLogits, temperature: float) -> np.ndarray[Any, Any]:
    return 1 / (1 + np.exp(-np.abs(patient.logits[:, 1] - patient.logits[:, 0]).astype(np.float64) / temperature))


def threshold_of(patients: list[ValidationLogits], temperature: float, aim: float) -> float:
    """The lowest probability from which on so many are right: the patient's three quarters up, or of all beats."""

    def lowest(one: ValidationLogits) -> float:
        probability, called = sure(one, temperature), one.logits.argmax(1)
        order = np.argsort(-probability)
        share_right = np.cumsum(called[order] == one.label[order]) / np.arange(1, len(order) + 1)
        return float(min(probability[order][share_right >= aim]))

    of_patients = sorted(map(lowest, patients))
    everybody = ValidationLogits(
        *(np.concatenate([getattr(one, name) for one in patients]) for name in ("logits", "label"))
    )
    return max(of_patients[int(np.ceil(0.75 * (len(patients) - 1)))], lowest(everybody))


def test_temperature_threshold_and_cross_fitted_figures() -> None:
    patients = [drawn(seed) for seed in range(10)]
    entry = left_out_calibration(patients, 0.9, "patients left out")
    assert (entry["fitted_on"], entry["patients"], entry["beats"]) == ("patients left out", 10, 4000)
    assert entry["temperature"] == pytest.approx(scale_of(patients), rel=1e-3)
    assert entry["threshold"] == pytest.approx(threshold_of(patients, scale_of(patients), 0.9), abs=1e-3)
    accepted, right = [], []
    for part in range(5):
        others = [one for number, one in enumerate(patients) if number % 5 != part]
        temperature = scale_of(others)
        threshold = threshold_of(others, temperature, 0.9)
        for one in patients[part::5]:
            accepted.append(sure(one, temperature) >= threshold - 1e-4)
            right.append(one.logits.argmax(1) == one.label)
    assert entry["kept"] == pytest.approx(np.concatenate(accepted).mean(), abs=2e-3)
    assert entry["kept_accuracy"] == pytest.approx(np.concatenate(right)[np.concatenate(accepted)].mean(), abs=2e-3)
    assert entry["ece_after"] < entry["ece_before"]


def test_export_fits_the_global_model_on_held_out_patients_alone(folder: Path, run: Path, bundle: front.Bundle) -> None:
    """On probabilities as ``predict`` states them of their recordings, averaged over alike beats."""
    opened = open_run(run)
    cohort = opened.cohort()
    entry = bundle.manifest["global"]["certainty"]
    model = opened.method.global_model(
        opened.state().server, (opened.client_state(opened.state(), one.index) for one in cohort.federation), "ensemble"
    )
    logits = held_out_logits(opened.net, cohort, model)
    beats = [len(cohort.rows(client, split)) for client in cohort.clients if client.holdout for split in range(3)]
    assert (entry["fitted_on"], entry["patients"], entry["beats"]) == ("held-out", 5, sum(beats))
    first = np.exp(logits[0].logits.astype(np.float64) / entry["temperature"])
    predictions = front.predict(bundle, folder / HELD_OUT[0], peaks="annotated")
    np.testing.assert_allclose(predictions.probability, first / first.sum(1, keepdims=True), rtol=0, atol=2e-4)
    plain = export_bundle(opened, cohort, opened.state(), run.with_name("plain"))
    own, own_plain = (one["patients"]["known"]["certainty"] for one in (bundle.manifest, plain))
    assert (own["temperature"], own["beats"]) == (own_plain["temperature"], own_plain["beats"])
    assert own["threshold"] == entry["threshold"], "a patient of few validation beats has the global model's"
    assert "fitted_on" not in plain["global"]["certainty"]
    assert plain["global"]["certainty"]["beats"] == len(cohort.pool(VALID))


def test_too_few_held_out_patients_are_refused(fedavg_run: Path, ecgfed: Command, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    with pytest.raises(OptionError, match=r"0 held-out patients.*at least 5"):
        front.export(fedavg_run, out, certainty="held-out")
    said = ecgfed("export", fedavg_run, "--out", out, "--certainty", "held-out")
    assert (said.code, out.exists()) == (2, False)
    assert "--certainty" in said.err
    assert ecgfed("export", fedavg_run, "--out", out, "--certainty", "held-out", "--target", "mcu").code == 2


def test_a_bundle_takes_another_certainty(folder: Path, bundle: front.Bundle, tmp_path: Path) -> None:
    entry = left_out_calibration([drawn(seed) for seed in range(6)], 0.9, "patients left out")
    entry = {**entry, "temperature": 2.0, "threshold": 0.7}
    renewed = renewed_bundle(bundle, tmp_path / "renewed", certainty=entry)
    assert renewed.manifest["global"]["certainty"] == entry
    assert renewed.manifest["patients"] == bundle.manifest["patients"]
    before, after = (front.predict(one, folder / "known", peaks="annotated") for one in (bundle, renewed))
    np.testing.assert_array_equal(before.label, after.label)
    np.testing.assert_array_equal(after.low_confidence, (after.confidence < 0.7) | after.out_of_distribution)
    assert "chosen on beats of 6 patients who were not trained on" in (renewed.path / "CARD.md").read_text()
