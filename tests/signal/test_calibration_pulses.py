"""Calibration pulses are no paced beats; a small second QRS leaves its intervals unconfirmed. Synthetic signals."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.confirm import second_look
from ecgfed.domain.signal.findings import record_findings
from ecgfed.domain.signal.pacing import calibration_pulses, detect_pacing
from ecgfed.domain.signal.spans import Spans
from ecgfed.exports.device.bundle import open_bundle
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.reports.drawing import reading_of
from ecgfed.tasks.predict import predict
from ecgfed.tasks.report_labels import by_model
from ecgfed.testing.ecg import synthetic_ecg

FS = 360


def recording(*leads: NDArray[np.float64]) -> Recording:
    return Recording("r", Path("r"), "MLII", ("MLII", "V1")[: len(leads)], FS, np.stack(leads), ())


@pytest.mark.parametrize("width_s", [0.1, 0.2, 0.5])
def test_calibration_pulses_are_not_paced(width_s: float) -> None:
    time_s = np.arange(60 * FS) / FS
    signal = ((time_s + 0.4) % 1 < width_s) + np.random.default_rng(1).normal(0, 0.004, len(time_s))
    pulses, edges = recording(signal), np.flatnonzero(np.diff(signal) > 0.5)
    assert calibration_pulses(pulses, edges).mean() > 0.9
    assert not detect_pacing(pulses, edges)
    findings = record_findings(pulses, edges, [Spans.merged([])])
    assert "calibration" in [finding.kind for finding in findings]


def test_pulses_before_a_recording_are_in_no_count_and_no_rate() -> None:
    """30 s of pulses once a second, then 60 beats a minute: neither predict nor report counts a pulse or its edges."""
    pulses = (np.arange(30 * FS) % FS < FS / 2).astype(float)
    ecg = synthetic_ecg(FS, 60)
    signals = [np.concatenate([pulses, lead]) for lead in ecg.signals_mv]
    predictions = predict(recording=recording(*signals), force=True)
    before = predictions.sample < 30 * FS
    assert before.sum() > 20
    assert set(predictions.symbols[before][:-1]) == {"Q"}
    assert "Q" not in predictions.symbols[predictions.sample > 31 * FS]
    assert "calibration" in [warning.code for warning in predictions.warnings if warning.severe]
    assert predictions.metadata["excluded"]["beats"]["excluded"]["calibration"] == predictions.cut.pulses.sum()
    labelled = by_model(predictions, open_bundle(shipped_model()))
    reading = reading_of(predictions.recording, {"MLII": predictions.cut.quality}, labelled, EventRules())
    highest = reading.events.rates.highest
    rr_s = np.diff(ecg.r_s)
    assert highest.value == pytest.approx(max(480 / rr_s[at : at + 8].sum() for at in range(len(rr_s) - 7)), rel=0.02)


def test_beats_are_no_calibration_pulses() -> None:
    ecg = synthetic_ecg(FS, 60)
    beats = np.rint(ecg.r_s * FS).astype(np.int64)
    assert not calibration_pulses(recording(*ecg.signals_mv), beats).any()


def alternans(small: float, large_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a minute with a QRS complex at each of these times and a small one half a second after it."""
    time_s = np.arange(60 * FS) / FS
    signal = np.random.default_rng(2).normal(0, 0.01, len(time_s))
    for at_s, height in [*((at, 1.0) for at in large_s), *((at + 0.5, small) for at in large_s)]:
        for offset_s, width_s, height_mv in ((-0.025, 0.01, -0.1), (0.0, 0.012, 1.0), (0.028, 0.01, -0.2)):
            signal += height * height_mv * np.exp(-0.5 * ((time_s - at_s - offset_s) / width_s) ** 2)
    return signal


@pytest.mark.parametrize("small", [0.0, 0.2])
def test_a_small_second_qrs_leaves_intervals_unconfirmed(small: float) -> None:
    """120 beats a minute, every second one a fifth in height; only the large ones are known."""
    large_s = np.arange(0.5, 59, 1.0)
    signal, peaks = alternans(small, large_s), np.rint(large_s * FS).astype(np.int64)
    confirmed = second_look(recording(signal), peaks).confirmed
    assert confirmed.mean() == pytest.approx(0.0 if small else 1.0, abs=0.05)


@pytest.mark.parametrize("small", [0.0, 0.05])
def test_predict_warns_where_most_intervals_are_unconfirmed(small: float) -> None:
    predictions = predict(recording=recording(alternans(small, np.arange(0.5, 59, 1.0))), force=True)
    severe = [warning.code for warning in predictions.warnings if warning.severe]
    assert ("intervals-not-confirmed" in severe) == bool(small)
