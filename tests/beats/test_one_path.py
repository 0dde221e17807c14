"""A beat that is predicted is cut exactly as a beat that was trained on: bit for bit, whatever the recording.

The cohort's arrays are read as files; what the classifier is given is caught where it arrives. Nothing of the way in
between is used here.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import SHAPES, synthetic_signal
from numpy.typing import NDArray
from record_files import write_signals
from support import exported

import ecgfed
from ecgfed.exports.device.bundle import Classifier

#: Beats of all kinds, one that no class claims (Q), one nobody can say (?), and marks that are none.
BEATS = "NNNNVNNANNLNNQNNNVNN?NNANNNVNNNLNN"
PADDED, POOR = 1, 2


@dataclass(frozen=True)
class Kind:
    """A recording to walk the path: its sampling frequency in Hz, leads, and what is done to it."""

    fs_hz: float
    leads: tuple[str, ...] = ("MLII", "V1")
    gap_s: tuple[float, float] | None = None


RECORDS = {
    "at360": Kind(360.0),
    "at250": Kind(250.0, ("V5", "MLII")),
    "gap360": Kind(360.0, gap_s=(9.0, 11.5)),
    "gap250": Kind(250.0, ("MLII",), gap_s=(4.0, 6.0)),
}


def record(folder: Path, name: str, kind: Kind, seed: int) -> None:
    """Write a record whose chosen lead has the gap, and whose other lead sees the heart from elsewhere."""
    shapes = "".join(symbol if symbol in SHAPES else "N" for symbol in BEATS)
    signal, r = synthetic_signal(shapes, fs_hz=kind.fs_hz, seed=seed)
    # it begins and ends in the middle of beats, so that some windows are filled up
    first, last = r[0] - int(0.1 * kind.fs_hz), r[-1] + int(0.1 * kind.fs_hz)
    signal, r = signal[first:last], r - first
    noise = np.random.default_rng(seed).standard_normal(len(signal))
    columns = [signal if lead == "MLII" else 0.7 * signal + 0.01 * noise for lead in kind.leads]
    signals = np.stack(columns)
    if kind.gap_s:
        start, stop = (int(edge * kind.fs_hz) for edge in kind.gap_s)
        signals[kind.leads.index("MLII"), start:stop] = np.nan
    write_signals(folder, name, signals, fs_hz=kind.fs_hz, leads=kind.leads)
    marks, symbols = [0, *r.tolist()], ["+", *BEATS]
    wfdb.wrann(name, "atr", np.array(marks), symbols, aux_note=["(N", *[""] * len(r)], write_dir=str(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("one-path")
    for seed, (name, kind) in enumerate(RECORDS.items()):
        record(place, name, kind, seed)
    return place


@pytest.fixture(scope="module", params=["annotated", "detected"])
def trained_on(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A cohort of the records, by annotated or by detected peaks."""
    out = tmp_path_factory.mktemp(request.param) / "cohort"
    ecgfed.prepare_folder(folder, out, leads=("MLII",), peaks=request.param, workers=1)
    return request.param, out


def rows_of(cohort: Path, name: str) -> dict[str, NDArray[Any]]:
    """A record's rows of a cohort's files."""
    meta = json.loads((cohort / "cohort.json").read_text())
    number = [one["name"] for one in meta["records"]].index(name)
    names = ("beats", "rr", "flags", "sample", "label", "record")
    arrays = {part: np.load(cohort / f"{part}.npy") for part in names}
    here = arrays["record"] == number
    return {part: values[here] for part, values in arrays.items()}


@dataclass
class Given:
    """What the classifier was given, and what came of it."""

    window: NDArray[np.float32]
    rr: NDArray[np.float32] | None
    predictions: ecgfed.Predictions


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch, fedavg_run: Path) -> Any:
    """Predict a recording; a function that returns what ``Classifier.logits`` was given in doing so."""
    bundle, logits = exported(fedavg_run), Classifier.logits
    caught: list[tuple[NDArray[np.float32], NDArray[np.float32] | None]] = []

    def spy(self: Classifier, window_mv: NDArray[np.float32], rr_s: NDArray[np.float32] | None = None) -> Any:
        caught.append((window_mv.copy(), None if rr_s is None else rr_s.copy()))
        return logits(self, window_mv, rr_s)

    monkeypatch.setattr(Classifier, "logits", spy)

    def predict(recording: Path | ecgfed.Recording, peaks: str) -> Given:
        caught.clear()
        found = ecgfed.predict(bundle, recording, peaks=peaks)
        ((window, rr),) = caught
        return Given(window, rr, found)

    return predict


def assert_same_bits(one: NDArray[Any], other: NDArray[Any]) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", list(RECORDS))
def test_what_is_predicted_is_cut_as_what_was_trained_on(
    name: str, folder: Path, trained_on: tuple[str, Path], predicted: Any
) -> None:
    peaks, cohort = trained_on
    stored, given = rows_of(cohort, name), predicted(folder / name, peaks)
    place = {sample: i for i, sample in enumerate(given.predictions.sample.tolist())}
    rows = [place[sample] for sample in stored["sample"].tolist()]
    assert_same_bits(given.window[rows], stored["beats"])
    assert_same_bits(given.rr[rows], stored["rr"])
    assert_same_bits(given.predictions.flags[rows], stored["flags"])


def test_the_comparison_has_something_to_compare(folder: Path, trained_on: tuple[str, Path], predicted: Any) -> None:
    """Beats that no class claims are predicted too; some windows reach past an end, some into the gap."""
    peaks, cohort = trained_on
    meta = json.loads((cohort / "cohort.json").read_text())
    assert meta["peaks"] == peaks
    claimed = sum(symbol not in "Q?" for symbol in BEATS)
    for name, kind in RECORDS.items():
        stored, given = rows_of(cohort, name), predicted(folder / name, peaks)
        assert len(np.unique(stored["sample"])) == len(stored["sample"])
        assert len(given.predictions) > len(stored["sample"])
        assert (stored["flags"] & PADDED).any()
        assert (stored["flags"] & POOR).any() == (kind.gap_s is not None)
        assert len(np.unique(stored["label"])) >= 3
        if peaks == "annotated":
            at = wfdb.rdann(str(folder / name), "atr")
            here = np.isin(at.symbol, [symbol for symbol in BEATS if symbol not in "Q?"])
            low, high = (edge * kind.fs_hz for edge in kind.gap_s or (0, 0))
            # a window that lies in the gap from end to end (R-278 ms to R+433 ms) holds nothing
            inside = (at.sample - 0.278 * kind.fs_hz >= low) & (at.sample + 0.433 * kind.fs_hz <= high)
            assert len(stored["sample"]) == claimed - (here & inside).sum()
            assert len(given.predictions) == len(BEATS)
        else:
            lost = 0 if kind.gap_s is None else 5
            assert claimed - lost - 2 <= len(stored["sample"]) <= claimed


def test_detected_peaks_are_not_the_annotated_ones(folder: Path, trained_on: tuple[str, Path], predicted: Any) -> None:
    """So that a path which took the wrong peaks would be seen."""
    one, other = (predicted(folder / "at250", peaks) for peaks in ("annotated", "detected"))
    assert not np.array_equal(one.predictions.sample, other.predictions.sample)
    assert one.window.tobytes() != other.window.tobytes()


def test_a_recording_in_hand_is_cut_as_its_file(folder: Path, trained_on: tuple[str, Path], predicted: Any) -> None:
    """Of annotated peaks the chosen lead alone is enough; our detector looks at every lead."""
    peaks, _ = trained_on
    recording = ecgfed.read_recording(folder / "at250", "MLII", every_lead=peaks == "detected")
    own, of_file = predicted(recording, peaks), predicted(folder / "at250", peaks)
    assert_same_bits(own.window, of_file.window)
    assert_same_bits(own.rr, of_file.rr)
