"""The ST level of a report as a trend: against levels that were drawn, and not assessed where it must not be."""

from pathlib import Path

import numpy as np
import pytest
from record_files import write_signals
from waves.beats_by_rule import Beat

import ecgfed
from ecgfed.domain.events.figure import Measurement
from ecgfed.reports.figures import figures
from ecgfed.reports.markup import ELAPSED
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.reports.st_trend import MOST_ERROR_MV, StSegment, StTrend, st_chart

FS_HZ = 360.0
#: Beats of five minutes at 75/min.
BEATS = 375


def reported(folder: Path, levels_mv: list[float], symbol: str = "N", noise_mv: float = 0.005) -> RecordingReport:
    """A report of segments of five minutes, each with its own ST level, all beats of one class."""
    around_s = np.arange(round(0.8 * FS_HZ)) / FS_HZ - 0.4
    signal = np.concatenate([np.tile(Beat(st_mv=level).at(around_s), BEATS) for level in levels_mv])
    signal += noise_mv * np.random.default_rng(5).standard_normal(len(signal))
    write_signals(folder, "st", signal[None], fs_hz=FS_HZ, leads=("II",))
    labels = folder / "labels.csv"
    r_samples = np.flatnonzero(np.arange(len(signal)) % len(around_s) == round(0.4 * FS_HZ))
    labels.write_text("sample,symbol\n" + "".join(f"{sample},{symbol}\n" for sample in r_samples.tolist()))
    return ecgfed.report(folder / "st", labels=labels)


def test_each_segment_has_the_level_that_was_drawn(tmp_path: Path) -> None:
    drawn = [0.0, -0.2, 0.15]
    report = reported(tmp_path, drawn)
    trend = report.to_dict()["st"]
    assert trend["experimental"] is True
    assert [segment["level_mv"] for segment in trend["segments"]] == pytest.approx(drawn, abs=0.03)
    for segment in trend["segments"]:
        assert segment["level_mm"] == pytest.approx(10 * segment["level_mv"], abs=0.011)
        assert 0 < segment["error_mv"] <= MOST_ERROR_MV
        assert segment["beats"] >= 300
    by_name = {figure.name: figure for figure in figures(report.parts)}
    assert by_name["st_level_lowest_mv"].value == pytest.approx(-0.2, abs=0.03)
    assert by_name["st_level_highest_mv"].unit == "mV"
    assert "experimental" in by_name["st_level_mv"].remark
    assert "ST level, experimental" in report.html


@pytest.mark.parametrize("symbol", ["V", "L"])
def test_beats_of_other_classes_have_none(symbol: str, tmp_path: Path) -> None:
    """The ST segment of an abnormal QRS complex follows from that complex."""
    trend = reported(tmp_path, [0.1], symbol).parts.st
    assert trend is not None
    assert trend.levels_mv == []
    assert "N" in trend.reason


def test_a_noisy_mean_is_not_assessed(tmp_path: Path) -> None:
    """Of 300 beats of 0.4 mV white noise the mean alone would err by 0.02 mV; the level before the QRS adds its own."""
    trend = reported(tmp_path, [0.1], noise_mv=0.5).parts.st
    assert trend is not None
    assert trend.levels_mv == []


def test_the_standard_error_is_that_of_a_mean() -> None:
    segment = StSegment(0.0, 300.0, Measurement(0.1, 0.05, 25))
    assert segment.error_mv == pytest.approx(0.05 / 5)
    assert StSegment(0.0, 300.0, Measurement(None, None, 3, "noise")).to_dict()["level_mm"] is None


def test_the_chart_is_to_scale() -> None:
    """A level of zero lies on the line of 0 mV, and twice the level twice as far from it."""
    levels = [0.0, 0.1, 0.2, -0.1]
    segments = [
        StSegment(300.0 * at, 300.0 * (at + 1), Measurement(level, 0.01, 99)) for at, level in enumerate(levels)
    ]
    segments.append(StSegment(1200.0, 1500.0, Measurement(None, None, 0, "noise")))
    chart = st_chart(StTrend("II", tuple(segments)), ELAPSED)
    assert chart is not None
    lines = {mv: y for y, mv, _ in chart.levels}
    drawn = [float(piece.split()[1].split("H")[0]) for piece in chart.path.split("M")[1:]]
    assert drawn == [lines["+0.0"], lines["+0.1"], lines["+0.2"], lines["-0.1"]]
    assert lines["+0.0"] - lines["+0.2"] == pytest.approx(2 * (lines["+0.0"] - lines["+0.1"]), abs=0.2)
    assert len(chart.lost) == 1
    assert st_chart(StTrend("II", ()), ELAPSED) is None
