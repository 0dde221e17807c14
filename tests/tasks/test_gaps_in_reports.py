"""Missing samples are no pause: no interval is measured across them, however short they are."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal

import ecgfed


def report_of(folder: Path, gaps_s: list[tuple[float, float]]) -> ecgfed.RecordingReport:
    """Report a rhythm of 75/min whose samples are missing for some seconds in both leads."""
    signal, _ = synthetic_signal("N" * 100, fs_hz=250.0, rr_s=0.8, seed=3)
    for start, stop in gaps_s:
        signal[round(start * 250) : round(stop * 250)] = np.nan
    np.savez(folder / "r.npz", signal=np.stack([signal, 0.6 * signal]), leads=["MLII", "V1"], fs=250.0, units="mV")
    return ecgfed.report(folder / "r.npz")


@pytest.mark.parametrize(
    "gaps_s",
    [
        [(20, 28)],
        [(20, 29.9)],
        [(20, 20.5)],
        [(0, 5)],
        [(10, 13), (20, 23), (30, 33)],
        [(at, at + 1) for at in range(8, 72, 8)],
    ],
)
def test_missing_samples_are_in_no_pause_and_in_no_rate(tmp_path: Path, gaps_s: list[tuple[float, float]]) -> None:
    events = report_of(tmp_path, gaps_s).parts.events
    assert events.pauses.intervals == ()
    assert not events.pauses.ends
    assert events.pauses.longest is not None
    assert events.pauses.longest.value < 1.0  # 0.8 s with a standard deviation of 5%
    assert events.rates.mean == pytest.approx(75, rel=0.02)
    assert events.rates.lowest is not None
    assert events.rates.lowest.value > 68


def test_a_lost_sample_hides_nothing(tmp_path: Path) -> None:
    """Of single lost samples every interval is still measured, and a real pause among them is one."""
    signal, at = synthetic_signal("N" * 60, fs_hz=250.0, rr_s=0.8, seed=3)
    later, _ = synthetic_signal("N" * 60, fs_hz=250.0, rr_s=0.8, seed=4)
    quiet = np.random.default_rng(0).normal(0, 0.01, round(3.0 * 250))
    signal = np.concatenate([signal[: int(at[-1]) + 100], quiet, later])
    signal[int(at[-1]) + 300] = np.nan
    np.savez(tmp_path / "p.npz", signal=np.stack([signal, 0.6 * signal]), leads=["MLII", "V1"], fs=250.0, units="mV")
    assert len(ecgfed.report(tmp_path / "p.npz").parts.events.pauses.intervals) == 1


@pytest.mark.parametrize(("gap_s", "confirmed"), [(6.0, True), (12.0, False)])
def test_what_lies_in_a_large_gap_is_to_be_reviewed(tmp_path: Path, gap_s: float, confirmed: bool) -> None:
    """Labels mark a ventricular run in a gap of 7.5 or 15% of 80 s: no extreme rate is confirmed beside the latter."""
    signal, at = synthetic_signal("N" * 100, fs_hz=250.0, rr_s=0.8, seed=3)
    inside = (at >= 20 * 250) & (at < (20 + gap_s) * 250)
    signal[20 * 250 : round((20 + gap_s) * 250)] = np.nan
    np.savez(tmp_path / "r.npz", signal=signal[None], leads=["MLII"], fs=250.0, units="mV")
    rows = [f"{sample},{'V' if run else 'N'}" for sample, run in zip(at.tolist(), inside.tolist(), strict=True)]
    (tmp_path / "l.csv").write_text("\n".join(["sample,symbol", *rows]) + "\n")
    found = ecgfed.report(tmp_path / "r.npz", labels=tmp_path / "l.csv").to_dict()
    for value in (found["rates"]["lowest"], found["rates"]["highest"], found["pauses"]["longest"]):
        assert value["confirmed"] == confirmed
    (text,) = (warning["text"] for warning in found["warnings"] if warning["code"] == "left-out")
    assert (f"possible ventricular run lies there, to be reviewed: {inside.sum()} beats at" in text) != confirmed
