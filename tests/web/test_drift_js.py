"""Drift in JavaScript beside Python's: every state and every signal the same, of made-up beats, streams and records."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from node_runtime import in_node, own
from numpy.typing import NDArray
from spoiled_signals import spoiled

from ecgfed.device import Drift, StreamClassifier, open_bundle
from ecgfed.domain.record.reader import read_recording
from ecgfed.exports.device.drift import REASONS, DriftBounds
from ecgfed.exports.device.shipped import shipped_model

pytestmark = pytest.mark.browser
RUNNER = ("onnxruntime-node",)
#: Bounds that some hundred beats are enough for.
SOON = DriftBounds(first=40, last=30, silence_s=5.0)
#: What is done to the second half of a record.
KINDS = ("none", "noise", "off", "lead", "patient", "gain")


def told(bounds: DriftBounds) -> dict[str, float]:
    """Return bounds as JavaScript takes them."""
    found = dataclasses.asdict(bounds)
    silence_s = found.pop("silence_s")
    return {**found, "silenceS": silence_s}


def state(drift: Drift) -> dict[str, Any]:
    """Return what Python says, as JavaScript says it."""
    values = {name: float(value) for name, value in drift.values.items()}
    return {"values": values, "reasons": list(drift.reasons), "text": drift.text, "labelAgain": drift.label_again}


def events(drift: Drift) -> list[dict[str, Any]]:
    """Return Python's changes, as JavaScript says them."""
    return [{"timeS": one.time_s, "reason": one.reason, "began": one.began} for one in drift.events]


def in_order(found: list[dict[str, Any]]) -> list[tuple[float, str, bool]]:
    """Return changes in order of time: a beat of version 2 is told up to eight beats sooner in JavaScript."""
    return sorted((one["timeS"], one["reason"], one["began"]) for one in found)


def test_words_and_bounds_are_pythons() -> None:
    words, bounds = in_node(own("constant", "drift.js", "DRIFT_REASONS"), own("constant", "drift.js", "DRIFT_BOUNDS"))
    assert words == REASONS
    assert list(words) == list(REASONS)
    assert bounds == told(DriftBounds())


def made_up(seed: int, many: int) -> list[dict[str, Any]]:
    """Return beats whose classes, doubts, shapes and heights change at places of their own."""
    rng = np.random.default_rng(seed)
    at = np.arange(256)
    shapes = [np.exp(-0.5 * ((at - 100) / width) ** 2) for width in rng.uniform(3, 25, 3)]
    mix, chance, size, flip = rng.dirichlet([2, 1, 1]), rng.uniform(0, 0.5, 3), 1.0, 1
    beats = []
    for number in range(many):
        if rng.random() < 0.02:
            mix, chance = rng.dirichlet([1, 1, 1]), rng.uniform(0, 1, 3)
            size, flip = rng.choice([0.2, 0.7, 1.0, 2.5]), rng.choice([-1, 1])
        label = int(rng.choice(3, p=mix))
        window = flip * size * shapes[label] + 0.05 * rng.standard_normal(256)
        far, uncertain, poor = (bool(one) for one in rng.random(3) < chance * [0.6, 1, 0.8])
        beat = {"timeS": 0.8 * number, "label": label, "uncertain": uncertain, "far": far, "flags": 2 * poor}
        quiet = [0.8 * number, float(rng.choice([0.0, 2.0, 4.0, 5.5, 9.0]))] if rng.random() < 0.1 else None
        beats.append({"beat": beat, "window": window.astype(np.float32), "quiet": quiet})
    return beats


@pytest.mark.parametrize("seed", range(4))
def test_made_up_beats_give_pythons_states_to_the_last_bit(seed: int) -> None:
    """After every beat, through changes of all kinds, their ends, silences and a new beginning."""
    bounds = dataclasses.replace(SOON, first=20 + 10 * seed)
    beats = made_up(seed, 500)
    beats[350]["beat"] = None
    drift, expected = Drift(3, bounds), []
    for one in beats:
        if (beat := one["beat"]) is None:
            drift.restart()
        else:
            about = (beat["timeS"], beat["label"], beat["uncertain"], beat["far"], beat["flags"])
            drift.add(*about, one["window"])
        if one["quiet"]:
            drift.quiet(*one["quiet"])
        expected.append(state(drift))
    columns = [[one[name] for one in beats] for name in ("beat", "window", "quiet")]
    (found,) = in_node(own("drifted", 3, told(bounds), *columns))
    assert found["states"] == expected
    assert found["events"] == events(drift)
    assert len({reason for one in expected for reason in one["reasons"]}) >= 4
    assert not expected[350]["reasons"]


@pytest.mark.parametrize("height_mv", [2000, 1e20, 1e37])
@pytest.mark.filterwarnings("error")
def test_whole_numbers_beyond_any_heart_give_pythons_values(height_mv: float) -> None:
    """The correlation is of whole numbers, summed exactly, however high a wave is."""
    rng = np.random.default_rng(5)
    bounds = DriftBounds(first=4, last=4)
    windows = [(height_mv * rng.standard_normal(256)).astype(np.float32) for _ in range(12)]
    drift = Drift(2, bounds)
    for number, window in enumerate(windows):
        drift.add(float(number), 0, False, False, 0, window)
    beats = [{"timeS": i, "label": 0, "uncertain": False, "far": False, "flags": 0} for i in range(12)]
    (found,) = in_node(own("drifted", 2, told(bounds), beats, windows, [None] * 12))
    assert found["states"][-1] == state(drift)
    assert drift.values["shape"] > 1


def watched(signals: NDArray[np.float64], fs_hz: float, bounds: DriftBounds) -> tuple[Drift, int]:
    """Watch a stream in Python; return what it says in the end, and how many beats there were."""
    classifier = open_bundle(shipped_model()).classifier()
    drift = Drift(len(classifier.classes), bounds)
    stream = StreamClassifier(classifier, fs_hz, leads=len(signals), drift=drift)
    return drift, len(stream.push(signals)) + len(stream.finish())


def same(signals: NDArray[np.float64], fs_hz: float, bounds: DriftBounds, sizes: list[list[int]]) -> list[str]:
    """Compare both streams of a recording, in several sizes of chunks; return the reasons that began."""
    drift, beats = watched(signals, fs_hz, bounds)
    recording = {"fsHz": fs_hz, "leads": [f"l{i}" for i in range(len(signals))], "signalsMv": signals}
    which = {"bundle": str(shipped_model())}
    jobs = [own("watched", which, recording, {"lead": 0}, one, told(bounds)) for one in sizes]
    for found in in_node(*jobs, packages=RUNNER):
        assert found["beats"] == beats
        assert in_order(found["events"]) == in_order(events(drift))
        assert {name: found[name] for name in ("values", "reasons", "text", "labelAgain")} == state(drift)
        assert found["lastBeatS"] == drift.last_beat_s
    return [one.reason for one in drift.events if one.began]


@pytest.mark.parametrize("fs_hz", [250.0, 360.0])
def test_a_stream_says_what_pythons_says_of_another_heart_and_of_silence(fs_hz: float) -> None:
    one, _ = synthetic_signal("NNNVN" * 14, fs_hz=fs_hz, seed=1)
    other, _ = synthetic_signal("LLVLL" * 14, fs_hz=fs_hz, seed=2)
    off = np.full(round(20 * fs_hz), np.nan)
    lead = np.concatenate([one, off, other, other[: round(10 * fs_hz)]])
    signals = np.stack([lead, -0.5 * lead])
    began = same(signals, fs_hz, SOON, [[90], [1000, 1, 77]])
    assert {"silence", "shape"} <= set(began)


def test_a_spoiled_stream_says_what_pythons_says() -> None:
    signals = np.concatenate([spoiled(360.0, seed=1), spoiled(360.0, seed=2)[::-1]], axis=1)
    assert "size" in same(signals, 360.0, dataclasses.replace(SOON, size=1.3), [[4001]])


def changed_record(mitdb: Path, kind: str, first_s: float, second_s: float) -> NDArray[np.float64]:
    """Return a record (MLII first) whose second part was changed."""
    made, other = (read_recording(mitdb / name, ("MLII",), every_lead=True) for name in ("208", "116"))
    rows, half, stop = np.array(made.signals_mv), round(first_s * 360), round((first_s + second_s) * 360)
    rows, part = rows[:, :stop], slice(half, stop)
    if kind == "noise":
        rows[:, part] += np.random.default_rng(0).normal(0, 0.3, (2, stop - half))
    elif kind == "off":
        rows[:, part] = np.nan
    elif kind == "lead":
        rows[:, part] = rows[::-1, part].copy()
    elif kind == "patient":
        rows[:, part] = np.array(other.signals_mv)[:, part]
    elif kind == "gain":
        rows[:, part] *= 2
    return rows


@pytest.mark.mitdb
@pytest.mark.parametrize("kind", ["lead"])
def test_minutes_of_a_record_that_changes_say_what_pythons_say(mitdb: Path, kind: str) -> None:
    bounds = DriftBounds(first=150, last=100)
    assert same(changed_record(mitdb, kind, 150, 150), 360.0, bounds, [[360]])


@pytest.mark.mitdb
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whole_records_that_change_say_what_pythons_say(mitdb: Path, kind: str) -> None:
    """With the bounds that are shipped: damaged, off, on the other lead, another patient's, twice as high."""
    began = same(changed_record(mitdb, kind, 902.8, 902.0), 360.0, DriftBounds(), [[3600]])
    assert began or kind == "none"
