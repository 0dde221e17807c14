"""What predict and report make of a recording with waves like ventricular flutter or fibrillation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray
from page_cells import Cells
from support import Recorder

import ecgfed
from ecgfed.domain.record.recording import Recording
from ecgfed.reports.recording_report import RecordingReport

FS = 360.0


def waves(seconds: float) -> NDArray[np.float64]:
    """Two sines of 4.5 and 5.7 Hz, 0.3 mV each: they wax and wane."""
    t = np.arange(round(seconds * FS)) / FS
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(t))
    return np.asarray(0.3 * np.sin(2 * np.pi * 4.5 * t) + 0.3 * np.sin(2 * np.pi * 5.7 * t) + noise)


def recording(lead: NDArray[np.float64]) -> Recording:
    return Recording("waves", Path("waves"), "MLII", ("MLII",), FS, lead[None], ())


@pytest.fixture(scope="module")
def between() -> Recording:
    calm = synthetic_signal("N" * 40, fs_hz=FS, seed=1)[0]
    return recording(np.concatenate([calm, waves(30), calm]))


def reported(of: Recording) -> tuple[RecordingReport, dict[str, Any]]:
    report = ecgfed.report(of, progress=Recorder())
    return report, report.to_dict()


def test_report_warns_and_counts_nothing_there(between: Recording) -> None:
    """The rates are those of the beats around, 0.8 s apart: none of the waves is in them."""
    report, told = reported(between)
    assert "flutter" in {one["code"] for one in told["warnings"]}
    [rhythm] = [one for one in told["rhythms"] if "ventricular flutter" in one["rhythm"]]
    assert rhythm["source"] == "signal"
    assert rhythm["seconds"] == pytest.approx(30, abs=4)
    assert told["counted"] == pytest.approx(80, abs=3)
    assert told["rates"]["mean"] == pytest.approx(75, rel=0.03)
    assert told["rates"]["highest"]["value"] < 90
    assert told["pauses"]["found"] == []
    assert "possible ventricular flutter or fibrillation" in report.html.lower()


def test_the_conclusion_states_the_share_that_is_in_no_count(between: Recording) -> None:
    """The waves can be read, so the lead is usable there, but nothing is counted: 30 of 94 s, as the hours have it."""
    report, told = reported(between)
    counted_s = sum(hour.usable_s for hour in report.parts.events.hours)
    lost = 1 - counted_s / told["duration_s"]
    assert lost == pytest.approx(30 / 94, abs=0.05)
    assert told["usable_s"]["MLII"] == pytest.approx(told["duration_s"], abs=1)
    assert f"{lost:.1%} of MLII is not usable and in no count" in report.parts.draft[2]
    assert f"{1 - lost:.1%} of the recording" in Cells(report.html).facts["Usable"]


def test_predict_warns(between: Recording) -> None:
    reporter = Recorder()
    found = ecgfed.predict(between, progress=reporter)
    assert "flutter" in {one.code for one in found.warnings}
    assert any("ventricular flutter or fibrillation" in text for text in reporter.warnings)


def test_a_report_of_nothing_else() -> None:
    _, told = reported(recording(waves(30)))
    assert "flutter" in {one["code"] for one in told["warnings"]}
    assert told["counted"] == 0
    assert told["rates"]["mean"] is None


def test_beats_alone_are_no_flutter() -> None:
    _, told = reported(recording(synthetic_signal("N" * 40, fs_hz=FS, seed=1)[0]))
    assert "flutter" not in {one["code"] for one in told["warnings"]}
    assert not [one for one in told["rhythms"] if "ventricular flutter" in one["rhythm"]]
