"""A stream's final answers are what the whole recording gives, however its samples come."""

from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecgfed.beats.path import BeatOptions, RecordingBeats, cut_beats
from ecgfed.device import Classifier, StreamBeat, StreamClassifier, open_bundle
from ecgfed.device.shipped import shipped_model
from ecgfed.errors import RecordError
from ecgfed.record.recording import Recording
from ecgfed.signal.quality import LIMIT_MV, rails

Signals = NDArray[np.float64]

#: A window differs from the whole recording's by the rounding of the filter's sums; a probability by what that makes.
WITHIN = 1e-5
BUNDLES = Path(__file__).parent.parent / "data" / "version-0.1"


@pytest.fixture(scope="module")
def classifiers() -> dict[int, Classifier]:
    """One for each version of the RR features: the model in the package, and one that does without them."""
    shipped = open_bundle(shipped_model()).classifier()
    return {2: shipped}


def signals_of(fs_hz: float, beats: int, seed: int) -> Signals:
    """Two leads with all that can befall them: gaps, lead-off, flat, spikes, noise, a baseline that jumps."""
    rng = np.random.default_rng(seed)
    one, _ = synthetic_signal("NNVNNANN" * (beats // 8), fs_hz=fs_hz, seed=seed)
    signals = np.stack([one, -0.6 * one])
    for _ in range(int(rng.integers(0, 9))):
        kind, leads = int(rng.integers(0, 7)), rng.choice([slice(0, 1), slice(1, 2), slice(0, 2)])
        at = int(rng.integers(0, signals.shape[1]))
        many = int(fs_hz * rng.choice([0.01, 0.05, 0.3, 1.2, 4.0, 9.0, 12.0, 35.0])) + 1
        part = signals[leads, at : at + many]
        if kind <= 1:
            part[:] = np.nan
        elif kind == 2:
            part[:] = rng.normal()
        elif kind == 3:
            part[:] = 9.0
        elif kind == 4:
            part[:, : round(0.03 * fs_hz) + 1] += 20 * rng.choice([-1, 1])
        elif kind == 5:
            part += rng.normal(0, 0.3, part.shape)
        else:
            part += rng.normal() * 3
    return signals


def whole_of(signals: Signals, fs_hz: float, rr_version: int) -> RecordingBeats:
    recording = Recording("x", Path("x"), "a", ("a", "b")[: len(signals)], fs_hz, signals, ())
    return cut_beats(recording, BeatOptions(("a",), rr_version=rr_version))


def limits(lead: NDArray[np.float64]) -> tuple[float, ...]:
    """The lead's own extremes, as ``predict`` takes them for the converter's."""
    return rails(np.clip(lead[np.isfinite(lead)], -LIMIT_MV, LIMIT_MV))


def streamed(stream: StreamClassifier, signals: Signals, sizes: list[int]) -> list[StreamBeat]:
    """All that a stream says of a recording that comes in pieces of these sizes, again and again."""
    found, at, number = [], 0, 0
    while at < signals.shape[1]:
        size = sizes[number % len(sizes)]
        found += stream.push(signals[:, at : at + size])
        at, number = at + size, number + 1
    return found + stream.finish()


def check_same(found: list[StreamBeat], beats: RecordingBeats, classifier: Classifier) -> None:
    """Compare final answers with those of the whole recording."""
    final = [one for one in found if one.stage == "final"]
    expected = classifier.classify(beats.windows)
    assert [one.sample for one in final] == beats.r_samples.tolist()
    assert [one.label for one in final] == expected.label.tolist()
    assert [one.flags for one in final] == expected.flags.tolist()
    assert [one.far for one in final] == expected.far.tolist()
    for one, probability in zip(final, expected.probability, strict=True):
        np.testing.assert_allclose(one.probabilities, probability, atol=WITHIN, rtol=0)


def same(one: list[StreamBeat], other: list[StreamBeat]) -> bool:
    """Whether two streams said the very same, to the last bit."""
    def bits(beats: list[StreamBeat]) -> list[tuple[object, ...]]:
        return [(*astuple(replace(b, probabilities=np.empty(0)))[:5], b.probabilities.tobytes(), b.stage, b.late_s) for b in beats]

    return repr(bits(one)) == repr(bits(other))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    fs_hz=st.sampled_from([100.0, 128.0, 250.0, 257.3, 360.0, 500.0, 1000 / 3]),
    seed=st.integers(0, 2**16),
    beats=st.sampled_from([8, 48, 160]),
    leads=st.integers(1, 2),
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=4),
)
def test_any_chunking_gives_the_whole_recordings_answers(
    classifiers: dict[int, Classifier], fs_hz: float, seed: int, beats: int, leads: int, sizes: list[int]
) -> None:
    signals = signals_of(fs_hz, beats, seed)[:leads]
    classifier = classifiers[2]
    try:
        whole = whole_of(signals, fs_hz, 2)
    except RecordError:  # no beat: then a stream has none either
        whole = None
    if sum(sizes) < 40 * len(sizes):  # a million calls test no more than some thousands
        signals = signals[:, : round(12 * fs_hz)]
        whole = None
    found = streamed(StreamClassifier(classifier, fs_hz, leads=leads, rails_mv=limits(signals[0])), signals, sizes)
    if whole is not None:
        check_same(found, whole, classifier)
    again = streamed(StreamClassifier(classifier, fs_hz, leads=leads, rails_mv=limits(signals[0])), signals, [10**9])
    assert same(found, again)
