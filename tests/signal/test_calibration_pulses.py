"""Calibration pulses are no paced beats; a small second QRS leaves its intervals unconfirmed. Synthetic signals."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.confirm import second_look
from ecgfed.domain.signal.findings import record_findings
from ecgfed.domain.signal.pacing import calibration_pulses, detect_pacing
from ecgfed.domain.signal.spans import Spans
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


def test_beats_are_no_calibration_pulses() -> None:
    ecg = synthetic_ecg(FS, 60)
    beats = np.rint(ecg.r_s * FS).astype(np.int64)
    assert not calibration_pulses(recording(*ecg.signals_mv), beats).any()


@pytest.mark.parametrize("small", [0.0, 0.2])
def test_a_small_second_qrs_leaves_intervals_unconfirmed(small: float) -> None:
    """120 beats a minute, every second one a fifth in height; only the large ones are known."""
    time_s = np.arange(60 * FS) / FS
    signal = np.random.default_rng(2).normal(0, 0.01, len(time_s))
    large_s = np.arange(0.5, 59, 1.0)
    for at_s, height in [*((at, 1.0) for at in large_s), *((at + 0.5, small) for at in large_s)]:
        for offset_s, width_s, height_mv in ((-0.025, 0.01, -0.1), (0.0, 0.012, 1.0), (0.028, 0.01, -0.2)):
            signal += height * height_mv * np.exp(-0.5 * ((time_s - at_s - offset_s) / width_s) ** 2)
    peaks = np.rint(large_s * FS).astype(np.int64)
    confirmed = second_look(recording(signal), peaks).confirmed
    assert confirmed.mean() == pytest.approx(0.0 if small else 1.0, abs=0.05)
