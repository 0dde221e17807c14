"""Leads too large to be in millivolt: inspect, predict and prepare say so, whole and by blocks; none refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from numpy.typing import NDArray
from record_files import write_signals
from support import Command, assert_refused

import ecgfed as package
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.size import LOOKED_AT, lead_size
from ecgfed.domain.signal.spans import Spans

BUNDLE = Path(__file__).parents[1] / "data" / "version-0.1" / "bundle"
FS = 360.0
SIGNAL, R = synthetic_signal("N" * 60, seed=5)
NOWHERE = Spans.merged([])


def written(folder: Path, name: str, times: float, other: float = 1.0) -> Path:
    """Write a recording of two leads in what its header calls mV, with an annotation."""
    signals = np.stack([times * SIGNAL, -0.6 * other * SIGNAL])
    write_signals(folder, name, signals, fs_hz=360, leads=("MLII", "V1"), fmt="32")
    wfdb.wrann(name, "atr", R, ["N"] * len(R), write_dir=str(folder))
    return folder / name


def triangle(height_mv: float, every: int = 300, count: int = 40) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return waves whose height is known, 30 ms to each side, on a baseline that wanders slowly, and where they are."""
    at = 200 + every * np.arange(count)
    signal = 3 * np.sin(2 * np.pi * 0.1 * np.arange(every * count + 400) / FS)
    for middle in at.tolist():
        signal[middle - 10 : middle + 11] += height_mv * (1 - np.abs(np.arange(-10, 11)) / 11)
    return signal, at


@pytest.mark.parametrize("height_mv", [1.0, 19.0, 2300.0])
def test_the_size_of_a_lead_is_the_height_of_its_qrs(height_mv: float) -> None:
    signal, at = triangle(height_mv)
    recording = Recording("r", Path("r"), "II", ("II",), FS, signal[None], ())
    found = lead_size(recording, "II", at, NOWHERE)
    assert found.of_beats
    assert found.mv == pytest.approx(height_mv, abs=0.3)  # the baseline moves by 0.23 mV in 120 ms
    bad = Spans.merged([(0, int(at[-6]))])
    signal[: int(at[-6])] *= 100
    again = lead_size(recording, "II", at, bad)
    assert again.mv == pytest.approx(height_mv, abs=0.3)


def test_without_beats_it_is_the_usual_excursion_and_without_samples_none() -> None:
    signal, _ = triangle(2300.0)
    recording = Recording("r", Path("r"), "II", ("II", "V1"), FS, np.stack([signal, np.full(len(signal), np.nan)]), ())
    found = lead_size(recording, "II", np.empty(0, np.int64), NOWHERE)
    assert not found.of_beats
    assert found.mv == pytest.approx(2300, rel=0.01)
    assert lead_size(recording, "V1", np.empty(0, np.int64), NOWHERE) is None


def test_of_many_beats_some_are_looked_at_from_first_to_last() -> None:
    """Half of the beats are high, all in the second half: the median lies between."""
    low, at = triangle(1.0, count=3 * LOOKED_AT)
    signal = low.copy()
    half = len(signal) // 2
    signal[half:] *= 100
    found = lead_size(Recording("r", Path("r"), "II", ("II",), FS, signal[None], ()), "II", at, NOWHERE)
    assert 1 < found.mv < 130


def test_inspect_asks_for_the_units_of_what_no_electrode_gives(tmp_path: Path) -> None:
    for times, kinds in ((1.0, set()), (1000.0, {"units"})):
        file = written(tmp_path, f"r{times:.0f}", times)
        opened = open_recording(file, every_lead=True, min_samples=1000)
        assert opened.is_lazy
        found = {one.kind: one for one in package.inspect_recording(opened).findings}
        assert set(found) == kinds
    said = found["units"]
    assert said.lead == "MLII"
    assert list(said.evidence["mv"]) == ["MLII"]
    assert 500 < said.evidence["mv"]["MLII"] < 3000
    assert said.text.startswith(f"The QRS of MLII is {said.evidence['mv']['MLII']:,.0f} mV, and no electrode gives 20")


def test_predict_warns_of_it_and_goes_on(tmp_path: Path) -> None:
    right, wrong = (open_recording(written(tmp_path, f"r{t:.0f}", t), "MLII", min_samples=1000) for t in (1.0, 1000.0))
    package.predict(BUNDLE, right, force=True)  # a warning is an error here
    with pytest.warns(package.EcgfedWarning, match=r"QRS of MLII is [\d,]+ mV, and no electrode gives 20") as said:
        found = package.predict(BUNDLE, wrong, force=True)
    assert len(said) == 1
    assert len(found.sample) > 50


@pytest.mark.parametrize("peaks", ["annotated", "detected"])
def test_prepare_warns_of_it_and_goes_on(tmp_path: Path, peaks: str) -> None:
    for name, times in (("a", 0.9), ("b", 1.0)):
        written(tmp_path / "right", name, times)
    package.prepare_folder(tmp_path / "right", tmp_path / "c1", peaks=peaks)
    written(tmp_path / "right", "b", 1000.0)
    with pytest.warns(package.EcgfedWarning, match=r"QRS of 1 of 2 recordings is .*, [\d,]+ mV in b: are the") as said:
        made = package.prepare_folder(tmp_path / "right", tmp_path / "c2", peaks=peaks)
    assert len(said) == 1
    assert ["too_large_mv" in one for one in made.meta["records"]] == [False, True]


def test_another_lead_is_read_where_one_has_no_signal_and_none_was_named(ecgfed: Command, tmp_path: Path) -> None:
    flat = written(tmp_path, "flat", 0.0)
    assert ecgfed("predict", BUNDLE, flat, "--force", "--out", tmp_path / "out").code == 0
    predictions = json.loads((tmp_path / "out" / "flat.json").read_text())
    assert predictions["lead"] == "V1"
    assert "Nothing of MLII can be used: V1 is read in its place." in [one["text"] for one in predictions["warnings"]]
    refused = ecgfed("predict", BUNDLE, flat, "--lead", "MLII", "--force", "--out", tmp_path / "other")
    assert_refused(refused, "lead MLII: has no usable 3 s")
    assert not (tmp_path / "other").exists()
    good = ecgfed("predict", BUNDLE, written(tmp_path, "good", 1.0), "--force", "--out", tmp_path / "out")
    assert "no signal" not in good.err
