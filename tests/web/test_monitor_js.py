"""Monitoring in JavaScript beside Python: pacing, beats without signal, counts of a stream, and those of a device."""

import json
import struct
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_runtime import Refused, in_node, of, own
from numpy.typing import NDArray
from spoiled_signals import spoiled

import ecgfed
from ecgfed.device import StreamClassifier, open_bundle
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.pacing import CLEAR_SCORE, FILE, beat_scores
from ecgfed.domain.signal.pacing_features import NAMES, margins
from ecgfed.domain.signal.quality import Reason
from ecgfed.exports.device.drift import REASONS

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
RUNNER = ("onnxruntime-node",)
#: The converter of MIT-BIH.
RAILS_MV = (-5.12, 5.115)


def scores(signal_mv: NDArray[np.float64], fs_hz: float, peaks: NDArray[np.int64]) -> NDArray[np.float64]:
    recording = Recording("r", Path("r"), "MLII", ("MLII",), fs_hz, signal_mv[None], ())
    return beat_scores(recording, peaks)


def test_weights_are_pythons() -> None:
    (bands,) = in_node(own("constant", "pacing.js", "PACING_BANDS"))
    stored = json.loads(files("ecgfed.domain.signal").joinpath(FILE).read_text("utf-8"))["bands"]
    assert bands == [
        {
            "fsHz": band["fs_hz"],
            "limitHz": band["limit_hz"],
            "intercept": band["intercept"],
            "weights": [band["weights"][name] for name in NAMES],
        }
        for band in stored
    ]


@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["107", "208"])
@pytest.mark.parametrize("fs_hz", [360.0, 500.0, 130.0, 100.0])
def test_a_real_records_pacing_is_pythons(mitdb: Path, record: str, fs_hz: float) -> None:
    """Samples of a real record, said to be of several sampling frequencies, at R peaks and beside them."""
    signal_mv = np.asarray(read_recording(mitdb / record, ("MLII",)).signal_mv, np.float64)[:100_000]
    signal_mv[50_000:50_400] = np.nan
    before, after = margins(fs_hz)
    peaks = np.arange(before, len(signal_mv) - after - 1, 131)
    (found,) = in_node(own("paced", signal_mv, fs_hz, peaks.tolist()))
    np.testing.assert_allclose(found, scores(signal_mv, fs_hz, peaks), rtol=0, atol=1e-9)
    assert np.isnan(found).all() if fs_hz < 125 else np.isfinite(found).sum() > 700


def test_pulses_are_no_pacing() -> None:
    pulses = np.tile(np.repeat([0.0, 1.0], 60), 40)
    (found,) = in_node(own("paced", pulses, 360.0, [600, 660, 700]))
    np.testing.assert_array_equal(found, scores(pulses, 360.0, np.array([600, 660, 700])))


def counted(signal_mv: NDArray[np.float64], rails_mv: tuple[float, ...], sizes: list[int]) -> dict[str, Any]:
    recording = {"fsHz": 360, "leads": ["MLII"], "signalsMv": signal_mv[None]}
    options = {"railsMv": list(rails_mv), "early": True}
    (found,) = in_node(own("counted", {"bundle": str(MODEL)}, recording, options, sizes), packages=RUNNER)
    return dict(found)


def assert_as_python(signal_mv: NDArray[np.float64], rails_mv: tuple[float, ...], sizes: list[int]) -> dict[str, Any]:
    """Compare a stream's beats and counts with those of Python's stream; return the counts."""
    found = counted(signal_mv, rails_mv, sizes)
    beats, counters = found["beats"], found["counters"]
    stream = StreamClassifier(open_bundle(MODEL).classifier(), 360.0, rails_mv=rails_mv)
    python = [beat for beat in [*stream.push(signal_mv), *stream.finish()] if beat.stage == "final"]
    assert [beat["sample"] for beat in beats] == [beat.sample for beat in python]
    assert [beat["noSignal"] for beat in beats] == [beat.override != "" for beat in python]
    wanted = scores(signal_mv, 360.0, np.array([beat.sample for beat in python]))
    np.testing.assert_allclose([float(beat["paced"]) for beat in beats], wanted, rtol=0, atol=1e-9)
    classified = [beat for beat in python if not beat.override]
    names = stream.classifier.classes
    assert counters["samples"] == len(signal_mv)
    assert counters["missing"] == np.isnan(signal_mv).sum()
    assert counters["beats"] == len(python)
    assert counters["noSignal"] == len(python) - len(classified)
    assert counters["classes"] == [sum(beat.name == name for beat in classified) for name in names]
    assert counters["lowConfidence"] == sum(beat.low_confidence for beat in classified)
    assert counters["outOfDistribution"] == sum(beat.out_of_distribution for beat in classified)
    assert counters["padded"] == sum(beat.flags & 1 for beat in python)
    assert counters["poor"] == sum(beat.flags & 2 for beat in python) / 2
    assert sum(counters["poorBy"].values()) >= counters["poor"]
    assert counters["pacingAssessed"] == np.isfinite(wanted).sum()
    assert counters["clearlyPaced"] == (wanted > CLEAR_SCORE).sum()
    return dict(counters)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_streams_counts_are_those_of_its_beats(seed: int) -> None:
    counters = assert_as_python(np.round(spoiled(360.0, seed)[0], 3), (-6.0, 6.0), [90, 7, 800])
    assert counters["noSignal"] > 0
    assert counters["poor"] > counters["noSignal"]


@pytest.mark.mitdb
@pytest.mark.parametrize(("record", "paced"), [("217", True), ("116", False)])
def test_a_real_records_counts_are_pythons(mitdb: Path, record: str, paced: bool) -> None:
    signal_mv = np.asarray(read_recording(mitdb / record, ("MLII",)).signal_mv, np.float64)[: 360 * 180]
    assert assert_as_python(signal_mv, RAILS_MV, [3600])["paced"] == paced


def block(version: int, head: tuple[int, int], counts: list[int]) -> bytes:
    return struct.pack(f"<4H{len(counts)}Q", version, 8 + 8 * len(counts), *head, *counts)


def test_a_devices_counts_are_read() -> None:
    """Both blocks as docs/microcontroller.md has them; ``tests/mcu/test_monitor.py`` reads those that C wrote."""
    first, second = block(1, (3, 0), list(range(1, 16))), block(1, (0b1010000, 1), list(range(101, 119)))
    alone, both = (
        in_node(of("counters.js", "readCounters", np.frombuffer(raw, np.uint8)))[0] for raw in (first, first + second)
    )
    assert [alone[name] for name in ("samples", "beats", "noLogits", "noSignal", "lastBeat")] == [1, 6, 7, 8, 12]
    assert alone["classes"] == [13, 14, 15]
    assert "watched" not in alone
    assert both | alone == both
    assert (both["watched"], both["poor"]) == (101, 102)
    assert both["poorBy"] == {str(reason): 103 + i for i, reason in enumerate(Reason)}
    assert (both["pacingAssessed"], both["clearlyPaced"], both["pacedRuns"]) == (109, 110, 111)
    assert both["drift"] == {reason: 112 + i for i, reason in enumerate(REASONS)}
    assert both["active"] == ["size", "silence"]
    assert both["paced"] is True


@pytest.mark.parametrize(
    "raw",
    [b"", b"\1\0", block(2, (3, 0), [0] * 15), block(1, (3, 0), [0] * 15)[:-1], block(1, (3, 0), [0] * 11)],
    ids=["empty", "short", "version", "cut", "few"],
)
def test_other_bytes_are_refused(raw: bytes) -> None:
    (found,) = in_node(of("counters.js", "readCounters", np.frombuffer(raw, np.uint8)))
    assert isinstance(found, Refused)
    assert found.line.startswith("counters: has")
