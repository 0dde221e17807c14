"""R-peak detection against where the beats were put, and against the reference annotation of record 100."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from record_files import r_waves
from wfdb.processing import compare_annotations

from ecgfed.errors import OptionError, RecordError
from ecgfed.record.wfdb_files import read_annotation, read_recording
from ecgfed.signal.detectors import DETECTORS, detect_r_peaks


def beat_times(count: int) -> list[float]:
    return [0.7 + 0.8 * i + 0.03 * (i % 3) for i in range(count)]


@pytest.mark.parametrize("fs_hz", [250.0, 360.0])
def test_each_beat_of_a_clean_record_is_found_once_within_150_ms(fs_hz: float) -> None:
    times = beat_times(30)
    noise = 0.01 * np.random.default_rng(0).normal(size=round(26 * fs_hz))
    peaks = detect_r_peaks(r_waves(fs_hz, times, 26.0) + noise, fs_hz)
    assert len(peaks) == 30
    assert peaks.dtype == np.int64
    assert np.abs(peaks / fs_hz - times).max() < 0.150


@pytest.mark.parametrize(
    "detector", [name for name, one in DETECTORS.items() if not one.module or find_spec(one.module)]
)
def test_every_detector_finds_the_beats_of_the_lead_in_use(detector: str) -> None:
    times = beat_times(60)
    lead = r_waves(250.0, times, 50.0) + 0.01 * np.random.default_rng(0).normal(size=12_500)
    other = np.random.default_rng(1).normal(size=12_500)
    peaks = detect_r_peaks(np.stack([other, lead]), 250.0, lead=1, detector=detector) / 250
    found = sum(np.abs(peaks - at).min() < 0.150 for at in times)
    assert found >= 58  # the first and the last may lie in a filter's reach
    assert len(peaks) <= 62


def test_the_others_see_the_lead_in_use_alone_and_neurokit_is_told_the_mains(monkeypatch: pytest.MonkeyPatch) -> None:
    import neurokit2

    told: list[dict[str, object]] = []
    clean = neurokit2.ecg_clean
    monkeypatch.setattr(neurokit2, "ecg_clean", lambda signal, **about: told.append(about) or clean(signal, **about))
    signal = r_waves(250.0, beat_times(30), 26.0) + 0.01 * np.random.default_rng(0).normal(size=6500)
    both = np.stack([signal, np.zeros(6500)])
    np.testing.assert_array_equal(
        detect_r_peaks(both, 250.0, detector="neurokit"), detect_r_peaks(signal, 250.0, detector="neurokit")
    )
    assert told[0]["powerline"] == 60.0
    detect_r_peaks(signal, 250.0, detector="neurokit", mains_hz=50.0)
    assert told[-1]["powerline"] == 50.0
    with pytest.raises(RecordError, match="flat"):
        detect_r_peaks(both, 250.0, lead=1, detector="neurokit")


def test_a_detector_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecgfed.signal.detectors.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"--detector: sleepecg is not installed; pip install 'ecgfed\[sleepecg\]'"):
        detect_r_peaks(np.zeros(10_000), 360.0, detector="sleepecg")


def test_ours_needs_neither_wfdb_nor_torch() -> None:
    """Where a device runs it: numpy and scipy alone."""
    code = (
        "import sys, numpy as np\n"
        "from ecgfed.device import detect_qrs\n"
        "t = np.arange(3600) / 360\n"
        "assert len(detect_qrs(np.exp(-(((t % 0.8) - 0.4) / 0.02) ** 2), 360.0)) >= 10\n"
        "assert not {'wfdb', 'torch', 'neurokit2', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("fs_hz", "words"), [(99.0, "at least 100 Hz"), (50.0, "at least 100 Hz")])
def test_a_sampling_frequency_too_low_is_refused(fs_hz: float, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        detect_r_peaks(r_waves(fs_hz, beat_times(30), 26.0), fs_hz)


@pytest.mark.parametrize("detector", ["ecgfed", "xqrs"])
def test_the_beats_beside_a_gap_are_found(detector: str) -> None:
    times = beat_times(30)
    signal = r_waves(360.0, times, 26.0) + 0.01 * np.random.default_rng(0).normal(size=26 * 360)
    signal[10 * 360 : 11 * 360] = np.nan
    peaks = detect_r_peaks(signal, 360.0, detector=detector) / 360
    outside = [at for at in times if not 9.8 < at < 11.2]
    assert all(np.abs(peaks - at).min() < 0.150 for at in outside)


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        (np.zeros(360 * 10), "flat"),
        (np.full(360 * 10, 1.25), "flat"),
        (np.full(360 * 10, np.nan), "flat"),
        (np.where(np.arange(3600) < 1800, np.nan, -0.4), "flat"),
        (0.0004 * np.sin(np.arange(3600) / 40), "flat (no change above 1 microvolt)"),
        (np.ones(360 * 2), "lasts 2.0 s; expected at least 3 s"),
        (np.empty(0), "lasts 0.0 s"),
    ],
    ids=["zero", "constant", "all gaps", "gaps and flat", "below a microvolt", "short", "empty"],
)
def test_a_signal_without_an_ecg_is_one_line_that_names_it(signal: np.ndarray, words: str) -> None:
    with pytest.raises(RecordError) as caught:
        detect_r_peaks(signal, 360.0, name="r lead MLII")
    assert str(caught.value).startswith("r lead MLII: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_signal_there_are_peaks_in_order_or_our_own_error(seed: int) -> None:
    """Spikes, steps, rails and noise: never an exception of the detector's."""
    rng = np.random.default_rng(seed)
    signal = [
        rng.normal(size=1100),
        np.sign(np.sin(np.arange(4000) / 700)),
        np.full(4000, 5.12),
        np.cumsum(rng.normal(size=4000)),
        1e6 * (np.arange(4000) == 2000),
        np.where(np.arange(1200) < 5, 0.0, 1.0),
    ][seed]
    try:
        peaks = detect_r_peaks(signal, 360.0)
    except RecordError:
        return
    assert len(peaks)
    assert (np.diff(peaks) > 0).all()
    assert peaks.min() >= 0
    assert peaks.max() < len(signal)


def test_an_unknown_detector_lists_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"--detector: 'magic'; expected one of ecgfed, xqrs, gqrs, neurokit"):
        detect_r_peaks(np.zeros(10_000), 360.0, detector="magic")


@pytest.mark.mitdb
def test_five_minutes_of_record_100_against_the_reference(mitdb: Path) -> None:
    """wfdb's own comparison, 150 ms, one to one: a clean record, so all but one beat in a hundred at worst."""
    signal = read_recording(mitdb / "100", ("MLII",)).signal_mv[: 5 * 60 * 360]
    reference = read_annotation(mitdb / "100").beats().sample
    reference = reference[reference < len(signal)]
    found = detect_r_peaks(signal, 360.0)
    compared = compare_annotations(reference, found, 54)
    assert compared.tp >= 0.99 * len(reference)
    assert compared.fp <= 0.01 * len(reference)
    assert np.median(np.abs(found[:, None] - reference[None, :]).min(axis=1)) <= 3  # 8 ms: windows hang on it
