"""What people pass by mistake: seconds for samples, masks, steps for millivolts, a flat line."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal, write_record
from support import exported

import ecgfed
from ecgfed.base.errors import EcgfedError, RecordError
from ecgfed.domain.record.leads import choose_lead


@pytest.fixture
def classifier(fedavg_run: Path) -> ecgfed.Classifier:
    return ecgfed.open_bundle(exported(fedavg_run)).classifier()


def test_r_peaks_are_sample_numbers(classifier: ecgfed.Classifier) -> None:
    signal, r_samples = synthetic_signal("N" * 20)
    found = classifier.predict(signal, 360.0, r_samples)
    assert found.sample.tolist() == classifier.predict(signal, 360.0, r_samples.tolist()).sample.tolist()  # type: ignore[arg-type]
    for wrong in (r_samples / 360.0, r_samples + 0.9, r_samples.astype(np.float64)):
        with pytest.raises(RecordError, match="R peaks: are of type float64; expected sample numbers"):
            classifier.predict(signal, 360.0, wrong)  # type: ignore[arg-type]
    for wrong in (np.r_[r_samples[:1], r_samples], r_samples[::-1], r_samples - r_samples[0] - 1):
        with pytest.raises(RecordError, match="not in order"):
            classifier.predict(signal, 360.0, wrong)
    assert len(classifier.predict(signal, 360.0, [])) == 0  # type: ignore[arg-type]


def test_what_is_masked_was_not_recorded(classifier: ecgfed.Classifier) -> None:
    signal, r_samples = synthetic_signal("N" * 20)
    masked = np.ma.masked_array(signal.copy(), np.zeros(len(signal), bool))
    masked[2000:2600] = 50.0
    masked[2000:2600] = np.ma.masked
    gap = signal.copy()
    gap[2000:2600] = np.nan
    one, other = (classifier.predict(given, 360.0, r_samples) for given in (masked, gap))
    assert np.array_equal(one.probability, other.probability)
    assert np.array_equal(one.flags, other.flags)


def test_a_flat_line_is_said_to_be_one(classifier: ecgfed.Classifier) -> None:
    signal, r_samples = synthetic_signal("N" * 20)
    found = classifier.predict(np.zeros_like(signal), 360.0, r_samples)
    assert repr(found).endswith("; 20 in poor stretches)")


@pytest.mark.parametrize("fs_hz", ["250", None, True, 0, np.nan, 1e12])
def test_a_frequency_is_a_number(classifier: ecgfed.Classifier, fs_hz: object) -> None:
    signal, r_samples = synthetic_signal("N" * 20)
    with pytest.raises(RecordError, match=r"^fs_hz: sampling frequency "):
        classifier.predict(signal, fs_hz, r_samples)  # type: ignore[arg-type]


def test_steps_are_no_millivolts(tmp_path: Path) -> None:
    signal, _ = synthetic_signal("N" * 20)
    steps = np.rint(200 * signal + 1024).astype(np.int16)
    np.save(tmp_path / "a.npy", steps)
    (tmp_path / "a.csv").write_text("MLII\n" + "".join(f"{value}\n" for value in steps))
    for file in ("a.npy", "a.csv"):
        told = {"fs_hz": 360.0, "columns": ("MLII",)} if file == "a.npy" else {"fs_hz": 360.0}
        with pytest.raises(RecordError, match=r"lead MLII holds whole numbers .* expected millivolts"):
            ecgfed.read_recording(tmp_path / file, how=ecgfed.ReadOptions(units="mV", **told))  # type: ignore[arg-type]
        read = ecgfed.read_recording(tmp_path / file, how=ecgfed.ReadOptions(units="200(1024)/mV", **told))  # type: ignore[arg-type]
        assert np.abs(read.signal_mv - signal).max() <= 0.5 / 200 + 1e-9


def test_with_no_lead_named_an_ecg_is_read(tmp_path: Path) -> None:
    for number, (leads, chosen) in enumerate(
        [(("RESP", "II"), "II"), (("V5", "II"), "V5"), (("avr,", "ABP"), "avr,"), (("Resp 1", "ECG1", "V1"), "ECG1")]
    ):
        path = write_record(tmp_path, f"r{number}", "N" * 12, leads=leads)
        assert ecgfed.read_recording(path).lead == ecgfed.read_recording(path, None).lead == chosen
    path = write_record(tmp_path, "none", "N" * 12, leads=("ABP", "PLETH"))
    with pytest.raises(RecordError, match="no channel that is an ECG; it has ABP, PLETH"):
        ecgfed.read_recording(path)
    with pytest.raises(RecordError, match="2 leads ECG"):
        choose_lead(["ECG", "ECG"], "r", ("ECG",))


@pytest.mark.parametrize("given", [3, None, np.zeros(5)])
def test_a_recording_is_a_path_or_a_recording(given: object) -> None:
    with pytest.raises(EcgfedError, match="recording: of type"):
        ecgfed.read_recording(given)  # type: ignore[arg-type]
