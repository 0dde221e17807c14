"""RR features of version 4 in C beside Python, on made-up and real recordings."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal, train_run
from mcu_sources import SANITIZED, build, peaks_of, run_c, stretches
from numpy.typing import NDArray

from ecgfed.core.runs.run import open_run
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.context_stream import context_features
from ecgfed.domain.beats.extract import hides_signal
from ecgfed.domain.beats.intervals import intervals_s
from ecgfed.domain.beats.past import FEATURES
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.folder import folder_sources
from ecgfed.domain.cohort.sources import PrepareOptions
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.quality import Reason
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.int8_variants import Int8Rule
from ecgfed.exports.device.bundle import open_bundle
from ecgfed.exports.device.classifier import Classifier
from ecgfed.tasks.export_mcu import export_mcu

pytestmark = pytest.mark.mcu
#: MIT-BIH's converter ends there.
RAIL_MV = 5.115
#: What C knows to be lost: it judges no spikes.
LOST = frozenset({Reason.GAP, Reason.FLAT, Reason.RAIL})


@pytest.fixture(scope="module")
def folder(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose net takes RR features of version 4, its sources and the program made of them."""
    folder = tmp_path_factory.mktemp("context")
    options = PrepareOptions(beats=BeatOptions(peaks="annotated", rr_version=4))
    build_cohort(folder_sources(records), folder / "cohort", options, kind="folder", workers=1)
    export_mcu(train_run(folder / "cohort", folder / "run", rounds=4), folder / "sources", int8_loss=1.0)
    build(folder / "sources", folder / "driver", "gcc", *SANITIZED)
    return folder


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Classifier:
    """The int8 graphs of the same run."""
    run = open_run(folder / "run")
    rule = Int8Rule(loss=1.0)
    export_bundle(run, open_cohort(folder / "cohort"), run.state(), folder / "bundle", global_only=True, int8=rule)
    return open_bundle(folder / "bundle").classifier(int8=True)


def features_of(signal_mv: NDArray[np.float64]) -> NDArray[np.float32]:
    """Python's features of a lead at 360 Hz; the windows of each stretch are those of a recording of its own."""
    peaks, lost = peaks_of(signal_mv), lead_quality(signal_mv, 360.0).spans(LOST)
    window_mv, padded = [np.empty((0, 1, 256), np.float32)], [np.empty(0, np.bool_)]
    for start, stop in stretches(signal_mv):
        inside = peaks[(peaks >= start) & (peaks < stop)]
        if len(inside):
            cut = windows_around(signal_mv[start:stop], 360.0, inside - start, rr_version=1)
            window_mv.append(cut.window_mv)
            padded.append((cut.flags & 1).astype(bool))
    usable = ~hides_signal(np.concatenate(padded), 360.0, peaks, lost)
    return context_features(intervals_s(peaks, 360.0, lost), np.concatenate(window_mv), usable, 4)


def compare(folder: Path, tmp_path: Path, signal_mv: NDArray[np.float64], *, made_up: bool = True) -> int:
    """Compare C's features with Python's; return how many beats there were."""
    found = run_c(folder / "driver", signal_mv, tmp_path, rail_mv=0.0 if made_up else RAIL_MV)
    assert found.sample.tolist() == peaks_of(signal_mv).tolist()
    expected = features_of(signal_mv)
    masks = [FEATURES.index(name) for name in FEATURES if name.startswith("void_")]
    np.testing.assert_array_equal(found.rr_s[:, masks], expected[:, masks])
    apart = np.abs(found.rr_s - expected)
    width = FEATURES.index("width")
    # a synthetic line has no P wave and slopes that are equal but for rounding, which may move a duration by a sample
    assert apart[:, width].max(initial=0) < (0.3 if made_up else 2e-3)
    assert np.delete(apart, width, axis=1).max(initial=0) < (1e-2 if made_up else 2e-3)
    return len(expected)


@pytest.mark.parametrize("beats", ["N" * 60, "NNNNVN" * 12, "NNNAN" * 14, "NV" * 30])
def test_made_up_recordings(folder: Path, tmp_path: Path, beats: str) -> None:
    signal_mv, _ = synthetic_signal(beats, seed=len(beats))
    assert compare(folder, tmp_path, signal_mv) > len(beats) // 2


def test_gaps_pauses_and_a_flat_line(folder: Path, tmp_path: Path) -> None:
    """Gaps that may hide a beat and intervals of more than two seconds are void in both."""
    signal_mv, _ = synthetic_signal("N" * 90, seed=4)
    second = 360
    for at, length in ((12, 10), (20, 30), (28, 53), (36, 54), (44, 300), (60, 3 * second)):
        signal_mv[at * second : at * second + length] = np.nan
    assert compare(folder, tmp_path, signal_mv) > 60
    slow, _ = synthetic_signal("N" * 40, seed=5, rr_s=2.0)
    assert compare(folder, tmp_path, slow) > 30


@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["208", "114", "232"])
def test_real_records(folder: Path, classifier: Classifier, mitdb: Path, tmp_path: Path, record: str) -> None:
    """Features and labels of ten minutes are Python's."""
    signal_mv = np.asarray(read_recording(mitdb / record, ("MLII",)).signal_mv, np.float64)[: 10 * 60 * 360]
    assert compare(folder, tmp_path, signal_mv, made_up=False) > 500
    found = run_c(folder / "driver", signal_mv, tmp_path, rail_mv=RAIL_MV)
    windows = windows_around(signal_mv, 360.0, peaks_of(signal_mv), rr_version=4)
    said = classifier.classify(windows)
    classified = (found.unclassified == 0) & said.classified
    assert (found.label == said.label)[classified].mean() >= 0.995
