"""A graph whose values are not finite, and sessions of ONNX Runtime that are released, in JavaScript."""

import math
from pathlib import Path

import pytest
from conftest import synthetic_signal
from node_runtime import in_node, own

import ecgfed

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
RUNNER = ("onnxruntime-node",)


def test_a_beat_whose_logits_are_not_finite_is_unclassified() -> None:
    """Others keep their class; drift counts classified beats alone."""
    signal = synthetic_signal("NNNNV" * 24, fs_hz=360.0, seed=7)[0]
    at = {"bundle": str(MODEL)}
    recording = {"fsHz": 360, "leads": ["MLII"], "signalsMv": signal[None]}
    found, sound = in_node(
        own("spoiled_graph", at, 360, signal), own("streamed", at, recording, {"lead": 0}, [10**9]), packages=RUNNER
    )
    for beats in (found["whole"], found["stream"]):
        none = [beat for beat in beats if beat["override"]]
        assert 5 < len(none) < len(beats) - 5
        for beat in none:
            assert (beat["override"], beat["symbol"], beat["class"], beat["label"]) == ("Q", "Q", "", -1)
            assert math.isnan(float(beat["probability"]))
            assert beat["lowConfidence"]
        assert all(beat["class"] and 0 <= beat["probability"] <= 1 for beat in beats if not beat["override"])
    pairs = list(zip(found["stream"], sound["beats"], strict=True))
    assert all(one["label"] == other["label"] for one, other in pairs if not one["override"])
    assert found["counted"] == sum(not beat["override"] for beat in found["stream"])


def test_every_session_is_released() -> None:
    signal = synthetic_signal("NNNNV" * 6, fs_hz=360.0, seed=8)[0]
    recording = {"fsHz": 360, "leads": ["MLII"], "signalsMv": signal[None]}
    (found,) = in_node(own("released", str(MODEL), recording), packages=RUNNER)
    assert found["golden"]
    assert found["afterGolden"]["created"] == found["afterGolden"]["released"] >= 2
    assert found["beats"] >= 25
    assert found["count"]["created"] == found["count"]["released"] > found["afterGolden"]["created"]
    assert found["again"]["refused"].startswith("classifier: was released")
