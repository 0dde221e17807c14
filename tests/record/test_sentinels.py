"""Numbers that stand for missing samples in tables and arrays are gaps; what an amplifier may give stays."""

from pathlib import Path

import numpy as np
import pytest

import ecgfed
from ecgfed.domain.record.checks import sentinels_to_nan
from ecgfed.domain.record.reader import open_recording, read_recording
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.testing.ecg import synthetic_ecg

FS = 250.0
MISSING = (100, 101, 102, 3000)


def lead_mv() -> np.ndarray:
    return np.round(synthetic_ecg(FS, 30).signals_mv[0], 3)


@pytest.mark.parametrize("value", [-9999, 9999, 999, 32767, -32768, 65535, -2147483648])
@pytest.mark.parametrize("unit", ["mV", "uV"])
def test_missing_samples_of_a_table(tmp_path: Path, value: int, unit: str) -> None:
    if (value, unit) == (999, "uV"):
        pytest.skip("a millivolt")
    number = lead_mv() * (1000 if unit == "uV" else 1)
    number[list(MISSING)] = value
    (tmp_path / "one.csv").write_text(f"MLII ({unit})\n" + "\n".join(f"{item:g}" for item in number) + "\n")
    recording = read_recording(tmp_path / "one.csv", how=ReadOptions(fs_hz=FS))
    assert np.flatnonzero(np.isnan(recording.signal_mv)).tolist() == list(MISSING)
    assert len(recording.notes) == 1
    assert f"{value:g}"[:4] in recording.notes[0]
    assert np.nanmax(np.abs(recording.signal_mv - lead_mv())) < 1e-9


def test_missing_samples_of_an_array_whole_and_by_blocks(tmp_path: Path) -> None:
    steps = np.rint(200 * lead_mv()).astype(np.int32) + 1024
    steps[list(MISSING)] = 65535
    np.save(tmp_path / "one.npy", steps)
    how = ReadOptions(fs_hz=FS, units="200(1024)/mV", columns=("MLII",))
    path = tmp_path / "one.npy"
    for opened in (read_recording(path, how=how), open_recording(path, how=how, min_samples=1000)):
        assert np.flatnonzero(np.isnan(opened.signals_mv[0])).tolist() == list(MISSING)
        assert opened.notes


def test_both_signs_and_any_constant_far_away() -> None:
    signals = np.tile(lead_mv(), (3, 1))
    signals[0, [5, 6]], signals[0, [9, 10, 11]] = -9999, 9999
    signals[1, [5, 6]] = 1234.5
    signals[2, 5] = 1234.5  # once: an artefact, as it may be
    notes = sentinels_to_nan(signals, "ABC")
    assert np.isnan(signals).sum(axis=1).tolist() == [5, 2, 0]
    assert len(notes) == 3


def test_what_is_no_sentinel_stays() -> None:
    time_s = np.arange(3000) / FS
    rail = np.clip(40_000 * np.sin(time_s), -32768, 32767)  # saturated at both ends of 16 bits
    pulses = (time_s % 1 < 0.1).astype(float)  # of 1 mV on a flat line
    artefact = lead_mv()[:3000].copy()
    artefact[500:520] = 5.0  # an amplifier at its end, beside 1 mV
    signals = np.stack([rail, pulses, artefact, np.full(3000, -9999.0)])
    before = signals.copy()
    assert sentinels_to_nan(signals, "ABCD") == ()
    assert np.array_equal(signals, before)


def test_convert_keeps_the_resolution(tmp_path: Path) -> None:
    number = lead_mv()
    number[list(MISSING)] = -9999
    (tmp_path / "one.csv").write_text("MLII (mV)\n" + "\n".join(f"{item:g}" for item in number) + "\n")
    conversion = ecgfed.convert(tmp_path / "one.csv", tmp_path / "out", how=ReadOptions(fs_hz=FS))
    (lead,) = conversion.leads
    assert (lead.gaps, lead.max_error_mv < 1e-6) == (len(MISSING), True)


def test_convert_warns_of_coarse_steps(tmp_path: Path) -> None:
    number = lead_mv()
    number[50] = 800.3  # a single one: nothing says that it is missing
    (tmp_path / "one.csv").write_text("MLII (mV)\n" + "\n".join(f"{item:g}" for item in number) + "\n")
    conversion = ecgfed.convert(tmp_path / "one.csv", tmp_path / "out", how=ReadOptions(fs_hz=FS))
    (lead,) = conversion.leads
    assert lead.step_uv > 10
    assert any("µV" in note and "MLII" in note for note in conversion.notes)
