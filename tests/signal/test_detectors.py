"""R-peak detection: what all detectors are spared, and the reference annotation of record 100."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from record_files import r_waves
from wfdb.processing import compare_annotations

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.domain.record.wfdb_files import read_annotation, read_recording
from ecgfed.domain.signal.detectors import Detector, as_peaks, detect_r_peaks


def beat_times(count: int) -> list[float]:
    return [0.7 + 0.8 * i + 0.03 * (i % 3) for i in range(count)]


def test_neurokit_sees_the_lead_in_use_alone_and_is_told_the_mains(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("detector", "fs_hz", "error", "words"),
    [
        ("ecgfed", 99.0, RecordError, "at least 100 Hz"),
        ("xqrs", 1000.0, OptionError, "xqrs is made for 125 to 800 Hz, r has 1000 Hz; name another detector"),
        ("neurokit", 110.0, OptionError, "neurokit is made for 120 Hz or more, r has 110 Hz"),
    ],
)
def test_a_detector_is_not_asked_at_rates_it_is_not_made_for(
    detector: str, fs_hz: float, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        detect_r_peaks(r_waves(fs_hz, beat_times(30), 26.0), fs_hz, detector=detector, name="r")


@pytest.mark.parametrize("mains_hz", [55.0, 0.0, np.nan, True])
def test_mains_are_50_or_60(mains_hz: float) -> None:
    with pytest.raises(OptionError, match=r"mains_hz: .*; expected 50 or 60"):
        detect_r_peaks(r_waves(250.0, beat_times(30), 26.0), 250.0, mains_hz=mains_hz)


def test_what_a_detector_is_shown() -> None:
    """The lead in use alone or all of them, gaps bridged by straight lines or as they are, 60 Hz unless told."""
    seen: list[tuple[np.ndarray, float, int, float]] = []

    def find(signals_mv: np.ndarray, fs_hz: float, lead: int, mains_hz: float) -> np.ndarray:
        seen.append((signals_mv, fs_hz, lead, mains_hz))
        return np.array([7])

    signals = np.stack([np.sin(np.arange(1000.0)), np.arange(1000.0)])
    signals[1, 400:500] = np.nan
    one, every = Detector("one", find, ""), Detector("every", find, "", every_lead=True, copes_with_gaps=True)
    detect_r_peaks(signals, 250.0, lead=1, detector=one)
    detect_r_peaks(signals, 250.0, lead=1, detector=every, mains_hz=50)
    np.testing.assert_allclose(seen[0][0], np.arange(1000.0)[None])
    np.testing.assert_array_equal(seen[1][0], signals)
    assert [(rate, lead, mains) for _, rate, lead, mains in seen] == [(250.0, 0, 60.0), (250.0, 1, 50.0)]


def test_what_a_package_finds_is_made_whole_numbers_in_the_signal() -> None:
    found = as_peaks([12.0, np.nan, 3.0, 3.0, -1.0, 99.0, 100.0], 100)
    assert found.dtype == np.int64
    assert found.tolist() == [3, 12, 99]


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
    assert caught.value.line.startswith("r lead MLII: ")
    assert words in caught.value.line


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
